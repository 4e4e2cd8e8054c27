"""The entry of a commit, made by what the commit does: a step that reads, a copy, a decision, a repair, a removal, a mark.

Which fields must agree for each of these is stated here and nowhere else, so a caller gives only what is its own, and adds
where the rows went by the methods of an entry (jobs/strandline/engine/lake/log/ledger.py).
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from types import MappingProxyType

from strandline.core.feed import Feed
from strandline.core.static import Static
from strandline.core.table import Table
from strandline.core.topic import Topic
from strandline.engine.kafka.slices import Part, name_of, range_ends
from strandline.engine.kafka.topic_log import Ranges
from strandline.engine.lake.commit.replace_rows import NO_TIME, Reach
from strandline.engine.lake.log.ledger import BATCH, EXPIRE, FORGET, IMPORT, STATIC, Entry, Offsets
from strandline.engine.runtime.meter import code_version


def topics_read(  # noqa: PLR0913  # what names a batch, and what it reads
    taker: Table | Feed,
    mode: str,
    stream: str,
    batch: int,
    *,
    topics: Iterable[Topic],
    offsets: Offsets,
) -> Entry:
    """Begin the entry of a step that read ranges of topics."""
    source = ", ".join(topic.name for topic in topics)
    return replace(_entry(taker.id, mode, stream, batch, source), offsets=offsets)


def tables_read(  # noqa: PLR0913  # what names a batch, and what it reads
    table: Table,
    mode: str,
    stream: str,
    batch: int,
    *,
    versions: Mapping[str, tuple[int, int] | None],
    rows: int,
) -> Entry:
    """Begin the entry of a step that read commits of tables; each source is named, also one of which there was nothing to read."""
    read = {source: span for source, span in versions.items() if span}
    begun = _entry(table.id, mode, stream, batch, ", ".join(versions))
    return replace(
        begun,
        versions=read,
        read=rows,
        code=code_version(table),
        keeps_copies=table.keeps_copies,
        listed=table.listed,
        takes=table.takes_in_words,
        routed_by=table.routed_by,
    )


def copied(  # noqa: PLR0913  # what names a batch, and what it has
    table: Table, mode: str, stream: str, batch: int, *, source: str, rows: int
) -> Entry:
    """Return the entry of rows that are brought to a lake of this process as they are elsewhere."""
    return _entry(table.id, mode, stream, batch, source).as_received(rows)


def decided(  # noqa: PLR0913  # what a person decides of a table's topics
    newest: Entry,
    mode: str,
    *,
    stream: str,
    by: str,
    lost: Ranges = MappingProxyType({}),
    begins: Mapping[Part, int] | None = None,
) -> Entry:
    """Return the entry of a decision after a table's newest one, by which no record is read.

    Args:
        newest: The table's newest entry: each partition stays where that ended.
        mode: What was decided.
        stream: The identities of the topics from now on.
        by: Who decided it, when and why.
        lost: What is never read any more.
        begins: Where partitions begin that are read elsewhere from now on.
    """
    read = {**range_ends(newest.offsets), **{part: first for part, (first, _) in lost.items()}}
    at = sorted({**read, **(begins or {})}.items())
    return replace(
        _entry(newest.table, mode, stream, newest.batch + 1, newest.source),
        offsets={name_of(part): lost.get(part, (each, each)) for part, each in at},
        lost={name_of(part): each for part, each in lost.items()},
        accepted=by,
        newest_arrival=newest.newest_arrival,
        code=newest.code,
    )


def repair(table: Table, mode: str, stream: str, source: str, span: tuple[str, str]) -> Entry:
    """Begin the entry of a change to a range of event time, which may be empty, beside the table's own stream."""
    begun = mark_of_range(table, mode, stream, source, span)
    return replace(begun, code=code_version(table), keeps_copies=table.keeps_copies)


def imported(  # noqa: PLR0913  # what names it, and what it brings
    table: Table, stream: str, source: str, *, offsets: Offsets, span: tuple[str, str], rows: int
) -> Entry:
    """Return the entry of records that come to bronze from elsewhere than Kafka, before all that came from there."""
    begun = replace(_entry(table.id, IMPORT, stream, BATCH, source), offsets=offsets)
    return replace(begun, imported=offsets, since=span[0], until=span[1], came=rows).as_received(
        rows
    )


def expired(table: Table, until: str, *, rows: int, released: int) -> Entry:
    """Return the entry of rows that retention deletes: no other row has another value by that."""
    gone = _removal(table, EXPIRE, EXPIRE, rows, released, NO_TIME)
    return replace(gone, until=until, expired=rows)


def forgotten(table: Table, request: str, *, rows: int, released: int, changed: Reach) -> Entry:
    """Return the entry of rows that are deleted on a request, of which it has the hash only."""
    return replace(_removal(table, FORGET, request, rows, released, changed), forgotten=rows)


def content(static: Static, nth: int, source: str, rows: int, at: datetime | None) -> Entry:
    """Return the entry of a version of a static table, which holds from a moment; of all time where it is None."""
    begun = _entry(static.id, STATIC, STATIC, nth, source)
    return replace(begun, holds_from=at.astimezone(UTC).isoformat() if at else "").as_received(rows)


def mark(table: Table, mode: str, stream: str) -> Entry:
    """Return the entry of a decision about held records, which by itself moves no rows."""
    return _entry(table.id, mode, stream, 0, "")


def mark_of_range(
    table: Table, mode: str, stream: str, source: str, span: tuple[str, str]
) -> Entry:
    """Return the entry which says that something was done for a range of event time, and moves no rows."""
    return replace(_entry(table.id, mode, stream, 0, source), since=span[0], until=span[1])


def _removal(  # noqa: PLR0913, PLR0917  # what both removals have
    table: Table, mode: str, stream: str, rows: int, released: int, changed: Reach
) -> Entry:
    """Return what is said of rows that go for good: what was read and where it went stays in the books."""
    return replace(
        _entry(table.id, mode, stream, 0, ""),
        since="",
        written=-rows,
        released=released,
        changed=changed,
        code=code_version(table),
    )


def _entry(table: str, mode: str, stream: str, batch: int, source: str) -> Entry:
    return Entry(table=table, mode=mode, stream=stream, batch=batch, source=source)
