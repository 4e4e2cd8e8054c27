"""Rewind: the records that arrived from a moment or an offset on, their days of events, and the closed ones of these.

A stream never goes back to an earlier offset: bronze has every record once, and reading Kafka again would only bring
copies. A rewind computes the days of those records' events from bronze again (jobs/strandline/engine/repair/backfill.py). That is
exact, runs beside the stream, and discards no state. The stream itself writes the days that it still owns.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta

from strandline.core.errors import DefinitionError
from strandline.core.lateness import shifted
from strandline.core.local_day import Day
from strandline.core.table import Ingested, Judged, Table
from strandline.engine.ask.locate import Spot
from strandline.engine.lake.horizon import known_reach, refuse_unbounded
from strandline.engine.lake.lake import Lake
from strandline.engine.lake.read.duckdb_table import peek
from strandline.engine.repair.closed_range import Span, closed_until

OFFSETS = """
    SELECT _topic, _partition, count(*), min(_offset), max(_offset) FROM received
    WHERE {wanted} GROUP BY ALL ORDER BY ALL
"""
MOMENTS = 'SELECT min("{moment}"), max("{moment}") FROM good WHERE {wanted}'
ARRIVED = "_arrived_at >= getvariable('arrived_')"
PLACED = (
    "_topic = getvariable('topic_') AND _partition = getvariable('partition_') "
    "AND _offset >= getvariable('offset_')"
)

From = datetime | Spot
"""A moment of arrival, or a place in Kafka."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """The records of one partition of a topic that are judged again."""

    topic: str
    partition: int
    records: int
    first: int
    last: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Rewind:
    """The plan of a rewind.

    Args:
        table: The table's one name.
        parts: The records.
        since: Their earliest event time, less the length of a window.
        until: Their latest event time.
        span: The days that can be computed again now; None when the stream owns all of them.
    """

    table: str
    parts: tuple[Part, ...]
    since: datetime | None
    until: datetime | None
    span: Span | None

    @property
    def records(self) -> int:
        """Return how many records are judged again."""
        return sum(part.records for part in self.parts)


def rewind(table: Table, lake: Lake, begin: From) -> Rewind:
    """Plan a rewind; nothing is changed.

    Raises:
        DefinitionError: The table does not read that topic, not even through other tables.
    """
    judged = [each for each in _below(table) if isinstance(each, Judged) and lake.exists(each)]
    chosen = [each for each in judged if _reads(each, begin)]
    if not chosen:
        raise DefinitionError(
            f"{table.id} does not read {begin.topic if isinstance(begin, Spot) else 'any topic'}",
            hint="`strandline tables` prints what each table reads.",
            table=table.id,
        )
    parts = [part for each in chosen for part in _parts(each, lake, begin)]
    moments = [moment for each in chosen for moment in _moments(each, lake, begin)]
    refuse_unbounded(table, lake)
    reach = known_reach(table, lake) or timedelta(0)
    since = shifted(min(moments), -(table.window_length + reach)) if moments else None
    until = shifted(max(moments), reach) if moments else None
    return Rewind(
        table=table.id,
        parts=tuple(parts),
        since=since,
        until=until,
        span=_days(table.calendar, since, until, closed_until(table, lake)),
    )


def _days(
    days: Day, since: datetime | None, until: datetime | None, closed: datetime | None
) -> Span | None:
    """Return the whole days that are closed."""
    if since is None or until is None or closed is None:
        return None
    first = days.begins(days.date_of(since))
    last = min(days.ends(days.date_of(until)), days.begins(days.date_of(closed)))
    return Span(since=first, until=last) if first < last else None


def _below(table: Table) -> list[Table]:
    """Return a table and all tables upstream of it."""
    reached = [table]
    for each in reached:
        reached += [source for source in each.upstream if source not in reached]
    return reached


def _reads(silver: Table, begin: From) -> bool:
    topics = {topic.name for source in silver.upstream for topic in source.topics}
    return not isinstance(begin, Spot) or begin.topic in topics


def _parts(silver: Table, lake: Lake, begin: From) -> Iterator[Part]:
    wanted, values = _wanted(begin)
    for source in silver.upstream:
        if isinstance(source, Ingested):
            received = peek(lake.table(source), "received")
            for row in received.ask(OFFSETS.format(wanted=wanted), **values):
                topic, partition, *counts = row
                records, first, last = (int(str(count)) for count in counts)
                yield Part(
                    topic=str(topic),
                    partition=int(str(partition)),
                    records=records,
                    first=first,
                    last=last,
                )


def _moments(silver: Table, lake: Lake, begin: From) -> list[datetime]:
    wanted, values = _wanted(begin)
    good = peek(lake.table(silver), "good")
    ((first, last),) = good.ask(MOMENTS.format(moment=silver.event_at, wanted=wanted), **values)
    return [moment for moment in (first, last) if isinstance(moment, datetime)]


def _wanted(begin: From) -> tuple[str, dict[str, str | int | datetime]]:
    if isinstance(begin, Spot):
        at: dict[str, str | int | datetime] = {"partition_": begin.partition}
        return PLACED, {**at, "topic_": begin.topic, "offset_": begin.offset}
    return ARRIVED, {"arrived_": begin}
