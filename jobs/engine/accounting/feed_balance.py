"""The books of feeds: no offset read twice or left out, and no record written that the lake does not get.

A feed's entries follow each other without a gap, in the topics that it reads and in the topic that it writes
(jobs/engine/pipeline/feed_ledger.py). What it wrote is counted a second time by the bronze table over its topic, which
has each record once; so where that table has read as far as the feeds have counted, they cannot have written more
records than it has. What the bronze tables over the topics that it reads have beyond its last entry waits: it is not
read yet, or of the epoch that runs. Whether the rules should have raised other alerts is for a backtest to say, not for the books.
"""

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise

from jobs import catalog
from jobs.core.feed import Feed
from jobs.core.table import Ingested
from jobs.engine.accounting.balance_sheet import Balance
from jobs.engine.kafka.slices import part_of
from jobs.engine.storage.lake import Lake
from jobs.engine.storage.ledger import Entry, Offsets, entries, is_table, last_entry

LIVE = Feed.layer


def feed_balances(lake: Lake) -> list[Balance]:
    """Return the balance sheet of each feed that ever ran; ``rows`` are the records that it wrote."""
    folder = lake.root / LIVE
    found = {
        f"{LIVE}.{name}": [entry for _, entry in entries(folder / name)]
        for name in folder.names()
        if is_table(folder / name)
    }
    excess = _excess(found, lake)
    return [_sheet(name, own, _waiting(own, lake), excess) for name, own in found.items()]


def _sheet(name: str, own: Sequence[Entry], waiting: int, excess: Sequence[str]) -> Balance:
    read = sum(entry.read for entry in own)
    return Balance(
        table=name,
        read=read,
        good=read,
        rows=sum(entry.written for entry in own),
        waiting=waiting,
        batches=len(own),
        faults=[*_gaps(own), *excess],
    )


def _waiting(own: Sequence[Entry], lake: Lake) -> int:
    """Return how many offsets the bronze tables have read beyond a feed's last entry."""
    read = own[-1].offsets if own else {}
    newest = [
        last_entry(lake.table(table))
        for table in _ingested(lake)
        if {topic.name for topic in table.topics} & _topics(read)
    ]
    ends = {part: end for found in newest if found for part, (_, end) in found[1].offsets.items()}
    return sum(max(0, end - read.get(part, (0, 0))[1]) for part, end in ends.items())


def _ingested(lake: Lake) -> list[Ingested]:
    """Return the bronze tables that exist."""
    return [
        table for table in catalog.tables() if isinstance(table, Ingested) and lake.exists(table)
    ]


def _gaps(own: Sequence[Entry]) -> Iterator[str]:
    for before, after in pairwise(own):
        for what, old, new in (
            ("read", before.offsets, after.offsets),
            ("counted", before.sent, after.sent),
        ):
            yield from (
                f"epoch {after.batch} {what} {part} from offset {new[part][0]}, where the one before ended at {end}"
                for part, (_, end) in old.items()
                if part in new and new[part][0] != end
            )


def _excess(found: Mapping[str, Sequence[Entry]], lake: Lake) -> list[str]:
    """Return a fault for each topic to which feeds wrote more than its table has, though it has read as far."""
    return [fault for table in _ingested(lake) for fault in _excess_of(table, found, lake)]


def _excess_of(table: Ingested, found: Mapping[str, Sequence[Entry]], lake: Lake) -> Iterator[str]:
    topics = {topic.name for topic in table.topics}
    feeds = [own for own in found.values() if own and topics & _topics(own[-1].sent)]
    if not feeds:
        return
    read = [entry for _, entry in entries(lake.table(table))]
    if not read or any(_is_beyond(own[-1].sent, read[-1].offsets) for own in feeds):
        return
    written = sum(entry.written for own in feeds for entry in own)
    there = sum(entry.read for entry in read)
    if written > there:
        yield f"feeds wrote {written:,} records for {table.id}, which has {there:,}"


def _topics(offsets: Offsets) -> set[str]:
    return {part_of(name)[0] for name in offsets}


def _is_beyond(counted: Offsets, read: Offsets) -> bool:
    return any(end > read.get(part, (0, 0))[1] for part, (_, end) in counted.items())
