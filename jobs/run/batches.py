"""A table computed once, over everything there is, by the same functions as its stream.

Its commit takes away every file and adds the new ones, so a reader sees the old rows or the new, never a mix.
"""

from collections import Counter

from pyspark.sql import SparkSession

from jobs.core.errors import DefinitionError
from jobs.core.table import Speaks, Table
from jobs.run import delta
from jobs.run.balance import rows_until
from jobs.run.fork import Fork
from jobs.run.gates import refuse_behind
from jobs.run.guard import Guard
from jobs.run.lake import Lake
from jobs.run.ledger import Entry, last_entry, latest_version
from jobs.run.lookup import adorned
from jobs.run.meter import Meter, code_version
from jobs.run.rows import rows_at
from jobs.run.streams import make, shaped

STREAM = "batch"
"""What stands in an entry in the place of a checkpoint's identity."""


def compute(
    spark: SparkSession,
    table: Table,
    lake: Lake,
    guard: Guard | None = None,
    mode: str = STREAM,
) -> Entry:
    """Replace the table's rows by what its source holds now.

    Args:
        spark: The session.
        table: Silver or gold.
        lake: Where.
        guard: Stands before the commit of a table that judges; every batch passes without one.
        mode: What the entry says of the mode.

    Raises:
        DefinitionError: A stream owns the table.
        GateShutError: Its rows are not believed, or those that it reads.
    """
    path = lake.table(table)
    newest = last_entry(path)
    owned = newest is not None and newest[1].stream != STREAM
    if owned and table.speaks is not Speaks.AFRESH:  # what keeps no state belongs to nobody
        raise DefinitionError(
            f"{table.id} belongs to a stream; a batch over everything would pull the table from under it",
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
    if table.judges:
        quarantine = lake.quarantine(table)
        fork = Fork(table=table, path=path, quarantine=quarantine, guard=guard, replaces=True)

        def settle(good: int, held: Counter[str]) -> Entry:
            return entry.settled(good=good, held=held, dropped=0)

        return fork.write(result, settle, meter) or entry
    commit = delta.Commit(spark, path)
    commit.take_out_all()
    written = commit.write(result).rows
    settled = entry.settled(good=entry.read, held={}, dropped=0)
    final = settled.closed(written=written, wall_ms=meter.wall_ms(), cpu_ms=meter.cpu_ms())
    commit.commit(final.encoded())
    return final
