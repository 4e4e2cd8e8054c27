"""A lake is operated from Dagster's page, in a real browser: every table is visible, every backfill a click."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from jobs import catalog
from jobs.core.kind import Layer
from jobs.core.modes import MicroBatch
from jobs.engine.storage.lake import Lake
from jobs.engine.storage.ledger import Entry, entries
from jobs.silver import device_telemetry as silver
from orchestration import checks
from orchestration.keys import key
from tests.cli.typed import start, succeeded
from tests.support.browser import found
from tests.support.browser import opened as browser_opened
from tests.support.console import ENDED, Console, opened
from tests.support.tab import Tab, tab

# Seven minutes alone, thirteen with a suite of two workers beside it.
pytestmark = [pytest.mark.kafka, pytest.mark.slow, pytest.mark.timeout(1800)]

EVENTS = 3_000
DAYS = 3
"""So many are closed, and are computed again; half of the next one has come, and the streams still own it."""

MORE = 6_000
A_SECOND = 10
"""So many events of that day's other half may come while the days before are computed again, and then no more do."""

CODE = "/locations/__repository__@orchestration.definitions"
ASSET = f"/assets/{silver.TABLE.id.replace('.', '/')}"
PROOF = ("--splits", 2, "--kills", 1)
LONG = 240.0
"""Seconds for what Spark has to do before it is to be seen."""


@pytest.fixture
def first() -> date:
    """Return the first day of events."""
    return datetime.now(UTC).date() - timedelta(days=DAYS + 2)  # noqa: TID251  # Dagster's own days end today


@pytest.fixture
def console(tmp_path: Path, first: date) -> Iterator[Console]:
    """Start Dagster for a lake, and send it events of three days and a half."""
    with opened(tmp_path, env={"STRANDLINE_FIRST_DAY": first.isoformat()}) as here:
        until = f"{first + timedelta(days=DAYS)}T12:00:00"
        words = ("--events", EVENTS, "--since", first.isoformat(), "--until", until)
        succeeded("produce", *words, "--lake", here.lake)
        yield here


@pytest.fixture
def page(tmp_path: Path) -> Iterator[Tab]:
    """Open this machine's browser; `make test` installs one where it may."""
    program = found()
    if program is None:
        pytest.skip("no Chromium here (Debian: apt install chromium)")
    (tmp_path / "pictures").mkdir()
    with browser_opened(program, tmp_path / "profile") as browser:
        yield tab(browser, tmp_path / "pictures")


def test_a_lake_is_operated_by_clicks(console: Console, page: Tab, first: date) -> None:
    """From its first event to the report, scheduled, always on and scheduled again, without a typed command."""
    today = first + timedelta(days=DAYS)

    launch(console, page, "catch_up")
    find_every_table(console, page)
    see_green_checks(console, page)
    launch(console, page, "resume")
    with events_coming(console, today):
        see_the_stream_write(console)
        backfill(console, page, f"[{first}...{today - timedelta(days=1)}]")
        see_the_stream_write(console)
    launch(console, page, "report")
    read_the_report(console, page)
    see_today_refused(console, page, today)
    launch(console, page, "pause")
    # Where the stream was stopped it left records unread, as many as the machine was slow: a run takes them up.
    launch(console, page, "catch_up")

    before, again, after = around_the_backfill(console)
    assert str(again.since).startswith(str(first)), "the days are one range"
    assert str(again.until).startswith(str(today))
    assert (again.came, again.gone) == (0, 0)
    assert before, "the stream wrote before the days were computed again"
    assert after, "and after"
    proof: Any = succeeded("verify", silver.TABLE.id, *PROOF, "--lake", console.lake, "--json").json
    assert [each["equal"] for each in proof] == [True]


def see_the_stream_write(console: Console) -> None:
    """Wait until the stream has written something new."""
    deadline = time.monotonic() + LONG
    seen = streamed(console)
    while streamed(console) == seen:
        assert time.monotonic() < deadline, seen
        time.sleep(1)


def streamed(console: Console) -> int:
    """Return how often the stream has written."""
    commits = entries(Lake(console.lake).table(silver.TABLE))
    return sum(is_streamed(entry) for _, entry in commits)


def is_streamed(entry: Entry) -> bool:
    """Return whether a commit is the always-on stream's."""
    return entry.mode == MicroBatch().name


def around_the_backfill(console: Console) -> tuple[list[Entry], Entry, list[Entry]]:
    """Return what the stream committed before the backfill, the backfill, and what the stream committed after it."""
    committed = [entry for _, entry in entries(Lake(console.lake).table(silver.TABLE))]
    (at,) = (number for number, entry in enumerate(committed) if entry.mode == "backfill")
    before, after = (
        [e for e in part if is_streamed(e)] for part in (committed[:at], committed[at:])
    )
    return before, committed[at], after


@contextmanager
def events_coming(console: Console, today: date) -> Iterator[None]:
    """Let events of the day that is still open come meanwhile."""
    words = ("--events", MORE, "--since", f"{today}T12:00:00", "--until", f"{today}T20:00:00")
    log = console.lake.with_name("produce.log")
    producer = start("produce", *words, "--rate", A_SECOND, "--lake", console.lake, log=log)
    try:
        yield
        assert producer.poll() is None, log.read_text()
    finally:
        producer.kill()
        producer.wait()


def launch(console: Console, page: Tab, job: str) -> None:
    """Press the button of a job's launchpad, and see the run through."""
    page.go(f"{console.address}{CODE}/jobs/{job}/playground")
    page.click("Launch Run")
    page.sees(rf"Run of\s+{job}")
    run = str(page.ask("location.pathname")).rpartition("/")[2]
    assert console.ended(run) == "SUCCESS"
    page.sees("(?m)^Success$")
    page.shot(f"{job} is done")


def find_every_table(console: Console, page: Tab) -> None:
    """Look at the whole graph, at the tables of each layer, and at what a table of gold rests on."""
    page.go(f"{console.address}/asset-groups/")
    page.sees(*Layer, rf"Materialize all \({len(catalog.tables())}\)")
    page.shot("the whole graph")
    for layer in Layer:
        page.go(f"{console.address}{CODE}/asset-groups/{layer}/lineage")
        # The page draws only as many of a layer as there is room for.
        names = "|".join(table.name for table in catalog.tables() if table.layer is layer)
        page.sees(f"(?m)^({names})$")
        page.shot(f"{layer} in the graph")
    page.go(f"{console.address}/assets/gold/device_daily?view=lineage")
    page.click("Upstream")
    page.sees("(?m)^silver$", "(?m)^devices$", "(?m)^gold$", "device_daily", "device_signal_10m")
    page.shot("what gold rests on")


def see_green_checks(console: Console, page: Tab) -> None:
    """Read the answers to all expectations of a silver table."""
    names = [spec.name for spec in checks.specs(silver.TABLE, key(silver.TABLE))]
    page.go(f"{console.address}{ASSET}?view=checks")
    page.sees(*(rf"{name}\s+Succeeded" for name in names))
    page.shot("checks")


def backfill(console: Console, page: Tab, days: str) -> None:
    """See the days filled that the stream has closed; choose them, press the button, and see the one run through."""
    page.go(f"{console.address}{ASSET}?view=partitions")
    page.sees(rf"Materialized \({DAYS}\)", within=LONG)
    page.shot("days are closed")
    choose(page, days)
    page.sees(f"{DAYS} partitions", "all partitions in a single run")
    page.shot("days are chosen")
    page.click("Launch backfill")
    page.sees("Created backfill")
    assert asset_runs(console, 1) == ["SUCCESS"], "all days in one run"
    page.sees(rf"Materialized \({DAYS}\)")
    page.shot("days are filled")


def see_today_refused(console: Console, page: Tab, today: date) -> None:
    """Choose the day that the stream still owns, and read in the run why not, and from when on."""
    page.go(f"{console.address}{ASSET}?view=partitions")
    choose(page, f"[{today}...{today}]")
    page.sees("1 partition", "Launch (backfill|1 run)")
    page.click("Launch backfill" if "Launch backfill" in page.words else "Launch 1 run")
    assert asset_runs(console, 2) == ["FAILURE", "SUCCESS"]
    page.go(f"{console.address}/runs/{console.newest('__ASSET_JOB')}")
    page.sees(r"Errored \(1\)", "the earliest possible moment")
    page.shot("today is refused")


def choose(page: Tab, days: str) -> None:
    """Choose days in the dialog of an asset."""
    page.click("Materialize…")
    page.click("", on="[role=dialog] input", exact=False)
    page.write(days)


def asset_runs(console: Console, many: int) -> list[str]:
    """Wait until so many runs of assets have ended, and return how, the newest first."""
    deadline = time.monotonic() + LONG
    while len(runs := console.runs("__ASSET_JOB")) < many or not ENDED.issuperset(runs):
        assert time.monotonic() < deadline, runs
        time.sleep(1)
    return runs


def read_the_report(console: Console, page: Tab) -> None:
    """Follow the link beside the answer of a check; each batch of the stream answers it again."""
    asked = checks.specs(silver.TABLE, key(silver.TABLE))[0].name
    page.go(f"{console.address}{ASSET}?view=checks&checkDetail={asked}")
    report = page.click_out("/report-", on="a", exact=False)
    report.sees("Data quality of lake", "The numbers of .* can be trusted", silver.TABLE.id)
    report.shot("the report")
