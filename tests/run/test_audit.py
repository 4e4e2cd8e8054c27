"""A look at the rows finds what counters cannot, and nothing is built on what it finds."""

from dataclasses import replace

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from jobs.core.table import Table
from jobs.gold import device_signal_10m as gold
from jobs.run import gates
from jobs.run.audit import COPIES, Audit, audit, kept
from jobs.run.gates import GateShutError, Where
from jobs.run.lake import Lake
from jobs.run.ledger import latest_version
from jobs.run.rebuild import promote, rebuild
from jobs.run.replay import replay
from jobs.run.resolutions import unfinished
from jobs.run.runner import Site
from jobs.run.span import Span
from jobs.silver import device_telemetry as silver
from quality.expectations import Within
from quality.rules import OnFail, between
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
    """Put every row of silver in a second time, as a tool does that knows nothing of ledgers."""
    path = str(lake.table(silver.TABLE))
    rows = spark.read.format("delta").load(path)
    rows.write.format("delta").mode("append").save(path)


def singled(spark: SparkSession, lake: Lake) -> None:
    """Leave one of each."""
    path = str(lake.table(silver.TABLE))
    rows = spark.read.format("delta").load(path).dropDuplicates().localCheckpoint()
    rows.write.format("delta").mode("overwrite").save(path)


def test_tables_that_nobody_touched_are_as_expected(spark: SparkSession, morning: Lake) -> None:
    """Rules, keys, the ledger's counts, and gold against silver."""
    below = look(spark, silver.TABLE, morning)
    above = look(spark, gold.TABLE, morning)

    assert (unexpected(below), unexpected(above)) == ([], [])
    assert {"implausible:value", COPIES} <= {each.name for each in below.findings}
    assert {"sum(readings) as others say", "average_beyond_its_values"} <= {
        each.name for each in above.findings
    }
    assert kept(gold.TABLE, morning) == above
    assert gates.shut(silver.TABLE, morning, Where.BEHIND) is None


def test_rows_that_are_there_twice_stop_those_who_read_them(
    spark: SparkSession, morning: Lake
) -> None:
    """Until a later look finds nothing, and no stream would read them as they were."""
    doubled(spark, morning)

    found = look(spark, silver.TABLE, morning)

    assert unexpected(found) == [COPIES, "count(*) as others say"]
    assert all(each.is_critical for each in found.critical)
    shut = gates.shut(silver.TABLE, morning, Where.BEHIND)
    assert shut is not None
    assert shut.where is Where.BEHIND
    received(spark, morning, readings(LATER))
    derive(spark, morning, silver.TABLE)
    with pytest.raises(GateShutError, match="copies_of_a_key: 8"):
        derive(spark, morning, gold.TABLE)
    singled(spark, morning)
    look(spark, silver.TABLE, morning)
    waits = gates.shut(silver.TABLE, morning, Where.BEHIND)
    assert waits is not None
    assert "gold.device_signal_10m has not read from version" in waits.why
    site = Site(spark=spark, clock=lambda: NOON)
    rebuild(gold.TABLE, morning, site)
    promote(gold.TABLE, morning, site)
    look(spark, silver.TABLE, morning)
    assert gates.shut(silver.TABLE, morning, Where.BEHIND) is None
    derive(spark, morning, gold.TABLE)
    assert unexpected(look(spark, gold.TABLE, morning)) == []


def test_a_window_that_lost_a_reading_is_found(spark: SparkSession, morning: Lake) -> None:
    path = morning.table(gold.TABLE)
    spark.sql(f"UPDATE delta.`{path}` SET readings = readings + 1 WHERE device_id = 'd2'")  # noqa: S608

    found = look(spark, gold.TABLE, morning)

    assert unexpected(found) == ["sum(readings) as others say"]


def test_a_range_is_looked_at_alone(spark: SparkSession, morning: Lake) -> None:
    """What the ledger says of the whole is not asked of a part."""
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


def test_what_a_table_expects_of_the_whole_is_asked(spark: SparkSession, morning: Lake) -> None:
    many = Within(name="devices", aggregate="count(DISTINCT device_id)", low=100)

    found = look(spark, replace(silver.TABLE, expects=(many,)), morning)

    (devices,) = [each for each in found.findings if each.name == "devices"]
    assert (devices.holds, devices.is_critical) == (False, False)
    assert devices.says == "2; expected at least 100"


def test_what_names_nothing_is_counted(spark: SparkSession, morning: Lake) -> None:
    """In the same scan: a reference is one more column of the rows."""
    refers = replace(silver.TABLE, refers=(("event_id", silver.TABLE, "device_id"),))

    found = look(spark, refers, morning)

    (unknown,) = [each for each in found.findings if each.name == "unknown:event_id"]
    assert not unknown.holds
    assert unknown.failed == unknown.rows > 0
    assert not unknown.is_critical


def test_one_scan_for_fifty_rules(spark: SparkSession, morning: Lake) -> None:
    rules = tuple(replace(between("value", 0, 999), name=f"r{n}") for n in range(50))
    few, many = (replace(silver.TABLE, rules=each) for each in (rules[:1], rules))
    range_ = Span(since=at("08:00:00"), until=at("13:00:00"))

    taken = [
        executions(spark, lambda table=table: look(spark, table, morning, range_))
        for table in (few, few, many)  # the first time Delta reads its own log as well
    ]

    assert taken[1] == taken[2] <= taken[0]


def test_rows_that_were_healed_are_in_gold_as_the_look_expects(
    spark: SparkSession, lake: Lake
) -> None:
    """A stream passes over what a replay brought, and gold has it all the same."""
    wrong = mistaken(spark, lake)
    told = replay(spark, silver.TABLE, wrong)

    assert told.healed > 0
    assert unexpected(look(spark, silver.TABLE, wrong)) == []
    assert unexpected(look(spark, gold.TABLE, wrong)) == []


def test_nothing_is_replayed_that_could_not_be_followed(spark: SparkSession, lake: Lake) -> None:
    """A gate that is shut behind silver would stop what rests on it when silver is written already."""
    wrong = mistaken(spark, lake)
    doubled(spark, wrong)
    look(spark, silver.TABLE, wrong)
    before = latest_version(wrong.table(silver.TABLE))

    with pytest.raises(GateShutError):
        replay(spark, silver.TABLE, wrong)

    assert latest_version(wrong.table(silver.TABLE)) == before
    assert unfinished(silver.TABLE, wrong) is None


def test_a_key_with_null_is_found_unless_the_table_admits_it(
    spark: SparkSession, morning: Lake
) -> None:
    """The catalog says which parts of a derived table's key may be NULL; any other is a row that nobody finds again."""
    path = str(morning.table(gold.TABLE))
    rows = spark.read.format("delta").load(path).withColumn("signal", F.lit(None).cast("string"))
    rows.limit(1).write.format("delta").mode("append").save(path)

    found = look(spark, gold.TABLE, morning)
    admitted = look(spark, replace(gold.TABLE, key_null_ok=("signal",)), morning)

    assert "missing:signal" in unexpected(found)
    assert "missing:signal" not in unexpected(admitted)
