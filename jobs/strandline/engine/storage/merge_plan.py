"""Which files of a table are put together: the small ones of a partition, neighbours in time, in steps of their size.

A stream writes a file a batch. Files are put together when eight of about the same size are there, and the results again when
there are eight of them, until a file is large; so a row is written again three times in its life, and a table of any age
has some dozens of small files. Files of a partition are ordered by the table's time first, so that each result covers a
short range of it, which readers skip as a whole.
"""

import json
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from math import log
from typing import Any

LARGE = 32 * 1024 * 1024
"""Bytes of a file; its rows are sorted in memory, where they take some ten times as much."""

MANY = 8
"""Files of about one size that are put together."""

SMALL = 128 * 1024
"""Bytes up to which files count as of one size."""

MOST = 500
"""Files that are put together at once: each is opened."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """Which files of a table may be put together, and in which order.

    Args:
        at: The column with a row's time, in whose order files are put together; without one, in that of their writing.
        sorted_by: The columns by which the rows of a new file are sorted.
        before_ms: Files that were written since are left: a writer may be about to replace them.
        apart: The paths of files that a reader of the table has not read, which are left as well: what was read and what
            was not must stay apart, or a repair of the one would seem to be one of the other.
    """

    at: str | None = None
    sorted_by: tuple[str, ...] = ()
    before_ms: int
    apart: Collection[str] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Bin:
    """Files that become one.

    Args:
        files: What the log says of each, in the order of their times.
        size: Their bytes.
    """

    files: tuple[Mapping[str, Any], ...]
    size: int


def bins(files: Mapping[str, Mapping[str, Any]], choice: Choice) -> Iterator[Bin]:
    """Yield the files of a table, by their paths, that are to be put together."""
    small = [
        file
        for path, file in files.items()
        if file["size"] < LARGE // 2
        and file["modificationTime"] < choice.before_ms
        and path not in choice.apart
    ]
    small.sort(key=lambda file: (*_class(file), _time(file, choice.at), file["path"]))
    for _, alike in groupby(small, key=_class):
        yield from _cut(alike)


def _cut(files: Iterable[Mapping[str, Any]]) -> Iterator[Bin]:
    """Yield files that follow each other, up to the size of a large one."""
    chosen: list[Mapping[str, Any]] = []
    size = 0
    for file in files:
        if size + file["size"] > LARGE or len(chosen) == MOST:
            yield from _if_worth_it(chosen, size)
            chosen, size = [], 0
        chosen.append(file)
        size += file["size"]
    yield from _if_worth_it(chosen, size)


def _if_worth_it(files: Sequence[Mapping[str, Any]], size: int) -> Iterator[Bin]:
    """Yield the files if they are many, or become a large one."""
    if len(files) >= MANY or (len(files) > 1 and size > LARGE // 2):
        yield Bin(files=tuple(files), size=size)


def _class(file: Mapping[str, Any]) -> tuple[str, int]:
    """Return the partition of a file and its step in size; files of one class are put together."""
    partition = json.dumps(file["partitionValues"], sort_keys=True)
    size = file["size"]
    return partition, 0 if size <= SMALL else 1 + int(log(size / SMALL, MANY))


def _time(file: Mapping[str, Any], at: str | None) -> str:
    if at is None:
        return f"{file['modificationTime']:020d}"
    return str(json.loads(file["stats"] or "{}").get("minValues", {}).get(at, ""))
