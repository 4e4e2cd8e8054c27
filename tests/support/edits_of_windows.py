"""Edits of a table of windows: its keys, its aggregates, its windows, its watermark, and what is below and above them."""

from collections.abc import Callable, Iterator
from dataclasses import replace

from pyspark.sql import DataFrame

from strandline.core.table import Computed, Upserted, Windowed
from tests.support import windows_before_and_after as code
from tests.support.edits import CLICKS, LATE, TWENTY, TWO, Edit, source

COUNTS = Windowed(
    name="counts",
    reads=(CLICKS,),
    transform=code.counts,
    key=("k", "site", "began"),
    window="10 minutes",
    window_from="began",
    closes_at="ended",
)
NOW = Upserted(
    name="counts",
    reads=(CLICKS,),
    transform=code.counts,
    key=("k", "site", "began"),
    event_at="began",
    window_from="began",
    window="10 minutes",
    closes_at="ended",
)
SLID, SESSIONS = replace(COUNTS, transform=code.slid), replace(COUNTS, transform=code.by_session)

DAYS = replace(COUNTS, transform=code.by_day, window=code.AUCKLAND)


def _counts(
    name: str,
    transform: Callable[..., DataFrame],
    reference: Computed | None = None,
    partitions: int = 2,
) -> Edit:
    after = replace(COUNTS, transform=transform)
    return Edit(name=name, before=COUNTS, after=after, reference=reference, partitions=partitions)


def aggregates() -> Iterator[Edit]:
    """Yield the edits of a table of windows."""
    yield _counts("written otherwise, the same in meaning", code.counts_again)
    yield _counts("a column renamed", code.renamed)
    yield _counts("an aggregate added", code.aggregate_added)
    yield _counts("an aggregate removed", code.aggregate_removed)
    yield _counts("aggregates of one type swapped", code.aggregates_swapped)
    yield _counts("columns of aggregates swapped", code.columns_swapped)
    yield _counts("another function of the same type", code.another_function)
    yield _counts("another input of an aggregate", code.another_input)
    yield _counts("the type of an aggregate widened", code.wider_sum)
    yield _counts("a key added", code.key_added)
    yield _counts("a key removed", code.key_removed)
    yield _counts("keys of one type swapped", code.keys_swapped)
    yield _counts("a key of another type", code.key_of_another_type)
    yield _counts("a key computed otherwise", code.key_computed_otherwise)
    yield _counts("windows of another length", code.another_length)
    yield _counts("windows that slide", code.slide_added)
    yield Edit(name="another slide", before=replace(COUNTS, transform=code.slide_added), after=SLID)
    yield _counts("sessions instead of windows", code.by_session)
    yield Edit(
        name="another gap of sessions",
        before=SESSIONS,
        after=replace(COUNTS, transform=code.by_longer_session),
    )
    yield _counts("days of a zone instead of windows", code.by_day)
    yield Edit(
        name="days written otherwise", before=DAYS, after=replace(DAYS, transform=code.by_day_again)
    )
    yield Edit(
        name="days of another zone",
        before=DAYS,
        after=replace(DAYS, transform=code.by_day_of_another_zone, window=code.CHATHAM),
    )
    yield Edit(
        name="a longer watermark",
        before=COUNTS,
        after=replace(COUNTS, reads=(source("clicks", TWENTY),)),
        log=LATE,
    )
    yield Edit(
        name="a shorter watermark",
        before=COUNTS,
        after=replace(COUNTS, reads=(source("clicks", TWO),)),
    )
    yield _counts(
        "a filter before the state",
        code.filtered_before,
        reference=replace(COUNTS, transform=code.filtered_before_from_now_on),
    )
    yield Edit(
        name="a literal of that filter",
        before=replace(COUNTS, transform=code.filtered_before),
        after=replace(COUNTS, transform=code.filtered_more),
        reference=replace(COUNTS, transform=code.filtered_more_from_now_on),
    )
    yield _counts("a filter after the state", code.filtered_after)
    yield _counts("a value computed after the state", code.computed_after)
    yield _counts("a column added after the state", code.column_added_after)
    yield _counts("a second operator below", code.two_operators)
    yield _counts("more shuffle partitions", code.counts_again, partitions=3)
    yield Edit(name="updates instead of final rows", before=COUNTS, after=NOW)
    yield Edit(name="final rows instead of updates", before=NOW, after=COUNTS)
    yield Edit(
        name="updates written otherwise",
        before=NOW,
        after=replace(NOW, transform=code.counts_again),
    )
    yield Edit(name="a table of another name", before=COUNTS, after=replace(COUNTS, name="renamed"))
