"""``strandline ui`` as an operator uses it: one command, runs from the page, Ctrl-C, and no process is left.

Dagster takes most of a minute to start, so one is shared; each test leaves the lake's stream and its tables at rest.
"""

import json
import os
import signal
import socket
import time
from collections.abc import Iterator
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import psutil
import pytest
from strandline import catalog

from fleet.silver import device_telemetry as silver
from strandline.engine.lake.lake import Lake
from strandline.engine.lake.log.ledger import entries
from strandline.engine.runtime import clock
from strandline.engine.service.stream_health import heartbeat
from strandline_dagster import schedules
from strandline_dagster.watchdog import EVERY
from tests.cli import typed
from tests.cli.inside import strandline, succeeded
from tests.faults.lives import PATIENCE, SLICE, received, sheets, total
from tests.faults.lives import heartbeat as beat_of
from tests.support.clicks import (
    DAYS,
    backfill,
    find_every_table,
    first_day,
    opened_with_days,
    see_filled,
    see_green_checks,
    see_today_refused,
)
from tests.support.console import Console
from tests.support.postgres import programs
from tests.support.tab import Tab, opened_tab

pytestmark = [pytest.mark.kafka, pytest.mark.slow, pytest.mark.timeout(900), pytest.mark.whole]

EVENTS = 3_000
TABLES = SLICE[:2]
"""What the pages are about; `make prove` runs all of them by clicks (tests/e2e/test_ui_browser.py)."""

STEPS = [schedules.name(table) for table in catalog.tables() if table.id in TABLES]

WITHOUT_POSTGRES = (
    pytest.mark.prove(alone="two minutes, and tests/e2e/test_postgres.py has the same")
    if programs()
    else pytest.mark.slow
)
"""Of a machine without PostgreSQL the suite has these tests here."""


@pytest.fixture(scope="module")
def first() -> date:
    """Return the first day of events."""
    return first_day()


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory, first: date) -> Iterator[Console]:
    """Start it in an empty lake, send events of three days and a half, and run tables of each layer from the page."""
    with opened_with_days(tmp_path_factory.mktemp("ui"), first) as console:
        assert console.run("catch_up", *STEPS) == "SUCCESS"
        yield console


@pytest.fixture
def browser(tmp_path: Path) -> Iterator[Tab]:
    """Open this machine's browser."""
    with opened_tab(tmp_path) as here:
        yield here


@WITHOUT_POSTGRES
def test_a_run_from_the_page_fills_the_tables_that_were_chosen(page: Console) -> None:
    """The lake is as after ``strandline run`` with their names; `make prove` runs all of them by clicks."""
    see_filled(page, TABLES)


@pytest.mark.prove(alone="two minutes")
def test_tables_are_seen_and_days_computed_again_by_clicks(
    page: Console, browser: Tab, first: date
) -> None:
    """Every table and check; three closed days in one run; and why the day that is open is refused."""
    today = first + timedelta(days=DAYS)

    find_every_table(page, browser)
    see_green_checks(page, browser)
    backfill(page, browser, f"[{first}...{today - timedelta(days=1)}]")
    see_today_refused(page, browser, today)

    committed = [entry for _, entry in entries(Lake(page.lake).table(silver.TABLE))]
    (again,) = (entry for entry in committed if entry.mode == "backfill")
    assert str(again.since).startswith(str(first)), "the days are one range"
    assert str(again.until).startswith(str(today))
    assert (again.came, again.gone) == (0, 0)


@pytest.mark.prove(alone="two minutes")
def test_a_stream_that_is_killed_runs_again_within_two_looks(
    page: Console, tmp_path: Path, first: date
) -> None:
    """And the run that started it is in the list, where a person on call reads what happened."""
    lake, truth = page.lake, tmp_path / "truth.json"
    today = first + timedelta(days=DAYS)
    there = received(lake)
    words = ("--since", f"{today}T12:00:00", "--until", f"{today}T20:00:00", "--truth", truth)
    succeeded("produce", "--events", EVENTS, *words, "--lake", lake)
    typed.succeeded("resume", *SLICE, "--every", "500ms", "--max-offsets", 200, "--lake", lake)
    killed = beat_of(lake)["pid"]

    os.kill(killed, signal.SIGKILL)
    died = time.time()
    second = revived(lake, killed)
    incidents = until_ended(page, "revive")
    refused = typed.strandline("stream", *SLICE, "--lake", lake)
    pulse = status(lake)["stream"]["pid"]
    typed.succeeded("pause", "--why", "the test is over", "--lake", lake)
    rests = status(lake)
    succeeded("run", *SLICE, "--lake", lake)

    # Two looks and what they take; how long a run and a JVM take to start is a matter of the machine.
    assert page.asked_at("revive") - died < 2 * EVERY + 30
    assert incidents == ["SUCCESS"]
    assert refused.code == 3
    assert "has a writer already" in refused.err
    assert pulse == second
    assert rests["order"]["runs"] is False
    assert rests["stream"]["alive"] is False
    assert received(lake) == there + total(json.loads(truth.read_text()))
    assert all(sheet["balanced"] for sheet in sheets(lake).values())


def test_a_port_that_is_taken_is_refused_before_anything_starts(tmp_path: Path) -> None:
    lake = tmp_path / "lake"
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        refused = typed.strandline("ui", "--lake", lake, "--port", other.getsockname()[1])

    assert refused.code == 2
    assert "--port" in refused.err
    assert strandline("status", "--lake", lake, "--json").json["broker_pid"] is None


@WITHOUT_POSTGRES
def test_a_second_one_is_refused(page: Console) -> None:
    """Two daemons of one home would start every run twice."""
    second = typed.strandline("ui", "--lake", page.lake)

    assert second.code == 2
    assert "runs already" in second.err


@pytest.mark.prove(alone="two starts of Dagster")
def test_one_that_was_killed_is_ended_by_the_next_and_ctrl_c_leaves_nothing_running(
    tmp_path: Path,
) -> None:
    """Killed as soon as Dagster's programs are there, which outlive it; the broker, which does as well, is kept."""
    lake = tmp_path / "lake"
    killed = typed.start("ui", "--lake", lake, log=tmp_path / "first.log")
    orphans = dagsters(killed.pid)
    killed.kill()
    killed.wait()
    assert all(each.is_running() for each in orphans), "Dagster outlives who started it"

    following = typed.start("ui", "--lake", lake, log=tmp_path / "second.log")
    theirs = dagsters(following.pid)
    _, left = psutil.wait_procs(orphans, timeout=60)
    following.send_signal(signal.SIGINT)
    code = following.wait(PATIENCE)
    _, mine = psutil.wait_procs(theirs, timeout=60)
    succeeded("down", "--lake", lake)

    assert not left
    assert not mine
    assert code == 0


def dagsters(pid: int) -> list[psutil.Process]:
    """Wait for Dagster's programs, and return them."""
    deadline = time.monotonic() + PATIENCE
    while True:
        children = psutil.Process(pid).children(recursive=True)
        if len(found := [each for each in children if "dagster" in " ".join(each.cmdline())]) > 1:
            return found
        assert time.monotonic() < deadline
        time.sleep(0.1)


def status(lake: Path) -> Any:  # noqa: ANN401  # any JSON
    return succeeded("status", "--lake", lake, "--json").json


def revived(lake: Path, first: int) -> int:
    """Wait for another process that lives."""
    deadline = time.monotonic() + PATIENCE
    while True:
        beat = heartbeat(Lake(lake), clock.now())
        if beat and beat["alive"] and beat["pid"] != first:
            return int(beat["pid"])
        assert time.monotonic() < deadline
        time.sleep(0.2)


def until_ended(page: Console, job: str) -> list[str]:
    """Wait until all runs of a job have ended, and return how."""
    deadline = time.monotonic() + PATIENCE
    while not (runs := page.runs(job)) or {"STARTED", "STARTING", "QUEUED"} & set(runs):
        assert time.monotonic() < deadline, runs
        time.sleep(1)
    return runs
