"""Rows in are rows in each place, or the line of the entry that says where they went; never balanced otherwise.

Random tables over random logs. A table's function is a chain of filters, inner joins, lists that are exploded and unions,
drawn so that each record's number of rows follows from its place in Kafka. So the test knows what is lost and what is made
without asking Spark.
"""

import random
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import reduce
from pathlib import Path

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from fleet.silver import device_telemetry as silver
from strandline.core.table import Judged
from strandline.engine.accounting.balance_sheet import Balance, balance
from strandline.engine.lake.lake import Lake
from tests.support.events import Event, commits, received
from tests.support.interrupted import forget, kill_at
from tests.support.logs import dealt, expected, random_log
from tests.support.modes import WAYS, derive
from tests.support.proofs import Times

Place = tuple[int, int]
"""Partition and offset."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """A part of a function: what it does to rows, and how many rows it makes of the one of a record."""

    name: str
    of: Callable[[DataFrame], DataFrame]
    rows: Callable[[Place], int]


def mixed(place: Place, by: int) -> int:
    """Return a number that both sides compute alike from a place."""
    return (place[0] * 5 + place[1] * 3) % by


def mixed_column(by: int) -> Column:
    """Return the same as a column."""
    return F.expr(f"(_partition * 5 + _offset * 3) % {by}")


def filtered(chance: random.Random) -> Step:
    """Leave some records out."""
    by = chance.randrange(2, 30)
    return Step(
        name=f"where {by}",
        of=lambda rows: rows.where(mixed_column(by) != 0),
        rows=lambda place: int(mixed(place, by) != 0),
    )


def joined(chance: random.Random) -> Step:
    """Keep what has a partner; some have two."""
    by = chance.randrange(2, 12)
    known = [chance.randrange(by) for _ in range(chance.randrange(1, 2 * by))]

    def of(rows: DataFrame) -> DataFrame:
        right = rows.sparkSession.createDataFrame([(number,) for number in known], "_n bigint")
        return rows.withColumn("_n", mixed_column(by)).join(F.broadcast(right), "_n").drop("_n")

    return Step(name=f"join {known}", of=of, rows=lambda place: known.count(mixed(place, by)))


def exploded(chance: random.Random) -> Step:
    """Make none, one or several rows of a list."""
    by = chance.randrange(2, 4)

    def of(rows: DataFrame) -> DataFrame:
        each = F.array_repeat(F.lit(1), mixed_column(by).cast("int"))
        return rows.withColumn("_each", F.explode(each)).drop("_each")

    return Step(name=f"explode {by}", of=of, rows=lambda place: mixed(place, by))


def united(chance: random.Random) -> Step:
    """Two branches that overlap, leave a gap, or do neither."""
    by = chance.randrange(2, 10)
    until, begin = chance.randrange(by + 1), chance.randrange(by + 1)

    def of(rows: DataFrame) -> DataFrame:
        below, above = mixed_column(by) < until, mixed_column(by) >= begin
        return rows.where(below).unionByName(rows.where(above))

    return Step(
        name=f"union {until} {begin} of {by}",
        of=of,
        rows=lambda place: int(mixed(place, by) < until) + int(mixed(place, by) >= begin),
    )


STEPS = (filtered, joined, exploded, united)


def batch(spark: SparkSession, lake: Lake, log: list[list[Event]], table: Judged) -> None:
    """Compute all at once."""
    WAYS["batch"](spark, lake, log, [table])


def streamed(spark: SparkSession, lake: Lake, log: list[list[Event]], table: Judged) -> None:
    """Read commit by commit."""
    WAYS["commit by commit"](spark, lake, log, [table])


def killed(spark: SparkSession, lake: Lake, log: list[list[Event]], table: Judged) -> None:
    """Read commit by commit; each batch is killed before its last commit, run, and run again."""
    for events in log:
        received(lake, events)
        for nth in (0, 1):
            with pytest.MonkeyPatch.context() as patch:
                kill_at(patch, table, nth)
                try:
                    derive(spark, lake, table)
                except StreamingQueryException:
                    continue
                break  # a batch without a bad row has one commit
        derive(spark, lake, table)
        forget(lake, table, 1)
        derive(spark, lake, table)


@pytest.mark.prove
@pytest.mark.slow
def test_whatever_a_function_does_each_record_is_in_a_place_or_in_a_line(
    spark: SparkSession, tmp_path: Path, chance: random.Random, times: Times
) -> None:
    """A failure names the table; the seed in pytest's last lines brings it back."""
    first = chance.randrange(3)  # the suite takes one of the three ways
    for number in range(times(1, 150)):
        way = (batch, streamed, killed)[(first + number) % 3]
        steps = [chance.choice(STEPS)(chance) for _ in range(chance.randrange(3))]
        named = f"{way.__name__}: {' | '.join(step.name for step in steps) or 'as it is'}"
        assert_conserved(spark, tmp_path / str(number), chance, way, steps, named)


def assert_conserved(  # noqa: PLR0913, PLR0917  # where, what, how, and its name
    spark: SparkSession,
    root: Path,
    chance: random.Random,
    way: Callable[[SparkSession, Lake, list[list[Event]], Judged], None],
    steps: list[Step],
    named: str,
) -> None:
    """Run a table and compare its sheet with what its function does to each record."""

    def function(events: DataFrame) -> DataFrame:
        rows = silver.device_telemetry(events)
        return reduce(lambda found, step: step.of(found), steps, rows)

    log = dealt(chance, random_log(chance, 60), batches=2)
    table = replace(silver.TABLE, transform=function)
    lake = Lake(root).open_for_writing()
    way(spark, lake, commits(each.event for each in log), table)

    sheet = balance(table, lake)
    places = placed([each.event.partition for each in log])
    rows = [reduce(lambda n, step: n * step.rows(place), steps, 1) for place in places]
    lost, made = rows.count(0), sum(max(each - 1, 0) for each in rows)
    assert (sheet.read, sheet.lost_by_function, sheet.made_by_function) == (60, lost, made), named
    left = [each for each, n in zip(log, rows, strict=True) if n]
    same = {each.same for each in left if each.same}
    held = sum(each.same is None for each in left)
    assert (sheet.good, sum(sheet.quarantined.values())) == (len(same), held), named
    assert sheet.duplicates == sum(rows) - len(same) - held, named
    assert sheet.rows == sheet.good, named
    assert sheet.balanced == (not lost and not made), f"{named}: {sheet.faults}"
    assert_adds_up(sheet, named)
    if not lost and not made:
        good, bad, copies = expected(log)
        assert (sheet.good, sheet.duplicates) == (len(good), copies), named
        assert sheet.quarantined == dict(bad), named


def placed(partitions: list[int]) -> list[Place]:
    """Return the place of each record of a log."""
    ends: dict[int, int] = {}
    found = []
    for partition in partitions:
        offset = ends.get(partition, 0)
        ends[partition] = offset + 1
        found.append((partition, offset))
    return found


def assert_adds_up(sheet: Balance, named: str) -> None:
    """Assert that no row is in two places or in none."""
    there = sheet.good + sheet.duplicates + sum(sheet.quarantined.values())
    assert sheet.read + sheet.made_by_function == (
        there + sheet.dropped_by_watermark + sheet.lost_by_function
    ), named
