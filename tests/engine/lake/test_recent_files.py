"""The newest files of a table are in memory, also when others change it; older ones are found all the same."""

import json
import random
import tracemalloc
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from strandline.engine.lake.commit.delta_commit import OPEN
from strandline.engine.lake.commit.file_index import FOLLOWED, RecentFiles
from strandline.engine.lake.log.commit_log import commit_file
from strandline.engine.lake.place import Place

KEPT = 10
WINDOWS = 50_000
STATISTICS = json.dumps({"numRecords": 7, "minValues": {"text": "x" * 300}})


def span(add: Mapping[str, Any]) -> tuple[int, int]:
    """Return the range that a test gave to a file."""
    first, last = add["tags"].values()
    return int(first), int(last)


def add(name: str, first: int, last: int, *, is_new: bool = True) -> str:
    body = {"path": name, "dataChange": is_new, "tags": {"a": first, "b": last}}
    return json.dumps({"add": {**body, "stats": STATISTICS}}, separators=(",", ":"))


def remove(name: str) -> str:
    return json.dumps({"remove": {"path": name, "dataChange": False}}, separators=(",", ":"))


class Log:
    """A table's log, and which files each version has."""

    def __init__(self, path: Place) -> None:
        """Begin without a version."""
        self.path = path
        self.versions: list[dict[str, tuple[int, int]]] = []
        self.reads = 0
        commit_file(path, 0).parent.make()

    def commit(self, came: Mapping[str, tuple[int, int]], went: list[str]) -> list[str]:
        """Write a commit; return the lines of its files."""
        before = self.versions[-1] if self.versions else {}
        kept = {name: each for name, each in before.items() if name not in went}
        lines = [add(name, *each, is_new=not went) for name, each in came.items()]
        text = "\n".join([*lines, *map(remove, went)]) + "\n"
        commit_file(self.path, len(self.versions)).local.write_text(text)
        self.versions.append({**kept, **came})
        return lines

    def read_all(self, version: int) -> Iterator[str]:
        """Yield the files of a version as Delta does."""
        self.reads += 1
        return iter([add(name, *each) for name, each in self.versions[version].items()])

    def within(self, version: int, first: int, last: int) -> list[str]:
        """Return the names of the files of a version that reach into a range."""
        found = self.versions[version].items()
        return sorted(name for name, (a, b) in found if a <= last and b >= first)


def grown(log: Log, chance: random.Random) -> None:
    """Commit batches, replaced windows, a compaction of many small files into one, and rows that stay valid."""
    now = log.versions[-1] if log.versions else {}
    number, at = len(log.versions), 10 * len(log.versions)
    if now and chance.random() < 0.2:
        went = chance.sample(sorted(now), min(len(now), 4))
        spans = [now[name] for name in went]
        log.commit({f"c{number}": (min(a for a, _ in spans), max(b for _, b in spans))}, went)
    elif now and chance.random() < 0.2:
        went = [chance.choice(sorted(now))]
        log.commit({f"r{number}": now[went[0]]}, went)
    else:
        last = OPEN if chance.random() < 0.1 else at + chance.randrange(30)
        log.commit({f"a{number}": (at, last)}, [])


@pytest.fixture
def log(tmp_path: Path) -> Log:
    """Return an empty log."""
    return Log(Place.of(tmp_path / "table"))


def names(found: list[Any]) -> list[str]:
    return sorted(json.loads(each.line)["add"]["path"] for each in found)


def test_every_question_is_answered_as_from_the_whole_log(log: Log, chance: random.Random) -> None:
    """Whatever was forgotten, and in whatever order versions are asked about."""
    files = RecentFiles(log.path, span, kept=KEPT)
    for _ in range(150):
        grown(log, chance)
        version = len(log.versions) - 1
        if chance.random() < 0.1:
            version = chance.randrange(len(log.versions))
        first = chance.randrange(10 * len(log.versions))
        last = first + chance.randrange(100)

        assert names(files.within(version, first, last, log.read_all)) == log.within(
            version, first, last
        )
        starts = {a for a, _ in log.versions[version].values() if chance.random() < 0.2}
        found = [n for n, (a, _) in log.versions[version].items() if a in starts]
        assert names(files.beginning(version, starts, log.read_all)) == sorted(found)


def test_a_question_about_the_newest_reads_no_log(log: Log) -> None:
    """That is the question of every batch."""
    files = RecentFiles(log.path, span, kept=KEPT)
    for number in range(10 * KEPT):
        log.commit({f"a{number}": (number, number)}, [])
        assert names(files.within(number, number, OPEN, log.read_all)) == [f"a{number}"]
    assert log.reads == 0

    assert names(files.within(10 * KEPT - 1, 3, 3, log.read_all)) == ["a3"]
    assert log.reads == 1


def test_an_own_commit_is_taken_over_and_the_next_of_another_is_read(log: Log) -> None:
    files = RecentFiles(log.path, span, kept=KEPT)
    log.commit({"a": (1, 1), "b": (2, 2)}, [])
    files.follow(0, log.read_all)
    lines = log.commit({"c": (1, 1)}, ["a"])
    files.committed(1, {1}, lines)
    commit_file(log.path, 1).remove()  # it is not read

    log.commit({"d": (2, 2)}, ["b"])
    log.commit({"e": (1, 1)}, ["c"])
    files.committed(3, {1}, [add("e", 1, 1)])

    assert files.version == 1, "a commit before it is unknown"
    assert names(files.within(3, 0, OPEN, log.read_all)) == ["d", "e"]


def test_a_log_that_was_cut_or_is_long_is_read_at_once(log: Log) -> None:
    files = RecentFiles(log.path, span, kept=KEPT)
    log.commit({"a": (1, 1)}, [])
    log.commit({"b": (2, 2)}, [])
    commit_file(log.path, 0).remove()

    assert names(files.within(1, 0, OPEN, log.read_all)) == ["a", "b"]
    assert log.reads == 1
    for number in range(FOLLOWED + 1):
        log.commit({f"c{number}": (9, 9)}, [f"c{number - 1}"])
    assert names(files.within(FOLLOWED + 2, 0, OPEN, log.read_all)) == ["a", "b", f"c{FOLLOWED}"]
    assert log.reads == 2


@pytest.mark.whole
def test_it_does_not_grow_with_fifty_thousand_windows(tmp_path: Path) -> None:
    """A window of ten minutes for a year."""
    files = RecentFiles(Place.of(tmp_path), span, kept=1_000)
    files._version = 0
    size = {}
    tracemalloc.start()
    try:
        for number in range(WINDOWS):
            line = f'{{"add":{{"path":"a{number}","tags":{{"a":{number},"b":{number}}}}}}}'
            files.committed(number + 1, {number}, [line])
            if number in {4_999, WINDOWS - 1}:
                size[number] = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()

    early, late = size.values()
    assert late < 1.2 * early + 100_000, size
    assert 1_000 <= len(files._files) <= 2_000
