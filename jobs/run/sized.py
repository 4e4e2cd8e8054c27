"""How many files rows become: one while they are few, and as many as the tasks that made them beyond.

Why they are counted first: ``coalesce(1)`` on a plan lets one task compute all of it, state and shuffle included, however
much there is. So rows are computed once by all tasks, kept, counted, and only then put together. The batch of a query
with state is consumed exactly once that way.
"""

import json
from collections.abc import Sequence

from pyspark import StorageLevel
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from jobs.run import delta

SMALL = 50_000
"""Up to so many rows one file is enough."""


def sized(rows: DataFrame, count: int, *, folder: str = "", folders: int = 1) -> DataFrame:
    """Return rows that were computed already, in as many pieces as files are to be written.

    Every task writes a file into each folder of which it has a row, so rows of a divided table are first brought
    together by folder, in so many pieces a folder as it needs.

    Args:
        rows: The rows.
        count: How many they are.
        folder: The column by which the table is divided into folders, if it is.
        folders: Into how many of them these rows come.
    """
    if count <= SMALL:
        return rows.coalesce(1)
    if not folder:
        return rows
    pieces = -(-count // (SMALL * max(folders, 1)))
    others: Sequence[str] = [name for name in rows.columns if name != folder]
    return rows.repartition(folder, F.pmod(F.xxhash64(*others), F.lit(pieces)))


def rows_in(file: str) -> int:
    """Return how many rows a file holds, as the log says it."""
    return int(json.loads(json.loads(file)["add"]["stats"])["numRecords"])


def write(commit: delta.Commit, rows: DataFrame, *, folder: str = "") -> delta.Written:
    """Write rows that nobody has computed yet; they are computed once."""
    kept = rows.persist(StorageLevel.MEMORY_AND_DISK)
    try:
        if not folder:
            return commit.write(sized(kept, kept.count()))
        count, folders = kept.agg(F.count("*"), F.count_distinct(folder)).collect()[0]
        return commit.write(sized(kept, count, folder=folder, folders=folders))
    finally:
        kept.unpersist()
