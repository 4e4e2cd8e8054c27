"""Split a bronze log into other commits: the same log as another run might have read it.

A cut follows bronze's own order, so a commit is divided but no two commits are ever mixed; every run of the same topic
could have made these slices. The cuts are rows drawn at random, so all new commits have about the same size, whatever
the live table's commits were. Rows that follow a cut within a commit get the newest arrival up to the cut, as in that
other run; no row is behind it, because arrivals ascend within a commit.

Imported rows are in no commit that a stream reads, so they are added afterwards (jobs/strandline/engine/proof/verify.py). Where
they came before any stream had read a row, the streams began with them, and so does the log: they are its first commit,
together with what bronze had of Kafka by then. Those rows are in the order that held before the history, and a stream that
began with the history alone would drop the older ones below its watermark.

The numbers of rows by commit and minute of arrival locate a drawn row, so only the rows of that minute are sorted.
Five million rows in one commit, as a backlog is read, took 0.25 GB of memory and 10 s; sorting that commit at each cut
took 0.77 GB and 28 s, and sorting the log 0.9 GB.
"""

import random
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, TypeAlias

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from strandline.core.received import NOTHING_ARRIVED, ORDER, RECEIVED
from strandline.core.table import Table
from strandline.engine.pipeline.ingest import PROPERTIES
from strandline.engine.pipeline.newest_arrival import newest_credible
from strandline.engine.storage import create_table, delta_commit
from strandline.engine.storage.duckdb_session import Duck, literal, spilling
from strandline.engine.storage.duckdb_view import scan
from strandline.engine.storage.import_marks import BATCH
from strandline.engine.storage.lake import Lake
from strandline.engine.storage.ledger import Entry
from strandline.engine.storage.ledger_snapshot import sums_of
from strandline.engine.storage.place import Place

PLACES = ", ".join(f'"{name}"' for name in ORDER)
RECUT = "CREATE VIEW log AS SELECT * FROM received WHERE _partition >= 0"
MINUTE = "epoch_us(_arrived_at) // 60_000_000"
SPANS = f"""
    CREATE TEMP TABLE spans AS
    SELECT _batch, minute, sum(rows) OVER so_far - rows AS since, sum(rows) OVER so_far AS until
    FROM (SELECT _batch, {MINUTE} AS minute, count(*) AS rows FROM log GROUP BY ALL)
    WINDOW so_far AS (ORDER BY _batch, minute)
"""  # noqa: S608  # our own names
HOLDING = "SELECT _batch, minute, since FROM spans WHERE since <= $number AND $number < until"
WITHIN = (
    f"SELECT {PLACES} FROM log WHERE _batch = $batch AND {MINUTE} = $minute "  # noqa: S608  # as above
    f"ORDER BY {PLACES} LIMIT 1 OFFSET $before"
)

NEWEST = f"""
    SELECT {newest_credible("epoch_us(_ingested_at)")} FROM log
    WHERE _batch = $batch AND _arrived_at <= $arrived
"""  # noqa: S608  # our own names

Row: TypeAlias = tuple[Any, ...]
"""The values of a row in the columns of bronze's order."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Log:
    """A bronze table up to a version."""

    table: Table
    path: Place
    version: int

    @property
    def history_ends(self) -> Mapping[str, int]:
        """Return how many rows of files streams began with, by the partition of their topic."""
        return sums_of(self.path, self.version).history_ends

    @property
    def history(self) -> datetime | None:
        """Return the newest arrival of history with which streams began; None where none came before them."""
        newest = sums_of(self.path, self.version).history
        return datetime.fromisoformat(newest) if newest else None

    def is_first(self) -> Column:
        """Return whether a row came before any stream began: history, or a record of Kafka that was there before it."""
        is_older = F.coalesce("_newest_before", F.lit(NOTHING_ARRIVED)) < F.lit(self.history)
        return self.is_history() | ((F.col("_partition") >= 0) & is_older)

    def is_history(self) -> Column:
        """Return whether a row is one of those of files with which streams began."""
        mine = F.lit(False)
        for part, end in self.history_ends.items():
            topic, _, _ = part.rpartition("/")
            mine |= (F.col("_topic") == topic) & (F.col("_offset") < end)
        return (F.col("_batch") == BATCH) & mine


@dataclass(frozen=True, slots=True, kw_only=True)
class Cut:
    """The last row before a cut, and the newest arrival in its commit up to it, in microseconds since 1970."""

    place: Row
    newest_arrival: int | None


def resplit(
    spark: SparkSession, log: Log, lake: Lake, *, commits: int, chance: random.Random
) -> list[int]:
    """Write a log into another lake in a number of commits, and return the number of rows of each."""
    path = lake.table(log.table)
    create_table.create(spark, path, RECEIVED, properties=PROPERTIES)
    rows = spark.read.format("delta").option("versionAsOf", log.version).load(str(log.path))
    later = rows.where("_partition >= 0")
    if log.history:
        later = later.where(~log.is_first())
    parts = [*_parts(later, _cuts(log, commits, chance))]
    if log.history:
        parts.insert(0, rows.where(log.is_first()))
    return [_append(spark, log.table, path, number, part) for number, part in enumerate(parts)]


def _append(spark: SparkSession, table: Table, path: Place, number: int, part: DataFrame) -> int:
    commit = delta_commit.Commit(spark, path)
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


def _cuts(log: Log, commits: int, chance: random.Random) -> list[Cut]:
    """Draw the cuts of a log, in bronze's order."""
    with spilling() as engine:
        scan(engine, "received", log.path, log.version)
        after = literal(log.history.isoformat()) if log.history else None
        engine.execute(RECUT + (f" AND _newest_before >= TIMESTAMPTZ {after}" if after else ""))
        engine.execute(SPANS)
        counted = engine.execute("SELECT max(until) FROM spans").fetchone()
        total = int((counted or (0,))[0] or 0)
        # Python draws them and not DuckDB, because DuckDB's rows for a seed may change with its version.
        drawn = chance.sample(range(total), min(commits - 1, total))
        return [_at(engine, number) for number in sorted(drawn)]


def _at(engine: Duck, number: int) -> Cut:
    """Return the cut after the row of a number in bronze's order; only the minute of its commit is sorted."""
    ((batch, minute, since),) = engine.execute(HOLDING, {"number": number}).fetchall()
    span = {"batch": batch, "minute": minute, "before": number - since}
    (place,) = engine.execute(WITHIN, span).fetchall()
    upto = {"batch": batch, "arrived": place[ORDER.index("_arrived_at")]}
    (newest,) = engine.execute(NEWEST, upto).fetchall()[0]
    return Cut(place=place, newest_arrival=newest)


def _parts(rows: DataFrame, cuts: list[Cut]) -> Iterator[DataFrame]:
    place = F.struct(*ORDER)
    for low, high in zip([None, *cuts], [*cuts, None], strict=True):
        part = rows
        # The place implies the condition on the batch, but Delta skips files only by the latter.
        if low is not None:
            part = part.where((F.col(ORDER[0]) >= low.place[0]) & (place > _place(low.place)))
            part = part.withColumn("_newest_before", _newest_before(low))
        if high is not None:
            part = part.where((F.col(ORDER[0]) <= high.place[0]) & (place <= _place(high.place)))
        yield part


def _newest_before(cut: Cut) -> Column:
    """Return the newest arrival before a row that follows a cut; the cut may be within the row's commit."""
    known = F.col("_newest_before")
    if cut.newest_arrival is None:
        return known
    same = F.col(ORDER[0]) == cut.place[0]
    return F.when(
        same & known.isNotNull(), F.greatest(known, F.timestamp_micros(F.lit(cut.newest_arrival)))
    ).otherwise(known)


def _place(cut: Row) -> Column:
    kinds = {field.name: field.dataType for field in RECEIVED}
    values = [F.lit(value).cast(kinds[n]).alias(n) for n, value in zip(ORDER, cut, strict=True)]
    return F.struct(*values)
