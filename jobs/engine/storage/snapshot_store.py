"""A folder with snapshots of a lake: one folder each, whole in itself, named by the time at which it was taken.

    2026-11-25T114500Z/
        manifest.json       what it is a snapshot of, and the hash of each list below
        files/<part>.jsonl  the files of each table, with their hashes
        lake/               the files, where they are in the lake

A snapshot that is being made is in ``.draft`` and is renamed when it is complete, so what has a name is complete. One that was
killed is found there by the next one, because the lock is free, and is removed.
Each snapshot shares the files that have not changed with the one before; so each can be removed without the others.
"""

import json
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from datetime import datetime
from typing import Any

from jobs.core.errors import DataError, DefinitionError, TransientError
from jobs.engine.runtime.holders import own
from jobs.engine.storage.file_lock import HeldError, hold
from jobs.engine.storage.hashed_files import Hashed, hash_of, read_lines, settle_on_disk
from jobs.engine.storage.place import Place

FORMAT = 1
DRAFT = ".draft"
MANIFEST = "manifest.json"
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
    """

    root: Place

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
            if not file.exists() or hash_of(file) != digest:
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
def draft(store: Place) -> Iterator[Taken]:
    """Make an empty draft; it is removed when the block ends, unless it was published.

    Raises:
        TransientError: Another process makes a snapshot there.
    """
    try:
        with hold(store / ".lock", json.dumps(own()), waits=False):
            made = Taken(store / DRAFT)
            made.root.remove()
            try:
                yield made
            finally:
                made.root.remove(if_possible=True)
    except HeldError as error:
        raise TransientError(
            f"another process makes a snapshot in {store}",
            hint="wait until it is done.",
            store=str(store),
        ) from error


def publish(made: Taken, manifest: Manifest, at: datetime) -> Taken:
    """Give a draft its name, when all of it is on the disk."""
    (made.root / MANIFEST).put(json.dumps(asdict(manifest), indent=1) + "\n")
    settle_on_disk()
    stamp = at.strftime("%Y-%m-%dT%H%M%SZ")
    name, number = stamp, 1
    while (made.root.parent / name).exists():
        number += 1
        name = f"{stamp}-{number}"
    to = made.root.parent / name
    made.root.move(to)
    return Taken(to)


def snapshots(store: Place) -> list[Taken]:
    """Return the complete snapshots of a store, the oldest first."""
    found = [store / name for name in store.names() if NAME.fullmatch(name)]
    return [Taken(each) for each in found if (each / MANIFEST).exists()]


def remove_old(store: Place, keep: int) -> list[Taken]:
    """Remove all complete snapshots but the newest; return which."""
    gone = snapshots(store)[:-keep]
    for each in gone:
        (
            each.root / MANIFEST
        ).remove()  # first, so that one that is half removed is not taken for complete
        each.root.remove()
    return gone


def find(source: Place) -> Taken:
    """Return the snapshot in a folder, or the newest one in a store.

    Raises:
        DefinitionError: There is none.
    """
    if (source / MANIFEST).exists():
        return Taken(source)
    found = snapshots(source)
    if found:
        return found[-1]
    began = " one was begun and not completed;" if (source / DRAFT).exists() else ""
    raise DefinitionError(
        f"there is no snapshot in {source}",
        hint=f"name the folder that `strandline snapshot` was given, or one snapshot in it;{began} "
        "`strandline snapshot` takes one.",
        source=str(source),
    )
