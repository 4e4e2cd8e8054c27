"""The watchdog asks for a run when a stream that is to run is gone, one at a time, and the check of every table names what is wrong."""

import json
import os
import signal
import time
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from dagster import (
    DagsterInstance,
    DagsterRunStatus,
    SensorResult,
    SkipReason,
    build_sensor_context,
)
from strandline import catalog

from strandline.core.errors import TransientError
from strandline.engine.kafka import broker
from strandline.engine.lake.lake import Lake
from strandline.engine.lake.order_log import Asked, newest
from strandline.engine.runtime import clock
from strandline.engine.runtime.log_files import logger
from strandline.engine.runtime.processes import own
from strandline.engine.service.stream_health import DELAYS, Order, order, write_desired
from strandline_dagster import watchdog as on_call
from strandline_dagster.definitions import DEFINITIONS
from strandline_dagster.resources import RESOURCES, LakeResource
from strandline_dagster.watchdog import watchdog
from tests.support.instance import ephemeral

LONG_AGO = datetime(2026, 11, 20, 12, tzinfo=UTC)
ASKED = Order(runs=True, at=LONG_AGO.isoformat(), by="on-call")
GONE = 2**22 + 1
"""No process of Linux has such a number."""


@pytest.fixture
def lake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Lake:
    monkeypatch.setenv("STRANDLINE_LAKE", str(tmp_path))
    return Lake(tmp_path)


@pytest.fixture
def instance() -> DagsterInstance:
    return ephemeral()


def looked(instance: DagsterInstance, cursor: str | None = None) -> Any:  # noqa: ANN401  # either result
    context = build_sensor_context(instance=instance, cursor=cursor, definitions=DEFINITIONS)
    return watchdog(context, lake=LakeResource())


def died(lake: Lake) -> None:
    """Leave the last heartbeat of a stream that was killed."""
    tables = {
        table.id: {"at": None, "batches": 0, "read": 0, "lag": 0, "watermark": None, "gate": None}
        | {"state": 0}
        for table in catalog.tables()
    }
    beat = {"pid": GONE, "host": "", "alive": False, "at": LONG_AGO.isoformat(), "tables": tables}
    lake.heartbeat.put(json.dumps(beat))


def test_it_rests_where_no_stream_is_to_run(lake: Lake, instance: DagsterInstance) -> None:
    died(lake)
    assert isinstance(looked(instance), SkipReason)

    write_desired(lake, replace(ASKED, runs=False))
    assert isinstance(looked(instance), SkipReason)


def test_a_stream_that_died_is_revived_by_one_run_and_fails_the_check_of_every_table(
    lake: Lake, instance: DagsterInstance
) -> None:
    write_desired(lake, ASKED)
    died(lake)

    found = looked(instance)

    assert isinstance(found, SensorResult)
    (asked,) = found.run_requests or ()
    config = asked.run_config["ops"][on_call.revive_stream.name]["config"]
    assert config["ill"] == "dead"
    assert not config["gives_up"]
    answers = found.asset_events
    assert len(answers) == len(catalog.tables())
    assert not any(each.passed for each in answers)  # type: ignore[union-attr]  # all are checks

    instance.create_run_for_job(
        on_call.revive, run_config=asked.run_config, status=DagsterRunStatus.STARTED
    )
    assert looked(instance).run_requests == [], "one at a time"


@pytest.mark.whole
def test_it_waits_between_attempts_and_gives_up_after_the_last(
    lake: Lake, instance: DagsterInstance
) -> None:
    died(lake)
    just_now = clock.now() - timedelta(seconds=1)
    write_desired(lake, ASKED.tried(just_now))
    assert looked(instance).run_requests == []

    tired = ASKED
    for _ in DELAYS:
        tired = tired.tried(just_now)
    write_desired(lake, tired)
    (asked,) = looked(instance).run_requests
    assert asked.run_config["ops"][on_call.revive_stream.name]["config"]["gives_up"]

    write_desired(lake, tired.given_up(just_now))
    assert looked(instance).run_requests == [], "a person was asked, once"


def test_the_run_that_gives_up_has_what_to_do_and_why(
    lake: Lake, instance: DagsterInstance
) -> None:
    """The last error, the section of the runbook that fits, and a hint; it is not tried again."""
    write_desired(lake, ASKED)
    lines: list[str] = []
    log = logger(lines.append, clock.now, as_json=True)
    log.info("progress", table="silver.device_telemetry", batch=7)
    error = TransientError("Spark's JVM is gone", hint="type the same again.")
    log.critical("ended", exc_info=error)
    lake.log("stream").put("\n".join(lines) + "\n")
    incident = {"ill": "dead", "says": "the stream is not running", "gives_up": True}

    done = on_call.revive.execute_in_process(
        run_config={"ops": {on_call.revive_stream.name: {"config": incident}}},
        instance=instance,
        resources=RESOURCES,
        raise_on_error=False,
    )

    (failed,) = done.get_step_failure_events()[:1]
    failure = failed.step_failure_data.user_failure_data
    assert failure is not None
    assert "a person is needed" in str(failure.description)
    assert "hint:" in str(failure.description)
    assert failure.metadata["last error"].value == (
        "error: Spark's JVM is gone hint: type the same again."
    )
    assert str(failure.metadata["runbook"].value).startswith("# dead")
    assert not [e for e in done.all_events if e.event_type_value == "STEP_UP_FOR_RETRY"]
    left = order(lake)
    assert left is not None
    assert left.gave_up


def test_a_run_that_a_person_launches_is_in_the_log_of_orders_and_asks_the_roles(
    lake: Lake, instance: DagsterInstance
) -> None:
    """With the run and the reason; one that is not allowed fails with who could allow it, and does nothing."""
    write_desired(lake, ASKED)
    (lake.root / "bronze" / "x").put("")

    def paused() -> Any:  # noqa: ANN401  # what Dagster returns
        return on_call.pause.execute_in_process(
            run_config={"ops": {on_call.pause_stream.name: {"config": {"why": "the disk"}}}},
            instance=instance,
            resources=RESOURCES,
            raise_on_error=False,
        )

    lake.roles.put('[people]\nann = ["operate"]\n')
    refused = paused()
    before = order(lake)
    lake.roles.put('[people]\n"*" = ["operate"]\n')
    done = paused()

    (failed,) = refused.get_step_failure_events()[:1]
    failure = failed.step_failure_data.user_failure_data
    assert failure is not None
    assert "needs the role operate" in str(failure.description)
    assert before is not None
    assert before.runs
    assert done.success
    after = order(lake)
    assert after is not None
    assert not after.runs
    given, denied = newest(lake, Asked()).orders
    assert (given.verb, given.over, given.why, given.state) == (
        "pause",
        "dagster",
        "the disk",
        "done",
    )
    assert given.asked["run"] == done.run_id[:8]
    assert denied.state == "refused"


def test_a_table_that_falls_behind_fails_its_check_after_several_looks(
    lake: Lake, instance: DagsterInstance
) -> None:
    moment = clock.now()
    write_desired(lake, replace(ASKED, at=moment.isoformat()))
    died(lake)
    beat = json.loads(lake.heartbeat.local.read_text())
    cursor, answered = None, []
    for n in range(1, 12):
        for pulse in beat["tables"].values():
            pulse.update(lag=n * 5_000, read=0)
        at = moment + timedelta(seconds=30 * n)
        beat.update(alive=True, at=at.isoformat(), **own())
        lake.heartbeat.put(json.dumps(beat))
        found = looked(instance, cursor)
        cursor = found.cursor
        answered.append(found.asset_events)

    assert all(each.passed for events in answered[:9] for each in events)
    assert answered[9]
    assert not any(each.passed for each in answered[9])
    assert "falls behind" in str(answered[9][0].description)
    assert answered[10] == [], "only its figures are new, and Dagster keeps every answer"


@pytest.mark.whole
def test_a_stream_that_is_read_every_two_minutes_does_not_fall_behind_between_two_batches(
    lake: Lake, instance: DagsterInstance
) -> None:
    """A look every ten seconds made five minutes of a trend ninety seconds, and of each pause a warning."""
    moment = clock.now()
    write_desired(lake, replace(ASKED, at=moment.isoformat()))
    died(lake)
    beat = json.loads(lake.heartbeat.local.read_text())
    cursor, wrong = None, []
    for seconds in range(0, 120, 10):
        for pulse in beat["tables"].values():
            pulse.update(lag=20 * seconds)
        at = moment + timedelta(seconds=seconds)
        beat.update(alive=True, at=at.isoformat(), **own())
        lake.heartbeat.put(json.dumps(beat))
        found = looked(instance, cursor)
        cursor = found.cursor
        wrong += [each.description for each in found.asset_events if not each.passed]

    assert wrong == []


def test_the_check_of_a_table_that_is_behind_says_when_it_will_have_caught_up(
    lake: Lake, instance: DagsterInstance
) -> None:
    moment = clock.now()
    write_desired(lake, replace(ASKED, at=moment.isoformat()))
    died(lake)
    beat = json.loads(lake.heartbeat.local.read_text())
    first, second, *_ = beat["tables"].values()
    first.update(lag=900_000, behind_rows=900_000, falls=15_000.0)
    second.update(lag=10_000, behind_rows=910_000, falls=-20.0)
    beat.update(alive=True, at=moment.isoformat(), **own())
    lake.heartbeat.put(json.dumps(beat))

    behind, growing, other, *_ = looked(instance).asset_events

    assert "15,000 fewer a second: caught up in 1 min" in str(behind.description)
    assert "it does not catch up at this rate" in str(growing.metadata["caught up"].value)
    assert other.metadata["caught up"].value == "yes"
    assert behind.passed, "a backlog that falls is no fault"


def test_a_table_that_fails_alone_asks_for_a_person_once_and_again_when_it_fails_anew(
    lake: Lake, instance: DagsterInstance
) -> None:
    """The stream is not started again, and the pages show it at that table alone."""
    write_desired(lake, ASKED)
    name = catalog.tables()[0].id
    why = {"says": "no topic", "hint": "", "kind": "definition", "since": "noon", "tries": 1}
    lives(lake, {name: why})

    found = looked(instance)
    (asked,) = found.run_requests
    assert [each.passed for each in found.asset_events] == [False, True]
    done = on_call.revive.execute_in_process(
        run_config=asked.run_config, instance=instance, resources=RESOURCES, raise_on_error=False
    )
    (failed,) = done.get_step_failure_events()[:1]
    failure = failed.step_failure_data.user_failure_data
    assert failure is not None
    assert "The other tables go on" in str(failure.description)
    assert str(failure.metadata["runbook"].value).startswith("# failing")
    assert looked(instance).run_requests == [], "a person was asked, once"

    lives(lake, {})
    looked(instance)
    lives(lake, {name: why})
    assert len(looked(instance).run_requests) == 1


def lives(lake: Lake, failing: dict[str, Any]) -> None:
    """Leave the heartbeat of a live stream of which some tables fail."""
    tables = {
        name: {"at": None, "batches": 0, "read": 0, "lag": 0, "watermark": None, "gate": None}
        | {"state": 0, "failing": failing.get(name)}
        for name in (table.id for table in catalog.tables()[:2])
    }
    at = clock.now().isoformat(timespec="seconds")
    lake.heartbeat.put(json.dumps({**own(), "alive": True, "at": at, "tables": tables}))


@pytest.mark.kafka
def test_a_broker_of_the_lake_that_died_is_started_again_and_no_look_waits_for_it(
    lake: Lake, instance: DagsterInstance
) -> None:
    """It died of a full disk, and the stream waited for it until a person came."""
    write_desired(lake, ASKED)
    lives(lake, {})
    first = broker.up(lake)
    try:
        os.kill(first.pid, signal.SIGKILL)
        while broker.status(lake) is not None:
            time.sleep(0.05)

        looked(instance)
        looked(instance)  # one that is being started is not started twice
        deadline = time.monotonic() + 120
        while (again := broker.status(lake)) is None:
            assert time.monotonic() < deadline
            time.sleep(0.1)
        assert broker.up(lake).pid == again.pid
        assert again.pid != first.pid
    finally:
        broker.down(lake)
    looked(instance)
    assert broker.status(lake) is None, "a person has stopped it"
