"""Rows in the place of other rows, in one commit that a stream passes over.

Only the files that hold a row to be taken away are read and written again, and of the others no more than what the
log says of them is looked at. Such a commit always takes a file away, because that is what tells a stream that follows
the table to pass over it; where there is none to take, the smallest file that there is is written again as it was.

A table that its stream rewrites as well has files that both might take away. Yet everything that takes long is done
outside the turn: a stream that waited for it failed after a minute. Measured with ``--every 1s`` beside a backfill whose
files took 130 s to write: in one turn the stream ended with 3 after 60 s, outside it silver made 41 commits meanwhile.
What the stream committed meanwhile is looked at in the turn:

    it took away a file that was written again    the exchange is done once more, and that file's successors wait
    it added files that hold rows that must go    those are exchanged now; each is what one batch of a stream writes
    anything else                                 does not concern these rows

So each try that is lost leaves fewer files that can be lost, and what is done in the turn is as long as a batch.

Files that are written again stay files of a short time. One file instead of all that were touched would be touched
by whatever comes next, and grow: of a table whose static side spoke every ten minutes for three days, each word
rewrote half a megabyte in the end, and whoever followed the table read it.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from jobs.core.errors import DefinitionError, TransientError
from jobs.run import delta
from jobs.run.lease import turn
from jobs.run.ledger import latest_version
from jobs.run.meanwhile import Meanwhile, name
from jobs.run.rows import OPEN, rows_at
from jobs.run.sized import rows_in, sized
from jobs.run.stock import span_of

Choose = Callable[[DataFrame], DataFrame]
"""Chooses some of the rows that it is given."""

Among = Callable[[int], list[str]]
"""Names files of a version, as the log says them."""

Add = Mapping[str, Any]
"""A file that the log adds."""


HOUR = 3_600_000_000
"""Files that together hold no longer time than this, in microseconds, become one."""

TRIES = 5
"""How often files may be written for nothing; two are enough for a stream that rewrites the same ones again and again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Exchange:
    """Which rows of a table make room for which.

    Args:
        at: The column with the time of a row.
        reach: The first and the last microsecond of a time in which all rows to be taken away lie.
        goes: Chooses the rows to take away.
        stays: Chooses the others.
        come: The rows to put in, computed before.
        coming: About how many they are.
    """

    at: str
    reach: tuple[int, int] = (-OPEN, OPEN)
    goes: Choose
    stays: Choose
    come: DataFrame
    coming: int


def swap(  # noqa: PLR0913  # where, what, what is said of it, and where to look
    spark: SparkSession,
    path: Path,
    exchange: Exchange,
    metadata: str,
    *,
    among: Among | None = None,
    may_fill: bool = False,
    seen: int | None = None,
) -> bool:
    """Exchange rows of a table, and tell whether it was done.

    Args:
        spark: The session.
        path: The table.
        exchange: Which rows.
        metadata: Stands in the commit.
        may_fill: Whether a table without a row gets those that come; who follows it by a stream would read them.
        among: Names the files in which the rows to be taken away can lie, for one who knows them already; Delta is
            asked when absent.
        seen: The version from which the rows were computed, if nothing is to be done when others have committed since.

    Raises:
        DefinitionError: The table holds no row at all yet.
        TransientError: Others rewrote the files of these rows again and again.
    """
    meanwhile = Meanwhile(path, latest_version(path))
    for _ in range(TRIES):
        attempt = _Attempt(spark, path, exchange, meanwhile)
        attempt.write(among)
        with turn(spark, path):
            is_outdated = seen not in {None, latest_version(path)}
            if not is_outdated and attempt.fits():
                attempt.commit(metadata, may_fill=may_fill)
                return True
        attempt.abandon()
        if is_outdated:
            return False
    raise TransientError(
        f"others rewrote files of {path} while its rows were exchanged, {TRIES} times",
        hint="nothing was changed; see who writes it (`strandline ledger`) and run the same again.",
        table=str(path),
    )


class _Attempt:
    """Files written for an exchange, which fit if nobody takes away what they replace."""

    def __init__(
        self, spark: SparkSession, path: Path, exchange: Exchange, meanwhile: Meanwhile
    ) -> None:
        self._spark = spark
        self._path = path
        self._exchange = exchange
        self._meanwhile = meanwhile
        self._commit = delta.Commit(spark, path)
        self._touched: set[str] = set()
        meanwhile.follow(self._commit.read_version)

    def write(self, among: Among | None) -> None:
        """Write what comes, and what stays of the files that were there when the first try began."""
        exchange, version = self._exchange, self._commit.read_version
        if among:
            told = {name(json.loads(file)["add"]): file for file in among(version)}
            held = self._holding(delta.rows_of(self._spark, self._path, told.values()))
            files = [told[each] for each in held - self._meanwhile.came.keys()]
        else:
            near = rows_at(self._spark, self._path, version).where(self._is_near())
            files = self._commit.named(self._holding(near) - self._meanwhile.came.keys())
        adds = [json.loads(file)["add"] for file in files]
        self._touched = set(map(name, adds))
        rows = exchange.come
        if files:
            rows = exchange.stays(self._commit.take_out(files)).unionByName(rows)
        count = exchange.coming + sum(map(rows_in, files))
        self._commit.write(_divided(rows, exchange.at, adds, count))

    def fits(self) -> bool:
        """Tell whether all that was replaced is still there; for who has the turn."""
        began_at = self._commit.read_version
        self._meanwhile.follow(latest_version(self._path))
        is_there = self._touched.isdisjoint(self._meanwhile.went)
        return is_there and self._meanwhile.shaped_at <= began_at

    def commit(self, metadata: str, *, may_fill: bool) -> None:
        """Exchange what came meanwhile as well, and let everybody see it."""
        self._commit.onto_latest()
        first, last = self._exchange.reach
        files = {}
        for each, told in self._meanwhile.came.items():
            since, until = span_of(json.loads(told)["add"], self._exchange.at)
            if since <= last and until >= first:
                files[each] = told
        if files:
            held = self._holding(delta.rows_of(self._spark, self._path, files.values()))
            self._write_again([files[each] for each in held], self._exchange.stays)
        if not self._touched:
            self._take_any(may_fill=may_fill)
        self._commit.commit(metadata)

    def abandon(self) -> None:
        """Remove what was written for nothing."""
        self._commit.abandon()

    def _take_any(self, *, may_fill: bool) -> None:
        any_file = self._commit.smallest()
        if not any_file and not may_fill:
            self.abandon()
            raise DefinitionError(
                f"{self._path} holds no row yet, so there is nothing that could be put right",
                hint="its stream fills it; backfill then.",
                table=str(self._path),
            )
        self._write_again(any_file, lambda held: held)

    def _write_again(self, files: Sequence[str], stays: Choose) -> None:
        if files:
            self._touched |= {name(json.loads(file)["add"]) for file in files}
            self._commit.write(sized(stays(self._commit.take_out(files)), sum(map(rows_in, files))))

    def _is_near(self) -> Column:
        moment, (first, last) = F.col(self._exchange.at), self._exchange.reach
        near = F.lit(True)
        if first > -OPEN:
            near &= moment >= F.timestamp_micros(F.lit(first))
        return near if last >= OPEN else near & (moment <= F.timestamp_micros(F.lit(last)))

    def _holding(self, rows: DataFrame) -> set[str]:
        """Return the names of the files in which the rows to be taken away lie."""
        located = rows.select("*", F.col("_metadata.file_name").alias("_file"))
        found = self._exchange.goes(located).select("_file").distinct().collect()
        return {row[0] for row in found}


def _divided(rows: DataFrame, at: str, instead_of: Sequence[Add], count: int) -> DataFrame:
    """Return rows in as many pieces as files are to be written, each of a time of its own.

    Folders that the table is divided into keep times apart by themselves.
    """
    pieces = 1 if any(add["partitionValues"] for add in instead_of) else _pieces(instead_of, at)
    if pieces > 1:
        return rows.repartitionByRange(pieces, at)
    return sized(rows, count)


def _pieces(files: Sequence[Add], at: str) -> int:
    """Return how many files are left when those of an hour become one."""
    pieces, begun = 0, -OPEN
    for first, last in sorted(span_of(file, at) for file in files):
        if not pieces or last - begun > HOUR:
            pieces, begun = pieces + 1, first
    return pieces


def changes(rows: DataFrame, live: DataFrame) -> DataFrame:
    """Return the rows that only one side has, ``_more`` saying how many more there are now; those that went below 0.

    One shuffle instead of two times ``exceptAll``, which took most of a backfill.
    """
    both = rows.withColumn("_more", F.lit(1)).unionByName(live.withColumn("_more", F.lit(-1)))
    return both.groupBy(*rows.columns).agg(F.sum("_more").alias("_more")).where("_more != 0")


def came_and_gone(changed: DataFrame) -> tuple[int, int]:
    """Return how many rows came and how many went."""
    more, fewer = F.greatest("_more", F.lit(0)), F.greatest(-F.col("_more"), F.lit(0))
    came, gone = changed.agg(F.sum(more), F.sum(fewer)).collect()[0]
    return came or 0, gone or 0
