"""Which history a backtest may look at: what is closed, so that no stream changes it any more."""

from collections.abc import Mapping

from jobs.core.errors import DefinitionError
from jobs.engine.repair.closed_range import Span, closed_until, refuse_open, refuse_streamless
from jobs.engine.storage.known_reach import refuse_unbounded
from jobs.engine.storage.lake import Lake
from jobs.rules.sources import Source


def refuse_unclosed(source: Source, lake: Lake, span: Span | None) -> None:
    """Refuse a range that a table's stream may still change.

    Raises:
        DefinitionError: It may, or nothing is closed yet.
    """
    if span is not None:
        refuse_open(source.table, lake, span)
        return
    refuse_streamless(source.table, lake)
    refuse_unbounded(source.table, lake)
    if closed_until(source.table, lake) is None:
        raise DefinitionError(
            f"nothing of {source.table.id} is closed yet",
            hint=f"its stream closes what is {source.table.lateness.delay} older than the newest event; "
            "`strandline produce` and `strandline run` bring more.",
            table=source.table.id,
        )


def everything(known: Mapping[Source, Span | None], lake: Lake) -> Span:
    """Return all that every table has closed.

    Raises:
        DefinitionError: Nothing is.
    """
    ends = [end for source in known if (end := closed_until(source.table, lake))]
    first = min((its.since for its in known.values() if its), default=None)
    if first is None or not ends or first >= min(ends):
        names = ", ".join(source.table.id for source in known)
        raise DefinitionError(
            f"no event of {names} is closed yet", hint="try again when newer events were read."
        )
    return Span(since=first, until=min(ends))


def meet(its: Span, span: Span) -> bool:
    """Return whether two ranges have a moment in common."""
    return its.since < span.until and span.since < its.until


def has(source: Source, its: Span | None) -> str:
    """Return in words which events a table has."""
    if its is None:
        return f"{source.table.id} is empty"
    return f"{source.table.id} has events from {its.since.isoformat()} to {its.until.isoformat()}"
