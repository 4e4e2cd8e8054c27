"""The radar: for each reader, how long until something that it still needs may be gone.

* A bronze table and a feed read topics, whose records expire (jobs/strandline/engine/kafka/retention.py). The figure is the earliest
  moment: a broker removes whole segments, and no sooner.
* A table reads the log of another one, of which nothing goes that a reader needs (jobs/strandline/engine/pipeline/readers.py); the figure
  is what it holds back from being removed, and since when.

A quarantine and the decisions about it are kept for good, and the state of a stream ends with the watermark, which is no
loss: what comes later is late by the table's own law (jobs/strandline/core/lateness.py).
"""

import json
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from math import inf
from typing import Any

from strandline import catalog

from strandline.core.feed import Feed
from strandline.core.table import Ingested
from strandline.core.topic import Topic
from strandline.engine.kafka import admin
from strandline.engine.kafka.next_records import WAIT
from strandline.engine.kafka.outlook import outlooks
from strandline.engine.kafka.recreated import identities_in, lost_of
from strandline.engine.kafka.slices import Backlog, Part, Positions, name_of, range_ends
from strandline.engine.kafka.stays import current
from strandline.engine.pipeline.readers import How, Reader, readers
from strandline.engine.pipeline.retention_risk import Danger, Level, judged, text
from strandline.engine.storage.commit_log import commit_file, is_commit
from strandline.engine.storage.commit_time import committed_at
from strandline.engine.storage.lake import Lake
from strandline.engine.storage.ledger import is_table, last_entry, latest_version
from strandline.engine.storage.ledger_snapshot import sums_of
from strandline.engine.storage.place import Place
from strandline.engine.storage.retired import fed
from strandline.engine.storage.spark_checkpoint import kafka_ends

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
    bronze = [_bronze(table.id, lake.table(table)) for table in tables]
    return [*(each for each in bronze if each.positions), *_feeds(lake)]


def _bronze(name: str, path: Place) -> TopicReader:
    positions, stream = _read(path), _stream(path)
    if positions and not identities_in(stream):  # all are retired, or it was read before ids were
        left = sums_of(path).retired
        positions = {part: at for part, at in positions.items() if part[0] not in left}
    return TopicReader(name=name, positions=positions, stream=stream)


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
    there = names & admin.topics(address, options).keys()
    log = Backlog(address, options, [Topic(name=name) for name in sorted(there)])
    try:
        now = log.identities()
    finally:
        log.close()
    return {
        (reader.name, part): Danger(
            reader=reader.name,
            source=name_of(part),
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
        layer, _, short = source.partition(".")
        path = lake.root / layer / short
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
