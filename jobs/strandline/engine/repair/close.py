"""Go on without what will not come: close on purpose what waits for time to pass, and accept that records expired in Kafka before they were read.

A watermark moves by rows alone, so what a silent topic left open stays open. Who closes it says that all time up to a moment is over:
the newest event that was read, and as much later as the table's rows may wait, but no later than the clock. The stream emits then what it
would have emitted had an event of that moment come (jobs/strandline/engine/lake/spark_checkpoint.py), a batch computes by the same
moment, and a verification and a rebuild close what the live table has closed.

An event that comes after that, within the lateness of its table, is a row of silver as ever. A table that was closed refuses it where its
window is over, and counts it: a fault of its books, with the backfill that brings it in. Nothing is lost, and nothing is hidden.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from strandline.core.errors import DefinitionError, TransientError
from strandline.core.kind import milliseconds, shifted
from strandline.core.stateful import AvailableNow, MicroBatch
from strandline.core.table import Feed, Ingested, Judged, Recomputed, Table
from strandline.core.topic import Topic
from strandline.engine.accounting.balance_sheet import waiting
from strandline.engine.accounting.commit_history import newest_event
from strandline.engine.accounting.held_records import Signed
from strandline.engine.flow import new_entry
from strandline.engine.flow.feed_ledger import FeedLedger
from strandline.engine.flow.ingest import identities, own_of, refuse_unlike
from strandline.engine.flow.plan import emits_over_time
from strandline.engine.flow.recompute import refuse_streamed, written_by_stream
from strandline.engine.flow.runner import Site, run
from strandline.engine.flow.running import Report
from strandline.engine.kafka.slices import Backlog, Bounds, Part, part_of, range_ends
from strandline.engine.kafka.topic_log import expired, refuse_shrunk
from strandline.engine.lake.commit import delta_commit
from strandline.engine.lake.commit.file_index import EPOCH
from strandline.engine.lake.completeness import known_reach, over_until, retired, with_below
from strandline.engine.lake.lake import CLOSES, Lake
from strandline.engine.lake.locks import handed_over, lease
from strandline.engine.lake.log.ledger import Entry, last_entry
from strandline.engine.lake.log.ledger_sums import sums_of
from strandline.engine.lake.place import Place
from strandline.engine.lake.spark_checkpoint import (
    Close,
    close_ordered,
    closed_ms,
    newest_planned,
    order_close,
)
from strandline.engine.repair.closed_range import left_until

DAY = timedelta(days=1)
"""How long a table waits at most of which neither a window nor a join says it, such as a fold."""

SECOND = timedelta(seconds=1)
"""A row is final a moment after the last one that could change it."""


class NotClosedError(TransientError):
    """A table is not closed, by what it waits for; others may be."""


def waits(table: Table) -> bool:
    """Return whether a table emits rows because time has passed, so that a silent source leaves some in its state."""
    return emits_over_time(table) or (isinstance(table, Recomputed) and table.waits)


def closes_at(table: Table, lake: Lake, now: datetime) -> datetime | None:
    """Return the moment up to which a table may be closed; None where nothing was read yet.

    What has not ended by the clock is not over: events of that time may come in time. Nor is that of which a table below has still
    to emit rows.
    """
    known = [newest_event(source, lake) for source in table.upstream if not source.valid_until]
    left = None if isinstance(table, Recomputed) else left_until(table, lake)
    if left and _ms(left) > closed_ms(lake.checkpoint(table)):
        # By rows the watermark is the newest event of the slowest source less its delay, also where no late commit has it.
        known.append(shifted(left, min(source.lateness.delay for source in table.upstream)))
    newest = max((each for each in known if each), default=None)
    if newest is None:
        return None
    wait = table.window_length + (known_reach(table, lake) or timedelta(0))
    below = [open_from(source, lake, now) for source in table.upstream]
    return min(
        shifted(newest, (wait or DAY) + SECOND), now, *(each for each in below if each is not None)
    )


def open_from(table: Table, lake: Lake, now: datetime) -> datetime | None:
    """Return the earliest time of which a table has still to emit rows; None where it waits for nothing, nor does one below it.

    A window that is open below emits a row of its begin, which a table above must not take for late; it is closed no further than
    this. Of a fold nothing says how far back its rows lie but the lateness that it declares for those who read it.
    """
    if table.id in retired(lake):  # it emits nothing more
        return None
    if not waits(table):
        below = [open_from(source, lake, now) for source in table.upstream]
        return min((each for each in below if each is not None), default=None)
    if isinstance(table, Recomputed):
        over = over_until(table, lake) or now
        return over if table.local_day else shifted(over, -table.window_length)
    ordered = closed_ms(lake.checkpoint(table))
    left = left_until(table, lake) or (_moment(ordered) if ordered else now)
    if table.local_day:  # days begin where the one before ends
        day = table.local_day.date_of(shifted(left, -(known_reach(table, lake) or timedelta(0))))
        return table.local_day.begins(day)
    reach = known_reach(table, lake)
    back = table.window_length + (table.lateness.delay if reach is None else reach)
    return shifted(left, -(back or table.lateness.delay))


def in_force(table: Table, lake: Lake) -> datetime | None:
    """Return the moment up to which all time is over for a table as it was computed last, by rows or by an order."""
    if not isinstance(table, Recomputed):
        return left_until(table, lake)
    newest = last_entry(lake.table(table))
    if newest is None:
        return None
    ordered = _moment(closed_ms(lake.checkpoint(table)))
    by_rows = newest[1].watermark
    return max(ordered, datetime.fromisoformat(by_rows)) if by_rows else ordered


@dataclass(frozen=True, slots=True, kw_only=True)
class Closed:
    """What a close has done.

    Args:
        report: The figures of its batches, and of those before it.
        until: The moment up to which all time is over, as was found afterwards; None where the table has read nothing.
    """

    report: Report
    until: datetime | None


def close(  # noqa: PLR0913  # which table, with what, by whom, and who hears of it
    table: Table,
    lake: Lake,
    site: Site,
    by: str,
    *,
    note: Callable[[str], None] = lambda _: None,
    on_commit: Callable[[Entry], None] = lambda _: None,
) -> Closed:
    """Bring a table up to date and close it; a stream that writes it hands it over for that long.

    Args:
        table: A table that waits.
        lake: Its lake.
        site: With what.
        by: Who orders it, when, and by which word.
        note: Hears that a stream is waited for.
        on_commit: Hears of each batch.

    Raises:
        NotClosedError: A table below it has rows to read: what comes of them would be refused; or it is not closed after all.
    """
    with handed_over(table, lake, site.clock, "close", note=note):
        report = run(table, AvailableNow(), lake, site=site, on_commit=on_commit)
        refuse_unread(table, lake)
        now = site.clock()
        until = closes_at(table, lake, now)
        if until is None:
            return Closed(report=report, until=None)
        with lease(site.spark, table, lake):
            ordered = _order(table, lake, until, by, now)
        if ordered is not None:  # else rows have moved the watermark as far

            def heard(entry: Entry) -> None:
                report.add(entry)
                on_commit(entry)

            run(table, AvailableNow(), lake, site=site, on_commit=heard)
    return Closed(report=report, until=looked(table, lake, until))


def _order(table: Table, lake: Lake, until: datetime, by: str, now: datetime) -> Close | None:
    return order_close(
        lake.checkpoint(table), _ms(until), by, _ms(now), first=lambda: lake.raise_to(CLOSES)
    )


def looked(table: Table, lake: Lake, until: datetime) -> datetime:
    """Return up to where a table is closed now.

    Raises:
        NotClosedError: It is not closed as far as was ordered.
    """
    reached = in_force(table, lake)
    if reached is None or _ms(reached) < _ms(until):
        raise NotClosedError(
            f"{table.id} is closed up to {reached.isoformat() if reached else 'no moment'} and not up to {until.isoformat()}",
            hint="type the same again.",
            table=table.id,
        )
    return reached


def close_as_batch(table: Table, lake: Lake, site: Site, by: str) -> None:
    """Order a close of a table that batches write; the next one computes by it.

    Raises:
        DefinitionError: A stream writes it, whose plan is no batch's to make.
        NotClosedError: A table below it has rows to read.
    """
    with lease(site.spark, table, lake):
        newest = last_entry(lake.table(table))
        refuse_streamed(table, lake, newest[1] if newest else None)
        if newest_planned(lake.checkpoint(table)) is not None:
            raise written_by_stream(table, lake)
        refuse_unread(table, lake, is_read=True)
        now = site.clock()
        until = closes_at(table, lake, now)
        if until is not None:
            _order(table, lake, until, by, now)


def close_as(table: Table, live: Lake, other: Lake, site: Site) -> bool:
    """Close a table in another lake up to where it was closed in the live one, where it has read the same; return whether it was.

    Where a stream writes it there, its batch is run.
    """
    ordered = close_ordered(live.checkpoint(table))
    if ordered is None:
        return False
    at_ms = _ms(site.clock())
    return order_close(other.checkpoint(table), ordered.until_ms, ordered.by, at_ms) is not None


def refuse_unread(table: Table, lake: Lake, *, is_read: bool = False) -> None:
    """Refuse to close a table before what it reads is read to its end.

    Args:
        table: The table.
        lake: Its lake.
        is_read: Whether the table itself is about to read all, as a batch does.

    Raises:
        NotClosedError: A table below has rows to read.
    """
    ended = retired(lake)
    for each in with_below(table):
        if each.id in ended or (is_read and each is table):  # fed no more, or about to be
            continue
        if not isinstance(each, Ingested) and (rows := waiting(each, lake)) > 0:
            raise NotClosedError(
                f"{table.id} is not closed: {each.id} has {rows:,} rows to read, and what comes of them would be refused",
                hint="type the same again when it has read them (`strandline ledger`).",
                table=table.id,
                waiting=rows,
            )


def _moment(ms: int) -> datetime:
    return shifted(EPOCH, timedelta(milliseconds=ms))


def _ms(moment: datetime) -> int:
    return milliseconds(moment.astimezone(UTC) - EPOCH)


# Accept that records expired in Kafka before they were read: account for the gap, and let the reader go on behind it.
#
# A reader stops where the next record is gone, and skips nothing by itself. A person accepts the loss, with a reason; then
# an entry in the ledger has exactly the offsets that are gone, beside those that were read. So the books still follow each
# other without a gap, and name what is lost.
#
# Of a bronze table it is one commit, which is its checkpoint. A feed has a checkpoint of Spark's beside its ledger: the entry
# is first, and the checkpoint is moved when the ledger is closed, or opened the next time (jobs/strandline/engine/flow/feed_ledger.py), so a process that is
# killed between both leaves nothing to repair.

MODE = "accept loss"


@dataclass(frozen=True, slots=True, kw_only=True)
class Accepted:
    """A loss that was accepted.

    Args:
        entry: Its ledger entry.
        is_new: Whether that was just written; False where an earlier call did it.
    """

    entry: Entry
    is_new: bool

    @property
    def lost(self) -> dict[Part, tuple[int, int]]:
        """Return the offsets that are lost."""
        return {part_of(name): ends for name, ends in self.entry.lost.items()}


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownFeed(Feed):
    """A feed as its ledger knows it, whatever its rules are today.

    Args:
        read: The topics that it reads.
    """

    read: tuple[Topic, ...]

    @property
    def tables(self) -> tuple[Judged, ...]:
        """Return none: only its topics are asked for."""
        return ()

    @property
    def topics(self) -> tuple[Topic, ...]:
        """Return the topics that it reads."""
        return self.read

    @classmethod
    def of(cls, name: str, newest: Entry) -> "KnownFeed":
        """Return the feed of a ledger entry."""
        return cls(
            name=name,
            key="",
            to=_topics(newest.sent)[0],
            version=newest.rules,
            read=_topics(newest.offsets),
        )


def accept(table: Ingested, lake: Lake, site: Site, signed: Signed) -> Accepted:
    """Accept the loss of the records that a bronze table was to read next.

    Raises:
        DefinitionError: Nothing is lost.
        DataError: The topic is another one.
        TransientError: The table has another writer at this moment, or Kafka is away.
    """
    path = lake.table(table)
    with lease(site.spark, table, lake):
        newest = _newest(table.id, lake, table)
        read = range_ends(newest.offsets)
        left = sums_of(path).retired
        topics = [topic for topic in table.topics if topic.name not in left]
        backlog = Backlog(site.kafka(table.id), site.options, topics, read)
        try:
            stream = identities(table.id, backlog, newest)
            refuse_unlike(table.id, newest.stream, stream, range_ends(newest.offsets))
            bounds = backlog.bounds()
        finally:
            backlog.close()
        gone = _gone(table.id, own_of(read, (each.name for each in topics)), bounds, newest)
        if not gone:
            return Accepted(entry=newest, is_new=False)
        entry = new_entry.decided(newest, MODE, stream=stream, by=_words(signed), lost=gone)
        delta_commit.Commit(site.spark, path).commit(entry.encoded())
        return Accepted(entry=entry, is_new=True)


def accept_of_feed(name: str, lake: Lake, site: Site, signed: Signed) -> Accepted:
    """Accept the loss of the records that a feed was to read next.

    Args:
        name: Its name, without the layer.
        lake: Where its ledger is.
        site: Spark, and where Kafka is.
        signed: Who accepts it, when and why.

    Raises:
        DefinitionError: There is no such feed, or nothing is lost.
        TransientError: The feed runs at this moment, or Kafka is away.
    """
    newest = _newest_of(lake.root / Feed.layer / name, f"{Feed.layer}.{name}")
    feed = KnownFeed.of(name, newest)
    with lease(site.spark, feed, lake):
        ledger = FeedLedger(
            site.spark, feed, MicroBatch(), lake, address=site.kafka(feed.id), options=site.options
        )
        try:
            ledger.settle(at_once=True)
            newest = _newest(feed.id, lake, feed)
            gone = _gone(feed.id, ledger.read(), ledger.bounds(), newest)
            if not gone:
                return Accepted(entry=newest, is_new=False)
            entry = ledger.accept(gone, _words(signed))
            return Accepted(entry=entry, is_new=True)
        finally:
            ledger.close()


def _gone(
    name: str, read: Mapping[Part, int], bounds: Bounds, newest: Entry
) -> dict[Part, tuple[int, int]]:
    """Return what is lost; nothing where that is in the newest entry already.

    Raises:
        DefinitionError: Nothing is lost, and nothing was accepted.
    """
    refuse_shrunk(name, read, bounds)
    gone = expired(read, bounds)
    if not gone and not newest.lost:
        raise DefinitionError(
            f"nothing is lost: Kafka has every record that {name} was to read next",
            hint=f"`strandline radar {name}` shows for how long it keeps them.",
            table=name,
        )
    return gone


def _newest(name: str, lake: Lake, table: Ingested | Feed) -> Entry:
    return _newest_of(lake.table(table), name)


def _newest_of(path: Place, name: str) -> Entry:
    """Return the newest entry of a reader.

    Raises:
        DefinitionError: It has read nothing yet.
    """
    found = last_entry(path)
    if found is None:
        raise DefinitionError(
            f"{name} has read nothing yet, so nothing is lost to it",
            hint="it begins with what Kafka has: `strandline run`.",
            table=name,
        )
    return found[1]


def _topics(offsets: Mapping[str, object]) -> tuple[Topic, ...]:
    names = sorted({part_of(name)[0] for name in offsets})
    return tuple(Topic(name=name) for name in names)


def _words(signed: Signed) -> str:
    at = signed.at.isoformat(timespec="seconds") if signed.at else ""
    return f"{signed.who} at {at}: {signed.why}"
