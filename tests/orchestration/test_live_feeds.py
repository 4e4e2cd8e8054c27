"""The process that raises alerts is watched as the stream is: restarted when it died, observed, and each feed has a check."""

import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from dagster import (
    AssetCheckEvaluation,
    AssetObservation,
    DagsterInstance,
    DagsterRunStatus,
    SkipReason,
    build_sensor_context,
)

from strandline.engine.lake.lake import Lake
from strandline.engine.runtime import clock
from strandline.engine.runtime.processes import own
from strandline.engine.service.feed_host import FeedPulse
from strandline.engine.service.stream_health import DELAYS, LOOKS, Order, order, write_desired
from strandline_dagster import live_feeds as feeds_module
from strandline_dagster.definitions import DEFINITIONS
from strandline_dagster.live_feeds import live_feeds, watch_alerts
from strandline_dagster.resources import RESOURCES, LakeResource
from tests.support.instance import ephemeral

LONG_AGO = datetime(2026, 11, 20, 12, tzinfo=UTC)
ASKED = Order(runs=True, at=LONG_AGO.isoformat(), by="on-call")
WATCH = watch_alerts(live_feeds({}))
GONE = 2**22 + 1
"""No process of Linux has such a number."""

FEED = "live.process_events"
STEP = feeds_module.revive_alerts_process.name


@pytest.fixture
def lake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Lake:
    monkeypatch.setenv("STRANDLINE_LAKE", str(tmp_path))
    return Lake(tmp_path)


@pytest.fixture
def instance() -> DagsterInstance:
    return ephemeral()


def looked(instance: DagsterInstance, cursor: str | None = None) -> Any:  # noqa: ANN401  # either result
    context = build_sensor_context(instance=instance, cursor=cursor, definitions=DEFINITIONS)
    return WATCH(context, lake=LakeResource())


def beats(lake: Lake, *, alive: bool = True, at: datetime | None = None, **other: Any) -> None:  # noqa: ANN401  # figures
    """Write the heartbeat of a process with one feed; it is this process, unless another is named."""
    pulse = FeedPulse(feed=FEED, rules="abc", epoch=other.pop("epoch", 3), lag=other.pop("lag", 0))
    figures = {name: getattr(pulse, name) for name in FeedPulse.__slots__}
    head = {**own(), "alive": alive, "at": (at or clock.now()).isoformat(), "mode": "real-time"}
    beat = {**head, "every": 300.0, "tables": {FEED: figures}, "failed": None, **other}
    lake.feeds_beat.put(json.dumps(beat))


def answers(found: Any) -> dict[str, AssetCheckEvaluation]:  # noqa: ANN401  # as above
    """Return the answers by the names of the feeds."""
    checks = [each for each in found.asset_events if isinstance(each, AssetCheckEvaluation)]
    return {each.asset_key.path[-1]: each for each in checks}


def test_it_rests_where_nothing_raises_alerts(lake: Lake, instance: DagsterInstance) -> None:
    assert not lake.feeds_beat.exists()
    assert isinstance(looked(instance), SkipReason)


@pytest.mark.whole
def test_one_that_died_is_revived_by_one_run_and_fails_the_check_of_every_feed(
    lake: Lake, instance: DagsterInstance
) -> None:
    write_desired(lake, ASKED, lake.alerts_order)
    beats(lake, pid=GONE, at=LONG_AGO)

    found = looked(instance)

    (asked,) = found.run_requests
    assert asked.run_config["ops"][STEP]["config"]["ill"] == "dead"
    assert len(answers(found)) == 5
    for each in answers(found).values():
        assert not each.passed
        assert "the process that raises alerts is not running" in str(each.description)
    assert order(lake) is None, "the stream of tables has an order of its own"

    instance.create_run_for_job(
        feeds_module.revive_alerts, run_config=asked.run_config, status=DagsterRunStatus.STARTED
    )
    assert looked(instance).run_requests == [], "one at a time"


def test_the_run_that_gives_up_asks_for_a_person_once(
    lake: Lake, instance: DagsterInstance
) -> None:
    tired = ASKED
    for _ in DELAYS:
        tired = tired.tried(clock.now() - timedelta(seconds=1))
    write_desired(lake, tired, lake.alerts_order)
    beats(lake, pid=GONE, at=LONG_AGO)
    (asked,) = looked(instance).run_requests

    done = feeds_module.revive_alerts.execute_in_process(
        run_config=asked.run_config, instance=instance, resources=RESOURCES, raise_on_error=False
    )

    (failed,) = done.get_step_failure_events()[:1]
    failure = failed.step_failure_data.user_failure_data
    assert failure is not None
    assert "strandline alerts --background" in str(failure.description)
    assert str(failure.metadata["runbook"].value).startswith("# alerts_dead")
    assert looked(instance).run_requests == []


def test_one_that_was_killed_in_a_terminal_fails_its_checks_and_a_person_is_asked_once(
    lake: Lake, instance: DagsterInstance
) -> None:
    """Nothing starts it again, as nothing was asked to."""
    beats(lake, pid=GONE)
    killed, again = looked(instance), looked(instance)
    beats(lake, alive=False)
    ended = looked(instance)

    (asked,) = killed.run_requests
    assert asked.run_config["ops"][STEP]["config"]["gives_up"]
    assert [each.run_key for each in again.run_requests] == [asked.run_key], "Dagster runs it once"
    assert ended.run_requests == []
    assert not any(each.passed for each in answers(killed).values())
    assert all(each.passed for each in answers(ended).values()), "it ended in order"


def test_a_live_one_is_observed_when_there_is_news(lake: Lake, instance: DagsterInstance) -> None:
    write_desired(lake, replace(ASKED, at=clock.now().isoformat()), lake.alerts_order)
    lake.rule_changes.append(json.dumps({"added": ["x 1"]}))
    beats(lake, lag=7)

    first = looked(instance)
    calm = looked(instance, first.cursor)

    (seen,) = [each for each in first.asset_events if isinstance(each, AssetObservation)]
    assert seen.asset_key.path == ["live", "process_events"]
    assert seen.metadata["epoch"].value == 3
    assert seen.metadata["lag"].value == 7
    assert seen.metadata["version of its rules"].value == "abc"
    assert "x 1" in str(seen.metadata["last change of rules"].value)
    assert answers(first)["process_events"].description == "it keeps up"
    assert answers(first)["dhcp_events"].description == "no rule looks at its table"
    assert calm.asset_events == []


@pytest.mark.whole
@pytest.mark.parametrize(("ends", "falls"), [(True, True), (False, False)])
def test_its_lag_is_judged_once_an_epoch(
    lake: Lake, instance: DagsterInstance, *, ends: bool, falls: bool
) -> None:
    """In real time the events of the epoch that runs count as not read, although they were answered."""
    write_desired(lake, replace(ASKED, at=clock.now().isoformat()), lake.alerts_order)
    cursor, failed = None, False
    for n in range(LOOKS + 1):
        beats(lake, lag=(n + 1) * 5_000, epoch=n if ends else 0)
        found = looked(instance, cursor)
        cursor = found.cursor
        failed |= not all(each.passed for each in answers(found).values())

    assert failed is falls
