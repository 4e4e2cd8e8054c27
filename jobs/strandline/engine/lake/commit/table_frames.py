"""Frames of Spark over a table: its rows at a version, joined by its key, written in as few files as they need.

A table's rows at a version, or at its latest.
"""

import json
from collections.abc import Sequence
from dataclasses import replace
from functools import reduce
from operator import and_
from typing import Literal

from pyspark import StorageLevel
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from strandline.core.table import Table
from strandline.engine.lake.commit import delta_commit
from strandline.engine.lake.files.place import Place
from strandline.engine.lake.lake import Lake
from strandline.engine.lake.log.commit_log import added_file
from strandline.engine.lake.log.ledger import latest_version

OPEN = 1 << 62
"""The end of an open range, in microseconds since 1970; larger than every date."""


def rows_at(spark: SparkSession, path: Place, version: int) -> DataFrame:
    """Return the rows of a table at a version."""
    return spark.read.format("delta").option("versionAsOf", version).load(str(path))


def rows_now(spark: SparkSession, table: Table, lake: Lake) -> DataFrame:
    """Return a table's rows at its latest version."""
    path = lake.table(table)
    return rows_at(spark, path, latest_version(path))


# Join rows by a table's key; a NULL equals a NULL.
#
# A derived table may have NULL in a part of its key: no confirmation came, no site is known. SQL's ``=`` matches such a
# row with none, so an upsert would insert the new version beside the old one.


def by_key(
    rows: DataFrame,
    others: DataFrame,
    key: Sequence[str],
    how: Literal["left", "left_semi", "left_anti"],
) -> DataFrame:
    """Join rows with others of the same key; the result has the key columns of ``rows`` once."""
    theirs = {name: f"_their_{name}" for name in key}
    is_same = reduce(and_, (F.col(own).eqNullSafe(F.col(their)) for own, their in theirs.items()))
    joined = rows.join(others.withColumnsRenamed(theirs), is_same, how)
    return joined.drop(*theirs.values())


# The number of files that rows are written to: one for few rows, otherwise one per task that computed them.
#
# Why the rows are counted first: ``coalesce(1)`` on a plan lets one task compute all of it, state and shuffle included,
# however many rows there are. So all tasks compute the rows once, the rows are cached and counted, and only then
# coalesced. That also reads the batch of a stateful query exactly once.


SMALL = 50_000
"""Up to this number of rows one file is enough."""


def sized(rows: DataFrame, count: int, *, folder: str = "", folders: int = 1) -> DataFrame:
    """Return computed rows in as many Spark partitions as files are to be written.

    Every task writes a file into each folder for which it has a row, so rows of a partitioned table are first
    repartitioned by folder, into as many pieces per folder as it needs.

    Args:
        rows: The rows, already computed.
        count: The number of rows.
        folder: The table's partition column, if it has one.
        folders: The number of its values among the rows.
    """
    if count <= SMALL:
        return rows.coalesce(1)
    if not folder:
        return rows
    pieces = -(-count // (SMALL * max(folders, 1)))
    others: Sequence[str] = [name for name in rows.columns if name != folder]
    return rows.repartition(folder, F.pmod(F.xxhash64(*others), F.lit(pieces)))


def rows_in(file: str) -> int:
    """Return the number of rows in a file, given its line in the log."""
    return int(json.loads(added_file(file)["stats"])["numRecords"])


def write(
    commit: delta_commit.Commit, rows: DataFrame, *, folder: str = "", counts: str | None = None
) -> delta_commit.Written:
    """Write rows that are not computed yet; they are computed once.

    Args:
        commit: Gets them.
        rows: The rows.
        folder: The table's partition column, if it has one.
        counts: The column whose sum is wanted, if any.
    """
    kept = rows.persist(StorageLevel.MEMORY_AND_DISK)
    try:
        if not folder:
            total = F.sum(counts) if counts else F.lit(0)
            count, counted = kept.agg(F.count("*"), total).collect()[0]
            return replace(commit.write(sized(kept, count)), counted=int(counted or 0))
        count, folders = kept.agg(F.count("*"), F.count_distinct(folder)).collect()[0]
        return commit.write(sized(kept, count, folder=folder, folders=folders))
    finally:
        kept.unpersist()
