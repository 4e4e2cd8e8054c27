"""An audit finds in the rows what counters cannot show, and no table reads past a critical finding."""

from dataclasses import replace

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from fleet.gold import device_signal_10m as gold
from fleet.silver import device_telemetry as silver
from strandline.core.table import Table
from strandline.engine.accounting import gate_files
from strandline.engine.accounting.gate_files import GateShutError, Where
from strandline.engine.accounting.held_records import unfinished
from strandline.engine.flow.runner import Site
from strandline.engine.lake.lake import Lake
from strandline.engine.lake.log.ledger import latest_version
from strandline.engine.proof.compare import COPIES, Audit, audit, kept
from strandline.engine.repair.closed_range import Span
from strandline.engine.repair.rebuild import promote, rebuild
from strandline.engine.repair.replay import replay
from strandline_quality.expectations import Within
from strandline_quality.rules import OnFail, between
from tests.support.events import readings, received
from tests.support.executions import executions
from tests.support.mistaken import mistaken
from tests.support.modes import derive
from tests.support.morning import LATER
from tests.support.rows import NOON, at

pytestmark = pytest.mark.slow


def look(spark: SparkSession, table: Table, lake: Lake, span: Span | None = None) -> Audit:
    return audit(spark, table, lake, lambda: NOON, span)


def unexpected(found: Audit) -> list[str]:
    return [each.name for each in found.findings if not each.holds]


def doubled(spark: SparkSession, lake: Lake) -> None:
    """Append every row of silver a second time, as a tool without a ledger does."""
    path = str(lake.table(silver.TABLE))
    rows = spark.read.format("delta").load(path)
    rows.write.format("delta").mode("append").save(path)


def singled(spark: SparkSession, lake: Lake) -> None:
    """Keep one copy of each row."""
    path = str(lake.table(silver.TABLE))
    rows = spark.read.format("delta").load(path).dropDuplicates().localCheckpoint()
    rows.write.format("delta").mode("overwrite").save(path)


def test_untouched_tables_are_as_expected(spark: SparkSession, morning: Lake) -> None:
    """Checked are rules, keys, the ledger's counts, and gold against silver."""
    below = look(spark, silver.TABLE, morning)
    above = look(spark, gold.TABLE, morning)

    assert (unexpected(below), unexpected(above)) == ([], [])
    assert {"implausible:value", COPIES} <= {each.name for each in below.findings}
    assert {"sum(readings) as others say", "average_beyond_its_values"} <= {
        each.name for each in above.findings
    }
    assert kept(gold.TABLE, morning) == above
    assert gate_files.shut(silver.TABLE, morning, Where.BEHIND) is None


@pytest.mark.whole
def test_rows_that_are_there_twice_stop_their_readers(spark: SparkSession, morning: Lake) -> None:
    """Until a later audit finds nothing, and no stream would read the bad rows."""
    doubled(spark, morning)

    found = look(spark, silver.TABLE, morning)

    assert unexpected(found) == [COPIES, "count(*) as others say"]
    assert all(each.is_critical for each in found.critical)
    shut = gate_files.shut(silver.TABLE, morning, Where.BEHIND)
    assert shut is not None
    assert shut.where is Where.BEHIND
    received(morning, readings(LATER))
    derive(spark, morning, silver.TABLE)
    with pytest.raises(GateShutError, match="copies_of_a_key: 8"):
        derive(spark, morning, gold.TABLE)
    singled(spark, morning)
    look(spark, silver.TABLE, morning)
    waits = gate_files.shut(silver.TABLE, morning, Where.BEHIND)
    assert waits is not None
    assert "gold.device_signal_10m has not read from version" in waits.why
    site = Site(spark=spark, clock=lambda: NOON)
    rebuild(gold.TABLE, morning, site)
    promote(gold.TABLE, morning, site)
    look(spark, silver.TABLE, morning)
    assert gate_files.shut(silver.TABLE, morning, Where.BEHIND) is None
    derive(spark, morning, gold.TABLE)
    assert unexpected(look(spark, gold.TABLE, morning)) == []


@pytest.mark.whole
def test_a_window_that_lost_a_reading_is_found(spark: SparkSession, morning: Lake) -> None:
    path = morning.table(gold.TABLE)
    spark.sql(f"UPDATE delta.`{path}` SET readings = readings + 1 WHERE device_id = 'd2'")  # noqa: S608  # our own names

    found = look(spark, gold.TABLE, morning)

    assert unexpected(found) == ["sum(readings) as others say"]


@pytest.mark.whole
def test_a_range_is_audited_alone(spark: SparkSession, morning: Lake) -> None:
    """The ledger's totals are not expected of a part."""
    strict = replace(
        silver.TABLE, rules=(between("value", 0, 3, on_fail=OnFail.WARN, max_failed=0.0),)
    )
    before_ten = Span(since=at("08:00:00"), until=at("09:01:00"))

    whole = look(spark, replace(strict, name=silver.TABLE.name), morning)
    part = look(spark, strict, morning, before_ten)

    assert unexpected(part) == []
    assert "out_of_range:value" in unexpected(whole)
    assert part.findings[0].rows < whole.findings[0].rows
    assert (part.since, part.until) == (before_ten.since.isoformat(), before_ten.until.isoformat())


def test_a_table_s_own_expectations_are_checked(spark: SparkSession, morning: Lake) -> None:
    many = Within(name="devices", aggregate="count(DISTINCT device_id)", low=100)

    found = look(spark, replace(silver.TABLE, expects=(many,)), morning)

    (devices,) = [each for each in found.findings if each.name == "devices"]
    assert (devices.holds, devices.is_critical) == (False, False)
    assert devices.says == "2; expected at least 100"


@pytest.mark.whole
def test_dangling_references_are_counted(spark: SparkSession, morning: Lake) -> None:
    """They are counted in the same scan: a reference is one more column of the rows."""
    refers = replace(silver.TABLE, references=(("event_id", silver.TABLE, "device_id"),))

    found = look(spark, refers, morning)

    (unknown,) = [each for each in found.findings if each.name == "unknown:event_id"]
    assert not unknown.holds
    assert unknown.failed == unknown.rows > 0
    assert not unknown.is_critical


@pytest.mark.whole
def test_one_scan_for_fifty_rules(spark: SparkSession, morning: Lake) -> None:
    rules = tuple(replace(between("value", 0, 999), name=f"r{n}") for n in range(50))
    few, many = (replace(silver.TABLE, rules=each) for each in (rules[:1], rules))
    range_ = Span(since=at("08:00:00"), until=at("13:00:00"))

    taken = [
        executions(spark, lambda table=table: look(spark, table, morning, range_))
        for table in (few, few, many)  # the first time Delta reads its own log as well
    ]

    assert taken[1] == taken[2] <= taken[0]


@pytest.mark.whole
def test_healed_rows_are_in_gold_as_the_audit_expects(spark: SparkSession, lake: Lake) -> None:
    """Gold's stream skips the commit of a replay, but gold has its rows by a backfill."""
    wrong = mistaken(spark, lake)
    replayed = replay(spark, silver.TABLE, wrong)

    assert replayed.healed > 0
    assert unexpected(look(spark, silver.TABLE, wrong)) == []
    assert unexpected(look(spark, gold.TABLE, wrong)) == []


@pytest.mark.whole
def test_a_replay_is_refused_if_the_tables_downstream_could_not_follow(
    spark: SparkSession, lake: Lake
) -> None:
    """A gate behind silver would stop the tables downstream when silver is already written."""
    wrong = mistaken(spark, lake)
    doubled(spark, wrong)
    look(spark, silver.TABLE, wrong)
    before = latest_version(wrong.table(silver.TABLE))

    with pytest.raises(GateShutError):
        replay(spark, silver.TABLE, wrong)

    assert latest_version(wrong.table(silver.TABLE)) == before
    assert unfinished(silver.TABLE, wrong) is None


@pytest.mark.whole
def test_a_key_with_null_is_found_unless_the_table_admits_it(
    spark: SparkSession, morning: Lake
) -> None:
    """The catalog lists the parts of a derived table's key that may be NULL; any other NULL makes a row unfindable."""
    path = str(morning.table(gold.TABLE))
    rows = spark.read.format("delta").load(path).withColumn("signal", F.lit(None).cast("string"))
    rows.limit(1).write.format("delta").mode("append").save(path)

    found = look(spark, gold.TABLE, morning)
    admitted = look(spark, replace(gold.TABLE, key_null_ok=("signal",)), morning)

    assert "missing:signal" in unexpected(found)
    assert "missing:signal" not in unexpected(admitted)
