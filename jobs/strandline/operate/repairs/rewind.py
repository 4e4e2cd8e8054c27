"""Which days are recomputed from bronze, because of what arrived from a moment or an offset on."""

from strandline.core.errors import DefinitionError
from strandline.core.table import Table
from strandline.engine.repair.closed_range import Span, refuse_open
from strandline.engine.repair.downstream import (
    refuse_behind_above,
    refuse_open_above,
)
from strandline.engine.repair.rewind import From, Rewind
from strandline.engine.storage.horizon import refuse_expired
from strandline.engine.storage.lake import Lake
from strandline.engine.trace.locate import Spot
from strandline.operate import ranges


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
    days = f"{plan.span.since.date()} to before {plan.span.until.date()}"
    return [arrived, f"recomputed from bronze: {days}; the stream still owns later days"]
