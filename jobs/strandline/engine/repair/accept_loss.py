"""Accept that records expired in Kafka before they were read: account for the gap, and let the reader go on behind it.

A reader stops where the next record is gone, and skips nothing by itself. A person accepts the loss, with a reason; then
an entry in the ledger has exactly the offsets that are gone, beside those that were read. So the books still follow each
other without a gap, and name what is lost.

Of a bronze table it is one commit, which is its checkpoint. A feed has a checkpoint of Spark's beside its ledger: the entry
is first, and the checkpoint is moved when the ledger is closed, or opened the next time (jobs/strandline/engine/flow/feed_ledger.py), so a process that is
killed between both leaves nothing to repair.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from strandline.core.errors import DefinitionError
from strandline.core.feed import Feed
from strandline.core.stateful import MicroBatch
from strandline.core.table import Ingested, Judged
from strandline.core.topic import Topic
from strandline.engine.flow import new_entry
from strandline.engine.flow.feed_ledger import FeedLedger
from strandline.engine.flow.ingest import identities, own_of, refuse_unlike
from strandline.engine.flow.runner import Site
from strandline.engine.kafka.slices import Backlog, Bounds, Part, part_of, range_ends
from strandline.engine.kafka.topic_log import expired, refuse_shrunk
from strandline.engine.lake.commit import delta_commit
from strandline.engine.lake.files.place import Place
from strandline.engine.lake.lake import Lake
from strandline.engine.lake.locks import lease
from strandline.engine.lake.log.ledger import Entry, last_entry
from strandline.engine.lake.log.ledger_sums import sums_of
from strandline.engine.quarantine.held_records import Signed

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
