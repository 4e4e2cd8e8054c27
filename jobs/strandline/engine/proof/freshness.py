"""Is a table as fresh as it promises, and where is it late: from the newest entries of the ledgers, without a look at a row.

The age by event is that of the newest event among the last commits: silver's entries have it, of other tables the statistics of
the files that those commits added. The age by arrival is that of the newest record which the table has read, found by the versions that
each entry says it read, down to bronze. So an age is known for the price of some small files, however long the history is.

Where a promise is broken, the hops are looked at from the topic up, and each that is late by itself is named: a shut gate, rows that
are not read. Where none is, the topic is silent, or windows wait for their watermark, or events were sent late.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from strandline.core.kind import SKEW, Fresh
from strandline.core.table import Ingested, Recomputed, Table
from strandline.engine.accounting.balance_sheet import waiting
from strandline.engine.accounting.commit_history import newest_arrival, newest_event
from strandline.engine.accounting.gate_files import stops
from strandline.engine.flow import readers
from strandline.engine.flow.plan import emits_over_time
from strandline.engine.lake.completeness import with_below
from strandline.engine.lake.lake import Lake
from strandline.engine.lake.locks import is_held
from strandline.engine.lake.log.commit_log import committed_at

DOUBTED = timedelta(days=30)
"""An age beyond which the clock of this machine is named as well."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Freshness:
    """How a table keeps its promise.

    Args:
        table: The table.
        promise: What it promises.
        now: The clock.
        newest: The time of its newest row, by event or by arrival; None where it has no row, or where that is not known.
        age: How old that is; of a table without rows since it was made.
        because: Where it is late, the hop next to the topic first.
    """

    table: str
    promise: Fresh
    now: datetime
    newest: datetime | None
    age: timedelta
    because: tuple[str, ...] = ()

    @property
    def is_ahead(self) -> bool:
        """Return whether its newest row is beyond the clock, by which no age is known."""
        return self.newest is not None and self.newest - self.now > SKEW

    @property
    def is_kept(self) -> bool:
        """Return whether the promise is kept."""
        return not self.is_ahead and self.age <= self.promise.length

    @property
    def says(self) -> str:
        """Return it in a sentence; one of a broken promise names the hop that is late."""
        promised = f"{self.promise.within} are promised"
        if self.is_ahead:
            return (
                f"the newest row of {self.table} is of {_text(self.newest)}, and this machine's clock shows {_text(self.now)}: "
                f"by {self.promise.by} its age is not known, and {promised}"
            )
        if self.newest is None:
            old = f"{self.table} has had no row for {_span(self.age)}"
        else:
            old = f"{self.table} is {_span(self.age)} old by {self.promise.by}"
        if self.is_kept:
            return f"{old}, and {promised}"
        clock = f"; or this machine's clock is wrong: it shows {_text(self.now)}"
        return (
            f"{old}, and {promised}: {'; '.join(self.because)}{clock if self.age > DOUBTED else ''}"
        )


def newest_row(table: Table, lake: Lake) -> datetime | None:
    """Return the time of a table's newest row by what it promises; another version of the table may have another."""
    is_by_event = table.promise is not None and table.promise.by == "event"
    return (newest_event if is_by_event else newest_arrival)(table, lake)


def freshness(  # noqa: PLR0913  # which table, when, and what is known of it
    table: Table,
    lake: Lake,
    now: datetime,
    unread: Mapping[str, int] | None = None,
    *,
    newest_of: Callable[[Table, Lake], datetime | None] = newest_row,
    explains: bool = True,
) -> Freshness | None:
    """Return how a table keeps its promise; None where it promises nothing.

    Args:
        table: A table that exists.
        lake: Its lake.
        now: The clock.
        unread: For bronze tables the offsets that they have not read, as far as they are known; what the radar saw last when absent.
        newest_of: Returns the time of its newest row, which who looks often may have remembered.
        explains: Whether the hop that is late is looked for.
    """
    promise = table.promise
    if promise is None:
        return None
    newest = newest_of(table, lake)
    since = newest or committed_at(lake.table(table), 0)
    found = Freshness(
        table=table.id,
        promise=promise,
        now=now,
        newest=newest,
        age=max(now - since, timedelta(0)),
    )
    if found.is_kept or found.is_ahead or not explains:
        return found
    behind = _seen_by_radar(lake) if unread is None else unread
    because = [*dict.fromkeys(_late(table, lake, behind))] or [_waits(table, lake, now, promise)]
    return replace(found, because=tuple(because))


def _seen_by_radar(lake: Lake) -> Mapping[str, int]:
    seen = readers.last(lake)
    found: dict[str, int] = {}
    for each in seen[1] if seen else ():
        found[each.reader] = found.get(each.reader, 0) + each.unread
    return found


def _late(table: Table, lake: Lake, behind: Mapping[str, int]) -> Iterator[str]:
    """Yield the hops that are late by themselves, those next to the topic first."""
    for source in table.upstream:
        yield from _late(source, lake, behind)
    idle = "" if is_held(lake.lease(table)) else ", and no process writes it"
    if (shut := stops(table, lake)) is not None:
        yield f"the gate {shut.where} {shut.table} is shut since {shut.at}"
    elif isinstance(table, Ingested):
        if unread := behind.get(table.id, 0):
            yield f"{table.id} has not read {unread:,} records of {_topics(table)}{idle}"
    elif (rows := waiting(table, lake)) > 0:
        names = " and ".join(source.id for source in table.upstream)
        yield f"{table.id} has not read {rows:,} rows of {names}{idle}"


def _waits(table: Table, lake: Lake, now: datetime, promise: Fresh) -> str:
    """Return why a table is late all of whose sources were read to their ends."""
    arrived = newest_arrival(table, lake)
    if arrived is None or now - arrived > promise.length:
        silent = [each for each in with_below(table) if isinstance(each, Ingested)]
        names = " and ".join(_topics(each) for each in silent)
        since = f"the newest record arrived at {_text(arrived)}" if arrived else "no record arrived"
        return f"{names} is silent: {since}"
    for each in with_below(table):
        if emits_over_time(each) or (isinstance(each, Recomputed) and each.waits):
            delay = max(source.lateness.delay for source in each.upstream) + each.window_length
            return (
                f"{each.id} waits for its watermark: a row is emitted when no admitted row can change it any more, "
                f"{_span(delay)} after its time"
            )
    return f"records arrived until {_text(arrived)}, and their events are older, or are held"


def _span(length: timedelta) -> str:
    # Not imported above: with it comes what draws pages, and most tables keep what they promise.
    from strandline_quality.page import span  # noqa: PLC0415  # as above

    return span(length.total_seconds())


def _topics(table: Table) -> str:
    return " and ".join(f"the topic {topic.name}" for topic in table.topics)


def _text(moment: datetime | None) -> str:
    return moment.isoformat(timespec="seconds") if moment else "an unknown moment"
