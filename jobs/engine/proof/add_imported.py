"""Add the imported rows of a bronze log to copies of it, as the commit that an import makes, for a verification.

A stream passes over imported rows, so the copies that a stream reads lack them at first; then the same code as in the
live lake brings them to the tables above (jobs/engine/repair/bring_imported.py).
"""

from collections.abc import Iterable

from pyspark.sql import SparkSession

from jobs.engine.proof.resplit_log import Log
from jobs.engine.repair.import_files import append
from jobs.engine.storage.import_marks import BATCH, IMPORT
from jobs.engine.storage.lake import Lake
from jobs.engine.storage.ledger import Entry
from jobs.engine.storage.ledger_snapshot import sums_of
from jobs.engine.storage.window_index import EPOCH


def add_imported(spark: SparkSession, log: Log, lakes: Iterable[Lake]) -> None:
    """Add the imported rows of a log, if it has any, to its copies in some lakes; those with which streams began are there."""
    history = log.history_ends
    ends = {
        part: (history.get(part, 0), end)
        for part, end in sums_of(log.path, log.version).imported.items()
        if history.get(part, 0) < end
    }
    if not ends:
        return
    rows = spark.read.format("delta").option("versionAsOf", log.version).load(str(log.path))
    rows = rows.where((rows["_batch"] == BATCH) & ~log.is_history())
    count = rows.count()
    entry = Entry(
        table=log.table.id,
        mode=IMPORT,
        stream=IMPORT,
        batch=BATCH,
        source=str(log.path),
        offsets=ends,
        imported=ends,
        since=EPOCH.isoformat(),
        until=EPOCH.isoformat(),
        read=count,
        good=count,
        came=count,
        written=count,
    )
    for lake in lakes:
        append(spark, lake.table(log.table), rows, entry)
