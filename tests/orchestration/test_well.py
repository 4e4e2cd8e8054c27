"""Is it well? One asset answers in one sentence, only when there is something new, and a table that fails is red in the catalog."""

import json
import socket
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from dagster import AssetCheckSeverity, DagsterInstance, SkipReason, build_sensor_context
from dagster._core.storage.partition_status_cache import (  # noqa: TID251  # what the catalog's page is answered from
    get_and_update_asset_status_cache_value,
)
from strandline import catalog

from strandline.core.table import Ingested
from strandline.engine.lake import object_files
from strandline.engine.lake.lake import Lake
from strandline.engine.runtime import clock
from strandline.engine.service.stream_health import Order, order, write_desired
from strandline_dagster import watchdog as on_call
from strandline_dagster.definitions import DEFINITIONS
from strandline_dagster.resources import DAYS, RESOURCES, LakeResource, key
from strandline_dagster.vitals import CHECK, KEY, look_whether_it_is_well
from strandline_dagster.watchdog import watchdog
from tests.cli.inside import strandline
from tests.engine.written import BRONZE, entry, numbers, written
from tests.orchestration.test_watchdog import ASKED, died, lives
from tests.support.instance import ephemeral

GOLD = next(each for each in catalog.tables() if each.layer == "gold")
TORN = {"says": "its commit 7 is torn", "hint": "`mend`", "kind": "data", "since": "noon"}
FAILS = {**TORN, "tries": 1}


@pytest.fixture
def lake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Lake:
    monkeypatch.setenv("STRANDLINE_LAKE", str(tmp_path))
    return Lake(tmp_path)


@pytest.fixture
def instance() -> DagsterInstance:
    return ephemeral()


def looked(instance: DagsterInstance, cursor: str | None = None) -> Any:  # noqa: ANN401  # either result
    context = build_sensor_context(instance=instance, cursor=cursor, definitions=DEFINITIONS)
    return look_whether_it_is_well(context, lake=LakeResource())


def watched(instance: DagsterInstance, cursor: str | None = None) -> Any:  # noqa: ANN401  # either result
    context = build_sensor_context(instance=instance, cursor=cursor, definitions=DEFINITIONS)
    return watchdog(context, lake=LakeResource())


def gold_fails(lake: Lake, *, failing: bool = True) -> None:
    """Leave the heartbeat of a live stream, of which one gold table fails or does not."""
    lives(lake, {})
    beat = json.loads(lake.heartbeat.text() or "")
    pulse = next(iter(beat["tables"].values()))
    beat["tables"][GOLD.id] = {**pulse, "failing": FAILS if failing else None}
    lake.heartbeat.put(json.dumps(beat))


def dead(lake: Lake) -> None:
    died(lake)


def full(lake: Lake) -> None:
    """Leave a gate that is shut."""
    lives(lake, {})
    shut = {"table": BRONZE.id, "where": "before", "stream": "s", "batch": 1, "at": "noon"}
    finding = {"name": "unread", "says": "all of it"}
    (lake.gates / "one.json").put(json.dumps({**shut, "findings": [finding]}))


@pytest.mark.whole
@pytest.mark.parametrize(
    ("incident", "says"),
    [
        (gold_fails, f"{GOLD.id} fails: its commit 7 is torn"),
        (dead, "the stream is not running"),
        (full, f"the gate before {BRONZE.id} is shut since noon: unread: all of it"),
    ],
    ids=["failing", "dead", "gate"],
)
def test_what_is_wrong_is_red_with_the_sentence_of_status_and_the_way_on(
    incident: Callable[[Lake], None], says: str, lake: Lake, instance: DagsterInstance
) -> None:
    """The catalog showed nothing of it, and no page led to the runbook."""
    write_desired(lake, ASKED)
    incident(lake)

    (answer,) = looked(instance).asset_events

    assert (answer.asset_key, answer.check_name, answer.passed) == (KEY, CHECK, False)
    assert answer.severity is AssetCheckSeverity.ERROR
    assert says in answer.description
    assert any(name.startswith("runbook ") for name in answer.metadata)
    assert f"--lake {lake.root}" in str(answer.metadata["what to type"].value)
    assert f"well    no: {says}" in strandline("status", "--lake", lake.root).out
    status = json.loads(strandline("status", "--lake", lake.root, "--json").out)
    assert says in status["condition"]["says"]


def test_a_lake_that_is_well_is_green_and_says_nothing_twice(
    lake: Lake, instance: DagsterInstance
) -> None:
    write_desired(lake, ASKED)
    lives(lake, {})
    first = looked(instance)
    (answer,) = first.asset_events
    assert answer.passed
    assert instance.get_latest_materialization_event(KEY) is not None, "it would be grey"

    assert isinstance(looked(instance, first.cursor), SkipReason)
    gold_fails(lake)
    (news,) = looked(instance, first.cursor).asset_events
    assert not news.passed


def test_a_table_whose_newest_commit_is_torn_is_named_though_no_stream_runs(
    lake: Lake, instance: DagsterInstance
) -> None:
    written(lake.table(BRONZE), numbers(3), entry(BRONZE, read=3, good=3, written=3).encoded())
    log = lake.table(BRONZE).local / "_delta_log"
    max(log.glob("*.json")).write_text('{"add": {"pa')

    (answer,) = looked(instance).asset_events

    assert not answer.passed
    assert BRONZE.id in answer.description


@pytest.mark.whole
def test_a_paused_stream_is_well_and_says_by_whom(lake: Lake, instance: DagsterInstance) -> None:
    write_desired(lake, replace(ASKED, runs=False, why="a new disk"))

    (answer,) = looked(instance).asset_events

    assert answer.passed
    assert "paused, by order of on-call" in answer.description
    assert "a new disk" in answer.description


def test_a_stream_that_was_restarted_is_no_plain_success(
    lake: Lake, instance: DagsterInstance, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The run of the incident ended green, and nothing else was to be seen."""
    asked = Order(runs=True, at=ASKED.at, by="on-call")
    write_desired(lake, asked.tried(clock.now()))
    lives(lake, {})
    monkeypatch.setattr(
        on_call, "_start", lambda *_: None
    )  # no Spark: what the run reports is asked
    incident = {"ill": "dead", "says": "the stream is not running"}

    done = on_call.revive.execute_in_process(
        run_config={"ops": {on_call.revive_stream.name: {"config": incident}}},
        instance=instance,
        resources=RESOURCES,
    )

    assert done.success, "no person is needed"
    (record,) = instance.all_logs(
        done.run_id, of_type=on_call.DagsterEventType.ASSET_CHECK_EVALUATION
    )
    event = record.dagster_event
    assert event is not None
    assert not event.asset_check_evaluation_data.passed
    (answer,) = looked(instance).asset_events
    assert answer.severity is AssetCheckSeverity.WARN
    assert "had died and was restarted 1 time" in answer.description


@pytest.mark.whole
def test_a_gold_table_that_fails_is_red_in_the_catalog_until_it_goes_on(
    lake: Lake, instance: DagsterInstance
) -> None:
    """The page shows of a partitioned asset how many partitions failed, and no check: it had ``1 of 330`` and no red."""
    assert not isinstance(GOLD, Ingested)
    write_desired(lake, ASKED)
    gold_fails(lake)

    found = watched(instance)
    (asked,) = found.run_requests
    on_call.revive.execute_in_process(
        run_config=asked.run_config, instance=instance, resources=RESOURCES, raise_on_error=False
    )
    assert failed_days(instance) == 1
    assert (order(lake) or ASKED).alerted == (GOLD.id,)

    died(lake)
    gone = watched(instance, found.cursor)
    assert failed_days(instance) == 1, "of a stream that is gone nothing is known"

    gold_fails(lake, failing=False)
    for each in watched(instance, gone.cursor).asset_events:
        instance.report_runless_asset_event(each)
    assert failed_days(instance) == 0


def test_a_table_that_was_repaired_by_a_new_order_is_red_no_longer_once_it_goes_on(
    lake: Lake, instance: DagsterInstance
) -> None:
    """After ``strandline restart`` it stayed red for good: the new order knows of no alarm that was sent."""
    write_desired(lake, ASKED)
    gold_fails(lake)
    found = watched(instance)
    (asked,) = found.run_requests
    on_call.revive.execute_in_process(
        run_config=asked.run_config, instance=instance, resources=RESOURCES, raise_on_error=False
    )
    write_desired(lake, replace(ASKED, at=clock.now().isoformat()))

    for untried in ({}, {GOLD.id: {"batches": 0, "lag": None}}):
        lives(lake, {})
        beat = json.loads(lake.heartbeat.text() or "")
        usual = next(iter(beat["tables"].values()))
        beat["tables"] |= {name: {**usual, **pulse} for name, pulse in untried.items()}
        lake.heartbeat.put(json.dumps(beat))
        found = reported(instance, found.cursor)
        assert failed_days(instance) == 1, "what has not been tried may fail again"

    gold_fails(lake, failing=False)
    reported(instance, found.cursor)
    assert failed_days(instance) == 0


def reported(instance: DagsterInstance, cursor: str) -> Any:  # noqa: ANN401  # either result
    """Return what the watchdog found, once Dagster has its answers."""
    found = watched(instance, cursor)
    for each in found.asset_events:
        instance.report_runless_asset_event(each)
    return found


def failed_days(instance: DagsterInstance) -> int:
    """Return what the page of the catalog counts in red."""
    cached = get_and_update_asset_status_cache_value(instance, key(GOLD), DAYS)
    assert cached is not None
    return len(cached.deserialize_failed_partition_subsets(DAYS))


@pytest.mark.whole
def test_a_store_that_does_not_answer_is_said_and_not_what_was_said_before(
    instance: DagsterInstance, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The look itself reads the store: an error in it would leave the page as green as it was."""
    with socket.socket() as kept:
        kept.bind(("127.0.0.1", 0))
        given = {
            "STRANDLINE_LAKE": "s3a://a-bucket-that-is-away/lake",
            "AWS_ENDPOINT_URL": f"http://127.0.0.1:{kept.getsockname()[1]}",
            "AWS_ACCESS_KEY_ID": "key",
            "AWS_SECRET_ACCESS_KEY": "secret",
            "AWS_REGION": "eu-west-1",
            "XDG_STATE_HOME": str(tmp_path),
        }
        for name, value in given.items():
            monkeypatch.setenv(name, value)
        monkeypatch.setitem(object_files.PATIENCE, "retry_timeout", object_files.BRIEF)
        said = looked(instance)

        (answer,) = said.asset_events
        assert not answer.passed
        assert answer.severity == AssetCheckSeverity.ERROR
        assert "store" in answer.description
        assert "what to type" in answer.metadata
