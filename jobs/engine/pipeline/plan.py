"""The rows of a table from those of its sources: one plan for a batch, a stream and a recomputation."""

from collections.abc import Sequence

from pyspark.sql import DataFrame

from jobs.core.received import ORDER
from jobs.core.stateful import fence, final, first_copies, watermarked
from jobs.core.table import Emit, Table
from jobs.core.verdict import DUPLICATE_OF, judged


def shaped(sources: Sequence[DataFrame], table: Table, *, fenced: bool = False) -> DataFrame:
    """Return the table's rows from those of its sources, whichever mode reads them.

    Args:
        sources: The rows of each source.
        table: Silver or gold.
        fenced: Whether every row of a source must move its watermark, also one that the table leaves out.
    """
    if table.judges:
        (events,) = sources
        verdicts = watermarked(judged(events, table), "_time", table.lateness)
        return first_copies(verdicts, DUPLICATE_OF, ORDER)
    if table.transform is None:
        message = f"{table.id} lacks its function"
        raise TypeError(message)
    seen = [
        (rows, _event_at(source), source.lateness)
        for rows, source in zip(sources, table.upstream, strict=True)
    ]
    timed = [watermarked(*each) for each in seen]
    if fenced:
        timed = [fence(rows, f"seen {number}") for number, rows in enumerate(timed)]
    answers = table.transform(*timed)
    if table.emits is Emit.ON_CLOSE:
        return final(answers, table.closes_at, seen)
    return answers


def emits_over_time(table: Table) -> bool:
    """Return whether a table emits rows because time has passed, and not only because rows came."""
    return not table.judges and table.emits in {Emit.ON_CLOSE, Emit.ON_WATERMARK}


def _event_at(source: Table) -> str:
    if source.event_at is None:
        message = f"{source.id} lacks its event time"
        raise TypeError(message)
    return source.event_at
