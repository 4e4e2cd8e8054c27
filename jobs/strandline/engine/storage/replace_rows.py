"""Replace rows of a table in one commit that streams skip.

Only the files that hold a row to be removed are read and rewritten; of the others only the log's lines are read.
Such a commit always removes a file, because a stream skips a commit only when it removes one. Where no row is to be
removed, the table's smallest file is rewritten unchanged.

A stream that rewrites the same table may remove the same files. Yet the slow part runs outside the turn, because a
stream that waited for it failed after a minute. Measured with ``--every 1s`` beside a backfill whose files took 130 s
to write: inside the turn the stream ended with exit code 3 after 60 s, outside it silver made 41 commits meanwhile.
Inside the turn the commits that the stream made meanwhile are examined:

    one removed a file that was rewritten         the replacement starts again; the successors of that file are
                                                  rewritten inside the turn
    one added files with rows to be removed       they are rewritten inside the turn; each is as large as one batch
    any other commit                              does not concern these rows

So each failed attempt leaves fewer files that can conflict, and the work inside the turn is as long as a batch.

Rewritten files keep their short time ranges. If all of them became one file, every later replacement would touch that
file, and it would grow: with a dimension that changed every ten minutes for three days, each change rewrote half a
megabyte in the end, and every reader of the table read it.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from strandline.core.errors import DefinitionError, TransientError
from strandline.engine.storage import delta_commit
from strandline.engine.storage.commit_log import added_file
from strandline.engine.storage.file_index import span_of
from strandline.engine.storage.later_commits import LaterCommits, name
from strandline.engine.storage.ledger import latest_version
from strandline.engine.storage.locks import turn
from strandline.engine.storage.output_files import rows_in, sized
from strandline.engine.storage.place import Place
from strandline.engine.storage.read_version import OPEN, rows_at

Choose = Callable[[DataFrame], DataFrame]
"""Filters rows."""

Among = Callable[[int], list[str]]
"""Returns files of a version, each as its line in the log."""

Add = Mapping[str, Any]
"""An ``add`` action of the log."""


HOUR = 3_600_000_000
"""Files that together cover no longer range than this, in microseconds, become one."""

TRIES = 5
"""Attempts before giving up; two are enough beside a stream that rewrites the same files again and again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Exchange:
    """The rows to remove from a table, and those to add.

    Args:
        at: The column with the time of a row.
        reach: The range that contains all rows to be removed: its first and last microsecond.
        goes: Selects the rows to remove.
        stays: Selects the others.
        come: The rows to add, already computed.
        coming: About how many rows are added.
    """

    at: str
    reach: tuple[int, int] = (-OPEN, OPEN)
    goes: Choose
    stays: Choose
    come: DataFrame
    coming: int


def swap(  # noqa: PLR0913  # the table, the rows, the commit's metadata, and where to search
    spark: SparkSession,
    path: Place,
    exchange: Exchange,
    metadata: str,
    *,
    among: Among | None = None,
    may_fill: bool = False,
    seen: int | None = None,
    alone_since: int | None = None,
) -> bool:
    """Replace rows of a table; return whether it was done.

    Args:
        spark: The session.
        path: The table.
        exchange: Which rows.
        metadata: The metadata of the commit.
        may_fill: Whether rows may be added to an empty table; a stream that reads the table would read them.
        among: Returns the files that can hold the rows to be removed, where the caller knows them; otherwise Delta
            searches all files.
        seen: The version from which the rows were computed, if nothing may be done after a later commit.
        alone_since: The version from which they were computed, if nothing may be done after a row of the range has come.

    Raises:
        DefinitionError: The table is empty.
        TransientError: Other writers rewrote the files of these rows in every attempt, or brought rows of their range.
    """
    meanwhile = LaterCommits(path, latest_version(path) if alone_since is None else alone_since)
    for _ in range(TRIES):
        attempt = _Attempt(spark, path, exchange, meanwhile)
        attempt.write(among)
        with turn(spark, path):
            is_outdated = seen not in {None, latest_version(path)}
            does_fit = not is_outdated and attempt.fits()
            is_disturbed = alone_since is not None and bool(attempt.near())
            if does_fit and not is_disturbed:
                attempt.commit(metadata, may_fill=may_fill)
                return True
        attempt.abandon()
        if is_outdated:
            return False
        if is_disturbed:
            raise TransientError(
                f"rows of the same time came to {path} while it was compared",
                hint="type the same again: it goes on, and finds them.",
                table=str(path),
            )
    raise TransientError(
        f"other writers rewrote files of {path} while its rows were replaced, {TRIES} times",
        hint="nothing was changed; find the writer (`strandline ledger`) and run the same again.",
        table=str(path),
    )


class _Attempt:
    """The files of one attempt; they fit if no other writer removed what they replace."""

    def __init__(
        self, spark: SparkSession, path: Place, exchange: Exchange, meanwhile: LaterCommits
    ) -> None:
        self._spark = spark
        self._path = path
        self._exchange = exchange
        self._meanwhile = meanwhile
        self._commit = delta_commit.Commit(spark, path)
        self._touched: set[str] = set()
        meanwhile.follow(self._commit.read_version)

    def write(self, among: Among | None) -> None:
        """Write the rows to add, and the rows that stay from files that existed when the first attempt began."""
        exchange, version = self._exchange, self._commit.read_version
        if among:
            lines = {name(added_file(file)): file for file in among(version)}
            held = self._holding(delta_commit.rows_of(self._spark, self._path, lines.values()))
            files = [lines[each] for each in held - self._meanwhile.came.keys()]
        else:
            near = rows_at(self._spark, self._path, version).where(self._is_near())
            files = self._commit.named(self._holding(near) - self._meanwhile.came.keys())
        adds = [*map(added_file, files)]
        self._touched = set(map(name, adds))
        rows = exchange.come
        if files:
            rows = exchange.stays(self._commit.take_out(files)).unionByName(rows)
        count = exchange.coming + sum(map(rows_in, files))
        self._commit.write(divided(rows, exchange.at, adds, count))

    def fits(self) -> bool:
        """Return whether every replaced file is still in the table; the caller holds the turn."""
        began_at = self._commit.read_version
        self._meanwhile.follow(latest_version(self._path))
        is_there = self._touched.isdisjoint(self._meanwhile.went)
        return is_there and self._meanwhile.shaped_at <= began_at

    def commit(self, metadata: str, *, may_fill: bool) -> None:
        """Replace the rows that were added meanwhile as well, and commit."""
        self._commit.onto_latest()
        if files := self.near():
            held = self._holding(delta_commit.rows_of(self._spark, self._path, files.values()))
            self._write_again([files[each] for each in held], self._exchange.stays)
        if not self._touched:
            self._take_any(may_fill=may_fill)
        self._commit.commit(metadata)

    def near(self) -> dict[str, str]:
        """Return the files that came meanwhile and may have rows of the range, each as its line in the log."""
        first, last = self._exchange.reach
        files = {}
        for each, line in self._meanwhile.came.items():
            since, until = span_of(added_file(line), self._exchange.at)
            if since <= last and until >= first:
                files[each] = line
        return files

    def abandon(self) -> None:
        """Remove the files of an attempt that does not fit."""
        self._commit.abandon()

    def _take_any(self, *, may_fill: bool) -> None:
        any_file = self._commit.smallest()
        if not any_file and not may_fill:
            self.abandon()
            raise DefinitionError(
                f"{self._path} holds no row yet, so there is no row to replace",
                hint="run its stream first, then the backfill.",
                table=str(self._path),
            )
        self._write_again(any_file, lambda held: held)

    def _write_again(self, files: Sequence[str], stays: Choose) -> None:
        if files:
            self._touched |= {name(added_file(file)) for file in files}
            self._commit.write(sized(stays(self._commit.take_out(files)), sum(map(rows_in, files))))

    def _is_near(self) -> Column:
        moment, (first, last) = F.col(self._exchange.at), self._exchange.reach
        near = F.lit(True)
        if first > -OPEN:
            near &= moment >= F.timestamp_micros(F.lit(first))
        return near if last >= OPEN else near & (moment <= F.timestamp_micros(F.lit(last)))

    def _holding(self, rows: DataFrame) -> set[str]:
        """Return the names of the files that hold a row to be removed."""
        located = rows.select("*", F.col("_metadata.file_name").alias("_file"))
        found = self._exchange.goes(located).select("_file").distinct().collect()
        return {row[0] for row in found}


def divided(rows: DataFrame, at: str, instead_of: Sequence[Add], count: int) -> DataFrame:
    """Return rows in as many Spark partitions as files are to be written, each with its own range of time.

    In a partitioned table the folders separate the times already.
    """
    pieces = 1 if any(add["partitionValues"] for add in instead_of) else _pieces(instead_of, at)
    if pieces > 1:
        return rows.repartitionByRange(pieces, at)
    return sized(rows, count)


def _pieces(files: Sequence[Add], at: str) -> int:
    """Return the number of files after those of an hour became one."""
    pieces, begun = 0, -OPEN
    for first, last in sorted(span_of(file, at) for file in files):
        if not pieces or last - begun > HOUR:
            pieces, begun = pieces + 1, first
    return pieces


def changes(rows: DataFrame, live: DataFrame) -> DataFrame:
    """Return the rows that only one side has; ``_more`` is the change of their number, negative for removed rows.

    One shuffle instead of ``exceptAll`` twice, which took most of a backfill.
    """
    both = rows.withColumn("_more", F.lit(1)).unionByName(live.withColumn("_more", F.lit(-1)))
    return both.groupBy(*rows.columns).agg(F.sum("_more").alias("_more")).where("_more != 0")


def came_and_gone(changed: DataFrame) -> tuple[int, int]:
    """Return the number of rows added and the number removed."""
    more, fewer = F.greatest("_more", F.lit(0)), F.greatest(-F.col("_more"), F.lit(0))
    came, gone = changed.agg(F.sum(more), F.sum(fewer)).collect()[0]
    return came or 0, gone or 0
