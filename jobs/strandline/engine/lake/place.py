"""A place in a lake: a value with a scheme and a path, and the few things that the program does with small files.

It is no ``pathlib.Path``, for two reasons. ``str(Path("s3a://lake/x"))`` is ``s3a:/lake/x``, which Spark reads as another
lake, while a place's text is what Spark, Delta and delta-rs accept. And a path has forty methods, of which an object store
has five: code that has a place cannot list a tree, follow a link or hold a file open by accident.

Beside tables, a lake has small files: a heartbeat, a gate, a certificate. They are read whole and replaced whole, so a
reader sees the old text or the new, never a mix; what a verb has written is there after a power cut. What needs a real folder (a lock, a log of a program, Spark's scratch)
asks for ``local``.

A place is in a folder of this machine or on an object store (``s3a``, ``gs``, ``abfss``); two modules do the same with both.
"""

import errno
import os
import re
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import datetime
from itertools import islice, pairwise
from pathlib import Path, PurePosixPath
from typing import BinaryIO, Protocol, TypeAlias, TypeVar

from strandline.core.errors import DamagedError, DataError, DefinitionError, LakeError
from strandline.core.kind import Layer
from strandline.core.static import Static
from strandline.core.table import Table
from strandline.engine.lake import local_files
from strandline.engine.lake.local_files import make, sync_all
from strandline.engine.runtime.settings import ABFSS, ENDPOINTS

FILE = "file"
"""The scheme of a folder of this machine; that of a store is a setting's."""


class Files(Protocol):
    """A kind of storage; a module is one. What each does is said there, and in ``Place``.

    What is done with the files of a place, whether it is in a folder (local_files.py) or on a store (object_files.py).
    """

    def exists(self, path: str) -> bool:
        """See ``Place``."""

    def is_file(self, path: str) -> bool:
        """See ``Place``."""

    def names_from(self, path: str, first: str) -> list[str]:
        """See ``Place``."""

    def names(self, path: str) -> list[str]:
        """See ``Place``."""

    def files(self, path: str) -> Iterator[str]:
        """See ``Place``."""

    def listed(self, path: str) -> Iterator[tuple[str, int, int]]:
        """Yield the path, the bytes and the time of each file; see ``Place``."""

    def size(self, path: str) -> int:
        """See ``Place``."""

    def modified_at(self, path: str) -> datetime:
        """See ``Place``."""

    def read(self, path: str) -> bytes | None:
        """See ``Place``."""

    def stamp(self, path: str) -> str:
        """See ``Place``."""

    def read_last(self, path: str, count: int) -> bytes:
        """See ``Place``."""

    def source(self, path: str) -> Path | BinaryIO:
        """See ``Place``."""

    def written(self, path: str) -> BinaryIO:
        """See ``Place``."""

    def put(self, path: str, content: bytes) -> None:
        """See ``Place``."""

    def create(self, path: str, content: bytes) -> bool:
        """See ``Place``."""

    def read_tagged(self, path: str) -> tuple[bytes, str] | None:
        """See ``Place.tagged``."""

    def create_tagged(self, path: str, content: bytes) -> str | None:
        """See ``Place.exchange``."""

    def replace(self, path: str, content: bytes, tag: str) -> str | None:
        """See ``Place.exchange``."""

    def append(self, path: str, line: bytes) -> None:
        """See ``Place``."""

    def copy(self, path: str, to: str) -> None:
        """See ``Place``."""

    def move(self, path: str, to: str) -> None:
        """See ``Place``."""

    def remove_file(self, path: str) -> None:
        """See ``Place``."""

    def remove(self, path: str, *, if_possible: bool) -> None:
        """See ``Place``."""


Content: TypeAlias = bytes
"""A file's content; within ``Place`` the name ``bytes`` is that of a method."""
STORES = "s3a://bucket/folder, gs://bucket/folder or abfss://container@account.dfs.core.windows.net/folder"
ACCOUNT = re.compile(r"[^/@\s]+@[^/@\s.]+\.[^/@\s]+(?:/|$)")
SECRET = re.compile(r"^[^/@]*:[^/]*@|\?")
"""A password in a bucket's place, as Hadoop once took it, or a signature behind a folder, as Azure's portal gives it."""
PLAIN = re.compile(r"(?!\.\Z)[^/]+")
"""A name that a path is only continued by."""
URL = re.compile(r"(?P<scheme>[A-Za-z][A-Za-z0-9+.-]*)://(?P<path>.*)", re.DOTALL)


@dataclass(frozen=True, slots=True, order=True)
class Place:
    """A folder or a file, whether or not it exists.

    Args:
        path: For the scheme ``file`` a path of this machine, for a store the bucket and the key; Azure's bucket is a container
            with its account, ``container@account.dfs.core.windows.net``.
        scheme: How it is reached.

    >>> str(Place("lake/silver", "s3a") / "readings")
    's3a://lake/silver/readings'
    """

    path: str
    scheme: str = FILE

    @classmethod
    def of(cls, words: "str | os.PathLike[str]") -> "Place":
        """Return the place that a user names by a path or an address.

        Raises:
            DefinitionError: It is on a store that cannot be used.
        """
        if isinstance(words, Place):
            return words
        text = os.fspath(words)
        address = URL.fullmatch(text)
        if address is None:
            return cls(str(Path(text).expanduser().absolute()))
        scheme, path = address["scheme"].lower(), address["path"]
        if scheme in ENDPOINTS and SECRET.search(path):
            raise DefinitionError(  # what is in it is not repeated
                f"an address of {scheme}:// has a user, a password or a query, which a place on a store has not",
                hint="keys and tokens are in the environment; the address is that of the folder alone.",
            )
        if scheme in ENDPOINTS and (ACCOUNT.match(path) if scheme == ABFSS else path.strip("/")):
            return cls(path.strip("/"), scheme)
        if scheme != FILE or not path.startswith("/"):
            raise DefinitionError(
                f"a lake is a folder of this machine, {STORES}, and {_bare(text)} is none",
                hint="choose one with --lake or STRANDLINE_LAKE.",
                lake=_bare(text),
            )
        return cls(str(PurePosixPath(path)))

    def __truediv__(self, name: str) -> "Place":
        # Most names are plain, and to put a path together with care takes twenty times as long.
        if self.scheme == FILE and PLAIN.fullmatch(name) and not self.path.endswith("/"):
            return Place(f"{self.path}/{name}")
        return Place(str(PurePosixPath(self.path) / name), self.scheme)

    def __str__(self) -> str:
        return self.path if self.scheme == FILE else f"{self.scheme}://{self.path}"

    def __fspath__(self) -> str:
        return str(self.local)

    @property
    def is_local(self) -> bool:
        """Return whether it is on this machine."""
        return self.scheme == FILE

    @property
    def bucket(self) -> str:
        """Return the bucket that it is in, within which the server copies; empty for a folder of this machine."""
        return "" if self.is_local else f"{self.scheme}://{self.path.partition('/')[0]}"

    @property
    def local(self) -> Path:
        """Return its path, for what needs a file of this machine.

        Raises:
            DefinitionError: It is on a store.
        """
        if self.scheme != FILE:
            raise DefinitionError(
                f"{self} is no file of this machine",
                hint="choose a folder with --lake or STRANDLINE_LAKE.",
                lake=str(self),
            )
        return Path(self.path)

    @property
    def name(self) -> str:
        """Return the last part of its path."""
        return self.path.rstrip("/").rpartition("/")[2]

    @property
    def parent(self) -> "Place":
        """Return the folder that it lies in."""
        return Place(str(PurePosixPath(self.path).parent), self.scheme)

    def below(self, folder: "Place") -> str:
        """Return its path as seen from a folder above it."""
        return str(PurePosixPath(self.path).relative_to(folder.path))

    def seen_from(self, folder: "Place") -> str:
        """Return the same, or the whole path of what lies elsewhere: of a lake on a store some files are in a folder of this machine."""
        is_below = self.scheme == folder.scheme and self.path.startswith(f"{folder.path}/")
        return self.below(folder) if is_below else str(self)

    def holds(self, other: "Place") -> bool:
        """Return whether another place is this one or lies below it, also by a link."""
        if self.bucket != other.bucket:
            return False
        mine, its = (
            each.local.resolve() if each.is_local else PurePosixPath(each.path)
            for each in (self, other)
        )
        return mine == its or mine in its.parents

    def exists(self) -> bool:
        """Return whether there is a file or a folder."""
        return self._store.exists(str(self))

    def is_file(self) -> bool:
        """Return whether there is a file of this name; on a store that is one request, and ``exists`` may be two."""
        return self._store.is_file(str(self))

    def names_from(self, first: str) -> list[str]:
        """Return the names in a folder from one on, sorted; on a store only these are listed."""
        return self._store.names_from(str(self), first)

    def names(self) -> list[str]:
        """Return the names of what lies in a folder, sorted; none where there is no folder."""
        return self._store.names(str(self))

    def files(self) -> "Iterator[Place]":
        """Yield all files of a folder and of those below it."""
        return (Place(each, self.scheme) for each in self._store.files(str(self)))

    def listed(self) -> "Iterator[Listed]":
        """Yield the same with what a listing says of each; a file that is removed meanwhile is left out."""
        for path, size, written in self._store.listed(str(self)):
            yield Listed(Place(path, self.scheme), size, written)

    def size(self) -> int:
        """Return the bytes of a file."""
        return self._store.size(str(self))

    def modified_at(self) -> datetime:
        """Return when a file was written, or copied."""
        return self._store.modified_at(str(self))

    def stamp(self) -> str:
        """Return what changes when a file is written, without reading it: its size, with its time or the store's tag."""
        return self._store.stamp(str(self))

    def text(self) -> str | None:
        """Return a file's text; None where there is no file."""
        content = self._store.read(str(self))
        return None if content is None else content.decode("utf-8")

    def bytes(self) -> bytes | None:
        """Return a file's content; None where there is no file, or a link, which may lead out of the lake."""
        is_own = not self.is_local or (self.local.is_file() and not self.local.is_symlink())
        return self._store.read(str(self)) if is_own else None

    def last_bytes(self, count: int) -> Content:
        """Return the last bytes of a file."""
        return self._store.read_last(str(self), count)

    def source(self) -> Path | BinaryIO:
        """Return what Arrow opens to read parts of a file."""
        return self._store.source(str(self))

    def opened(self) -> BinaryIO:
        """Open a file to read it part by part.

        Raises:
            FileNotFoundError: There is none.
        """
        source = self.source()
        return source.open("rb") if isinstance(source, Path) else source

    def written(self) -> BinaryIO:
        """Open a file to write it in parts; nothing may read it meanwhile."""
        return self._store.written(str(self))

    def put(self, text: str) -> None:
        """Write a file; a reader sees the old text or the new, never a mix."""
        self.put_bytes(text.encode("utf-8"))

    def put_bytes(self, content: Content) -> None:
        """Write a file that is no text in the same way."""
        self._store.put(str(self), content)

    def create(self, text: str) -> bool:
        """Write a file that does not exist, whole; return False where it exists, also by another process meanwhile."""
        return self._store.create(str(self), text.encode("utf-8"))

    def tagged(self) -> tuple[str, str] | None:
        """Return a file's text and its tag, which is another one for another text; None where there is no file."""
        found = self._store.read_tagged(str(self))
        return None if found is None else (found[0].decode("utf-8"), found[1])

    def exchange(self, text: str, tag: str | None) -> str | None:
        """Write a file that has not changed since it had a tag, or that does not exist for None, and return its new tag.

        None where another process has changed or created it meanwhile; of any number of writers of different texts one wins.
        """
        content = text.encode("utf-8")
        if tag is None:
            return self._store.create_tagged(str(self), content)
        return self._store.replace(str(self), content, tag)

    def append(self, line: str) -> None:
        """Append a line to a file that is never cut."""
        self._store.append(str(self), line.encode("utf-8"))

    def make(self) -> "Place":
        """Create the folder with those above it, unless it exists, and return the place; a store has no folders."""
        if self.is_local:
            make(self.local)
        return self

    def copy(self, to: "Place") -> None:
        """Copy a file to another place of the same kind."""
        self._store.copy(str(self), str(to))

    def move(self, to: "Place") -> None:
        """Rename a file or a folder; a file at the new place is replaced. On a store it is copied file by file."""
        self._store.move(str(self), str(to))

    def remove_file(self) -> None:
        """Remove a file; nothing where there is none. On a store that is one request, and ``remove`` two."""
        self._store.remove_file(str(self))

    def remove(self, *, if_possible: bool = False) -> None:
        """Remove a file or a link, or a folder with all that it holds; nothing where there is none.

        Args:
            if_possible: Whether files of the folder may stay that another program still writes.
        """
        self._store.remove(str(self), if_possible=if_possible)

    @property
    def _store(self) -> Files:
        if self.is_local:
            return local_files
        from strandline.engine.lake import object_files  # noqa: PLC0415  # few lakes are on a store, and its import takes time

        return object_files


@dataclass(frozen=True, slots=True)
class Listed:
    """A file as a listing shows it.

    Args:
        place: The file.
        size: Its bytes.
        written: When it was written, in nanoseconds since 1970.
    """

    place: Place
    size: int
    written: int


# Do the same to many files: one after the other in a folder, several at once where each waits for the answer of a store.


Item = TypeVar("Item")
Result = TypeVar("Result")

AT_ONCE = 16
"""Requests that wait for their answers at the same time."""

AHEAD = 256
"""Files that are begun before the result of the first of them is taken."""


def each_done(
    work: Callable[[Item], Result], items: Iterable[Item], *, among: Iterable[Place]
) -> Iterator[Result]:
    """Yield the result for each item, in their order.

    Args:
        work: What to do.
        items: With what.
        among: Places that it reads or writes; where all are of this machine, nothing is done ahead.
    """
    if all(place.is_local for place in among):
        yield from map(work, items)
        return
    left = iter(items)
    with ThreadPoolExecutor(AT_ONCE) as pool:
        while batch := [*islice(left, AHEAD)]:
            yield from pool.map(work, batch)


# Bring files of a lake to the disk (jobs/strandline/engine/lake/local_files.py); what an object store has acknowledged is there.


def keep_files(files: Iterable[Place], *, within: Place) -> None:
    """Bring files to the disk, and their names with those of the folders up to one.

    Args:
        files: They lie in ``within`` or below.
        within: The highest folder whose names may be new.
    """
    if within.is_local:
        sync_all((file.local for file in files), within=within.local)


# Damage of one table is one table's: what is asked of many tables goes on with the others, and says which is damaged.
#
# A torn commit, a folder of another user, a disk that cannot read a block: each is an error of the table whose file it is.
# Who asks all tables one after the other asks here what an error means before the next is asked; an outage (a store that
# is away, a full disk) is of all tables alike, and no table's.

UNREADABLE = {
    errno.EACCES: "may not be read or written by the user of this process",
    errno.EPERM: "may not be read or written by the user of this process",
    errno.EISDIR: "is a folder, where a file belongs",
    errno.ENOTDIR: "lies in a file, where a folder belongs",
    errno.EIO: "cannot be read from its disk",
}


def damage(error: BaseException, table: Table | Static) -> DataError | None:
    """Return the damage of one table behind an error, with the table's name and the file; None where it is none."""
    if isinstance(error, DataError):
        if table.id in error.message:
            return error
        return type(error)(
            f"{table.id} cannot be read: {error.message}", hint=error.hint, **error.fields
        )
    if isinstance(error, LakeError) or is_outage(error):
        return None
    if isinstance(error, OSError) and error.errno in UNREADABLE:
        file = str(error.filename or f"a file of {table.id}")
        return _unreadable(file, UNREADABLE[error.errno], table)
    from strandline.engine.runtime.outage import denied  # noqa: PLC0415  # as below

    refused = denied(error)
    if isinstance(refused, DataError):  # Java's own words for a file that may not be read
        return _unreadable(str(refused.fields["file"]), UNREADABLE[errno.EACCES], table)
    return None


def _unreadable(file: str, how: str, table: Table | Static) -> DataError | None:
    """Return the damage of the table whose file it is, as the one that met it has to say it."""
    whose = _whose(file, table)
    found = DamagedError(
        f"{whose} is damaged: {file} {how}",
        hint="`ls -ld` shows what it is and whose; chown and chmod give it back, and a stream tries the table again by "
        f"itself. What cannot be had back: {mended(whose, 'it')} All other tables go on meanwhile.",
        table=whose,
        file=file,
    )
    return damage(found, table)


def _whose(file: str, table: Table | Static) -> str:
    """Return the table of whose files it is one: the table's own, or one that it reads."""
    if isinstance(table, Static):
        return table.id
    folders = set(pairwise(Path(file).parts))
    for each in (table, *table.needs):
        layers = (each.layer.value, *(("quarantine",) if each.layer is Layer.SILVER else ()))
        own = {("_checkpoints", each.id), *((layer, each.name) for layer in layers)}
        if own & folders:
            return each.id
    return table.id


def remedy(name: str) -> str:
    """Return what brings back a file of a table; a rebuild refuses bronze, from which all others are computed."""
    if name.startswith(f"{Layer.BRONZE}."):
        return "only a copy can replace it: `strandline restore` a snapshot to another folder, and copy the file from there."
    return f"`strandline rebuild {name}`, then `strandline promote {name}`."


def mended(table: str, what: str) -> str:
    """Return what takes a torn file out of a table's log; the versions of a static table decide what all rows were joined with."""
    if table.startswith("static."):
        return f"only a copy can replace it: `strandline restore` a snapshot to another folder, and copy the folder of {table} from there."
    return f"`strandline mend {table}` takes {what} out of the log and says what is to be computed again."


def is_outage(error: BaseException) -> bool:
    """Return whether an error says that a service is away, and so nothing about a file."""
    # Not imported above: with Kafka's client it takes longer than most answers, and few tables are damaged.
    from strandline.engine.runtime.outage import absence  # noqa: PLC0415  # as above

    return absence(error) is not None


def _bare(address: str) -> str:
    """Return an address without its password and its query."""
    return re.sub(r"://[^/@]*:[^/@]*@", "://…@", address).partition("?")[0]
