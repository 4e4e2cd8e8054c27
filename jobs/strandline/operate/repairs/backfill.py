"""A closed range recomputed beside the stream, with the tables above on request, and audited."""

from collections.abc import Iterable, Iterator

from pyspark.sql import SparkSession
from strandline import catalog

from strandline.core.errors import DefinitionError
from strandline.core.table import Table
from strandline.engine.ask.locate import Spot
from strandline.engine.flow.running import Parent
from strandline.engine.gates.batch_check import Guard
from strandline.engine.gates.gate_files import Where
from strandline.engine.lake.horizon import refuse_expired
from strandline.engine.lake.lake import Lake
from strandline.engine.lake.log.ledger import Entry
from strandline.engine.quarantine.write import Signed
from strandline.engine.repair.backfill import MODE, backfill
from strandline.engine.repair.closed_range import Span, refuse_open
from strandline.engine.repair.downstream import (
    backfill_above,
    left_behind,
    refuse_behind_above,
    refuse_open_above,
)
from strandline.engine.repair.rewind import From, Rewind
from strandline.engine.runtime import clock
from strandline.operate import ranges, session
from strandline.operate.answers.audit import refuse_unbelieved
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


# Which days are recomputed from bronze, because of what arrived from a moment or an offset on.


def rewound_to(text: str) -> From:
    """Parse where to begin.

    Raises:
        DefinitionError: It is neither a moment nor an offset.
    """
    part, is_offset, offset = text.rpartition(":")
    topic, _, partition = part.rpartition("/")
    if is_offset and topic and partition.isdigit() and offset.isdigit():
        return Spot(topic, int(partition), int(offset))
    try:
        return ranges.moment(text, "--to")
    except DefinitionError as error:
        raise DefinitionError(
            f"{text!r} is neither a moment nor an offset",
            hint="write 2026-11-01T06:00, or topic/partition:offset.",
        ) from error


def rewindable(table: Table, lake: Lake, plan: Rewind) -> Span:
    """Return the days that can be recomputed, of the table and of the tables above.

    Raises:
        DefinitionError: There are none, or a stream above still owns one.
    """
    if plan.span is None:
        raise DefinitionError(
            f"nothing of {table.id} can be recomputed yet: the stream still owns the days of {plan.records:,} records",
            hint="it will emit them itself, with today's code if it was restarted (`strandline restart`).",
            table=table.id,
        )
    refuse_open(table, lake, plan.span)
    refuse_expired(table, lake, plan.span.since)
    refuse_open_above(table, lake, plan.span)
    refuse_behind_above(table, lake)
    return plan.span


def rewind_lines(plan: Rewind) -> list[str]:
    """Describe a plan in sentences."""
    if plan.since is None or plan.until is None:
        return [f"{plan.records:,} records arrived from there on, and no good row comes from them"]
    touched = f"{plan.since.isoformat()} to {plan.until.isoformat()}"
    arrived = f"{plan.records:,} records arrived from there on; their rows of {plan.table} are of {touched}"
    if plan.span is None:
        return [arrived, "the stream still owns all of that"]
    calendar = catalog.find(plan.table).calendar
    first, end = (calendar.date_of(each) for each in (plan.span.since, plan.span.until))
    days = f"{first} to before {end}"
    return [arrived, f"recomputed from bronze: {days}; the stream still owns later days"]
