"""Who still reads the log of a table, and from which version on; and the radar: how long until something that a reader needs may be gone.

Readers are found by what they left in the lake and not by the catalog alone, so a table that was paused for months, or
whose module is gone, keeps what it needs: the checkpoints of streams, of rebuilds, and those that an undo of a promotion
brings back; the last version that recomputed windows were computed from; the version of a dimension at which rows were
looked up. The last two matter most, because a missing commit is no error to them: they would miss its change silently.

A reader that never began is none, because it can begin with a snapshot of its sources. Nor is a retired table whose place was
let go (jobs/strandline/engine/lake/completeness.py).

What is needed of a table are the commits from a version on, and every file that one of them adds or removes. A ledger needs
more: closed books begin where they were closed (jobs/strandline/engine/accounting/table_books.py).
"""

import json
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import datetime, timedelta
from enum import StrEnum
from math import inf
from typing import Any

from strandline import catalog

from strandline.core.errors import DamagedError, DataError
from strandline.core.kind import Layer
from strandline.core.table import Feed, Ingested, Recomputed, Table
from strandline.core.topic import Topic
from strandline.engine.flow import shadow_lake
from strandline.engine.flow.shadow_lake import Shadow
from strandline.engine.kafka import broker
from strandline.engine.kafka.slices import (
    WAIT,
    Backlog,
    Outlook,
    Part,
    Positions,
    Retention,
    outlooks,
    range_ends,
)
from strandline.engine.kafka.slices import name_of as topic_named
from strandline.engine.kafka.topic_log import current, identities_in, lost_of
from strandline.engine.lake.completeness import fed, retired
from strandline.engine.lake.lake import Lake
from strandline.engine.lake.log.commit_log import (
    commit_file,
    committed_at,
    is_commit,
    logged_versions,
)
from strandline.engine.lake.log.ledger import is_table, last_entry, latest_version
from strandline.engine.lake.log.ledger_sums import name_of, place_of, sums_of
from strandline.engine.lake.log.log_actions import table_id
from strandline.engine.lake.open_table import lowest
from strandline.engine.lake.place import Place, damage
from strandline.engine.lake.spark_checkpoint import NOWHERE, kafka_ends, unread_from


class How(StrEnum):
    """How a reader reads."""

    STREAM = "stream"
    """The table's own stream."""
    REBUILD = "rebuild"
    """The stream of a shadow that may be promoted."""
    UNDO = "undo"
    """The stream and the rows that an undo of the last promotion would bring back."""
    WINDOWS = "windows"
    """Windows that are computed again where a source changed."""
    DIMENSION = "dimension"
    """Rows that are looked up again where a dimension changed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reader:
    """One reader of tables.

    Args:
        table: The table that it fills.
        how: How it reads.
        needs: For each table that it reads, the first version that it needs; the one after the newest, where it has read
            everything.
    """

    table: str
    how: How
    needs: Mapping[str, int]


def readers(lake: Lake) -> list[Reader]:
    """Return all readers of the lake's tables."""
    layers = (lake.root / layer for layer in Layer)
    folders = [layer / name for layer in layers for name in layer.names()]
    names, there = _names(folders), {name_of(folder) for folder in folders}
    tables = {table.id: table for table in catalog.tables()}
    # A promotion moves checkpoints: from the table to the shadow's folder, then from the shadow to the table. With the
    # tables' folders read before and after, none can be missed on its way.
    seen = [
        *_streams(lake, names, tables),
        *_shadows(lake, names, tables),
        *_streams(lake, names, tables),
        # A look whether a table exists is three requests to a store, and this is asked for each folder that is maintained.
        *_followers(lake, [table for table in tables.values() if table.id in there]),
    ]
    found: dict[tuple[str, How], Reader] = {}
    for each in seen:
        before = found.get((each.table, each.how), each)
        found[each.table, each.how] = replace(each, needs=lowest([before.needs, each.needs]))
    past = {name for name, each in retired(lake).items() if not each.place_kept}
    own = {How.STREAM, How.WINDOWS, How.DIMENSION}
    return [each for each in found.values() if each.table not in past or each.how not in own]


def _names(paths: Sequence[Place]) -> dict[str, str]:
    """Return the names of tables by the ids that Delta gave to them."""
    return {found: name_of(path) for path in paths if is_table(path) and (found := _id_of(path))}


def _id_of(path: Place) -> str | None:
    """Return a table's id; None where its log cannot be read, and then nothing of that table is touched."""
    try:
        return table_id(path)
    except (DamagedError, OSError):
        return None


def _streams(lake: Lake, names: Mapping[str, str], tables: Mapping[str, Table]) -> Iterator[Reader]:
    folder = lake.root / "_checkpoints"
    for table in folder.names():
        needs = _needs_or_all(folder / table, lake, names, tables.get(table))
        if needs:
            yield Reader(table=table, how=How.STREAM, needs=needs)


def _shadows(lake: Lake, names: Mapping[str, str], tables: Mapping[str, Table]) -> Iterator[Reader]:
    for made in shadow_lake.shadows(lake, tables.values()):
        yield from _of_shadow(made, lake, names)


def _of_shadow(made: Shadow, lake: Lake, names: Mapping[str, str]) -> Iterator[Reader]:
    table = made.own
    if needs := _needs_or_all(made.checkpoint(table), lake, names, table):
        yield Reader(table=table.id, how=How.REBUILD, needs=needs)
    promotion = shadow_lake.read(made)
    if promotion is None or promotion.undone:
        return
    before = zip(lake.folders(table), promotion.before, strict=False)
    rows = {name_of(path): version for path, version in before}
    yield Reader(
        table=table.id,
        how=How.UNDO,
        needs={**_needs_of_put_away(made.put_away(promotion.mark), lake, names, table), **rows},
    )


def _followers(lake: Lake, tables: Sequence[Table]) -> Iterator[Reader]:
    """Yield the readers without a checkpoint, which note in their ledger what they have read."""
    for table in tables:
        if not lake.exists(table):
            continue
        try:
            yield from _follower(table, lake)
        except Exception as error:
            if damage(error, table) is None:
                raise
            # What a damaged table has read is not known, so nothing goes of what it reads.
            how = How.WINDOWS if isinstance(table, Recomputed) else How.DIMENSION
            read = table.upstream if isinstance(table, Recomputed) else table.needs
            yield Reader(table=table.id, how=how, needs=_all_of(read, lake))


def _follower(table: Table, lake: Lake) -> Iterator[Reader]:
    if isinstance(table, Recomputed):
        newest = last_entry(lake.table(table))
        seen = newest[1].versions if newest else {}
        needs = {name: last + 1 for name, (_, last) in seen.items()}
        if needs:
            yield Reader(table=table.id, how=How.WINDOWS, needs=needs)
    elif table.dimension is not None:
        looked = sums_of(lake.table(table)).right_until
        if looked >= 0:
            needs = {table.dimension.source.id: looked + 1}
            yield Reader(table=table.id, how=How.DIMENSION, needs=needs)


def _needs_of_put_away(
    checkpoint: Place, lake: Lake, names: Mapping[str, str], table: Table
) -> dict[str, int]:
    """Return what an undo would read on; a torn checkpoint is a reader of nothing, and no undo uses it.

    One that is closed to this user may be whole, so nothing goes that its table reads.
    """
    try:
        return _needs(checkpoint, names, table)
    except DamagedError:
        return _needs_or_all(checkpoint, lake, names, table)
    except DataError:
        return {}


def _needs_or_all(
    checkpoint: Place, lake: Lake, names: Mapping[str, str], table: Table | None
) -> dict[str, int]:
    """Return what a stream needs; of one whose checkpoint cannot be read all of what its table reads, and no more.

    Raises:
        DataError: It cannot be read, and no table of its name says what it reads.
    """
    try:
        return _needs(checkpoint, names, table)
    except DataError:
        if table is None:
            raise
        there = set(names.values())
        return {each: at for each, at in _all_of(table.needs, lake).items() if each in there}


def _all_of(sources: Sequence[Table], lake: Lake) -> dict[str, int]:
    """Return the first version that is in the log of each source: what is there stays, and nothing is missed that is not."""
    found = {each.id: logged_versions(lake.table(each)) for each in sources if lake.exists(each)}
    return {name: min(versions) for name, versions in found.items() if versions}


def _needs(checkpoint: Place, names: Mapping[str, str], table: Table | None) -> dict[str, int]:
    """Return the first version of each source that a stream needs; nothing where it is no stream over tables."""
    found = unread_from(checkpoint)
    if found is None:
        return {}
    at = {names[source]: position for source, position in found.items() if source in names}
    unread = {source.id: NOWHERE for source in table.upstream} if table else {}
    there = set(names.values())
    return {name: each.version for name, each in {**unread, **at}.items() if name in there}


# The radar: for each reader, how long until something that it still needs may be gone.
#
# * A bronze table and a feed read topics, whose records expire (jobs/strandline/engine/kafka/slices.py). The figure is the earliest
#   moment: a broker removes whole segments, and no sooner.
# * A table reads the log of another one, of which nothing goes that a reader needs; the figure
#   is what it holds back from being removed, and since when.
#
# A quarantine and the decisions about it are kept for good, and the state of a stream ends with the watermark, which is no
# loss: what comes later is late by the table's own law (jobs/strandline/core/kind.py).


# A span of time in two words that a person can act on.


UNITS = (("d", 86_400), ("h", 3_600), ("min", 60), ("s", 1))


def span(length: timedelta) -> str:
    """Return a span in its two largest units.

    >>> span(timedelta(hours=27, minutes=5))
    '1 d 3 h'
    >>> span(timedelta(seconds=59.6))
    '59 s'
    """
    left = max(0, int(length.total_seconds()))
    counts = []
    for unit, seconds in UNITS:
        count, left = divmod(left, seconds)
        counts.append((count, unit))
    first = next((n for n, (count, _) in enumerate(counts) if count), len(counts) - 1)
    largest = [f"{count} {unit}" for count, unit in counts[first : first + 2]]
    return " ".join(each for n, each in enumerate(largest) if n == 0 or not each.startswith("0 "))


# How near the loss of what a reader still needs is, in a level and a sentence.


WARNED = timedelta(days=2)
"""Time left below which there is a warning: a weekend, and what a person needs after it."""

URGENT = timedelta(hours=12)
"""Time left below which a person is asked at once: a night."""

WARNED_SHARE, URGENT_SHARE = 0.5, 0.25
"""The same as shares of the time for which a topic keeps its records, for one that keeps them for less than that."""


LONGEST = 10**13
"""Milliseconds, 300 years; a topic may keep its records for longer than a span can be."""


class Level(StrEnum):
    """How near the loss is, from the best to the worst."""

    SAFE = "safe"
    UNKNOWN = "not known"
    SOON = "soon"
    URGENT = "urgent"
    LOST = "lost"

    @property
    def rank(self) -> int:
        """Return its place from the best to the worst."""
        return list(Level).index(self)

    @property
    def is_alarming(self) -> bool:
        """Return whether a person must act now."""
        return self.rank >= Level.URGENT.rank


@dataclass(frozen=True, slots=True, kw_only=True)
class Danger:
    """What a reader still needs of one source, and for how long it is there.

    Args:
        reader: Who reads.
        source: A partition of a topic, or a table.
        unread: How many offsets or commits are unread.
        next_at: When the oldest of them was written.
        goes_at: The earliest moment at which it may be gone; None for never, or unknown.
        seconds: The time until then; below 0, it may go at any moment.
        lost: The first offset or version that is gone and was not read, and the one after the last.
        level: How near the loss is.
        says: All of it in a sentence.
    """

    reader: str
    source: str
    unread: int
    next_at: str | None = None
    goes_at: str | None = None
    seconds: float | None = None
    lost: tuple[int, int] | None = None
    level: Level
    says: str


Judged = tuple[Level, str]


def judged(reader: str, found: Outlook, now: datetime, *, stops: bool = True) -> Danger:
    """Return what an outlook means for a reader at a moment.

    Args:
        reader: Its name.
        found: What Kafka has for it.
        now: The moment.
        stops: Whether the reader stops where a record is gone; one that goes on asks for no person.
    """
    left = found.goes_at - now if found.goes_at else None
    level, says = _without_unread(found) or _of_unread(found, left)
    if not stops:
        level = min(level, Level.SOON, key=lambda each: each.rank)
    return Danger(
        reader=reader,
        source=topic_named(found.part),
        unread=found.unread,
        next_at=text(found.next_at),
        goes_at=text(found.goes_at),
        seconds=left.total_seconds() if left is not None else None,
        lost=found.lost,
        level=level,
        says=says,
    )


def text(moment: datetime | None) -> str | None:
    """Return a moment to the second."""
    return moment.isoformat(timespec="seconds") if moment else None


def _without_unread(found: Outlook) -> Judged | None:
    """Judge what no time is asked for; None where a record is there and unread."""
    if found.lost:
        first, end = found.lost
        return Level.LOST, f"offsets {first} to {end - 1} are gone and were not read"
    if found.unread:
        return None
    return (Level.UNKNOWN, found.unknown) if found.unknown else (Level.SAFE, "nothing is unread")


def _of_unread(found: Outlook, left: timedelta | None) -> Judged:
    kept, aside = found.retention, _aside(found.retention)
    if kept.unknown:
        return Level.UNKNOWN, kept.unknown
    if kept.ms is None:
        return (Level.UNKNOWN if aside else Level.SAFE), f"kept whatever its age{aside}"
    if left is None:
        return Level.UNKNOWN, f"{found.unknown or 'the next record has no time'}{aside}"
    level = _by_time(left, kept.ms)
    if level is Level.SAFE and aside:
        level = Level.UNKNOWN
    if left <= timedelta(0):
        return level, f"older than its topic keeps records: it may go at any moment{aside}"
    return level, f"kept for another {span(left)} at least{aside}"


def _by_time(left: timedelta, milliseconds: int) -> Level:
    whole = timedelta(milliseconds=min(milliseconds, LONGEST))
    if left < min(URGENT, whole * URGENT_SHARE):
        return Level.URGENT
    return Level.SOON if left < min(WARNED, whole * WARNED_SHARE) else Level.SAFE


def _aside(kept: Retention) -> str:
    """Return by what else than its age a record may go, of which no moment is known."""
    by_size = "; by size: not known" if kept.size is not None else ""
    by_key = "; compacted: it may go once its key has a newer record" if kept.by_key else ""
    return by_size + by_key


PATIENCE, SHORTEST = 20.0, 0.5
"""Seconds to wait for the next records of all readers, and of one at least; Dagster ends a sensor after a minute."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicReader:
    """A reader of topics.

    Args:
        name: What people call it.
        positions: The offsets that it reads next.
        stream: The ids of the topics that it read.
        stops: Whether it stops where a record is gone; one that goes on asks for no person.
    """

    name: str
    positions: Positions
    stream: str = ""
    stops: bool = True


def topic_readers(lake: Lake) -> list[TopicReader]:
    """Return the bronze tables that have read something, and the feeds that ran in the last process."""
    tables = fed((table for table in catalog.tables() if isinstance(table, Ingested)), lake)
    bronze = [bronze_reader(table, lake) for table in tables]
    return [*(each for each in bronze if each.positions), *_feeds(lake)]


def bronze_reader(table: Ingested, lake: Lake) -> TopicReader:
    """Return a bronze table as a reader of its topics; it has no positions where it has read nothing."""
    path = lake.table(table)
    positions, stream = _read(path), _stream(path)
    if positions and not identities_in(stream):  # all are retired, or it was read before ids were
        left = sums_of(path).retired
        positions = {part: at for part, at in positions.items() if part[0] not in left}
    return TopicReader(name=table.id, positions=positions, stream=stream)


def table_dangers(lake: Lake) -> list[Danger]:
    """Return what each reader of tables holds back."""
    return [danger for reader in readers(lake) for danger in _of_tables(reader, lake)]


def topic_dangers(
    readers_: Sequence[TopicReader], address: str, options: Mapping[str, str], now: datetime
) -> list[Danger]:
    """Return for how long Kafka keeps what readers of topics have not read.

    Raises:
        DefinitionError: The cluster refuses the client.
        TransientError: No broker answers.
    """
    until, dangers = time.monotonic() + PATIENCE, list[Danger]()
    gone = recreated(readers_, address, options)
    for reader in readers_:
        wait = max(SHORTEST, min(WAIT, until - time.monotonic()))
        found = outlooks(address, options, reader.positions, wait)
        dangers += [
            gone.get((reader.name, part)) or judged(reader.name, each, now, stops=reader.stops)
            for part, each in sorted(found.items())
            if _is_read(reader, part)
        ]
    return dangers


def recreated(
    readers_: Sequence[TopicReader], address: str, options: Mapping[str, str]
) -> dict[tuple[str, Part], Danger]:
    """Return what is lost of topics that were deleted, or made anew, since they were read; by reader and partition."""
    known = {reader.name: identities_in(reader.stream) for reader in readers_}
    names = {topic for ids in known.values() for topic in ids}
    there = names & broker.topics(address, options).keys()
    log = Backlog(address, options, [Topic(name=name) for name in sorted(there)])
    try:
        now = log.identities()
    finally:
        log.close()
    return {
        (reader.name, part): Danger(
            reader=reader.name,
            source=topic_named(part),
            unread=0,
            level=Level.LOST if reader.stops else Level.SOON,
            says=f"its topic was {'made anew' if part[0] in now else 'deleted'}: "
            f"{lost_of(part[0], {part: at})}",
        )
        for reader in readers_
        for part, at in reader.positions.items()
        if _is_read(reader, part)
        and now.get(part[0]) != known[reader.name].get(part[0], now.get(part[0]))
    }


def _is_read(reader: TopicReader, part: Part) -> bool:
    """Return whether a reader still reads a topic; one that a table named before is in its ledger for good."""
    known = identities_in(reader.stream)
    return not known or part[0] in known


def _stream(path: Place) -> str:
    newest = last_entry(path) if is_table(path) else None
    return newest[1].stream if newest else ""


def keep(lake: Lake, found: Sequence[Danger], now: datetime) -> None:
    """Keep what was found, for the report and for readers without a broker."""
    lake.radar.put(json.dumps({"at": text(now), "dangers": [asdict(each) for each in found]}))


def last(lake: Lake) -> tuple[str, list[Danger]] | None:
    """Return when the radar looked last, and what it found; None where it never did."""
    try:
        stored: dict[str, Any] = json.loads(lake.radar.text() or "")
        found = [
            Danger(
                **{**each, "lost": each["lost"] and (*each["lost"],), "level": Level(each["level"])}
            )
            for each in stored["dangers"]
        ]
    except (ValueError, KeyError, TypeError):  # none, or of another version
        return None
    return str(stored["at"]), found


def worst(found: Sequence[Danger]) -> Danger | None:
    """Return the danger that is nearest; None where there is no reader."""
    return max(found, key=_nearness, default=None)


def _nearness(danger: Danger) -> tuple[int, float]:
    return danger.level.rank, -inf if danger.seconds is None else -danger.seconds


def _feeds(lake: Lake) -> Iterator[TopicReader]:
    folder = lake.root / Feed.layer
    running = _in_the_last_process(lake)
    for name in folder.names():
        feed = f"{Feed.layer}.{name}"
        if is_table(folder / name) and (running is None or feed in running):
            ended = kafka_ends(lake.root / "_checkpoints" / feed)
            done = {
                (topic, int(number)): at
                for topic, parts in (ended[1] if ended else {}).items()
                for number, at in parts.items()
            }
            yield TopicReader(
                name=feed,
                positions=_later(_read(folder / name), done),
                stream=_stream(folder / name),
            )


def _in_the_last_process(lake: Lake) -> set[str] | None:
    """Return the feeds of the process that ran last; rules that are gone leave a ledger that nothing reads for."""
    text = lake.feeds_beat.text()
    return None if text is None else set(json.loads(text)["tables"])


def _later(one: Positions, other: Positions) -> Positions:
    return {**one, **{part: max(at, one.get(part, at)) for part, at in other.items()}}


def _read(path: Place) -> Positions:
    newest = last_entry(path) if is_table(path) else None
    return current(range_ends(newest[1].offsets)) if newest else {}


def _of_tables(reader: Reader, lake: Lake) -> Iterator[Danger]:
    name = reader.table if reader.how is How.STREAM else f"{reader.table} ({reader.how})"
    for source, version in sorted(reader.needs.items()):
        path = place_of(lake.root, source)
        latest = latest_version(path)
        unread = max(0, latest + 1 - version)
        is_there = not unread or _has(path, version, reader.how)
        since = committed_at(path, version) if unread and is_there else None
        yield Danger(
            reader=name,
            source=source,
            unread=unread,
            next_at=text(since),
            lost=None if is_there else (version, version + 1),
            level=Level.SAFE if is_there else Level.LOST,
            says=_kept(version, unread)
            if is_there
            else f"version {version} is gone and was not read",
        )


def _has(path: Place, version: int, how: How) -> bool:
    """Return whether a reader finds a version: Delta only in the log itself, this program also where old commits are packed."""
    if how in {How.WINDOWS, How.DIMENSION}:
        return is_commit(path, version)
    return commit_file(path, version).exists()


def _kept(version: int, unread: int) -> str:
    return f"its log is kept from version {version} on" if unread else "nothing is unread"
