"""The job ``report`` makes the page of the command line, with the same figures, and fails where the command line does."""

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from dagster import ExecuteInProcessResult, RunRequest, build_schedule_context
from deltalake import DeltaTable

from strandline.engine.lake.lake import Lake
from strandline.engine.proof import daily_report
from strandline_dagster.resources import RESOURCES
from strandline_dagster.schedules import REPORT, STEP, every_morning
from tests.cli.inside import succeeded
from tests.support.days import Came, lived
from tests.support.instance import ephemeral

NINE = datetime(2026, 11, 20, 9, tzinfo=UTC)
PAST = [Came(at=NINE, good=3, duplicates=1), Came(at=NINE + timedelta(days=1), good=4)]


@pytest.fixture
def past(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Lake:
    """Return a lake with two days that balance, which the settings name."""
    lake = lived(tmp_path / "lake", PAST)
    monkeypatch.setenv("STRANDLINE_LAKE", str(lake.root))
    return lake


def ran(day: str | None = None) -> ExecuteInProcessResult:
    return REPORT.execute_in_process(
        run_config={"ops": {STEP: {"config": {"day": day} if day else {}}}},
        instance=ephemeral(),
        resources=RESOURCES,
        raise_on_error=False,
    )


def metadata(done: ExecuteInProcessResult) -> dict[str, object]:
    """Return the metadata of the run's output."""
    (event,) = done.filter_events(lambda each: each.event_type_value == "STEP_OUTPUT")
    return {name: entry.value for name, entry in event.step_output_data.metadata.items()}


@pytest.mark.whole
@pytest.mark.slow
def test_it_makes_the_very_page_that_the_command_line_makes(past: Lake) -> None:
    """Except for the moment at which it was made."""
    typed = succeeded("report", "--lake", past.root, "--json").json
    assert isinstance(typed, dict)

    done = ran()

    page = past.report("2026-11-21").local.read_text()
    made = json.loads(page.partition('id="findings">')[2].partition("</script>")[0])
    assert done.success
    assert {**made, "made_at": ""} == {**typed, "made_at": ""}
    assert metadata(done) == {
        "verdict": typed["verdict"],
        "sentence": "The numbers of 21 November 2026 can be trusted.",
        "page": str(past.report("2026-11-21")),
    }


@pytest.mark.whole
def test_while_the_reports_are_served_it_gives_the_address_of_the_page(past: Lake) -> None:
    """Of the day that it is about, not of today."""
    with daily_report.served(past) as address:
        done = ran("2026-11-20")

    assert metadata(done)["report"] == f"{address}/report-2026-11-20.html"
    assert past.report("2026-11-20").exists()


def test_numbers_that_cannot_be_trusted_are_a_failed_run_and_a_page_all_the_same(
    past: Lake,
) -> None:
    """A red run is a day that a person must look at; trying again changes nothing."""
    DeltaTable(past.root / "silver/device_telemetry").delete("event_id = '1-0'")

    with daily_report.served(past) as address:
        done = ran()

    (failed,) = done.filter_events(lambda each: each.event_type_value == "STEP_FAILURE")
    assert not done.success
    failure = failed.step_failure_data.user_failure_data
    assert failure is not None
    assert "silver.device_telemetry is unbalanced" in str(failure.description)
    assert failure.metadata["verdict"].value == "unbalanced"
    assert failure.metadata["report"].value == f"{address}/report-2026-11-21.html"
    assert past.report("2026-11-21").exists()
    assert not [e for e in done.all_events if e.event_type_value == "STEP_UP_FOR_RETRY"]


def test_a_lake_without_tables_is_refused_with_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STRANDLINE_LAKE", str(tmp_path))

    done = ran()

    (failed,) = done.filter_events(lambda each: each.event_type_value == "STEP_FAILURE")
    failure = failed.step_failure_data.user_failure_data
    assert failure is not None
    assert "strandline run" in str(failure.metadata["hint"].value)


def test_every_morning_the_report_is_of_the_day_before() -> None:
    """The day that was due, however late the daemon looks."""
    due = datetime(2026, 11, 21, 6, tzinfo=UTC)

    asked = every_morning(build_schedule_context(scheduled_execution_time=due))

    assert isinstance(asked, RunRequest)
    assert asked.run_config == {"ops": {STEP: {"config": {"day": "2026-11-20"}}}}
