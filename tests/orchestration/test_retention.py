"""The check of a bronze table fails before a loss, one alarm is sent for it, and it ends by itself."""

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from dagster import (
    AssetCheckSeverity,
    DagsterInstance,
    SensorResult,
    SkipReason,
    build_sensor_context,
)

from fleet.bronze import device_telemetry
from strandline.core.errors import TransientError
from strandline.engine.flow.readers import Danger, Level
from strandline.engine.lake.lake import Lake
from strandline_dagster import vitals
from strandline_dagster.definitions import DEFINITIONS
from strandline_dagster.resources import RESOURCES, LakeResource
from strandline_dagster.vitals import watch_retention
from tests.engine.written import BRONZE, entry
from tests.orchestration.test_alarms import heard  # noqa: F401  # a fixture
from tests.support.instance import ephemeral
from tests.support.ledgers import write_log

READER = device_telemetry.TABLE.id
SAFE = Danger(
    reader=READER, source="device-telemetry/0", unread=3, seconds=9e5, level=Level.SAFE, says="kept"
)
SOON = replace(SAFE, level=Level.SOON, seconds=1e5, says="kept for another 1 d 3 h at least")
URGENT = replace(SAFE, level=Level.URGENT, seconds=36.0, says="kept for another 36 s at least")
LOST = replace(
    SAFE, level=Level.LOST, lost=(3, 9), says="offsets 3 to 8 are gone and were not read"
)
FEED = replace(URGENT, reader="live.process_events")


class Radar(LakeResource):
    """The lake, whose broker's answers are given."""

    def radar(self) -> list[Danger]:
        """Return the next answer."""
        found = ANSWERS.pop(0)
        if isinstance(found, Exception):
            raise found
        return found


ANSWERS: list[list[Danger] | Exception] = []


pytestmark = pytest.mark.usefixtures("lake")


@pytest.fixture
def lake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Lake:
    """Return a lake with a bronze table."""
    monkeypatch.setenv("STRANDLINE_LAKE", str(tmp_path))
    lake = Lake(tmp_path)
    write_log(lake.table(BRONZE), [entry(BRONZE)])
    return lake


@pytest.fixture
def instance() -> DagsterInstance:
    return ephemeral()


def looked(
    instance: DagsterInstance, cursor: str | None, *dangers: Danger
) -> tuple[SensorResult, str]:
    ANSWERS[:] = [list(dangers)]
    context = build_sensor_context(instance=instance, cursor=cursor, definitions=DEFINITIONS)
    found: Any = watch_retention(context, lake=Radar())
    assert isinstance(found, SensorResult)
    return found, found.cursor or ""


@pytest.mark.whole
def test_the_check_warns_below_one_threshold_and_fails_below_another(
    instance: DagsterInstance,
) -> None:
    """And Dagster, which keeps every answer, gets one when it is news."""
    cursor: str | None = None
    seen: list[tuple[bool, AssetCheckSeverity]] = []
    for danger in (SAFE, SAFE, SOON, SOON, URGENT, LOST):
        found, cursor = looked(instance, cursor, danger)
        seen += [(each.passed, each.severity) for each in found.asset_events]

    assert seen == [
        (True, AssetCheckSeverity.WARN),
        (False, AssetCheckSeverity.WARN),
        (False, AssetCheckSeverity.ERROR),
        (False, AssetCheckSeverity.ERROR),
    ]


@pytest.mark.whole
def test_a_person_is_asked_once_again_when_it_is_lost_and_is_informed_when_it_is_over(
    instance: DagsterInstance,
    heard: list[dict[str, str]],  # noqa: F811  # the fixture
) -> None:
    cursor: str | None = None
    asked: list[list[Mapping[str, Any]]] = []
    for danger in (SOON, URGENT, URGENT, LOST, LOST, SAFE, SAFE, URGENT):
        found, cursor = looked(instance, cursor, danger)
        asked.append(
            [each.run_config["ops"]["warn_of_loss"]["config"] for each in found.run_requests]
        )

    levels = [[each["level"] for each in configs] for configs in asked]
    assert levels == [[], ["urgent"], [], ["lost"], [], [], [], ["urgent"]]
    assert [each["kind"] for each in heard] == ["over"]
    assert READER in heard[0]["says"]


def test_an_alarm_is_a_run_that_fails_with_its_page(instance: DagsterInstance) -> None:
    """Of each reader, feeds among them."""
    found, _ = looked(instance, None, LOST, FEED)
    pages = []
    for request in found.run_requests:
        done = vitals.retention.execute_in_process(
            run_config=request.run_config,
            instance=instance,
            resources=RESOURCES,
            raise_on_error=False,
        )
        (failed,) = done.get_step_failure_events()[:1]
        failure = failed.step_failure_data.user_failure_data
        assert failure is not None
        pages.append(str(failure.metadata["runbook"].value).partition("\n")[0])
        assert "strandline radar" in str(failure.description)

    assert pages == ["# lost", "# expiring"]


def test_a_broker_that_is_away_changes_no_answer_and_ends_no_alarm(
    instance: DagsterInstance,
) -> None:
    ANSWERS[:] = [TransientError("no broker answers", hint="wait.")]
    context = build_sensor_context(instance=instance, definitions=DEFINITIONS)

    assert isinstance(watch_retention(context, lake=Radar()), SkipReason)


def test_an_end_that_is_not_accepted_is_kept_and_sent_again(
    lake: Lake, instance: DagsterInstance, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STRANDLINE_WEBHOOK", "http://127.0.0.1:9/alarm")
    _, cursor = looked(instance, None, URGENT)
    looked(instance, cursor, SAFE)

    (kept,) = lake.alarms.names()
    assert json.loads((lake.alarms / kept).text() or "")["kind"] == "over"
