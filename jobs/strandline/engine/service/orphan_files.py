"""Orphans in a lake: files that a killed batch left, scratch lakes that a killed verification left.

What a commit named and a later one replaced is no orphan; it is deleted when no reader needs it any more
(jobs/strandline/engine/storage/dead_files.py).

A file is an orphan only when it was untouched for a day. No batch takes that long, and a move (a promotion moves files
before it commits them) counts as a touch. A scratch lake has the record of the process that made it
(jobs/strandline/engine/storage/scratch.py), and is an orphan as soon as that process is gone.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta

from strandline import catalog

from strandline.core.table import Table
from strandline.engine.pipeline.shadow_lake import refuse_half_done
from strandline.engine.runtime.holders import is_there
from strandline.engine.runtime.processes import find
from strandline.engine.storage.damage import damage
from strandline.engine.storage.lake import Lake
from strandline.engine.storage.place import Place
from strandline.engine.storage.scratch import abandoned
from strandline.engine.storage.uncommitted_files import size_of, touched_at, uncommitted

UNTOUCHED = timedelta(days=1)

OF_PROCESS = re.compile(r"(?P<host>.+)-(?P<pid>\d+)-(?P<started>\d+)")
"""The name of the folder in which the Spark of one process spills (jobs/strandline/engine/runtime/spark_session.py)."""


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
            for file in _uncommitted(table, path):
                yield from _if_old(file, now, "written, and never committed")
    for place in abandoned(lake.frozen):
        yield Left(
            path=place, size=size_of(place), why="second names of files, for a killed snapshot"
        )
    yield from _spilled(lake, now)
    gone = set(abandoned(lake.scratch))
    for place in (lake.scratch / name for name in lake.scratch.names()):
        why = "the scratch lake of a killed verification"
        if place in gone:
            yield Left(path=place, size=size_of(place), why=why)
        else:
            yield from _if_old(place, now, why)


def _spilled(lake: Lake, now: datetime) -> Iterator[Left]:
    """Yield what Spark's processes spilled that are gone; a name that says no process is of an earlier version."""
    folder = lake.near / "_logs" / "scratch"
    why = "spilled by a process that is gone"
    is_free = find(f"-Djava.io.tmpdir={folder}") is None
    for name in folder.names():
        found = OF_PROCESS.fullmatch(name)
        path = folder / name
        if name.startswith("serve-"):  # the JDBC server's own, at its port
            continue
        if found is None and is_free:
            yield from _if_old(path, now, why)
        elif found is not None and _is_gone(found, path):
            yield Left(path=path, size=size_of(path), why=why)


def _is_gone(name: re.Match[str], path: Place) -> bool:
    """Return whether neither a process nor its JVM, which may outlive it for some seconds, is there any more."""
    holder = {"host": name["host"], "pid": name["pid"], "started": float(name["started"])}
    return is_there(holder) is False and find(f"-Djava.io.tmpdir={path}") is None


def _uncommitted(table: Table, path: Place) -> list[Place]:
    """Return the files that no commit names; none where a commit cannot be read, which may name them."""
    try:
        return [*uncommitted(path)]
    except Exception as error:
        if damage(error, table) is None:
            raise
        return []


def take_away(orphan: Left) -> None:
    """Delete it."""
    orphan.path.remove()
    (orphan.path.parent / f".{orphan.path.name}.crc").remove()


def _if_old(path: Place, now: datetime, why: str) -> Iterator[Left]:
    if now - touched_at(path) > UNTOUCHED:
        yield Left(path=path, size=size_of(path), why=why)
