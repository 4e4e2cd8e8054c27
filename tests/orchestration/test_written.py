"""Dagster shows what a stream wrote without a run: each batch once, the checks, and each day that it has closed."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import date
from typing import Any

import pytest
from dagster import (
    AssetCheckEvaluation,
    AssetMaterialization,
    DagsterInstance,
    DagsterRunStatus,
    build_sensor_context,
)
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from fleet.gold import device_signal_10m as gold
from fleet.silver import device_telemetry as silver
from strandline.core.stateful import AvailableNow, MicroBatch
from strandline.engine.flow.runner import Site, run
from strandline.engine.lake.lake import Lake
from strandline.engine.lake.log.ledger import entries
from strandline.engine.repair.closed_range import closed_days
from strandline_dagster import assets
from strandline_dagster.assets import look_at_the_stream
from strandline_dagster.definitions import DEFINITIONS
from strandline_dagster.resources import LakeResource, days_since, first_day, key
from tests.orchestration.test_catch_up import caught_up
from tests.support.events import received
from tests.support.four_days import noon
from tests.support.instance import ephemeral
from tests.support.modes import answers_of, derive, twin
from tests.support.poison import AFTER, GOOD
from tests.support.rows import NOON

pytestmark = pytest.mark.slow

CLOSED = ["2026-11-17", "2026-11-18", "2026-11-19"]


def looked(instance: DagsterInstance, cursor: str | None) -> Any:  # noqa: ANN401  # Dagster's result
    context = build_sensor_context(instance=instance, cursor=cursor, definitions=DEFINITIONS)
    return look_at_the_stream(context, lake=LakeResource())


def test_the_days_that_a_stream_has_left_are_closed_from_the_first_row_on(days: Lake) -> None:
    first = date(2026, 1, 1)
    for table in (silver.TABLE, gold.TABLE):
        assert [str(day) for day in closed_days(table, days, first)] == CLOSED

    assert [str(day) for day in closed_days(silver.TABLE, days, date(2026, 11, 19))] == CLOSED[2:]


def test_after_a_run_only_the_day_that_is_open_is_missing(
    days: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Days begin with the lake's first row; where they began before it, those without rows are done as well."""
    for first in (first_day(days), date(2026, 11, 1)):
        instance = ephemeral()
        monkeypatch.setattr(assets, "begins", lambda first=first: first)
        for event in looked(instance, None).asset_events:
            if not isinstance(event, AssetCheckEvaluation):
                instance.report_runless_asset_event(event)
        offered = {*days_since(first).get_partition_keys(current_time=NOON)}
        for table in (silver.TABLE, gold.TABLE):
            done = instance.get_materialized_partitions(key(table))
            assert offered - {*done} == {"2026-11-20"}
    monkeypatch.setenv("STRANDLINE_FIRST_DAY", "2026-11-18")
    assert first_day(days) == date(2026, 11, 18)


@pytest.mark.whole
def test_batches_are_events_once_with_their_checks_and_days_when_they_close(
    spark: SparkSession, days: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    instance = ephemeral()
    monkeypatch.setattr(assets, "begins", lambda: date(2026, 11, 17))

    first = looked(instance, None)
    again = looked(instance, first.cursor)

    materialized = [e for e in first.asset_events if isinstance(e, AssetMaterialization)]
    for table in (silver.TABLE, gold.TABLE):
        assert [e.partition for e in materialized if e.asset_key == key(table)] == [*CLOSED, None]
    assert again.asset_events == []

    received(days, noon(4, batch=4))
    streamed(spark, days)
    after = looked(instance, first.cursor)

    found = instance.fetch_materializations(key(silver.TABLE), limit=10).records
    made = [each.asset_materialization for each in found]
    (batch,) = [e for e in made if e and e.partition is None]
    newest = list(entries(days.table(silver.TABLE)))[-1][0]
    assert batch.metadata["read"].value == 3
    assert batch.metadata["good"].value == 3
    assert batch.metadata["version"].value == newest
    closed = [e.partition for e in made if e and e.partition]
    assert closed == ["2026-11-20"]
    answers = [e for e in after.asset_events if isinstance(e, AssetCheckEvaluation)]
    assert answers
    assert all(each.passed for each in answers)
    assert looked(instance, after.cursor).asset_events == []


def test_a_run_reports_the_days_that_it_closed_before_the_table_as_a_whole(
    days: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So its checks are about the newest materialisation, and no look afterwards adds one before the next batch."""
    monkeypatch.setattr(assets, "begins", lambda: date(2026, 11, 17))
    instance = ephemeral()
    report(instance, looked(instance, None))
    received(days, noon(4, batch=4))

    assert caught_up(instance).success

    for table in (silver.TABLE, gold.TABLE):
        found = instance.fetch_materializations(key(table), limit=2).records
        assert [each.partition_key for each in found] == [None, "2026-11-20"]
    looks = looked(instance, None)
    assert [
        e for e in looks.asset_events if e.asset_key in {key(silver.TABLE), key(gold.TABLE)}
    ] == []


def test_what_a_terminal_filled_is_shown_once_and_what_a_run_of_dagster_reported_is_not(
    spark: SparkSession, days: Lake
) -> None:
    """Another Dagster and cron are terminals too; while a run of ours is not over, its commits wait for its own report."""
    instance = ephemeral()
    first = looked(instance, None)
    report(instance, first)
    found = instance.fetch_materializations(key(silver.TABLE), limit=50).records
    (state,) = [m for r in found if (m := r.asset_materialization) and m.partition is None]
    assert state.metadata["version"].value == newest(days)
    assert state.metadata["dagster/row_count"].value
    assert state.metadata["dagster/column_schema"].value.columns

    received(days, noon(4, batch=4))
    site = Site(spark=spark, clock=lambda: NOON)
    for table in (silver.TABLE, gold.TABLE):
        run(table, AvailableNow(), days, site=site)
    with unfinished(instance):
        waits = looked(instance, first.cursor)
        assert of_silver(waits) == []
    after = looked(instance, waits.cursor)
    made = of_silver(after, instance)
    assert made[0].metadata["read"].value == 3
    assert made[0].metadata["version"].value == newest(days)
    assert of_silver(looked(instance, after.cursor)) == []

    received(days, noon(5, batch=5))
    run(silver.TABLE, AvailableNow(), days, site=site)
    facts = {"version": newest(days)}
    instance.report_runless_asset_event(AssetMaterialization(key(silver.TABLE), metadata=facts))
    assert of_silver(looked(instance, after.cursor)) == []


def test_a_lake_that_was_restored_is_shown_as_it_is(days: Lake) -> None:
    """Its versions went back; what is filled from then on is new again."""
    instance = ephemeral()
    first = looked(instance, None)
    report(instance, first)
    seen = json.loads(first.cursor)
    seen[silver.TABLE.id]["version"] += 7

    (state,) = of_silver(looked(instance, json.dumps(seen)))

    assert state.metadata["version"].value == newest(days)


def test_what_columns_say_of_themselves_is_shown_and_changes_no_row(
    spark: SparkSession, lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All columns have comments, those with the times too; a megabyte of one is not kept with each materialisation."""
    monkeypatch.setenv("STRANDLINE_LAKE", str(lake.root))
    received(lake, GOOD)
    plain, said = twin(lake, "plain"), replace(silver.TABLE, transform=said_of_each)
    derive(spark, plain, silver.TABLE, gold.TABLE)
    derive(spark, lake, said, replace(gold.TABLE, reads=(said,)))
    late = [replace(each, batch=1) for each in AFTER]
    for where in (lake, plain):
        received(where, late)
    derive(spark, plain, silver.TABLE, gold.TABLE)
    derive(spark, lake, said, replace(gold.TABLE, reads=(said,)))

    (state,) = of_silver(looked(ephemeral(), None))

    shown = {
        each.name: each.description
        for each in state.metadata["dagster/column_schema"].value.columns
    }
    assert shown.pop("value") == "v" * assets.LONGEST
    assert shown == {name: f"the {name} of a reading" for name in shown}
    assert answers_of(lake) == answers_of(plain)


def said_of_each(events: DataFrame) -> DataFrame:
    """Read the same readings, with a comment for each column."""
    rows = silver.TABLE.transform(events)
    of = {name: f"the {name} of a reading" for name in rows.columns} | {"value": "v" * 1_000_000}
    return rows.select(
        *[F.col(name).alias(name, metadata={"comment": of[name]}) for name in rows.columns]
    )


def newest(lake: Lake) -> int:
    return list(entries(lake.table(silver.TABLE)))[-1][0]


def report(instance: DagsterInstance, looked: Any) -> None:  # noqa: ANN401  # Dagster's result
    """Do what Dagster does with a sensor's events."""
    for event in looked.asset_events:
        if not isinstance(event, AssetCheckEvaluation):
            instance.report_runless_asset_event(event)


def of_silver(
    looked: Any,  # noqa: ANN401  # as above
    instance: DagsterInstance | None = None,
) -> list[AssetMaterialization]:
    """Return what a look reported of the table as a whole; one with answers to checks has reported the rest by itself."""
    found = [e for e in looked.asset_events if isinstance(e, AssetMaterialization)]
    if instance is not None:
        records = instance.fetch_materializations(key(silver.TABLE), limit=50).records
        found += [m for r in records if (m := r.asset_materialization)]
    return [e for e in found if e.asset_key == key(silver.TABLE) and e.partition is None]


@contextmanager
def unfinished(instance: DagsterInstance) -> Iterator[None]:
    """Let a run of ours be started and not over."""
    made = instance.create_run_for_job(
        DEFINITIONS.resolve_job_def("catch_up"), status=DagsterRunStatus.STARTED
    )
    yield
    instance.delete_run(made.run_id)


def streamed(spark: SparkSession, lake: Lake) -> None:
    """Let silver be always on until it has read what there is."""
    over = threading.Event()
    run(
        silver.TABLE,
        MicroBatch(every=0.05),
        lake,
        site=Site(spark=spark, clock=lambda: NOON),
        on_commit=lambda entry: over.set() if entry.read else None,
        stopped=over.is_set,
    )
