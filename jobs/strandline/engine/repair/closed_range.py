"""A range of event time, and whether a table's stream has left it for good: whether it is closed."""

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from functools import partial

from pyspark.sql import Column
from pyspark.sql import functions as F
from strandline import catalog

from strandline.core.errors import DefinitionError, TransientError
from strandline.core.kind import LAST, Day, in_utc, shifted
from strandline.core.table import Ingested, Judged, Recomputed, Table
from strandline.engine.accounting.balance_sheet import read_until
from strandline.engine.accounting.commit_history import moment_of
from strandline.engine.ask.locate import Spot
from strandline.engine.flow.plan import emits_over_time
from strandline.engine.lake.commit.delta_commit import rows_in
from strandline.engine.lake.commit.file_index import EPOCH, MICROSECOND
from strandline.engine.lake.completeness import (
    fed,
    known_reach,
    over_until,
    refuse_unbounded,
    retired,
    with_below,
)
from strandline.engine.lake.duckdb_table import peek
from strandline.engine.lake.lake import Lake
from strandline.engine.lake.locks import is_held
from strandline.engine.lake.log.ledger import (
    IMPORT,
    between,
    last_entry,
    latest_version,
)
from strandline.engine.lake.log.ledger_sums import sums_of
from strandline.engine.lake.log.log_actions import come_since
from strandline.engine.lake.open_table import earliest
from strandline.engine.lake.place import Place
from strandline.engine.lake.spark_checkpoint import settled_ms, stream_id


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """A range of event time: its start belongs to it, its end does not."""

    since: datetime
    until: datetime

    @classmethod
    def of_micros(cls, first: int, last: int) -> "Span":
        """Return the shortest range that contains two moments, given in microseconds since 1970."""
        since, until = (shifted(EPOCH, at * MICROSECOND) for at in (first, last + 1))
        return cls(since=since, until=until)

    def in_text(self) -> tuple[str, str]:
        """Return its start and its end as an entry of the ledger has them."""
        return self.since.isoformat(), self.until.isoformat()

    def in_micros(self) -> tuple[int, int]:
        """Return its first and its last microsecond, counted from 1970."""
        first, end = ((moment - EPOCH) // MICROSECOND for moment in (self.since, self.until))
        return first, end - 1

    def whole(self, days: Day) -> "Span":
        """Return the range extended to whole days."""
        last = shifted(self.until, -MICROSECOND)
        return Span(
            since=days.begins(days.date_of(self.since)), until=days.ends(days.date_of(last))
        )

    def holds(self, moment: str | Column) -> Column:
        """Return the condition that a moment is in the range."""
        column = F.col(moment) if isinstance(moment, str) else moment
        return (column >= F.lit(self.since)) & (column < F.lit(self.until))

    def wider(self, *, before: timedelta, after: timedelta) -> "Span":
        """Return the range extended on both sides."""
        return Span(since=shifted(self.since, -before), until=shifted(self.until, after))


def left_until(table: Table, lake: Lake) -> datetime | None:
    """Return the moment before which a table's stream writes no more rows; None when there is none yet."""
    settled = settled_ms(lake.checkpoint(table), emits_over_time=emits_over_time(table))
    return datetime.fromtimestamp(settled / 1000, tz=UTC) if settled else None


def closed_until(table: Table, lake: Lake) -> datetime | None:
    """Return the moment before which every range of a table may be computed again; None when there is none yet.

    There never is where the table joins rows and nothing says how far these lie apart.
    """
    left, reach = left_until(table, lake), known_reach(table, lake)
    if left is None or reach is None:
        return None
    met = shifted(left, -reach)
    if table.closes_at and table.local_day:  # each day is over where the next begins
        return table.local_day.begins(table.local_day.date_of(met))
    return shifted(met, -_window(table))


def possible_from(table: Table, lake: Lake, until: datetime) -> datetime:
    """Return the event time that a table's stream must have read before a range that ends at a moment is closed."""
    delay = max(source.lateness.delay for source in (table, *table.upstream))
    reach = known_reach(table, lake)
    waits = timedelta(0) if reach is None else reach
    if table.closes_at and table.local_day:
        over = Span(since=until, until=until).whole(table.local_day).until
    else:
        over = until if reach is None else shifted(until, _window(table))
    return shifted(over, waits + delay)


def _window(table: Table) -> timedelta:
    """Return how long after its start a window is over; the partners must be there too that its rows may still meet."""
    return table.window_length if table.closes_at else timedelta(0)


def is_open(table: Table, left: datetime) -> Column:
    """Return the condition that a row is still open: a stream may update it after it has closed all time up to ``left``."""
    if table.valid_until:  # a row without an end is open
        end = F.col(table.valid_until)
        return end.isNull() | (end > F.lit(left))
    if table.closes_at:  # a row without a closing time is final at once
        return F.coalesce(F.col(table.closes_at) > F.lit(left), F.lit(False))
    return F.lit(False)


def refuse_open(table: Table, lake: Lake, span: Span) -> None:
    """Refuse a range that a stream still owns, in whole or in part.

    Raises:
        DefinitionError: A stream owns it (the error names the earliest moment at which it will not), or no stream
            made the table.
    """
    if isinstance(table, Recomputed):
        raise DefinitionError(
            f"{table.id} recomputes by itself what a change of its sources touches; there is nothing to backfill",
            hint="`strandline run` brings it up to date; backfill the tables that it reads.",
            table=table.id,
        )
    refuse_streamless(table, lake)
    refuse_unbounded(table, lake)
    left, closed = left_until(table, lake), closed_until(table, lake)
    if closed is not None and span.until <= closed:
        return
    possible = possible_from(table, lake, span.until).isoformat()
    past = f"everything before {left.isoformat()}" if left else "nothing yet"
    raise DefinitionError(
        f"{table.id} until {span.until.isoformat()} still belongs to its stream, which has left {past}: "
        "the stream may still admit rows of it",
        hint=f"the earliest possible moment is when events of {possible} were read; "
        "until then choose an earlier --until.",
        table=table.id,
        until=span.until.isoformat(),
        closed_until=left.isoformat() if left else None,
        possible_from=possible,
    )


def refuse_rerouted(table: Judged, lake: Lake) -> None:
    """Refuse to judge single records again where the table has read other kinds of them, or found kinds in another way.

    A record that was left to another table then, and is of its own by today's declaration, has no place in its books.

    Raises:
        DefinitionError: It has.
    """
    sums = sums_of(lake.table(table))
    now = (table.takes_in_words, table.routed_by)
    if sums.rerouted or (sums.batches and (sums.takes, sums.by_kind.by) != now):
        was = f"{sums.takes or 'every record'} ({sums.by_kind.by or 'of one kind'})"
        raise DefinitionError(
            f"{table.id} has read its records by other kinds than it declares now, the last time {was}",
            hint=f"`strandline rebuild {table.id}` computes all of it by today's declaration.",
            table=table.id,
        )


def refuse_streamless(table: Table, lake: Lake) -> None:
    """Refuse a table that no stream made.

    Raises:
        DefinitionError: It was never run, or a batch replaces it as a whole.
    """
    newest = last_entry(lake.table(table))
    if newest is None or newest[1].stream != stream_id(lake.checkpoint(table)):
        raise DefinitionError(
            f"{table.id} was not made by a stream, so none of its ranges is closed",
            hint=f"if it was never run, `strandline run {table.id}` fills it; "
            "a batch run replaces a table as a whole.",
            table=table.id,
        )


# The closed days of a table, by its own calendar: no stream will write events of them any more.


DAY = timedelta(days=1)


def closed_days(
    table: Table, lake: Lake, first: date, *, before_rows: bool = False
) -> Iterator[date]:
    """Yield the closed days of a table, oldest first, from a day on.

    Args:
        table: The table.
        lake: Its lake.
        first: The day.
        before_rows: Whether also those before its first row, on which there was nothing to do.
    """
    until = _closed(table, lake)
    begins = _begins(table, lake)
    if until is None or begins is None:
        return
    day = first if before_rows else max(first, table.calendar.date_of(begins))
    while table.calendar.ends(day) <= until:
        yield day
        day += DAY


def _closed(table: Table, lake: Lake) -> datetime | None:
    """Return the end of the closed time; a table without a stream is closed where all of its sources are."""
    if isinstance(table, Ingested):
        return None
    if not isinstance(table, Recomputed):
        return closed_until(table, lake)
    below = [_closed(source, lake) for source in table.upstream]
    if table.waits:  # and a window that begins on a day may end on the next
        over = over_until(table, lake)
        length = timedelta(0) if table.local_day else table.window_length
        below.append(over and shifted(over, -length))
    known = [each for each in below if each is not None]
    return min(known) if known and len(known) == len(below) else None


def _begins(table: Table, lake: Lake) -> datetime | None:
    """Return the earliest event time in a table, from the statistics of its files."""
    return earliest(lake.table(table), moment_of(table))


# A version of a table, and those of its sources whose rows its stream had written into it by then.
#
# The rows of a closed range are compared with what their sources give. As a rule nothing comes to such a range beside a repair, so
# it does not matter which versions are read. But a table that believes history gets rows of any time: one that its source has,
# and its stream is about to write, was brought by a repair and then once more by the stream; one that the stream wrote between
# two looks was taken for a row that must go. So where history is believed, both sides are read as of one moment.


PATIENCE, AGAIN = 120.0, 0.5
"""Seconds to wait for a stream to write what its sources have, and between two looks."""


def believed_by(table: Table) -> list[Judged]:
    """Return the sources of a table that believe history: its stream may write a row of a time that it has left."""
    return [each for each in table.upstream if isinstance(each, Judged) and each.believes_history]


def read_together(
    table: Table, sources: Sequence[Table], lake: Lake
) -> tuple[int, Mapping[str, int]]:
    """Return a version of a table and those of sources, by their names, of which it has all rows and no more."""
    path = lake.table(table)
    while True:
        version = latest_version(path)
        read = {source.id: _read_until(table, source, lake) for source in sources}
        if latest_version(path) == version:
            return version, read


def all_read(table: Table, sources: Sequence[Table], lake: Lake) -> tuple[int, Mapping[str, int]]:
    """Return the same once the table's stream has written all that the sources have now, the change of a repair among it.

    Raises:
        TransientError: The stream does not run, or does not read on.
    """
    wanted = {source.id: latest_version(lake.table(source)) for source in sources}
    deadline = time.monotonic() + PATIENCE
    while True:
        version, read = read_together(table, sources, lake)
        behind = [name for name, until in wanted.items() if read[name] < until]
        if not behind:
            return version, read
        if not is_held(lake.lease(table)) or time.monotonic() > deadline:
            raise TransientError(
                f"{table.id} has not read all of {' and '.join(behind)}, which may have rows of any time",
                hint=f"`strandline run {table.id}`, then the same again.",
                table=table.id,
            )
        time.sleep(AGAIN)


def _read_until(table: Table, source: Table, lake: Lake) -> int:
    """Return the last version of a source without a row that a table's stream has still to read."""
    path, version = lake.table(source), read_until(table, source, lake)
    newest = latest_version(path)
    while version < newest and not any(
        entry.appended for entry in between(path, version + 1, version + 1)
    ):
        version += 1
    return version


# The files of a table that a table above has not read yet, from the ledgers: what is deleted of them would be lost to it.


def unread_files(table: Table, lake: Lake) -> tuple[dict[str, int], list[str]]:
    """Return the names of the unread files with their rows, and the names of the tables that have not read them.

    The commits since the slowest of these tables read last are opened, and no earlier one. A table that was never run in
    the lake waits for nothing; its stream will begin with what is there then. For one that is retired nothing waits.
    """
    return _unread(table, fed(_readers(table, lake), lake), lake)


def needed_from(table: Table, lake: Lake) -> datetime:
    """Return the moment from which on rows of a table are needed by windows above that are not over, which have been read and not counted."""
    return min(
        (
            shifted(over, -other.window_length - other.reaches)
            for other in fed(_readers(table, lake), lake)
            if (over := over_until(other, lake)) is not None
        ),
        default=LAST,
    )


def retired_readers(table: Table, lake: Lake) -> dict[Table, set[str]]:
    """Return the retired tables that could read on, each with the names of the files of a table that it has not read."""
    known = retired(lake)
    could = [
        each
        for each in (_readers(table, lake) if known else [])
        if each.id in known and known[each.id].place_kept
    ]
    return {each: {*_unread(table, [each], lake)[0]} for each in could}


def _readers(table: Table, lake: Lake) -> list[Table]:
    return [
        other
        for other in catalog.tables()
        if table.id in {source.id for source in other.needs} and lake.exists(other)
    ]


def _unread(table: Table, readers: Sequence[Table], lake: Lake) -> tuple[dict[str, int], list[str]]:
    latest = latest_version(lake.table(table))
    read = {other.id: _unread_files_read_until(table, other, lake) for other in readers}
    streams = {
        other.id
        for other in readers
        if table.id in {source.id for source in other.upstream}
        and not isinstance(other, Recomputed)
    }
    path = lake.table(table)
    came: dict[str, str] = {}
    # A stream has nothing to read of a repair's commit, and no batch notes that it has passed it.
    for names, is_skipped in (
        (streams, partial(_is_skipped, path)),
        (read.keys() - streams, lambda _: False),
    ):
        before = min((read[each] for each in names), default=latest)
        came |= come_since(path, before, latest, is_skipped)
    rows = {name: rows_in(line) for name, line in came.items()}
    return rows, [name for name, version in read.items() if version < latest]


def _is_skipped(path: Place, version: int) -> bool:
    """Return whether no stream will have the rows of a version; those of an import are brought to it."""
    found = between(path, version, version)
    return any(entry.is_passed_over and entry.mode != IMPORT for entry in found)


def _unread_files_read_until(table: Table, other: Table, lake: Lake) -> int:
    sums = sums_of(lake.table(other))
    if table.id in {source.id for source in other.upstream}:
        return sums.seen.get(table.id, -1)
    return sums.right_until


# Rewind: the records that arrived from a moment or an offset on, their days of events, and the closed ones of these.
#
# A stream never goes back to an earlier offset: bronze has every record once, and reading Kafka again would only bring
# copies. A rewind computes the days of those records' events from bronze again (jobs/strandline/engine/repair/backfill.py). That is
# exact, runs beside the stream, and discards no state. The stream itself writes the days that it still owns.


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
    judged = [each for each in with_below(table) if isinstance(each, Judged) and lake.exists(each)]
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


# Moments and ranges of event time as people write them.


def typed(since: str, until: str, table: Table | None = None) -> Span:
    """Parse a range; of a table of local days a date is such a day, and the range is of whole ones.

    Raises:
        DefinitionError: An end is no moment, or the range is empty.
    """
    days = table.local_day if table else None
    ends = (("--since", since), ("--until", until))
    first, last = (_begin(text, days) or moment(text, name) for name, text in ends)
    if first >= last:
        raise DefinitionError(
            f"the range is empty: {since} is not before {until}",
            hint="--until is the moment after the last; for a day, that is the next day.",
        )
    span = Span(since=first, until=last)
    return span.whole(days) if days else span


def _begin(text: str, days: Day | None) -> datetime | None:
    """Return where a day begins; None where a text is no date, or days are those of UTC."""
    try:
        return days.begins(date.fromisoformat(text)) if days else None
    except ValueError:
        return None


def both(
    since: str | None, until: str | None, otherwise: str, table: Table | None = None
) -> Span | None:
    """Parse a range that may be absent.

    Raises:
        DefinitionError: Only one end was given, or see ``typed``.
    """
    if since and until:
        return typed(since, until, table)
    if since or until:
        raise DefinitionError(
            "a range has two ends, and one was given",
            hint=f"give --since and --until, or {otherwise}.",
        )
    return None


def moment(text: str, option: str) -> datetime:
    """Parse a moment; without a zone it is in UTC.

    Raises:
        DefinitionError: It is not one.
    """
    try:
        return in_utc(datetime.fromisoformat(text))
    except ValueError as error:
        raise DefinitionError(
            f"{option} {text!r} is neither a date nor a moment",
            hint="write it like 2026-11-01 or 2026-11-01T06:00; it is read as UTC.",
        ) from error
