"""Bronze once more, cut into commits at other places: the same log as another run might have read it.

A cut goes along bronze's own order, so a commit is divided but no two commits are ever mixed; every run of
the same topic could have made these slices. The cuts are rows drawn at random, so each commit gets about as much
as any other, whatever the live table's commits were. Which commit holds a drawn row is known from their numbers of
rows, so only that one is sorted: of 5 million rows in fifty commits, 0.24 GB of memory
and 3 s instead of 0.9 GB and 8 s.
"""

import random
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import duckdb
from deltalake import DeltaTable
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from jobs.core.received import ORDER, RECEIVED
from jobs.core.table import Table
from jobs.run import delta
from jobs.run.bronze import PROPERTIES
from jobs.run.lake import Lake
from jobs.run.ledger import Entry
from jobs.run.scan import scan
from jobs.run.spill import spilling

PLACES = ", ".join(f'"{name}"' for name in ORDER)
BATCHES = """
    CREATE TEMP TABLE batches AS
    SELECT _batch, sum(rows) OVER (ORDER BY _batch) - rows AS since, sum(rows) OVER (ORDER BY _batch) AS until
    FROM (SELECT _batch, count(*) AS rows FROM log GROUP BY _batch)
"""
HOLDING = "SELECT _batch, since FROM batches WHERE since <= $number AND $number < until"
WITHIN = f"SELECT {PLACES} FROM log WHERE _batch = $batch ORDER BY {PLACES} LIMIT 1 OFFSET $before"  # noqa: S608  # our own names

Row: TypeAlias = tuple[Any, ...]
"""Where a row stands in bronze's order."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Log:
    """A bronze table up to a version."""

    table: Table
    path: Path
    version: int


def recut(
    spark: SparkSession, log: Log, lake: Lake, *, commits: int, chance: random.Random
) -> list[int]:
    """Write a log into another lake in so many commits, and return how many rows each has."""
    path = lake.table(log.table)
    delta.create(spark, path, RECEIVED, properties=PROPERTIES)
    rows = spark.read.format("delta").option("versionAsOf", log.version).load(str(log.path))
    return [
        _append(spark, log.table, path, number, part)
        for number, part in enumerate(_parts(rows, _cuts(log, commits, chance)))
    ]


def _append(spark: SparkSession, table: Table, path: Path, number: int, part: DataFrame) -> int:
    commit = delta.Commit(spark, path)
    written = commit.write(part).rows
    entry = Entry(
        table=table.id,
        mode="verify",
        stream="recut",
        batch=number,
        source=str(path.name),
        read=written,
        good=written,
        written=written,
    )
    commit.commit(entry.encoded())
    return written


def _cuts(log: Log, commits: int, chance: random.Random) -> list[Row]:
    """Draw the rows after which the log is cut, in bronze's order."""
    with spilling() as engine:
        scan(engine, "log", DeltaTable(log.path, version=log.version))
        engine.execute(BATCHES)
        counted = engine.execute("SELECT max(until) FROM batches").fetchone()
        total = int((counted or (0,))[0] or 0)
        # Drawn here and not by DuckDB, whose way from a seed to rows may change with a version.
        drawn = chance.sample(range(total), min(commits - 1, total))
        return [_at(engine, number) for number in sorted(drawn)]


def _at(engine: duckdb.DuckDBPyConnection, number: int) -> Row:
    """Return the place of a row by its number in bronze's order; only the commit that holds it is sorted."""
    (found,) = engine.execute(HOLDING, {"number": number}).fetchall()
    (place,) = engine.execute(WITHIN, {"batch": found[0], "before": number - found[1]}).fetchall()
    return place


def _parts(rows: DataFrame, cuts: list[Row]) -> Iterator[DataFrame]:
    place = F.struct(*ORDER)
    for low, high in zip([None, *cuts], [*cuts, None], strict=True):
        part = rows
        # The number of the batch alone says less than the place, but by it Delta leaves files unread.
        if low is not None:
            part = part.where((F.col(ORDER[0]) >= low[0]) & (place > _place(low)))
        if high is not None:
            part = part.where((F.col(ORDER[0]) <= high[0]) & (place <= _place(high)))
        yield part


def _place(cut: Row) -> Column:
    kinds = {field.name: field.dataType for field in RECEIVED}
    values = [F.lit(value).cast(kinds[n]).alias(n) for n, value in zip(ORDER, cut, strict=True)]
    return F.struct(*values)
