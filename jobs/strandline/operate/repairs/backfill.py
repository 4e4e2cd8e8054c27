"""A closed range recomputed beside the stream, with the tables above on request, and audited."""

from collections.abc import Iterable, Iterator

from pyspark.sql import SparkSession

from strandline.core.table import Table
from strandline.engine.gates.batch_check import Guard
from strandline.engine.gates.gate_files import Where
from strandline.engine.pipeline.run_summary import Parent
from strandline.engine.quarantine.write import Signed
from strandline.engine.repair.backfill import MODE, backfill
from strandline.engine.repair.closed_range import Span
from strandline.engine.repair.downstream import (
    backfill_above,
    left_behind,
)
from strandline.engine.runtime import clock
from strandline.engine.storage.lake import Lake
from strandline.engine.storage.ledger import Entry
from strandline.operate import session
from strandline.operate.audit import refuse_unbelieved
from strandline.operate.listener import Says


def backfilled(  # noqa: PLR0913  # what, where, which range, and the run that it is a part of
    spark: SparkSession,
    table: Table,
    lake: Lake,
    span: Span,
    *,
    downstream: bool,
    says: Says,
    parent: Parent | None = None,
) -> Iterator[tuple[Table, Entry | None]]:
    """Recompute a range of a table, then on request the tables above, and audit each as `strandline check` does."""
    with session.recorder(lake, says, parent=parent)(spark, table, MODE, lake) as wrote:
        own = guarded(spark, table, lake, span)
        wrote(table, own)
        yield table, own
        refuse_unbelieved(spark, table, lake, span, says)
        for each, entry in backfill_above(spark, table, lake, span) if downstream else ():
            if entry:
                wrote(each, entry)
            yield each, entry
            if entry:
                refuse_unbelieved(spark, each, lake, span, says)


def guarded(spark: SparkSession, table: Table, lake: Lake, span: Span) -> Entry:
    """Recompute a range of a table behind its gate, signed by the user."""
    guard = Guard(table, lake, clock.now, Where.RANGE)
    signed = Signed(who=clock.login(), at=clock.now())
    return backfill(spark, table, lake, span, signed, guard=guard)


def change(table: Table, entry: Entry | None) -> str:
    """Return in words how many rows came and went."""
    if entry is None:
        return f"{table.id}: nothing to do, or its own stream does it"
    return f"{table.id}: {entry.came:,} rows came, {entry.gone:,} went"


def left_behind_by(table: Table, lake: Lake, done: Iterable[Entry | None]) -> str:
    """Return the sentence that names the retired tables which have the old rows; empty if no rows came or went."""
    changed = any(each and (each.came or each.gone) for each in done)
    return left_behind_words(table, lake) if changed else ""


def left_behind_words(table: Table, lake: Lake) -> str:
    """Return the sentence that names the retired tables which keep the old rows when those of a table change; empty without any."""
    names = ", ".join(each.id for each in left_behind(table, lake))
    words = f"retired, and computed from the old rows: {names}; `--undo` cannot go on from where they ended, a rebuild feeds them"
    return words if names else ""
