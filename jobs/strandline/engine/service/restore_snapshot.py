"""Restore a snapshot into an empty folder, and verify it before it is there.

Every file is copied and compared with its hash on the way. The copy is made beside the folder; the ledgers of all tables are
balanced there and compared with what they were when the snapshot was taken, and so are the certificates. Then it is
renamed. So a folder with the name of the lake is a lake that was verified, whenever the restore is killed.

An object store renames nothing, so there the copy is made in its place, and a mark in it says so until it was verified. While
the mark is there every command refuses the lake (jobs/strandline/engine/storage/lake.py), and the next restore removes what a killed one left.

Nothing in it is a second name of a file of the snapshot: a lake changes, and a disk that spoils one must not spoil both.
"""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime

from strandline import catalog

from strandline.core.errors import DataError, DefinitionError, TransientError
from strandline.engine.runtime.holders import own
from strandline.engine.service.take_snapshot import Progress, refuse_overlap, room, sheets
from strandline.engine.storage.at_once import each_done
from strandline.engine.storage.file_lock import HeldError, hold
from strandline.engine.storage.hashed_files import Hashed, hash_of, hashed_copy, settle_on_disk
from strandline.engine.storage.lake import RESTORING, Lake
from strandline.engine.storage.place import Place
from strandline.engine.storage.relocate_checkpoint import settle
from strandline.engine.storage.snapshot_store import Manifest, Taken, damaged
from strandline.engine.storage.store_probe import FOLDER, refuse_unsafe

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
        _copied(taken, draft, manifest, progress)
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


def _copied(taken: Taken, draft: Place, manifest: Manifest, progress: Progress) -> None:
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
    signed = {**origin, "restored_at": at.isoformat(timespec="seconds")}
    (draft / RESTORED).put(json.dumps(signed, indent=1) + "\n")


def _put_in_place(draft: Place, lake: Lake) -> None:
    """Give the copy the name of the lake, and its checkpoints their paths; a stream would at its start."""
    if draft != lake.root:
        draft.move(lake.root)
    for name in (lake.root / "_checkpoints").names():
        settle(lake.checkpoint(catalog.find(name)))
    (lake.root / RESTORING).remove()
