"""Whoever operates the lake from Dagster's page, in a real browser: all tables to be seen, every backfill a click."""

import time
from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

import pytest

from jobs import catalog
from jobs.core.table import Layer
from jobs.run.lake import Lake
from jobs.run.ledger import entries
from jobs.silver import device_telemetry as silver
from orchestration import checks
from orchestration.keys import key
from tests.cli.typed import succeeded
from tests.support.browser import found
from tests.support.browser import opened as browser_opened
from tests.support.console import ENDED, Console, opened
from tests.support.tab import Tab, tab

pytestmark = [pytest.mark.kafka, pytest.mark.slow, pytest.mark.timeout(900)]

EVENTS = 3_000
DAYS = 3
"""So many are closed, and are computed again; half of the next one has come, and the streams still own it."""

CODE = "/locations/__repository__@orchestration.definitions"
ASSET = f"/assets/{silver.TABLE.id.replace('.', '/')}"
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
    """From its first event to the report, and nobody types a command."""
    last = first + timedelta(days=DAYS - 1)

    launch(console, page, "catch_up")
    find_every_table(console, page)
    see_green_checks(console, page)
    backfill(console, page, f"[{first}...{last}]")
    launch(console, page, "report")
    read_the_report(console, page)

    versions = entries(Lake(console.lake).table(silver.TABLE))
    (again,) = (entry for _, entry in versions if entry.mode == "backfill")
    assert str(again.since).startswith(str(first)), "the days are one range"
    assert str(again.until).startswith(str(last + timedelta(days=1)))


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
    page.click("Materialize…")
    page.click("", on="[role=dialog] input", exact=False)
    page.write(days)
    page.sees(f"{DAYS} partitions", "all partitions in a single run")
    page.shot("days are chosen")
    page.click("Launch backfill")
    page.sees("Created backfill")
    deadline = time.monotonic() + LONG
    while not (runs := console.runs("__ASSET_JOB")) or not ENDED.issuperset(runs):
        assert time.monotonic() < deadline, runs
        time.sleep(1)
    assert runs == ["SUCCESS"], "all days in one run"
    page.sees(rf"Materialized \({DAYS}\)")
    page.shot("days are filled")


def read_the_report(console: Console, page: Tab) -> None:
    """Follow the link that stands beside the answer of a check."""
    page.go(f"{console.address}{ASSET}?view=checks")
    report = page.click_out("/report-", on="a", exact=False)
    report.sees("Data quality of lake", "The numbers of .* can be trusted", silver.TABLE.id)
    report.shot("the report")
