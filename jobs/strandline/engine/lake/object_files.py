"""The files of a lake on an object store: what a place does there (jobs/strandline/engine/lake/place.py).

A store has objects with keys, and no folders: a folder is what keys have in common, and it is there as long as an object is.
Nothing can be renamed or appended to: a move copies and removes, object by object, and a caller that was killed moves again.

``create`` and ``replace`` are decided by the server, of any number of writers one wins. An answer may be lost after the server
has written; then the client asks again and meets its own object. So a refusal is believed only after the object was read back
and its content is not ours.
"""

import io
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import datetime, timedelta
from functools import cache
from typing import TYPE_CHECKING, Any, BinaryIO, cast

import obstore
from obstore.exceptions import (
    AlreadyExistsError,
    BaseError,
    PermissionDeniedError,
    PreconditionError,
    UnauthenticatedError,
)
from obstore.fsspec import FsspecStore
from obstore.store import S3Store

from strandline.engine.runtime.outage import (
    KEYS,
    KeysRefusedError,
    StoreAwayError,
    StoreRefusesError,
)
from strandline.engine.runtime.settings import S3A, StoreOptions, store_options

# The client of an object store: one a bucket and process, how long it is patient, and what its refusals mean.
#
# Why obstore and not fsspec or boto3: fsspec hides conditions, and obstore is the client that delta-rs has as well.


if TYPE_CHECKING:
    from obstore.store import ClientConfig, RetryConfig  # they have no names at run time

PATIENCE: "RetryConfig" = {
    # The number alone ended it after two seconds: the pauses are drawn, and the first are short.
    "max_retries": 1_000,
    "retry_timeout": timedelta(seconds=30),
    "backoff": {"max_backoff": timedelta(seconds=2)},
}
"""How long a request is repeated that the store does not answer; then its caller decides."""


BRIEF = timedelta(seconds=3)
"""The same for a question of a person, who wants to know within seconds that the store is away."""


CLIENT: "ClientConfig" = {}
"""What else each client has."""


def be_brief() -> None:
    """Wait for a store that does not answer for as long as a person does; called before the first request.

    For questions that read small files alone: a store may accept a connection and be silent, so each request has the limit.
    """
    PATIENCE["retry_timeout"] = BRIEF
    CLIENT["connect_timeout"] = BRIEF
    CLIENT["timeout"] = BRIEF


def refuse_silent(path: str) -> None:
    """Ask a store for one object, which takes no longer than a person waits.

    A limit on each request would end the download of a large log, and without one a store that takes a connection and is
    silent holds the first request for half a minute.

    Raises:
        StoreAwayError: It does not answer.
    """
    bucket, _, key = path.partition("/")
    limits: ClientConfig = {"connect_timeout": BRIEF, "timeout": BRIEF}
    store = S3Store(
        bucket,
        client_options={"allow_http": store_options().is_plain, **limits},
        retry_config={**PATIENCE, "retry_timeout": BRIEF},
    )
    with asked(path), suppress(FileNotFoundError):
        obstore.head(store, key)


def bucket_of(name: str) -> S3Store:
    """Return the client of a bucket; one a process, which keeps its connections."""
    return _client(name, store_options())


@cache
def _client(name: str, options: StoreOptions) -> S3Store:
    return S3Store(
        name,
        client_options={"allow_http": options.is_plain, **CLIENT},
        retry_config=PATIENCE,
    )


@cache
def file_system() -> FsspecStore:
    """Return the store as DuckDB reads it: through a file system of Python, since its own extension is not bundled."""
    return FsspecStore(
        "s3a", client_options={"allow_http": store_options().is_plain}, retry_config=PATIENCE
    )


@contextmanager
def asked(path: str, *, writes: bool = False) -> Iterator[None]:
    """Say what the reader does about a refusal of the store.

    Args:
        path: What is asked for.
        writes: Whether it is written, which shows that the keys work.

    Raises:
        KeysRefusedError: It refuses the credentials.
        StoreRefusesError: It does, and has taken them before, some minutes ago.
        StoreAwayError: It does not answer.
    """
    KEYS.asked()
    try:
        yield
    except (PermissionDeniedError, UnauthenticatedError) as error:
        if KEYS.refused():
            raise StoreRefusesError(_first_line(error), f"{S3A}://{path}") from error
        raise KeysRefusedError("", f"{S3A}://{path}") from error
    except BaseError as error:
        raise StoreAwayError(_first_line(error), f"{S3A}://{path}") from error
    if writes:
        KEYS.worked()


def _first_line(error: BaseError) -> str:
    return str(error).partition("\n")[0][:300]


if TYPE_CHECKING:
    from obstore import ReadableFile

BLOCK = 65_536
"""Bytes that are kept; the reader below asks the store for a megabyte at once."""


class _Raw(io.RawIOBase):
    def __init__(self, reader: "ReadableFile") -> None:
        self._reader = reader

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def readinto(self, into: Any) -> int:  # noqa: ANN401  # a buffer; Python 3.11 has no name for it
        found = bytes(self._reader.read(len(into)))
        into[: len(found)] = found
        return len(found)

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        return self._reader.seek(offset, whence)


def as_file(reader: "ReadableFile") -> io.BufferedReader:
    """Return a reader of obstore as a file.

    An object as a file of Python that is read part by part.

    obstore's own reader lacks ``closed``, which Arrow asks first: it takes a reader without it for a closed one, so neither a
    checkpoint of a log nor a data file could be read from a store [pyarrow and obstore as pinned; test_object_files.py].
    """
    return io.BufferedReader(_Raw(reader), BLOCK)


if TYPE_CHECKING:
    from obstore import ObjectMeta


def exists(path: str) -> bool:
    """Return whether there is an object, or one below."""
    store, key = _split(path)
    with asked(path):
        if key and _is_there(store, key):
            return True
        return any(True for _ in _objects(store, key))


def is_file(path: str) -> bool:
    """Return whether there is an object of exactly this key."""
    store, key = _split(path)
    with asked(path):
        return _is_there(store, key)


def names(path: str) -> list[str]:
    """Return the names of what lies in a folder, sorted; none where there is no folder."""
    store, key = _split(path)
    with asked(path):
        found = obstore.list_with_delimiter(store, _folder(key) or None)
    objects = (each["path"] for each in found["objects"] if each["path"] != key)
    below = [*found["common_prefixes"], *objects]
    return sorted(each.rpartition("/")[2] for each in below)


def names_from(path: str, first: str) -> list[str]:
    """Return the names of the objects of a folder from a name on, sorted; the listing begins there."""
    store, key = _split(path)
    # A listing begins behind its key, so behind the name without its last letter.
    begin = f"{_folder(key)}{first[:-1]}"
    with asked(path):
        pages = obstore.list(store, _folder(key) or None, offset=begin)
        below = (each["path"].removeprefix(_folder(key)) for page in pages for each in page)
        return sorted(name for name in below if name >= first and "/" not in name)


def files(path: str) -> Iterator[str]:
    """Yield the paths of all objects below a folder, page by page."""
    store, key = _split(path)
    bucket = path.partition("/")[0]
    with asked(path):
        yield from (f"{bucket}/{each['path']}" for each in _objects(store, key))


def listed(path: str) -> Iterator[tuple[str, int, int]]:
    """Yield the path, the bytes and the time of each object below a folder, page by page."""
    store, key = _split(path)
    bucket = path.partition("/")[0]
    with asked(path):
        for each in _objects(store, key):
            written = int(each["last_modified"].timestamp() * 1_000_000) * 1_000
            yield f"{bucket}/{each['path']}", each["size"], written


def size(path: str) -> int:
    """Return the bytes of an object."""
    store, key = _split(path)
    with asked(path):
        return int(obstore.head(store, key)["size"])


def modified_at(path: str) -> datetime:
    """Return when an object was written."""
    store, key = _split(path)
    with asked(path):
        return obstore.head(store, key)["last_modified"]


def stamp(path: str) -> str:
    """Return what changes with an object, without reading it: its bytes and its tag."""
    store, key = _split(path)
    with asked(path):
        meta = obstore.head(store, key)
    return f"{meta['size']} {meta['e_tag'] or meta['last_modified'].isoformat()}"


def read(path: str) -> bytes | None:
    """Return an object's content; None where there is none."""
    found = read_tagged(path)
    return None if found is None else found[0]


def read_tagged(path: str) -> tuple[bytes, str] | None:
    """Return an object's content and its tag, which changes with it; None where there is none."""
    store, key = _split(path)
    with asked(path):
        try:
            answer = obstore.get(store, key)
            return bytes(answer.bytes()), str(answer.meta["e_tag"])
        except FileNotFoundError:
            return None


def read_last(path: str, count: int) -> bytes:
    """Return the last bytes of an object."""
    store, key = _split(path)
    with asked(path):
        answer = obstore.get(store, key, options={"range": {"suffix": count}})
        return bytes(answer.bytes())


def source(path: str) -> BinaryIO:
    """Open an object to read parts of it."""
    store, key = _split(path)
    with asked(path):
        return as_file(obstore.open_reader(store, key))


def written(path: str) -> BinaryIO:
    """Open an object to write it; it is there when it is closed."""
    return cast("BinaryIO", _Written(path))


class _Written(io.RawIOBase):
    """An object that is written part by part, as a file of Python.

    obstore's own has a method ``closed``, which Arrow takes for a yes: no data file could be written to a store, so none were put
    together there [pyarrow and obstore as pinned; test_object_files.py].
    """

    def __init__(self, path: str) -> None:
        """Open it."""
        store, key = _split(path)
        self._path = path
        with asked(path):
            self._file = obstore.open_writer(store, key)

    def writable(self) -> bool:
        """Return that it is."""
        return True

    def write(self, content: Any) -> int:  # noqa: ANN401  # a buffer; Python 3.11 has no name for it
        """Send more of it."""
        with asked(self._path):
            return int(self._file.write(bytes(content)))

    def close(self) -> None:
        """End it, and let it be there."""
        if self.closed:
            return
        super().close()
        with asked(self._path, writes=True):
            self._file.close()


def put(path: str, content: bytes) -> None:
    """Write an object; a reader sees the old content or the new."""
    store, key = _split(path)
    with asked(path, writes=True):
        obstore.put(store, key, content)


def create(path: str, content: bytes) -> bool:
    """Write an object that does not exist; return False where another writer has created it."""
    return create_tagged(path, content) is not None


def create_tagged(path: str, content: bytes) -> str | None:
    """Write an object that does not exist; return its tag, or None where another writer has created it."""
    store, key = _split(path)
    with asked(path, writes=True):
        try:
            return str(obstore.put(store, key, content, mode="create")["e_tag"])
        except AlreadyExistsError:
            found = read_tagged(path)
            return found[1] if found is not None and found[0] == content else None


def replace(path: str, content: bytes, tag: str) -> str | None:
    """Write an object that has not changed since it had a tag; return its new tag, or None where it has changed."""
    store, key = _split(path)
    with asked(path, writes=True):
        try:
            return str(obstore.put(store, key, content, mode={"e_tag": tag})["e_tag"])
        except (PreconditionError, FileNotFoundError):
            found = read_tagged(path)
            return found[1] if found is not None and found[0] == content else None


def append(path: str, line: bytes) -> None:
    """Append a line to an object that is never cut, as long as no other writer is faster; for short ones, it is copied."""
    while True:
        found = read_tagged(path)
        done = (
            create(path, line + b"\n")
            if found is None
            else replace(path, found[0] + line + b"\n", found[1])
        )
        if done:
            return


def copy(path: str, to: str) -> None:
    """Copy an object; within a bucket the server does it."""
    store, key = _split(path)
    other, target = _split(to)
    with asked(path, writes=True):
        if other is store:
            obstore.copy(store, key, target)
        else:
            obstore.put(other, target, obstore.get(store, key))


def move(path: str, to: str) -> None:
    """Copy an object, or all below a folder, and remove the former ones."""
    moved = [*files(path)]
    if not moved:
        copy(path, to)
    for each in moved:
        copy(each, to + each.removeprefix(path))
    remove(path, if_possible=False)


def remove_file(path: str) -> None:
    """Remove an object; nothing where there is none."""
    store, key = _split(path)
    with asked(path):
        obstore.delete(store, key)


def remove(path: str, *, if_possible: bool) -> None:  # noqa: ARG001  # as for local files
    """Remove an object, or all below a folder; nothing where there is none."""
    store, key = _split(path)
    with asked(path):
        if key:
            obstore.delete(store, key)
        for page in obstore.list(store, _folder(key) or None):
            obstore.delete(store, [each["path"] for each in page])


def _split(path: str) -> tuple[S3Store, str]:
    bucket, _, key = path.partition("/")
    return bucket_of(bucket), key


def _objects(store: S3Store, key: str) -> "Iterator[ObjectMeta]":
    """Yield the objects below a folder, page by page, without those by which Hadoop marks folders.

    Such a mark ends in a slash, which this client leaves out: it looks like an empty object that is not there.
    """
    for page in obstore.list(store, _folder(key) or None):
        for each in page:
            if each["size"] or _is_there(store, each["path"]):
                yield each


def _is_there(store: S3Store, key: str) -> bool:
    try:
        obstore.head(store, key)
    except FileNotFoundError:
        return False
    return True


def _folder(key: str) -> str:
    return f"{key}/" if key else ""
