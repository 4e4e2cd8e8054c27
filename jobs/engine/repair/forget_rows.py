"""Delete the rows of a table that a request to forget means, each commit with the request's hash and the number of rows."""

from dataclasses import dataclass

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from jobs.core.table import Table
from jobs.engine.repair.backfill import ROLE
from jobs.engine.repair.forget_request import Request
from jobs.engine.runtime.meter import code_version
from jobs.engine.storage.changed_range import NO_TIME, Reach
from jobs.engine.storage.join_by_key import by_key
from jobs.engine.storage.lake import Lake
from jobs.engine.storage.ledger import FORGET, Entry, latest_version
from jobs.engine.storage.locks import lease
from jobs.engine.storage.place import Place
from jobs.engine.storage.read_version import rows_at
from jobs.engine.storage.remove_rows import Files, Removal, remove_rows

MOST = 10_000
"""How many files one commit writes again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Doomed:
    """Rows to delete.

    Args:
        path: The Delta table.
        at: The column with the time of a row.
        rows: Their keys.
        changed: The range of event time in which the table changes, for tables above that compute it again.
        released: In a quarantine, how many of the records had been released before.
    """

    path: Place
    at: str
    rows: DataFrame
    changed: Reach = NO_TIME
    released: int = 0


def delete(spark: SparkSession, table: Table, lake: Lake, request: Request, doomed: Doomed) -> int:
    """Delete rows, and return how many they were."""
    path, key = doomed.path, doomed.rows.columns
    total = 0

    def pick() -> Files:
        rows = rows_at(spark, path, latest_version(path))
        located = rows.select(*key, F.col("_metadata.file_name").alias("_file"))
        held = by_key(located, doomed.rows, key, "left_semi").select("_file").distinct()
        return Files(partly=tuple(row[0] for row in held.limit(MOST).collect()))

    def entry(gone: int) -> str:
        return Entry(
            table=table.id,
            mode=FORGET,
            stream=request.mark(path),
            batch=0,
            source="",
            since="",
            forgotten=gone,
            released=doomed.released if not total else 0,
            written=-gone,
            changed=doomed.changed,
            code=code_version(table),
        ).encoded()

    removal = Removal(
        at=doomed.at,
        pick=pick,
        stays=lambda rows: by_key(rows, doomed.rows, key, "left_anti"),
        entry=entry,
    )
    with lease(spark, table, lake, role=ROLE):
        while (done := remove_rows(spark, path, removal)) is not None:
            total += done[1]
    return total
