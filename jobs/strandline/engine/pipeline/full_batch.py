"""Compute a table once over all of its sources, by the same functions as its stream.

The commit removes every file and adds the new ones, so a reader sees the old rows or the new ones, never a mix.
"""

from dataclasses import replace

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from strandline.core.errors import DefinitionError
from strandline.core.table import Computed, Derived, Judged, Recomputed
from strandline.engine.accounting.balance_sheet import rows_until
from strandline.engine.gates.batch_check import Guard
from strandline.engine.gates.gate_files import refuse_behind
from strandline.engine.pipeline.batch_accounting import imported_until
from strandline.engine.pipeline.dimension_lookup import adorned
from strandline.engine.pipeline.function_counts import Watch, mark_of_rows, of_batch
from strandline.engine.pipeline.make_table import make
from strandline.engine.pipeline.plan import shaped
from strandline.engine.pipeline.selection import only_selects
from strandline.engine.pipeline.write_gold import counting_column
from strandline.engine.pipeline.write_silver import Fork
from strandline.engine.runtime.meter import Meter, code_version
from strandline.engine.storage import delta_commit
from strandline.engine.storage.lake import Lake
from strandline.engine.storage.ledger import Entry, last_entry, latest_version
from strandline.engine.storage.place import Place
from strandline.engine.storage.read_version import rows_at

STREAM = "batch"
"""The ``stream`` of an entry that a batch wrote, where a stream has its checkpoint's id."""


def compute(
    spark: SparkSession,
    table: Computed,
    lake: Lake,
    guard: Guard | None = None,
    mode: str = STREAM,
) -> Entry:
    """Replace the table's rows by those computed from its sources as of now.

    Args:
        spark: The session.
        table: Silver or gold.
        lake: The lake.
        guard: Checks the batch of a judging table before its commit; without it every batch passes.
        mode: The mode in the ledger entry.

    Raises:
        DefinitionError: A stream owns the table.
        GateShutError: The batch failed its checks, or the gate of a source is shut.
    """
    path = lake.table(table)
    newest = last_entry(path)
    owned = newest is not None and newest[1].stream != STREAM
    if owned and not isinstance(table, Recomputed):  # a table without state has no owner
        raise DefinitionError(
            f"{table.id} is written by a stream; a batch over everything would replace its rows under it",
            hint=f"use another lake, or remove {path} and {lake.checkpoint(table)} first.",
            table=table.id,
        )
    refuse_behind(table, lake)
    meter = Meter(spark)
    versions = {source: latest_version(lake.table(source)) for source in table.upstream}
    rows = [rows_at(spark, lake.table(source), version) for source, version in versions.items()]
    result, looked = adorned(spark, table, lake, shaped(rows, table))
    make(spark, table, lake, result)
    entry = Entry(
        table=table.id,
        mode=mode,
        stream=STREAM,
        batch=newest[1].batch + 1 if newest else 0,
        source=", ".join(source.id for source in versions),
        versions={source.id: (0, version) for source, version in versions.items()},
        read=sum(rows_until(lake.table(source), at) for source, at in versions.items()),
        replaced=True,
        looked=looked,
        code=code_version(table),
    )
    if isinstance(table, Judged):
        at = {source.id: version for source, version in versions.items()}
        entry = replace(entry, imported=imported_until(table, lake, at))
        quarantine = lake.quarantine(table)
        fork = Fork(table=table, path=path, quarantine=quarantine, guard=guard, replaces=True)
        (events,) = rows
        watch = Watch(
            table=table,
            read=lambda: mark_of_rows(events),
            passed=of_batch,
            records=lambda: events,
        )
        return fork.write(result, entry, meter, watch) or entry
    commit = delta_commit.Commit(spark, path)
    commit.take_out_all()
    files = commit.write(result)
    settled = entry.settled(good=entry.read, held={}, dropped=0).taken_in(
        written=files.rows,
        counted=_counted(spark, table, path, files),
        selects=only_selects(spark, table, lake),
    )
    final = settled.closed(written=files.rows, wall_ms=meter.wall_ms(), cpu_ms=meter.cpu_ms())
    commit.commit(final.encoded())
    return final


def _counted(spark: SparkSession, table: Derived, path: Place, files: delta_commit.Written) -> int:
    """Return how many rows of the source the windows count that were written."""
    column = counting_column(table)
    if column is None or files.is_empty:
        return 0
    rows = delta_commit.rows_of(spark, path, files.files)
    return int(rows.agg(F.sum(column)).collect()[0][0] or 0)
