"""The rows of a table from those of its sources: one plan for a batch, a stream and a recomputation."""

from collections.abc import Sequence
from typing import assert_never

from pyspark.sql import DataFrame

from strandline.core.kind import Emit
from strandline.core.received import ORDER
from strandline.core.stateful import Seen, fence, final, first_copies, watermarked
from strandline.core.table import (
    Appended,
    Computed,
    Derived,
    Ingested,
    Judged,
    Recomputed,
    Table,
    Upserted,
    Windowed,
)
from strandline.core.verdict import DUPLICATE_OF, judged
from strandline.engine.pipeline.function_counts import watched


def shaped(sources: Sequence[DataFrame], table: Computed, *, fenced: bool = False) -> DataFrame:
    """Return the table's rows from those of its sources, whichever mode reads them.

    Args:
        sources: The rows of each source.
        table: Silver or gold.
        fenced: Whether every row of a source must move its watermark, also one that the table leaves out.
    """
    match table:
        case Judged():
            (events,) = sources
            verdicts = watermarked(judged(events, table), "_time", table.lateness)
            return first_copies(watched(verdicts), DUPLICATE_OF, ORDER)
        case Windowed() | Appended():
            seen = _seen(sources, table)
            return final(_computed(seen, table, fenced=fenced), table.closes_at, seen)
        case Upserted() | Recomputed():
            return _computed(_seen(sources, table), table, fenced=fenced)
        case _:
            assert_never(table)


def emits_over_time(table: Table) -> bool:
    """Return whether a table emits rows because time has passed, and not only because rows came."""
    match table:
        case Windowed():
            return True
        case Appended():
            return (
                table.closes_at is not None
            )  # else no row waits, and Spark runs no batch without rows
        case Upserted():
            return table.emits is Emit.ON_WATERMARK
        case Ingested() | Judged() | Recomputed():
            return False
        case _:
            assert_never(table)


def _seen(sources: Sequence[DataFrame], table: Derived) -> list[Seen]:
    """Return the rows of each source with their time and lateness."""
    return [
        (rows, source.event_at, source.lateness)
        for rows, source in zip(sources, table.reads, strict=True)
    ]


def _computed(seen: Sequence[Seen], table: Derived, *, fenced: bool) -> DataFrame:
    timed = [watermarked(*each) for each in seen]
    if fenced:
        timed = [fence(rows, f"seen {number}") for number, rows in enumerate(timed)]
    return table.transform(*timed)
