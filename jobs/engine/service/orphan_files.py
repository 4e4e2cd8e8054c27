"""Orphans in a lake: files that a killed batch left, scratch lakes that a killed verification left.

What a commit named and a later one replaced is no orphan; it is deleted when no reader needs it any more
(jobs/engine/storage/dead_files.py).

A file is an orphan only when it was untouched for a day. No batch takes that long, and a move (a promotion moves files
before it commits them) counts as a touch. A scratch lake has the record of the process that made it
(jobs/engine/storage/scratch.py), and is an orphan as soon as that process is gone.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta

from jobs import catalog
from jobs.engine.pipeline.shadow_lake import refuse_half_done
from jobs.engine.storage.lake import Lake
from jobs.engine.storage.place import Place
from jobs.engine.storage.scratch import abandoned
from jobs.engine.storage.uncommitted_files import size_of, touched_at, uncommitted

UNTOUCHED = timedelta(days=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Left:
    """A file or folder without an owner."""

    path: Place
    size: int
    why: str


def left(lake: Lake, now: datetime) -> Iterator[Left]:
    """Yield the orphans of a lake; nothing is changed.

    Raises:
        DefinitionError: A promotion is half done and must be finished first.
    """
    for table in catalog.tables():
        refuse_half_done(table, lake)
        for path in lake.books(table):
            for file in uncommitted(path):
                yield from _if_old(file, now, "written, and never committed")
    for place in abandoned(lake.frozen):
        yield Left(
            path=place, size=size_of(place), why="second names of files, for a killed snapshot"
        )
    gone = set(abandoned(lake.scratch))
    for place in (lake.scratch / name for name in lake.scratch.names()):
        why = "the scratch lake of a killed verification"
        if place in gone:
            yield Left(path=place, size=size_of(place), why=why)
        else:
            yield from _if_old(place, now, why)


def take_away(orphan: Left) -> None:
    """Delete it."""
    orphan.path.remove()
    (orphan.path.parent / f".{orphan.path.name}.crc").remove()


def _if_old(path: Place, now: datetime, why: str) -> Iterator[Left]:
    if now - touched_at(path) > UNTOUCHED:
        yield Left(path=path, size=size_of(path), why=why)
