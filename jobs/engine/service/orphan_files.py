"""Orphans in a lake: files that a killed batch left, scratch lakes that a killed verification left.

Every file that a table's log ever named stays, also when later versions do not name it: a new stream reads a table
from its first version on, ``why`` finds the batch that wrote a row by the row's file, a promotion can be undone. So
files are not compacted and old versions are not deleted; disk is cheaper than an answer that cannot be given.

A file is an orphan only when it was untouched for a day. No batch takes that long, and a move (a promotion moves files
before it commits them) counts as a touch.
"""

import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from urllib.parse import unquote

from jobs import catalog
from jobs.engine.pipeline.shadow_lake import refuse_half_done
from jobs.engine.storage.commit_log import ADD, actions, commit_file
from jobs.engine.storage.lake import Lake
from jobs.engine.storage.ledger import latest_version

UNTOUCHED = timedelta(days=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Left:
    """A file or folder without an owner."""

    path: Path
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
            yield from _orphans(path, now)
    for scratch in sorted((lake.root / "_verify").glob("*")):
        if _is_old(scratch, now):
            size = sum(file.stat().st_size for file in scratch.rglob("*") if file.is_file())
            yield Left(path=scratch, size=size, why="the scratch lake of a killed verification")


def take_away(orphan: Left) -> None:
    """Delete it."""
    if orphan.path.is_dir():
        shutil.rmtree(orphan.path)
    else:
        orphan.path.unlink()
        orphan.path.with_name(f".{orphan.path.name}.crc").unlink(missing_ok=True)


def _orphans(path: Path, now: datetime) -> Iterator[Left]:
    """Yield the files of a table that no commit ever named."""
    if not commit_file(path, 0).exists():  # no table of ours, or its log was cut: unknown
        return
    named = _named(path)
    for file in sorted(path.rglob("*.parquet")):
        is_data = "_delta_log" not in file.relative_to(path).parts
        if is_data and str(file.relative_to(path)) not in named and _is_old(file, now):
            yield Left(path=file, size=file.stat().st_size, why="written, and never committed")


def _named(path: Path) -> set[str]:
    """Return every file that any version of a table added."""
    named: set[str] = set()
    for version in range(latest_version(path) + 1):
        named.update(unquote(each.body["path"]) for each in actions(path, version, ADD))
    return named


def _is_old(path: Path, now: datetime) -> bool:
    stat = path.stat()
    touched = datetime.fromtimestamp(max(stat.st_mtime, stat.st_ctime), tz=UTC)
    return now - touched > UNTOUCHED
