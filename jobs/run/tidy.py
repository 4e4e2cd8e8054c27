"""What lies in a lake and belongs to nothing: files that a killed batch left, scratch lakes that a killed proof left.

What a table's log ever named stays, also when later versions name it no more: a new stream reads a table from its first
version on, ``why`` names the batch that wrote a row by the row's file, a promotion can be undone. So files are not put
together and old versions are not taken away; disk is cheaper than an answer that cannot be given.

A file counts as left only when it has lain there untouched for a day. No batch takes that long, and a move (a promotion
moves files before it commits them) counts as a touch.
"""

import json
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from urllib.parse import unquote

from jobs import catalog
from jobs.run.lake import Lake
from jobs.run.ledger import commit_file, latest_version
from jobs.run.shadow import refuse_half_done

UNTOUCHED = timedelta(days=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Left:
    """Something that belongs to nothing."""

    path: Path
    size: int
    why: str


def left(lake: Lake, now: datetime) -> Iterator[Left]:
    """Yield what belongs to nothing; nothing is changed.

    Raises:
        DefinitionError: A promotion is half done, and must be ended first.
    """
    for table in catalog.tables():
        refuse_half_done(table, lake)
        for path in lake.books(table):
            yield from _orphans(path, now)
    for scratch in sorted((lake.root / "_verify").glob("*")):
        if _is_old(scratch, now):
            size = sum(file.stat().st_size for file in scratch.rglob("*") if file.is_file())
            yield Left(path=scratch, size=size, why="the scratch lake of a proof that was killed")


def take_away(found: Left) -> None:
    """Take it away for good."""
    if found.path.is_dir():
        shutil.rmtree(found.path)
    else:
        found.path.unlink()
        found.path.with_name(f".{found.path.name}.crc").unlink(missing_ok=True)


def _orphans(path: Path, now: datetime) -> Iterator[Left]:
    """Yield the files of a table that no commit ever named."""
    if not commit_file(
        path, 0
    ).exists():  # no table of ours, or one whose log was cut: nothing can be said
        return
    named = _named(path)
    for file in sorted(path.rglob("*.parquet")):
        is_data = "_delta_log" not in file.relative_to(path).parts
        if is_data and str(file.relative_to(path)) not in named and _is_old(file, now):
            yield Left(path=file, size=file.stat().st_size, why="written, and never committed")


def _named(path: Path) -> set[str]:
    """Return every file that any version of a table ever added."""
    named: set[str] = set()
    for version in range(latest_version(path) + 1):
        with commit_file(path, version).open() as log:
            adds = (json.loads(line)["add"]["path"] for line in log if line.startswith('{"add":'))
            named.update(map(unquote, adds))
    return named


def _is_old(path: Path, now: datetime) -> bool:
    told = path.stat()
    touched = datetime.fromtimestamp(max(told.st_mtime, told.st_ctime), tz=UTC)
    return now - touched > UNTOUCHED
