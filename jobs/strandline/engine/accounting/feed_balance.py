"""The books of feeds: no offset read twice or left out, and no record written that the lake does not get.

A feed's entries follow each other without a gap, in the topics that it reads and in the topic that it writes
(jobs/strandline/engine/pipeline/feed_ledger.py). What it wrote is counted a second time by the bronze table over its topic, which
has each record once; so where that table has read as far as the feeds have counted, they cannot have written more
records than it has. What the bronze tables over the topics that it reads have beyond its last entry waits: it is not
read yet, or of the epoch that runs. Whether the rules should have raised other alerts is for a backtest to say, not for the books.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence

from strandline import catalog

from strandline.core.feed import Feed
from strandline.core.table import Ingested
from strandline.engine.accounting.audit_books import compared
from strandline.engine.accounting.balance_sheet import Balance
from strandline.engine.accounting.feed_books import FeedBooks
from strandline.engine.kafka.slices import part_of
from strandline.engine.storage.lake import Lake
from strandline.engine.storage.ledger import Offsets, is_table, last_entry
from strandline.engine.storage.ledger_snapshot import sums_of

LIVE = Feed.layer


def feed_balances(lake: Lake, *, audited: bool = False) -> list[Balance]:
    """Return the balance sheet of each feed that ever ran; ``rows`` are the records that it wrote."""
    folder = lake.root / LIVE
    found = {
        f"{LIVE}.{name}": FeedBooks(folder / name, from_start=audited)
        for name in folder.names()
        if is_table(folder / name)
    }
    faults = {name: [*compared(books, lake)] if audited else [] for name, books in found.items()}
    for books in found.values():
        books.follow()
    excess = _excess(list(found.values()), lake)
    return [_sheet(n, books, lake, [*faults[n], *excess]) for n, books in found.items()]


def _sheet(name: str, books: FeedBooks, lake: Lake, faults: Sequence[str]) -> Balance:
    return Balance(
        table=name,
        read=books.sums.read,
        good=books.sums.good,
        quarantined=dict(books.sums.held),
        dropped_by_watermark=books.sums.dropped,
        rows=books.sums.written,
        waiting=_waiting(books, lake),
        batches=books.sums.batches,
        lost=dict(books.sums.lost),
        faults=[*books.faults, *faults],
    )


def _waiting(books: FeedBooks, lake: Lake) -> int:
    """Return how many offsets the bronze tables have read beyond a feed's last entry."""
    topics = _topics(books.read)
    newest = [
        last_entry(lake.table(table))
        for table in _ingested(lake)
        if {topic.name for topic in table.topics} & topics
    ]
    ends = {part: end for found in newest if found for part, (_, end) in found[1].offsets.items()}
    return sum(max(0, end - books.read.get(part, 0)) for part, end in ends.items())


def _ingested(lake: Lake) -> list[Ingested]:
    """Return the bronze tables that exist."""
    return [
        table for table in catalog.tables() if isinstance(table, Ingested) and lake.exists(table)
    ]


def _excess(feeds: Sequence[FeedBooks], lake: Lake) -> list[str]:
    """Return a fault for each topic to which feeds wrote more than its table has, though it has read as far."""
    return [fault for table in _ingested(lake) for fault in _excess_of(table, feeds, lake)]


def _excess_of(table: Ingested, all_feeds: Sequence[FeedBooks], lake: Lake) -> Iterator[str]:
    topics = {topic.name for topic in table.topics}
    feeds = [books for books in all_feeds if topics & _topics(books.counted)]
    if not feeds:
        return
    newest = last_entry(lake.table(table))
    if newest is None or any(_is_beyond(books.counted, newest[1].offsets) for books in feeds):
        return
    written = sum(books.sums.written for books in feeds)
    there = sums_of(lake.table(table)).read
    if written > there:
        yield f"feeds wrote {written:,} records for {table.id}, which has {there:,}"


def _topics(parts: Iterable[str]) -> set[str]:
    return {part_of(name)[0] for name in parts}


def _is_beyond(counted: Mapping[str, int], read: Offsets) -> bool:
    return any(end > read.get(part, (0, 0))[1] for part, end in counted.items())
