"""A lake is operated from Dagster's page alone while its stream goes on: seven minutes, for which `make prove` has time.

What can be seen and clicked there is in the suite as well (tests/e2e/test_ui.py).
"""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import pytest

from fleet.silver import device_telemetry as silver
from strandline.core.stateful import MicroBatch
from strandline.engine.lake.lake import Lake
from strandline.engine.lake.log.ledger import Entry, entries
from tests.cli.typed import start, succeeded
from tests.support.clicks import (
    DAYS,
    LONG,
    backfill,
    find_every_table,
    first_day,
    launch,
    opened_with_days,
    read_the_report,
    see_green_checks,
    see_today_refused,
)
from tests.support.console import Console
from tests.support.tab import Tab, opened_tab

pytestmark = [
    pytest.mark.kafka,
    pytest.mark.slow,
    pytest.mark.prove(alone="seven minutes"),
    pytest.mark.timeout(1800),
]

MORE = 6_000
A_SECOND = 10
"""So many events of that day's other half may come while the days before are computed again, and then no more do."""

PROOF = ("--splits", 2, "--kills", 1)


@pytest.fixture
def first() -> date:
    """Return the first day of events."""
    return first_day()


@pytest.fixture
def console(tmp_path: Path, first: date) -> Iterator[Console]:
    """Start Dagster for a lake, and send it events of three days and a half."""
    with opened_with_days(tmp_path, first) as here:
        yield here


@pytest.fixture
def page(tmp_path: Path) -> Iterator[Tab]:
    """Open this machine's browser."""
    with opened_tab(tmp_path) as here:
        yield here


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
