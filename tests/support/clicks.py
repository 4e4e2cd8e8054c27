"""What a person clicks on Dagster's page, and what they see there."""

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

from dagster import AssetsDefinition
from strandline import catalog

from fleet.silver import device_telemetry as silver
from strandline.core.kind import Layer
from strandline_dagster import resources
from strandline_dagster.definitions import DEFINITIONS
from strandline_dagster.resources import key
from tests.cli.inside import succeeded
from tests.faults.lives import sheets
from tests.support.console import ENDED, Console, opened
from tests.support.tab import Tab

DAYS = 3
"""So many days are closed, and are computed again; half of the next one has come, and the streams still own it."""

EVENTS = 3_000

CODE = "/locations/__repository__@orchestration.definitions"
ASSET = f"/assets/{silver.TABLE.id.replace('.', '/')}"
LONG = 240.0
"""Seconds for what Spark has to do before it is to be seen."""

ASSETS = "{ assetNodes { assetKey { path } assetMaterializations(limit: 1) { runId } } }"


def see_filled(page: Console, tables: Sequence[str]) -> None:
    """See that some tables and no others were made, as by ``strandline run`` with their names, and that all balance."""
    nodes = page.ask(ASSETS)["assetNodes"]

    made = {"/".join(n["assetKey"]["path"]) for n in nodes if n["assetMaterializations"]}
    assert made - {"_is_it_well"} == {table.replace(".", "/") for table in tables}
    found = sheets(page.lake)
    assert found.keys() == set(tables)
    assert all(sheet["balanced"] and sheet["rows"] for sheet in found.values())


def first_day() -> date:
    """Return the first day of events."""
    return datetime.now(UTC).date() - timedelta(days=DAYS + 2)  # noqa: TID251  # Dagster's own days end today


@contextmanager
def opened_with_days(folder: Path, first: date) -> Iterator[Console]:
    """Start Dagster for an empty lake, and send it events of three days and a half."""
    with opened(folder, env={"STRANDLINE_FIRST_DAY": first.isoformat()}) as console:
        until = f"{first + timedelta(days=DAYS)}T12:00:00"
        words = ("--events", EVENTS, "--since", first.isoformat(), "--until", until)
        succeeded("produce", *words, "--lake", console.lake)
        yield console


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
    made = [
        name
        for each in DEFINITIONS.assets or ()
        if isinstance(each, AssetsDefinition)
        for name in each.keys
    ]
    page.go(f"{console.address}/asset-groups/")
    page.sees(*Layer, rf"Materialize all \({len(made)}\)")
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
    names = [spec.name for spec in resources.specs(silver.TABLE, key(silver.TABLE))]
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
    asked = resources.specs(silver.TABLE, key(silver.TABLE))[0].name
    page.go(f"{console.address}{ASSET}?view=checks&checkDetail={asked}")
    report = page.click_out("/report-", on="a", exact=False)
    report.sees("Data quality of lake", "The numbers of .* can be trusted", silver.TABLE.id)
    report.shot("the report")
