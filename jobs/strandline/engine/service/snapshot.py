"""Snapshots of a lake: taken while its streams go on, and restored.

Take a snapshot of a lake's tables: hold a consistent set, copy it with hashes, and publish it when it is complete.

What identifies the lake stays behind: leases, orders, heartbeats, logs, the broker, Dagster's history. So whatever asks
for them in a restored lake finds nothing, and does not take it for the original.
"""

import json
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import groupby
from typing import Any
from urllib.parse import unquote

from strandline import catalog

from strandline.core.errors import DataError, DefinitionError, TransientError
from strandline.core.table import Ingested, Judged, Table
from strandline.engine.accounting.balance_sheet import balance
from strandline.engine.ask.find_moment import Moment
from strandline.engine.ask.moments import chosen, which_of
from strandline.engine.ask.named_moments import hold_books, versions_at
from strandline.engine.flow.shadow_lake import refuse_half_done
from strandline.engine.lake.completeness import every_need, with_below
from strandline.engine.lake.forgotten import Forgotten, file_of, keep, requests
from strandline.engine.lake.import_notes import notes_of, range_file, to_follow_folder
from strandline.engine.lake.lake import FOLDER, RESTORING, Lake, refuse_unsafe
from strandline.engine.lake.locks import TURN, turn_without_jvm
from strandline.engine.lake.log.ledger import IMPORT, last_entry, latest_version
from strandline.engine.lake.log.ledger_sums import name_of, snapshot_file, sums_of
from strandline.engine.lake.log.log_actions import live_files
from strandline.engine.lake.log.vacuum import free_bytes, is_same_disk, swept_file
from strandline.engine.lake.mend_checkpoint import settle
from strandline.engine.lake.open_table import pin_versions
from strandline.engine.lake.place import Listed, Place, each_done
from strandline.engine.lake.plain_files import scratch
from strandline.engine.lake.snapshot_files import (
    Hashed,
    Held,
    Manifest,
    Taken,
    damaged,
    draft,
    freeze_checkpoint,
    freeze_copy,
    freeze_folder,
    freeze_table,
    hash_of,
    hashed_copy,
    hashed_link,
    is_unchanged,
    link,
    publish,
    settle_on_disk,
    snapshots,
    write_lines,
)
from strandline.engine.lake.store_lease import HeldError, hold
from strandline.engine.proof import certificate
from strandline.engine.runtime.outage import NO_ROOM
from strandline.engine.runtime.processes import own

# Hold tables, their checkpoints and their books as one consistent set, while their streams go on.
#
# What agrees with what, and why it does:
#
# * **A table and its stream.** A batch is planned, committed and then marked as done. While the table's commit lock is held,
#   no batch is committed, so every batch of the table is in the plans that are read then, and every batch that is marked as
#   done is in the table. What lies in between is what a crash leaves, and the next start repeats it.
# * **A table and its quarantine.** A batch is committed to the quarantine first. One that is not in the table yet is awaited; if
#   that takes long, the quarantine is taken without it.
# * **A table and its sources.** Readers are taken before what they read, so no reader is ahead of its source.
# * **An import and the tables above.** The notes about files are taken after bronze, so bronze has no row without one; a range
#   that the tables above have not followed is noted as often as a table is taken, and an import that begins and ends in between
#   ends the snapshot.
# * **A request to forget.** Its record is taken last, and says that it is done only if all tables were taken after that: a restored
#   lake that still has some of the rows must say that the request was interrupted.
# * **Copies of ledger entries, and the figures of history.** They are taken before all tables, so they never describe a commit
#   that the set lacks; what they lack is copied again from the ledgers.
#
# The lock is held while a checkpoint's files get second names, some ten milliseconds, or while a store copies them. Logs and
# data follow without it, because a version does not change.


PATIENCE, AGAIN = 20.0, 0.05
"""Seconds to wait for a batch between its two commits, and between two looks."""

LIFE = TURN / 2
"""Seconds after which another writer takes over a turn on a store (jobs/strandline/engine/lake/locks.py)."""

Versions = Mapping[str, int]


@contextmanager
def frozen(
    lake: Lake,
    tables: Sequence[Table],
    note: Callable[[str], None],
    moment: Moment | None = None,
) -> Iterator[tuple[Held, Versions]]:
    """Hold tables and all that they rest on for the length of the block; yield the files and the version of each table.

    Of a moment no checkpoint is held, as a stream's state of then is gone: what is made of it is read.

    Raises:
        DefinitionError: A promotion is half done and must be finished first.
        TransientError: Another process commits for too long.
    """
    wanted = [table for table in with_below(*tables, sources=every_need) if lake.exists(table)]
    books = [
        lake.closed_entries,
        lake.history,
        *(path for each in wanted for path in lake.books(each)),
    ]
    pins = {path: version for path in books if (version := latest_version(path)) >= 0}
    if moment is not None:
        at = {p: v for each in wanted for p, v in versions_at(each, lake, moment).items()}
        pins = {path: version for path, version in at.items() if version >= 0}
    versions = {}
    asked = {each.mark: each for each in requests(lake)}
    with scratch(lake.frozen) as folder, pin_versions(lake.root, pins):
        held = Held(lake.root, folder)
        for path in (lake.closed_entries, lake.history):
            if path in pins:
                freeze_table(path, held, pins[path])
        taken: dict[str, int] = {}
        _freeze_ranges(lake, wanted, held)
        for table in wanted:
            versions[table.id] = _freeze(table, lake, held, taken, moment)
            _freeze_ranges(lake, wanted, held)
            note(f"{table.id}: version {versions[table.id]}")
        # After the tables that join them: no row was joined with a later version.
        for static in {static for each in wanted for static in each.static}:
            path = lake.table(static)
            version = moment.versions.get(static.id, -1) if moment else latest_version(path)
            if version >= 0:
                freeze_table(path, held, version)
        freeze_copy(lake.formats, held)
        freeze_copy(lake.retired, held)
        freeze_copy(lake.roles, held)
        freeze_copy(lake.gates, held)
        for each_folder in (lake.schemas, lake.rules, lake.models, to_follow_folder(lake)):
            freeze_folder(each_folder, held)
        freeze_copy(lake.rule_changes, held)
        freeze_copy(lake.costs, held)
        if moment is None:
            _refuse_imported(lake, wanted, held, pins)
        _freeze_requests(lake, held, asked, taken)
        yield held, versions


def _freeze(
    table: Table, lake: Lake, held: Held, taken: dict[str, int], moment: Moment | None
) -> int:
    if moment is None:
        version, others = _hold(table, lake, held)
    else:
        others = versions_at(table, lake, moment)
        hold_books(others, held)
        version = others.pop(lake.table(table))
    taken.update(
        {name_of(path): each for path, each in {lake.table(table): version, **others}.items()}
    )
    freeze_table(lake.table(table), held, version)
    for path, number in others.items():
        if number >= 0:
            freeze_table(path, held, number)
    proofs = (
        lake.certificate(table),
        lake.certificate(table, is_whole=False),
        lake.certificate(table, by=certificate.SECOND),
        lake.audit(table),
    )
    for file in (lake.lineage(table), *(proofs if moment is None else ())):  # they are of now
        freeze_copy(file, held)
    if isinstance(table, Ingested):
        freeze_copy(notes_of(table, lake), held)
    return version


def _freeze_ranges(lake: Lake, tables: Sequence[Table], held: Held) -> None:
    """Hold the notes of ranges that the tables above have not followed; each stays held, though it may be removed meanwhile."""
    for table in tables:
        freeze_copy(range_file(table, lake), held)


def _refuse_imported(
    lake: Lake, tables: Sequence[Table], held: Held, pins: Mapping[Place, int]
) -> None:
    """Refuse a set between two tables of which a whole import went on: one has its rows, and the other was taken before.

    Raises:
        TransientError: It did.
    """
    for table in tables:
        path = lake.table(table)
        done = sums_of(path).repairs.get(IMPORT) if isinstance(table, Judged) else None
        is_noted = held.there(range_file(table, lake)).is_file()
        if done is not None and done.last > pins[path] and not is_noted:
            raise TransientError(
                f"{table.id} got imported rows while the tables above it were copied",
                hint="type the same again.",
                table=table.id,
            )


def _freeze_requests(
    lake: Lake, held: Held, before: Mapping[str, Forgotten], taken: Mapping[str, int]
) -> None:
    """Hold the records of requests to forget, as they are true of the tables that are held."""
    for each in requests(lake):
        is_whole = all(
            version <= taken.get(name, version) for name, version in each.versions.items()
        )
        was = before.get(each.mark)
        scrubbed_at = each.scrubbed_at if was is not None and was.scrubbed_at else None
        done_at = each.done_at if is_whole else None
        record = replace(each, done_at=done_at, scrubbed_at=scrubbed_at)
        if record == each:  # the file as it is, which the next snapshot takes over from this one
            freeze_copy(file_of(lake, each.mark), held)
        else:
            keep(Lake(held.folder), record)


def _hold(table: Table, lake: Lake, held: Held) -> tuple[int, Mapping[Place, int]]:
    """Hold what changes; return the version of the table, and those of its quarantine and resolutions."""
    deadline = time.monotonic() + PATIENCE
    while True:
        with turn_without_jvm(lake.table(table)):
            began = time.monotonic()
            refuse_half_done(table, lake)
            others = {path: latest_version(path) for path in lake.books(table)[1:]}
            judged = _quarantined(table, lake)
            is_between = judged is not None and judged < others[lake.quarantine(table)]
            if not is_between or time.monotonic() > deadline:
                if judged is not None:
                    others[lake.quarantine(table)] = judged
                freeze_checkpoint(lake.checkpoint(table), held)
                for path in lake.books(table):
                    for file in (snapshot_file(path), swept_file(path)):
                        freeze_copy(file, held)
                version = latest_version(lake.table(table))
                _refuse_slow(table, lake, time.monotonic() - began)
                return version, others
        time.sleep(AGAIN)


def _refuse_slow(table: Table, lake: Lake, seconds: float) -> None:
    """Refuse what took longer than a turn lasts on a store: another writer may have taken it and committed meanwhile.

    Raises:
        TransientError: It did.
    """
    if not lake.root.is_local and seconds > LIFE:
        raise TransientError(
            f"the checkpoint of {table.id} took {seconds:.0f} s to copy, and a commit may wait for {LIFE:.0f} s",
            hint="type the same again; where it is always so, pause the stream for the moment in which snapshots begin.",
            table=table.id,
        )


def _quarantined(table: Table, lake: Lake) -> int | None:
    """Return the version of a table's quarantine without a batch that the table does not have; None if it has none."""
    if not isinstance(table, Judged):
        return None
    path = lake.quarantine(table)
    newest, last = last_entry(path), last_entry(lake.table(table))
    if newest is None:
        return latest_version(path)
    version, entry = newest
    is_ahead = last is None or (entry.stream == last[1].stream and entry.batch > last[1].batch)
    return version - 1 if is_ahead else latest_version(path)


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
    of: str | None = None,
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
        of: The moment that is taken, as it is typed; what there is when None.

    Raises:
        DefinitionError: The store is within the lake, a promotion is half done, or the moment is none of all of these tables.
        TransientError: Another process makes a snapshot, or there is no room.
    """
    refuse_overlap(lake, store, "the folder for snapshots")
    before = next(reversed(snapshots(store)), None)
    moment = None
    if of is not None:
        names = [each.id for each in with_below(*tables, sources=every_need) if lake.exists(each)]
        moment = chosen(which_of(of), names, catalog.tables(), lake)
    with frozen(lake, tables, note, moment) as (held, versions):
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
                moment=str(moment or ""),
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
                moment=str(moment or ""),
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


# Restore a snapshot into an empty folder, and verify it before it is there.
#
# Every file is copied and compared with its hash on the way. The copy is made beside the folder; the ledgers of all tables are
# balanced there and compared with what they were when the snapshot was taken, and so are the certificates. Then it is
# renamed. So a folder with the name of the lake is a lake that was verified, whenever the restore is killed.
#
# An object store renames nothing, so there the copy is made in its place, and a mark in it says so until it was verified. While
# the mark is there every command refuses the lake (jobs/strandline/engine/lake/lake.py), and the next restore removes what a killed one left.
#
# Nothing in it is a second name of a file of the snapshot: a lake changes, and a disk that spoils one must not spoil both.


RESTORED = "_restored.json"
"""The file in a lake that was restored, with its origin."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Restored:
    """What was restored or checked.

    Args:
        snapshot: The folder of the snapshot.
        lake: The lake; None where nothing was written.
        manifest: What it holds.
    """

    snapshot: Place
    lake: Place | None
    manifest: Manifest


def check(taken: Taken, *, progress: Progress = lambda _done, _all: None) -> Restored:
    """Compare every file of a snapshot with its hash, and write nothing.

    Raises:
        DataError: A file is damaged or gone.
    """
    manifest = taken.manifest()

    def compare(file: Hashed) -> None:
        place = taken.lake / file.path
        try:
            found = hash_of(place)
        except FileNotFoundError as error:
            raise damaged(place, "it is gone") from error
        if found != file.sha256:
            raise _spoiled(place)

    done = each_done(compare, taken.files(manifest), among=[taken.root])
    for count, _ in enumerate(done, 1):
        progress(count, manifest.files)
    return Restored(snapshot=taken.root, lake=None, manifest=manifest)


def restore(
    taken: Taken,
    lake: Lake,
    at: datetime,
    *,
    note: Callable[[str], None] = lambda _: None,
    progress: Progress = lambda _done, _all: None,
) -> Restored:
    """Make a lake of a snapshot.

    Args:
        taken: The snapshot.
        lake: Where; its folder is empty or does not exist.
        at: The time.
        note: Is called with a line for each step.
        progress: Is called for each file.

    Raises:
        DataError: A file is damaged or gone, or the tables are not what they were.
        DefinitionError: The folder is not empty, or within the snapshot.
        TransientError: Another process restores into it, or there is no room.
    """
    manifest = taken.manifest()
    refuse_overlap(lake, taken.root, "the snapshot")
    with _beside(lake) as draft, room(lake.root.parent, manifest.bytes):
        _copy_back(taken, draft, manifest, progress)
        note("all files are as they were; balancing the ledgers …")
        _refuse_changed(manifest, Lake(draft))
        _sign(draft, taken, manifest, at)
        settle_on_disk()
        _put_in_place(draft, lake)
    return Restored(snapshot=taken.root, lake=lake.root, manifest=manifest)


@contextmanager
def _beside(lake: Lake) -> Iterator[Place]:
    """Yield where the copy is made, by one process at a time; it is removed when the block ends, unless it is the lake.

    Raises:
        DefinitionError: The lake is not empty.
        TransientError: Another process restores into it.
    """
    beside = lake.root.parent.make() / f".{lake.root.name}.restoring"
    try:
        with hold(beside.parent / f"{beside.name}.lock", json.dumps(own()), waits=False):
            if lake.root.is_local:
                _refuse_full(lake)
                draft = beside
                draft.remove()
            else:
                draft = _marked(lake)
            try:
                yield draft
            finally:
                if draft != lake.root or lake.is_restoring:
                    _removed(draft)
    except HeldError as error:
        raise TransientError(
            f"another process restores into {lake.root}",
            hint="wait until it is done.",
            lake=str(lake.root),
        ) from error


def _marked(lake: Lake) -> Place:
    """Mark the lake as one that is restored, having removed what a killed restore left in it."""
    if lake.is_restoring:
        _removed(lake.root)
    _refuse_full(lake)
    refuse_unsafe(lake.root)
    (lake.root / RESTORING).put(json.dumps(own()))
    return lake.root


def _removed(draft: Place) -> None:
    """Remove a copy that is not complete, on a store the mark last."""
    for name in draft.names() if not draft.is_local else ():
        if name != RESTORING:
            (draft / name).remove(if_possible=True)
    draft.remove(if_possible=True)


def _refuse_full(lake: Lake) -> None:
    # What was seen of its store is no lake.
    if any(not file.below(lake.root).startswith(f"{FOLDER}/") for file in lake.root.files()):
        raise DefinitionError(
            f"{lake.root} is not empty, and a lake is restored as a whole",
            hint="name an empty folder or none that exists with --into.",
            lake=str(lake.root),
        )


def _copy_back(taken: Taken, draft: Place, manifest: Manifest, progress: Progress) -> None:
    def copy(file: Hashed) -> None:
        _copy(taken.lake / file.path, draft / file.path, file)

    done = each_done(copy, taken.files(manifest), among=[taken.root, draft])
    for count, _ in enumerate(done, 1):
        progress(count, manifest.files)


def _copy(source: Place, target: Place, file: Hashed) -> None:
    try:
        found = hashed_copy(source, target, file.path, file.written)
    except FileNotFoundError as error:
        raise damaged(source, "it is gone") from error
    if found.sha256 != file.sha256:
        raise _spoiled(source)


def _spoiled(file: Place) -> DataError:
    return damaged(file, "its bytes are not those that were written")


def _refuse_changed(manifest: Manifest, lake: Lake) -> None:
    """Compare each table's version, balance and certificate with the snapshot's."""
    now = json.loads(json.dumps(sheets(lake, manifest.tables)))
    for name, was in manifest.tables.items():
        differing = [field for field, value in was.items() if now[name][field] != value]
        if differing:
            raise DataError(
                f"{name} has another {' and another '.join(differing)} than when the snapshot was taken",
                hint="restore with the version of the program that took the snapshot, which is the only difference left.",
                table=name,
                was={field: was[field] for field in differing},
                now={field: now[name][field] for field in differing},
            )


def _sign(draft: Place, taken: Taken, manifest: Manifest, at: datetime) -> None:
    origin = {"lake": manifest.lake, "taken_at": manifest.taken_at, "snapshot": str(taken.root)}
    origin |= {"moment": manifest.moment} if manifest.moment else {}
    signed = {**origin, "restored_at": at.isoformat(timespec="seconds")}
    (draft / RESTORED).put(json.dumps(signed, indent=1) + "\n")


def _put_in_place(draft: Place, lake: Lake) -> None:
    """Give the copy the name of the lake, and its checkpoints their paths; a stream would at its start."""
    if draft != lake.root:
        draft.move(lake.root)
    for name in (lake.root / "_checkpoints").names():
        settle(lake.checkpoint(catalog.find(name)))
    (lake.root / RESTORING).remove()
