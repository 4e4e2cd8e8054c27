"""At night the closed days are computed again as one range, and every table is proven; a difference fails the run."""

from datetime import date

import pytest
from dagster import AssetCheckKey, DagsterInstance, RunRequest, SkipReason, build_schedule_context
from delta.tables import DeltaTable
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from fleet.gold import device_signal_10m as gold
from fleet.silver import device_telemetry as silver
from strandline.core.table import Table
from strandline.engine.lake.completeness import Retirement, write_down
from strandline.engine.lake.lake import Lake
from strandline.engine.proof.certificate import kept
from strandline.engine.proof.day_verdicts import CERTIFICATE
from strandline_dagster import schedules
from strandline_dagster.resources import RESOURCES, LakeResource, key
from strandline_dagster.schedules import END, START, last_closed, re_read_nightly
from tests.support.instance import ephemeral

pytestmark = pytest.mark.slow


def test_nothing_is_read_again_before_a_day_is_closed_in_every_table(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STRANDLINE_LAKE", str(lake.root))

    assert isinstance(asked(), SkipReason)


def test_the_last_closed_days_are_one_range(days: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of the tables of the fixture, to which a night's range is narrowed here."""
    monkeypatch.setattr(schedules, "DERIVED", [silver.TABLE, gold.TABLE])

    assert last_closed(days) == date(2026, 11, 19)
    found = asked()
    assert isinstance(found, RunRequest)
    assert (found.tags[START], found.tags[END]) == ("2026-11-17", "2026-11-19")
    assert found.asset_selection is None
    write_down(gold.TABLE.id, Retirement(who="ann", at="2026-11-20T12:00:00+00:00", why="x"), days)
    found = asked()
    assert isinstance(found, RunRequest)
    assert found.asset_selection == [key(silver.TABLE)], "a retired table is recomputed no more"


@pytest.mark.whole
def test_a_table_that_differs_from_bronze_fails_the_night_and_its_check(
    spark: SparkSession, days: Lake
) -> None:
    """A row of gold is deleted; the table that is sound has its certificate all the same."""
    instance = ephemeral()
    table = DeltaTable.forPath(spark, str(days.table(gold.TABLE)))
    first = table.toDF().agg(F.min("window_from")).first()
    assert first is not None
    table.delete(F.col("window_from") == first[0])

    assert not certified(instance)
    for each, is_sound in ((silver.TABLE, True), (gold.TABLE, False)):
        certificate = kept(each, days)
        assert certificate is not None
        assert certificate.equal is check(instance, each) is is_sound


def asked() -> RunRequest | SkipReason:
    """Return what the schedule asks for."""
    context = build_schedule_context(instance=ephemeral())
    found = re_read_nightly(context, lake=LakeResource())
    assert isinstance(found, RunRequest | SkipReason)
    return found


def certified(instance: DagsterInstance) -> bool:
    """Prove all tables, and return whether the run succeeded."""
    config = {"ops": {schedules.certify_tables.name: {"config": {"splits": 1, "kills": 0}}}}
    return schedules.certify.execute_in_process(
        run_config=config, instance=instance, resources=RESOURCES, raise_on_error=False
    ).success


def check(instance: DagsterInstance, table: Table) -> bool:
    """Return whether a table's check succeeded."""
    name = AssetCheckKey(key(table), CERTIFICATE)
    found = instance.event_log_storage.get_latest_asset_check_execution_by_key([name])
    return found[name].status.value == "SUCCEEDED"
