"""The files of snapshots: where they are, with which hashes, and how they are held under a second name while writers go on.

A folder with snapshots of a lake: one folder each, whole in itself, named by the time at which it was taken.

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

import errno
import hashlib
import json
import os
import re
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from dataclasses import asdict, dataclass, field
from datetime import datetime
from itertools import count
from typing import Any
from urllib.parse import unquote
from uuid import uuid4

from strandline.core.errors import DataError, DefinitionError, TransientError
from strandline.engine.lake.log.commit_log import FOLDER as PACKS
from strandline.engine.lake.log.commit_log import Kind, actions, commit_file, log_of
from strandline.engine.lake.log.ledger import latest_version
from strandline.engine.lake.log.log_actions import added
from strandline.engine.lake.log.vacuum import uncommitted
from strandline.engine.lake.place import Listed, Place, each_done, keep_files
from strandline.engine.lake.plain_files import MAKER
from strandline.engine.lake.store_lease import HeldError, hold
from strandline.engine.runtime.processes import own

# Hold the files of a table or a folder as they are now, under a second name, while writers go on.
#
# A link takes no room and some microseconds, and a file that is replaced, compacted away or deleted meanwhile stays under its
# second name. It is as good as a copy for files that are written once: data, commits, state. A file that programs change in
# place is copied.
#
# An object store has no links. There the server copies what may go meanwhile: logs, which maintenance cuts, and checkpoints,
# which Spark cleans. Data files and packs of commits are held where they are: they are written once, and maintenance leaves
# those of a pinned version (jobs/strandline/engine/lake/open_table.py).


LAST = "_last_checkpoint"
"""The file in a log that names its newest checkpoint; Delta changes it in place."""

SIDECARS = "_sidecars"
"""The folder in a log with parts of checkpoints."""

UNFINISHED = ".tmp"
"""Part of the name of a file that Spark or Hadoop is writing."""

COMMITS = "commits"
"""The folder of a stream's checkpoint with the batches that are done."""


class Held:
    """The files of a lake that are held.

    Args:
        root: The lake.
        folder: Where they have their second names or their copies, as they lie in the lake.
    """

    def __init__(self, root: Place, folder: Place) -> None:
        """Hold none."""
        self.root, self.folder = root, folder
        self._in_place: list[Listed] = []

    def there(self, file: Place) -> Place:
        """Return where a file of the lake is held."""
        return self.folder / file.below(self.root)

    def hold(self, files: Iterable[Place]) -> None:
        """Hold files that may go; one that is gone already is no longer needed."""
        self._each(_link, files)

    def copy(self, files: Iterable[Place]) -> None:
        """Hold files that programs change in place."""
        self._each(_copy, files)

    def hold_lasting(self, files: Iterable[Listed]) -> None:
        """Hold files that are written once and stay as long as their version is pinned."""
        if self.root.is_local:
            self.hold(file.place for file in files)
        else:
            self._in_place.extend(files)

    def files(self) -> list[tuple[str, Listed]]:
        """Return what is held, sorted: the path of each file in the lake, and where its bytes are."""
        kept = [(file.place.below(self.folder), file) for file in self.folder.listed()]
        kept += [(file.place.below(self.root), file) for file in self._in_place]
        return sorted(each for each in kept if each[0] != MAKER)

    def _each(self, work: Callable[[Place, Place], None], files: Iterable[Place]) -> None:
        def one(file: Place) -> None:
            with suppress(FileNotFoundError):
                work(file, self.there(file))

        for _ in each_done(one, files, among=[self.root]):
            pass


def freeze_table(path: Place, held: Held, version: int) -> None:
    """Hold a version of a table: its log, the commits that left it, and the files of this version and those before.

    The caller pins the version, so commits that leave the log meanwhile are older, and are found in their packs.
    """
    log = log_of(path)
    held.hold(log / name for name in log.names() if _is_of(name, version))
    freeze_folder(log / SIDECARS, held)
    held.hold_lasting((path / PACKS).listed())
    _name_checkpoint(log, held.there(log), version)
    # Of a file that is gone and that a reader needs, the balance of the copy names it.
    held.hold_lasting(_committed(path, version))


def freeze_checkpoint(checkpoint: Place, held: Held) -> None:
    """Hold a stream's checkpoint, the batches that are done first.

    State and plans are there before their batch is done, so whatever is held later belongs to them or is newer.
    """
    freeze_folder(checkpoint / COMMITS, held)
    freeze_folder(checkpoint, held)


def freeze_folder(folder: Place, held: Held) -> None:
    """Hold all files of a folder."""
    held.hold(file for file in folder.files() if UNFINISHED not in file.below(folder))


def freeze_copy(file: Place, held: Held) -> None:
    """Hold a small file, or those of a folder, that programs change in place; nothing where there is none."""
    held.copy([file] if file.is_file() else file.files())


def _committed(path: Place, version: int) -> Iterator[Listed]:
    """Yield the data files that commits up to a version have added and that are there."""
    there = [file for file in path.listed() if _is_data(file.place.below(path))]
    without = {place.below(path) for place in uncommitted(path)}
    for number in range(version + 1, latest_version(path) + 1):
        without |= {unquote(each.body["path"]) for each in actions(path, number, Kind.ADD)}
    return (file for file in there if file.place.below(path) not in without)


def _is_data(name: str) -> bool:
    return name.endswith(".parquet") and name[0] != "_"


def _is_of(name: str, version: int) -> bool:
    """Return whether a file of a log belongs to a version or one before: a commit, a checksum, a checkpoint or a part of one."""
    head = name.lstrip(".").partition(".")[0]
    return head.isdigit() and int(head) <= version and UNFINISHED not in name


def _name_checkpoint(log: Place, into: Place, version: int) -> None:
    """Name the newest checkpoint, unless it is of a later version: then readers find the one before by its name."""
    text = (log / LAST).text()
    with suppress(ValueError, KeyError, TypeError):
        if text and int(json.loads(text)["version"]) <= version:
            (into / LAST).put(text)


def _link(file: Place, into: Place) -> None:
    if not file.is_local:
        file.copy(into)
        return
    into.parent.make()
    with suppress(FileExistsError):
        os.link(file, into)


def _copy(file: Place, into: Place) -> None:
    if not file.is_local:
        file.copy(into)
        return
    into.parent.make()
    shutil.copy2(file, into)


# Copies of files with their hashes: written down when they are made, and compared when they are read again.
#
# The hash is that of the bytes that were written, taken on their way, so a copy is read once. Within an object store the server
# copies, and the copy is read. Times are kept: in a folder as those of the copies, and always in the list, because a store
# gives each object the time at which it was written there.


BLOCK = 1 << 20
"""Bytes that are read at once."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Hashed:
    """A file of a snapshot.

    Args:
        path: Where it is, seen from the lake.
        size: Its bytes.
        written: When it was written, in nanoseconds since 1970.
        sha256: The hash of its bytes.
    """

    path: str
    size: int
    written: int
    sha256: str


def hashed_copy(source: Place, target: Place, path: str, written: int) -> Hashed:
    """Copy a file with the time at which it was written, and return its hash.

    Raises:
        FileNotFoundError: It is gone.
        OSError: It cannot be read or written.
    """
    target.parent.make()
    digest, size = hashlib.sha256(), 0
    with closing(source.opened()) as old, target.written() as new:
        while block := old.read(BLOCK):
            digest.update(block)
            size += len(block)
            new.write(block)
    if target.is_local:
        os.utime(target, ns=(written, written))
    return Hashed(path=path, size=size, written=written, sha256=digest.hexdigest())


def hashed_link(source: Listed, target: Place, path: str) -> Hashed:
    """Give a file a second name and return its hash; copy it where that is another file system or store."""
    if not link(source.place, target):
        return hashed_copy(source.place, target, path, source.written)
    return Hashed(path=path, size=source.size, written=source.written, sha256=hash_of(target))


def link(source: Place, target: Place) -> bool:
    """Give a file a second name where that can be had: on one file system, unless it has too many, or as a server's copy.

    Returns:
        Whether it has it.
    """
    if source.bucket != target.bucket:
        return False
    if not source.is_local:
        source.copy(target)
        return True
    target.parent.make()
    try:
        os.link(source, target)
    except OSError as error:
        if error.errno in {errno.EXDEV, errno.EMLINK, errno.EPERM}:
            return False
        raise
    return True


def is_unchanged(file: Listed, known: Hashed | None) -> bool:
    """Return whether a file was not written since its hash was taken."""
    return known is not None and (file.size, file.written) == (known.size, known.written)


def write_lines(file: Place, lines: Iterator[Hashed]) -> str:
    """Write a list of files as it is made, a line each; return the hash of the list."""
    file.parent.make()
    digest = hashlib.sha256()
    with file.written() as out:
        for each in lines:
            line = (json.dumps(asdict(each), separators=(",", ":")) + "\n").encode()
            digest.update(line)
            out.write(line)
    return digest.hexdigest()


def read_lines(file: Place) -> Iterator[Hashed]:
    """Yield the files of such a list; none where there is no list."""
    with suppress(FileNotFoundError), closing(file.opened()) as lines:
        while line := lines.readline():
            found: Mapping[str, str | int] = json.loads(bytes(line))
            yield Hashed(**found)  # type: ignore[arg-type]  # as it was written


def settle_on_disk() -> None:
    """Wait until everything that was written is on the disk, so that a lost machine does not lose what was acknowledged."""
    os.sync()


def hash_of(file: Place) -> str:
    """Return the hash of a file's bytes.

    Raises:
        FileNotFoundError: It is gone.
    """
    digest = hashlib.sha256()
    with closing(file.opened()) as content:
        while block := content.read(BLOCK):
            digest.update(block)
    return digest.hexdigest()


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
        moment: The moment that it is of; empty for what there was.
        format: The version of this record.
    """

    lake: str
    taken_at: str
    tables: Mapping[str, Mapping[str, Any]]
    lists: Mapping[str, str]
    files: int
    bytes: int
    moment: str = ""
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


# The files of one table in the folder of another, without a copy: the same bytes under a second name.
#
# Data files are never changed once they are written, so a link is as good as a copy, takes no room and no time. An object store
# has no links; there the server copies.


def link_files(source: Place, target: Place, names: Iterable[str]) -> None:
    """Give files of one table a second name in the folder of another; those that are there already stay."""
    folders = set[Place]()
    for name in names:
        place = target / name
        folders.add(place.parent)
        if place.exists():
            continue
        if place.is_local:
            place.parent.make()
            os.link(source / name, place)
        else:
            (source / name).copy(place)
    for folder in folders:
        keep_files((), within=folder)


def link_commit(source: Place, target: Place, version: int) -> None:
    """Let a table have a commit of another: its data files first and the commit last, as a writer would."""
    link_files(
        source, target, [Place.of(file).below(source) for file in added(source, version).files]
    )
    commit = commit_file(source, version)
    link_files(commit.parent, commit_file(target, version).parent, [commit.name])
