"""What arrived from a moment or an offset on: which records, of which days they speak, and what may be computed again.

A stream is never sent back to an earlier offset: bronze has every record once, and reading Kafka again would only bring
copies. To go back is to compute again from bronze the days of which those records speak (jobs/run/backfill.py), which
is exact, goes on beside the stream, and needs no state to be thrown away. What a stream still owns it will itself say.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from jobs.core.errors import DefinitionError
from jobs.core.table import Layer, Table
from jobs.run.lake import Lake
from jobs.run.peek import peek
from jobs.run.span import Span, closed_until, length
from jobs.run.trace import Spot

DAY = timedelta(days=1)

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
    """The records of one partition of a topic that are read again."""

    topic: str
    partition: int
    records: int
    first: int
    last: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Rewind:
    """What going back means for a table.

    Args:
        table: Its one name.
        parts: The records.
        since: The first moment of which they speak, less the length of a window.
        until: The last.
        span: The days that can be computed again now; None when the stream owns all of them.
    """

    table: str
    parts: tuple[Part, ...]
    since: datetime | None
    until: datetime | None
    span: Span | None

    @property
    def records(self) -> int:
        """Return how many records are read again."""
        return sum(part.records for part in self.parts)


def rewind(table: Table, lake: Lake, begin: From) -> Rewind:
    """Look what going back would mean; nothing is changed.

    Raises:
        DefinitionError: The table rests on no such topic.
    """
    judged = [each for each in _below(table) if each.judges and lake.exists(each)]
    chosen = [each for each in judged if _reads(each, begin)]
    if not chosen:
        raise DefinitionError(
            f"{table.id} does not rest on {begin.topic if isinstance(begin, Spot) else 'any topic'}",
            hint="`strandline tables` says what each table reads.",
            table=table.id,
        )
    parts = [part for each in chosen for part in _parts(each, lake, begin)]
    moments = [moment for each in chosen for moment in _moments(each, lake, begin)]
    since = min(moments) - length(table) if moments else None
    until = max(moments) if moments else None
    return Rewind(
        table=table.id,
        parts=tuple(parts),
        since=since,
        until=until,
        span=_days(since, until, closed_until(table, lake)),
    )


def _days(since: datetime | None, until: datetime | None, closed: datetime | None) -> Span | None:
    """Return whole days, as far as they are closed."""
    if since is None or until is None or closed is None:
        return None
    first, last = _day(since), min(_day(until) + DAY, _day(closed))
    return Span(since=first, until=last) if first < last else None


def _day(moment: datetime) -> datetime:
    return moment.astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0)


def _below(table: Table) -> list[Table]:
    """Return a table and all that its rows come from."""
    found = [table]
    for each in found:
        found += [source for source in each.upstream if source not in found]
    return found


def _reads(silver: Table, begin: From) -> bool:
    topics = {topic.name for source in silver.upstream for topic in source.topics}
    return not isinstance(begin, Spot) or begin.topic in topics


def _parts(silver: Table, lake: Lake, begin: From) -> Iterator[Part]:
    wanted, values = _wanted(begin)
    for source in silver.upstream:
        if source.layer is Layer.BRONZE:
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
