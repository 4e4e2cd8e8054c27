"""Take a snapshot of a lake's tables: hold a consistent set, copy it with hashes, and publish it when it is complete.

What identifies the lake stays behind: leases, orders, heartbeats, logs, the broker, Dagster's history. So whatever asks
for them in a restored lake finds nothing, and does not take it for the original.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from itertools import groupby
from typing import Any
from urllib.parse import unquote

from strandline import catalog

from strandline.core.errors import DefinitionError, TransientError
from strandline.core.table import Table
from strandline.engine.accounting.balance_sheet import balance
from strandline.engine.proof import certificate
from strandline.engine.runtime.outage import NO_ROOM
from strandline.engine.service.freeze_lake import frozen
from strandline.engine.storage.at_once import each_done
from strandline.engine.storage.hashed_files import (
    Hashed,
    hashed_link,
    is_unchanged,
    link,
    write_lines,
)
from strandline.engine.storage.lake import Lake
from strandline.engine.storage.ledger import latest_version
from strandline.engine.storage.live_files import live_files
from strandline.engine.storage.place import Listed, Place
from strandline.engine.storage.snapshot_store import Manifest, Taken, draft, publish, snapshots
from strandline.engine.storage.uncommitted_files import free_bytes, is_same_disk

Progress = Callable[[int, int], None]
"""Is called with the number of files that are done, and of all."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshotted:
    """What a snapshot took.

    Args:
        path: Where it is; the store, where nothing was written.
        manifest: What it holds.
        new: Bytes of files that no earlier snapshot of the store has.
    """

    path: Place
    manifest: Manifest
    new: int


def refuse_overlap(lake: Lake, other: Place, what: str) -> None:
    """Refuse a folder within the lake, or the lake within it.

    Raises:
        DefinitionError: One is within the other.
    """
    if lake.root.holds(other) or other.holds(lake.root):
        raise DefinitionError(
            f"{what} {other} and the lake {lake.root} are one within the other",
            hint="name a folder beside the lake, best on another disk.",
            lake=str(lake.root),
        )


def take(  # noqa: PLR0913  # what, where to, when, and how much of it
    lake: Lake,
    tables: Sequence[Table],
    store: Place,
    at: datetime,
    *,
    note: Callable[[str], None] = lambda _: None,
    progress: Progress = lambda _done, _all: None,
    dry: bool = False,
) -> Snapshotted:
    """Take a snapshot of tables and all that they rest on, beside their streams.

    Args:
        lake: Their lake.
        tables: Which.
        store: The folder with all snapshots.
        at: The time.
        note: Is called with a line for each table.
        progress: Is called for each file.
        dry: Whether to measure and write nothing.

    Raises:
        DefinitionError: The store is within the lake, or a promotion is half done.
        TransientError: Another process makes a snapshot, or there is no room.
    """
    refuse_overlap(lake, store, "the folder for snapshots")
    before = next(reversed(snapshots(store)), None)
    with frozen(lake, tables, note) as (held, versions):
        files = sorted(held.files(), key=lambda each: part_of(each[0]))
        new = sum(_new(before, files))
        if dry:
            # On a store not all files are in one folder, so the books are those of the lake as it is meanwhile.
            there = Lake(held.folder) if lake.root.is_local else lake
            manifest = Manifest(
                lake=str(lake.root),
                taken_at=at.isoformat(timespec="seconds"),
                tables=sheets(there, versions),
                lists={},
                files=len(files),
                bytes=sum(file.size for _, file in files),
            )
            return Snapshotted(path=store, manifest=manifest, new=new)
        needed = 0 if is_same_disk(lake.root, store.make()) else new
        with room(store, needed), draft(store, at) as made:
            lists, count, total = _copied(files, made, before, progress)
            manifest = Manifest(
                lake=str(lake.root),
                taken_at=at.isoformat(timespec="seconds"),
                tables=sheets(Lake(made.lake), versions),
                lists=lists,
                files=count,
                bytes=total,
            )
            done = publish(made, manifest, at)
            return Snapshotted(path=done.root, manifest=manifest, new=new)


def _copied(
    files: Sequence[tuple[str, Listed]], made: Taken, before: Taken | None, progress: Progress
) -> tuple[dict[str, str], int, int]:
    """Copy the files that are held; return the hash of the list of each part, and the number and the bytes of all files."""
    lists, total, done = dict[str, str](), 0, 0
    gone = list[str]()

    def counted(
        known: Mapping[str, Hashed], part: Iterator[tuple[str, Listed]]
    ) -> Iterator[Hashed]:
        nonlocal total, done

        def kept(each: tuple[str, Listed]) -> Hashed | None:
            name, file = each
            try:
                return _kept(file, made, before, known.get(name), name)
            except FileNotFoundError:
                gone.append(name)
                return None

        for hashed in each_done(kept, part, among=[made.root, files[0][1].place]):
            if hashed is not None:
                total, done = total + hashed.size, done + 1
                progress(done, len(files))
                yield hashed

    for part, within in groupby(files, lambda each: part_of(each[0])):
        known = before.known(part) if before else {}
        lists[part] = write_lines(made.list_of(part), counted(known, within))
    _refuse_needed(made.lake, gone)
    return lists, done, total


def _kept(
    file: Listed, made: Taken, before: Taken | None, known: Hashed | None, name: str
) -> Hashed:
    """Take a file over from the snapshot before, or from the lake.

    Raises:
        FileNotFoundError: It is gone.
    """
    target = made.lake / name
    if before and known and is_unchanged(file, known) and link(before.lake / name, target):
        return known
    return hashed_link(file, target, name)


def _refuse_needed(lake: Place, gone: Sequence[str]) -> None:
    """Refuse a copy that lacks a file of the version of its table; maintenance may delete those of earlier ones meanwhile.

    Raises:
        TransientError: It does.
    """
    for folder, within in groupby(sorted(gone), lambda name: "/".join(name.split("/")[:2])):
        live = {unquote(name) for name in live_files(lake / folder).files}
        for name in within:
            if name.removeprefix(f"{folder}/") in live:
                raise TransientError(
                    f"{name} was removed while it was copied",
                    hint="type the same again; what was begun is removed.",
                    file=name,
                )


def part_of(name: str) -> str:
    """Return the part that a file belongs to: a table, a checkpoint, or a folder of the lake.

    >>> part_of("silver/readings/_delta_log/0.json"), part_of("_gates/silver.x.json"), part_of("_rules.jsonl")
    ('silver.readings', '_gates', 'lake')
    """
    folders = name.split("/")[:-1]
    return ".".join(folders[:2]) or "lake"


def sheets(lake: Lake, names: Iterable[str]) -> dict[str, dict[str, Any]]:
    """Return what is compared after a restore, by table: its version, its balance and its certificate."""
    return {name: _sheet(catalog.find(name), lake) for name in names}


def _sheet(table: Table, lake: Lake) -> dict[str, Any]:
    kept, sheet = certificate.kept(table, lake), balance(table, lake)
    if sheet.damage is not None:  # no copy of it could be verified
        raise sheet.damage
    return {
        "version": latest_version(lake.table(table)),
        "balance": sheet.figures(),
        "certificate": {"equal": kept.equal, "rows": kept.rows, "at": kept.at} if kept else None,
    }


def _new(before: Taken | None, files: Sequence[tuple[str, Listed]]) -> Iterator[int]:
    """Yield the sizes of the files that the snapshot before does not have as they are."""
    for part, within in groupby(files, lambda each: part_of(each[0])):
        known = before.known(part) if before else {}
        for name, file in within:
            if not is_unchanged(file, known.get(name)):
                yield file.size


@contextmanager
def room(place: Place, needed: int) -> Iterator[None]:
    """Refuse to begin without room, and explain the end of a disk on the way.

    Raises:
        TransientError: There is none.
    """
    free = free_bytes(place)
    if free is not None and needed > free:
        raise no_room(place, f"{needed:,} bytes are needed, and {free:,} are free")
    try:
        yield
    except OSError as error:
        if error.errno in NO_ROOM:
            raise no_room(place, "it was filled meanwhile") from error
        raise


def no_room(place: Place, why: str) -> TransientError:
    """Return the error of a disk without room."""
    return TransientError(
        f"there is no room in {place}: {why}",
        hint="make room, or name a folder on another disk; what was begun is removed.",
        folder=str(place),
    )
