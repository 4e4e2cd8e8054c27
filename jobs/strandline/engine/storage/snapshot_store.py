"""A folder with snapshots of a lake: one folder each, whole in itself, named by the time at which it was taken.

    2026-11-25T114500Z/
        manifest.json       what it is a snapshot of, and the hash of each list below
        files/<part>.jsonl  the files of each table, with their hashes
        lake/               the files, where they are in the lake

A snapshot that is being made is in ``.draft`` and is renamed when it is complete, so what has a name is complete. One that was
killed is found there by the next one, because the lock is free, and is removed.

An object store renames nothing. There a snapshot has its name from the beginning, with a manifest that says so, and is complete
when that one is replaced as it was written. Who removes one that was killed removes that manifest first, so a process that was
suspended for longer than its lease cannot complete what is gone.

Each snapshot shares the files that have not changed with the one before; so each can be removed without the others.
"""

import json
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from datetime import datetime
from itertools import count
from typing import Any
from uuid import uuid4

from strandline.core.errors import DataError, DefinitionError, TransientError
from strandline.engine.runtime.holders import own
from strandline.engine.storage.file_lock import HeldError, hold
from strandline.engine.storage.hashed_files import Hashed, hash_of, read_lines, settle_on_disk
from strandline.engine.storage.place import Place

FORMAT = 1
DRAFT = ".draft"
MANIFEST = "manifest.json"
BEGUN = "begun "
"""What a manifest on a store begins with while its snapshot is made."""
NAME = re.compile(r"\d{4}-\d\d-\d\dT\d{6}Z(-\d+)?")


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """What a snapshot holds.

    Args:
        lake: The folder that it was taken of.
        taken_at: When.
        tables: For each table its version and its balance, by name.
        lists: The hash of the list of files of each part.
        files: How many files it has.
        bytes: Their size.
        format: The version of this record.
    """

    lake: str
    taken_at: str
    tables: Mapping[str, Mapping[str, Any]]
    lists: Mapping[str, str]
    files: int
    bytes: int
    format: int = field(default=FORMAT)


@dataclass(frozen=True, slots=True)
class Taken:
    """A snapshot that is complete, or is made.

    Args:
        root: Its folder.
        tag: While it is made on a store, the tag of the manifest that says so.
    """

    root: Place
    tag: str | None = field(default=None, compare=False)

    @property
    def is_complete(self) -> bool:
        """Return whether it has a manifest that is no beginning of one."""
        text = (self.root / MANIFEST).text()
        return text is not None and not text.startswith(BEGUN)

    @property
    def lake(self) -> Place:
        """Return the folder with the files of the lake."""
        return self.root / "lake"

    def list_of(self, part: str) -> Place:
        """Return the file with the list of files of a part."""
        return self.root / "files" / f"{part}.jsonl"

    def known(self, part: str) -> dict[str, Hashed]:
        """Return the files of a part by their paths."""
        return {each.path: each for each in read_lines(self.list_of(part))}

    def files(self, manifest: Manifest) -> Iterator[Hashed]:
        """Yield all files.

        Raises:
            DataError: A list is not as it was written.
        """
        for part, digest in manifest.lists.items():
            file = self.list_of(part)
            if not file.is_file() or hash_of(file) != digest:
                raise damaged(file, "its list of files is not as it was written")
            yield from read_lines(file)

    def manifest(self) -> Manifest:
        """Return what it holds.

        Raises:
            DataError: The record cannot be read.
            DefinitionError: A newer version wrote it.
        """
        file = self.root / MANIFEST
        try:
            found = json.loads(file.text() or "")
            if int(found["format"]) > FORMAT:
                raise DefinitionError(
                    f"{file} is of format {found['format']}, which this version does not know",
                    hint="update this one.",
                )
            return Manifest(**found)
        except (ValueError, KeyError, TypeError) as error:
            raise damaged(file, "it cannot be read") from error


def damaged(file: Place, why: str) -> DataError:
    """Return the error of a file of a snapshot that cannot be used."""
    return DataError(
        f"{file} is damaged: {why}",
        hint="take the file from another copy of the snapshot, or restore an earlier snapshot.",
        file=str(file),
    )


@contextmanager
def draft(store: Place, at: datetime) -> Iterator[Taken]:
    """Begin a snapshot; it is removed when the block ends, unless it was published.

    Raises:
        TransientError: Another process makes a snapshot there.
    """
    try:
        with hold(store / ".lock", json.dumps(own()), waits=False):
            _remove_begun(store)
            made = _begun(store, at)
            try:
                yield made
            finally:
                if made.root.name == DRAFT or _is_begun(made):
                    _remove(made, if_possible=True)
    except HeldError as error:
        raise TransientError(
            f"another process makes a snapshot in {store}",
            hint="wait until it is done.",
            store=str(store),
        ) from error


def _begun(store: Place, at: datetime) -> Taken:
    if store.is_local:
        return Taken(store / DRAFT)
    for name in _names(at):
        made = Taken(store / name)
        tag = (made.root / MANIFEST).exchange(f"{BEGUN}{uuid4().hex}", None)
        if tag is not None:
            return Taken(made.root, tag)
    raise AssertionError("there is always another name")


def _is_begun(made: Taken) -> bool:
    """Return whether the manifest on a store still says that this process makes it."""
    found = (made.root / MANIFEST).tagged()
    return found is not None and found[1] == made.tag


def _remove_begun(store: Place) -> None:
    (store / DRAFT).remove()
    for name in () if store.is_local else store.names():
        if NAME.fullmatch(name) and not Taken(store / name).is_complete:
            _remove(Taken(store / name))


def _names(at: datetime) -> Iterator[str]:
    stamp = at.strftime("%Y-%m-%dT%H%M%SZ")
    yield stamp
    yield from (f"{stamp}-{number}" for number in count(2))


def publish(made: Taken, manifest: Manifest, at: datetime) -> Taken:
    """Complete a draft, which has its name then.

    Raises:
        TransientError: Another process has removed it, because this one did not renew its lease.
    """
    text = json.dumps(asdict(manifest), indent=1) + "\n"
    if not made.root.is_local:
        if (made.root / MANIFEST).exchange(text, made.tag) is None:
            raise TransientError(
                f"another process has removed the snapshot {made.root} before it was complete",
                hint="this one was suspended for longer than STRANDLINE_LEASE; type the same again.",
                snapshot=str(made.root),
            )
        return Taken(made.root)
    (made.root / MANIFEST).put(text)
    settle_on_disk()
    store = made.root.parent
    to = next(store / name for name in _names(at) if not (store / name).exists())
    made.root.move(to)
    return Taken(to)


def snapshots(store: Place) -> list[Taken]:
    """Return the complete snapshots of a store, the oldest first."""
    found = (Taken(store / name) for name in store.names() if NAME.fullmatch(name))
    return [each for each in found if each.is_complete]


def remove_old(store: Place, keep: int) -> list[Taken]:
    """Remove all complete snapshots but the newest; return which."""
    gone = snapshots(store)[:-keep]
    for each in gone:
        _remove(each)
    return gone


def _remove(taken: Taken, *, if_possible: bool = False) -> None:
    """Remove a snapshot, the manifest first, so that one that is half removed is not taken for complete."""
    (taken.root / MANIFEST).remove()
    taken.root.remove(if_possible=if_possible)


def find(source: Place) -> Taken:
    """Return the snapshot in a folder, or the newest one in a store.

    Raises:
        DefinitionError: There is none.
    """
    if Taken(source).is_complete:
        return Taken(source)
    found = snapshots(source)
    if found:
        return found[-1]
    is_begun = (source / DRAFT).exists() or any(NAME.fullmatch(name) for name in source.names())
    began = " one was begun and not completed;" if is_begun else ""
    raise DefinitionError(
        f"there is no snapshot in {source}",
        hint=f"name the folder that `strandline snapshot` was given, or one snapshot in it;{began} "
        "`strandline snapshot` takes one.",
        source=str(source),
    )
