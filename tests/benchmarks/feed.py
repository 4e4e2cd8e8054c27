"""Gives a stream its input a hundred rows at a time: versions of a prepared table, or events of a plan.

Versions are hard links: a commit becomes visible at once, costs nothing, and is the same for all.
"""

import json
import os
import shutil
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from urllib.parse import unquote

import pyarrow.parquet as pq
from confluent_kafka import Producer

from fleet.play.devices import Fleet
from fleet.play.plan import Chunk, Plan
from strandline.core.topic import Topic
from strandline.engine.kafka.broker import create_topic
from strandline.engine.kafka.topic_log import Log
from strandline.engine.lake.commit.delta_commit import SUMS_KEPT, forget_sum
from strandline.engine.lake.log.ledger import is_table, latest_version
from strandline.engine.lake.place import Place

ROWS = 100
PATIENCE = 180.0
LOOK = 0.001
SUMS = "_sums"


class FeedError(Exception):
    """What was given did not come out in time."""


def wait_for(happened: Callable[[], bool], what: str, look: float = LOOK) -> None:
    """Look until something has happened, every millisecond unless a look costs more than that."""
    deadline = time.monotonic() + PATIENCE
    while not happened():
        if time.monotonic() > deadline:
            message = f"{what} did not happen within {PATIENCE:.0f} s"
            raise FeedError(message)
        time.sleep(look)


class Versions:
    """A prepared table that appears again elsewhere, one version after another."""

    def __init__(self, prepared: Path, target: Path) -> None:
        """Begin with the empty table, or after the newest version of the target."""
        self._prepared = prepared
        self._target = target
        self.has_rows = False
        if is_table(Place.of(target)):
            self._next = latest_version(Place.of(target)) + 1
            return
        self._next = 0
        (target / "_delta_log").mkdir(parents=True)
        self.give()

    def give_until(self, version: int) -> bool:
        """Make all versions up to one appear; return whether one of them has rows."""
        has_rows = False
        while self._next <= version and self.give():
            has_rows |= self.has_rows
        return has_rows

    def give(self) -> bool:
        """Make the next version appear, its files first; return whether there was one."""
        name = f"_delta_log/{self._next:020d}"
        if not (self._prepared / f"{name}.json").exists():
            self.has_rows = False
            return False
        paths = [add["path"] for add in adds(self._prepared, self._next)]
        self.has_rows = bool(paths)
        for path in paths:
            file = self._target / path
            file.parent.mkdir(parents=True, exist_ok=True)
            _link(self._prepared / path, file)
        self._give_sum(f"{self._next:020d}.crc")
        _link(self._prepared / f"{name}.json", self._target / f"{name}.json")
        self._give_checkpoint()
        forget_sum(Place.of(self._target), self._next - SUMS_KEPT)
        self._next += 1
        return True

    def _give_checkpoint(self) -> None:
        """Give the checkpoint that was written behind the version, and the note that names it."""
        name = f"{self._next:020d}.checkpoint.parquet"
        prepared, target = self._prepared / "_delta_log", self._target / "_delta_log"
        if not (prepared / name).exists():
            return
        _link(prepared / name, target / name)
        pointer = {"version": self._next, "size": pq.read_metadata(prepared / name).num_rows}
        draft = target / ".last_checkpoint"
        draft.write_text(json.dumps(pointer))
        draft.replace(target / "_last_checkpoint")

    def _give_sum(self, name: str) -> None:
        """Give the checksum file that was beside the version when it was new."""
        for folder in (SUMS, "_delta_log"):
            if (self._prepared / folder / name).exists():
                _link(self._prepared / folder / name, self._target / "_delta_log" / name)
                return


def _link(file: Path, target: Path) -> None:
    """Make a file appear elsewhere; one that an interrupted run has made is there already."""
    with suppress(FileExistsError):
        os.link(file, target)


def keep_sums(table: Path) -> None:
    """Keep the checksum files of a growing table, which removes them when they are old."""
    (table / SUMS).mkdir(parents=True, exist_ok=True)
    for sum_ in (table / "_delta_log").glob("*.crc"):
        with suppress(FileExistsError, FileNotFoundError):
            os.link(sum_, table / SUMS / sum_.name)


class Events:
    """A plan's events, sent when they are asked for."""

    def __init__(self, plan: Plan, address: str, topic: str) -> None:
        """Make the topic and connect."""
        create_topic(address, topic, 4, {})
        self.topic = topic
        self._chunks: Iterator[Chunk] = Fleet(plan).chunks(ROWS)
        self._producer = Producer({"bootstrap.servers": address, "linger.ms": 5, "log_level": 0})
        self.sent = 0

    def give(self) -> None:
        """Send the next hundred and wait until the broker has them."""
        chunk = next(self._chunks)
        for key, value, at in zip(chunk.keys, chunk.values, chunk.arrived_at, strict=True):
            self._producer.produce(self.topic, value, key, timestamp=at)
        self._producer.flush()
        self.sent += len(chunk.values)


class Tail:
    """Follows a table's log and counts the rows that were added."""

    def __init__(self, path: Path) -> None:
        """Begin before the first version."""
        self._path = path
        self.versions = 0
        self.rows = 0

    def look(self) -> int:
        """Read what is new and return all rows so far."""
        while (self._path / "_delta_log" / f"{self.versions:020d}.json").exists():
            stats = (json.loads(add["stats"]) for add in adds(self._path, self.versions))
            self.rows += sum(found["numRecords"] for found in stats)
            self.versions += 1
        return self.rows


def events_in(address: str, topic: Topic) -> int:
    """Return how many records a topic has been given."""
    log = Log(address, {}, topic)
    try:
        return sum(end for _, end in log.bounds().values())
    finally:
        log.close()


def has_all(address: str, topics: Iterable[Topic], events: int) -> bool:
    """Return whether the topics hold all events of a benchmark already; refuse those of another one."""
    there = sum(events_in(address, topic) for topic in topics)
    if there and there != events:
        message = f"the topics have {there:,} events of others; name another folder with --work"
        raise SystemExit(message)
    return there == events


def adds(table: Path, version: int) -> list[dict[str, str]]:
    """Return the files that a version added, their names decoded."""
    lines = (table / "_delta_log" / f"{version:020d}.json").read_text().splitlines()
    found = [json.loads(line)["add"] for line in lines if line.startswith('{"add":')]
    return [{**add, "path": unquote(add["path"])} for add in found]


def copied(prepared: Path, target: Path) -> None:
    """Put a whole prepared table elsewhere at once."""
    shutil.copytree(prepared, target, copy_function=os.link)
