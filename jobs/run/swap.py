"""Rows in the place of other rows, in one commit that a stream passes over.

Only the files that hold a row to be taken away are read and written again. Such a commit always takes a file
away, because that is what tells a stream that follows the table to pass over it; where there is none to take, the
first file that there is is written again as it was.

All of it happens in one turn: a table that its stream rewrites as well has files that both might take away.

Files that are written again stay files of a short time. One file instead of all that were touched would be touched
by whatever comes next, and grow: of a table whose static side spoke every ten minutes for three days, each word
rewrote half a megabyte in the end, and whoever followed the table read it.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from jobs.core.errors import DefinitionError
from jobs.run import delta
from jobs.run.fork import SMALL
from jobs.run.lease import turn
from jobs.run.rows import OPEN
from jobs.run.stock import span_of

Choose = Callable[[DataFrame], DataFrame]
"""Chooses some of the rows that it is given."""

Among = Callable[[int], list[str]]
"""Names files of a version, as the log says them."""

Add = Mapping[str, Any]
"""A file that the log adds."""


HOUR = 3_600_000_000
"""Files that together hold no longer time than this, in microseconds, become one."""


def swap(  # noqa: PLR0913, PLR0917  # where, what goes, what stays, what comes, and what is said of it
    spark: SparkSession,
    path: Path,
    at: str,
    goes: Choose,
    stays: Choose,
    come: DataFrame,
    metadata: str,
    *,
    among: Among | None = None,
    may_fill: bool = False,
) -> None:
    """Exchange rows of a table.

    Args:
        spark: The session.
        path: The table.
        at: The column with the time of a row.
        goes: Chooses the rows to take away.
        stays: Chooses the others.
        come: The rows to put in, computed before.
        metadata: Stands in the commit.
        may_fill: Whether a table without a row gets those that come; who follows it by a stream would read them.
        among: Names the files in which the rows to be taken away can lie; all are looked through when absent.

    Raises:
        DefinitionError: The table holds no row at all yet.
    """
    with turn(spark, path):
        commit = delta.Commit(spark, path)
        told = among(commit.read_version) if among else commit.files()
        files = {_name(file): file for file in told}
        touched = [files[name] for name in _holding(delta.rows_of(spark, path, told), goes)]
        if not files and may_fill:
            commit.write(come)
            commit.commit(metadata)
            return
        if not files:
            raise DefinitionError(
                f"{path} holds no row yet, so there is nothing that could be put right",
                hint="its stream fills it; backfill then.",
                table=str(path),
            )
        touched = touched or list(files.values())[:1]
        left = stays(commit.take_out(touched)).unionByName(come)
        commit.write(_divided(left, at, [json.loads(file)["add"] for file in touched]))
        commit.commit(metadata)


def _holding(rows: DataFrame, goes: Choose) -> list[str]:
    """Return the names of the files in which the rows to be taken away lie."""
    located = rows.select("*", F.col("_metadata.file_name").alias("_file"))
    return [row[0] for row in goes(located).select("_file").distinct().collect()]


def _divided(rows: DataFrame, at: str, instead_of: Sequence[Add]) -> DataFrame:
    """Return rows in as many pieces as files are to be written, each of a time of its own.

    Folders that the table is divided into keep times apart by themselves.
    """
    pieces = 1 if any(add["partitionValues"] for add in instead_of) else _pieces(instead_of, at)
    if pieces > 1:
        return rows.repartitionByRange(pieces, at)
    return rows.coalesce(1) if sum(map(_rows, instead_of)) <= SMALL else rows


def _pieces(files: Sequence[Add], at: str) -> int:
    """Return how many files are left when those of an hour become one."""
    pieces, begun = 0, -OPEN
    for first, last in sorted(span_of(file, at) for file in files):
        if not pieces or last - begun > HOUR:
            pieces, begun = pieces + 1, first
    return pieces


def _name(file: str) -> str:
    return Path(unquote(json.loads(file)["add"]["path"])).name


def _rows(add: Add) -> int:
    return int(json.loads(add["stats"])["numRecords"])


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
