"""Bronze once more, cut into commits at other places: the same log as another run might have read it.

A cut goes along bronze's own order, so a commit is divided but no two commits are ever mixed; every run of
the same topic could have made these slices. The cuts are rows drawn at random, so each commit gets about as much
as any other, whatever the live table's commits were.
"""

import random
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import duckdb
from deltalake import DeltaTable
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from jobs.core.received import ORDER, RECEIVED
from jobs.core.table import Table
from jobs.run import delta
from jobs.run.bronze import PROPERTIES
from jobs.run.files import live_files
from jobs.run.lake import Lake
from jobs.run.ledger import Entry

PLACES = ", ".join(f'"{name}"' for name in ORDER)


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


def _cuts(log: Log, commits: int, chance: random.Random) -> list[tuple[object, ...]]:
    """Draw the rows after which the log is cut, in bronze's order."""
    files = live_files(DeltaTable(log.path, version=log.version))
    if not files:
        return []
    numbered = (
        f"SELECT {PLACES}, row_number() OVER (ORDER BY {PLACES}) AS n FROM read_parquet($files)"  # noqa: S608  # our own names
    )
    with duckdb.connect() as engine:
        engine.execute("SET TimeZone = 'UTC'")
        counted = engine.execute("SELECT count(*) FROM read_parquet($files)", {"files": files})
        total = int((counted.fetchone() or (0,))[0])
        # Drawn here and not by DuckDB, whose way from a seed to rows may change with a version.
        drawn = chance.sample(range(1, total + 1), min(commits - 1, total))
        wanted = f"SELECT {PLACES} FROM ({numbered}) WHERE n IN $drawn ORDER BY n"  # noqa: S608  # as above
        return engine.execute(wanted, {"files": files, "drawn": drawn}).fetchall()


def _parts(rows: DataFrame, cuts: list[tuple[object, ...]]) -> Iterator[DataFrame]:
    place = F.struct(*ORDER)
    bounds = [_place(cut) for cut in cuts]
    for low, high in zip([None, *bounds], [*bounds, None], strict=True):
        part = rows
        if low is not None:
            part = part.where(place > low)
        if high is not None:
            part = part.where(place <= high)
        yield part


def _place(cut: tuple[object, ...]) -> Column:
    kinds = {field.name: field.dataType for field in RECEIVED}
    values = [F.lit(value).cast(kinds[n]).alias(n) for n, value in zip(ORDER, cut, strict=True)]
    return F.struct(*values)
