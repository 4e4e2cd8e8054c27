"""The files of a lake on an object store: what a place does there (jobs/strandline/engine/lake/place.py).

A store has objects with keys, and no folders: a folder is what keys have in common, and it is there as long as an object is.
Nothing can be renamed or appended to: a move copies and removes, object by object, and a caller that was killed moves again.

Here an object is named by its whole address, ``gs://bucket/key``, because three kinds of store are asked by one client; what
differs between them is in the first part of this module.

``create`` and ``replace`` are decided by the server, of any number of writers one wins. An answer may be lost after the server
has written; then the client asks again and meets its own object. So a refusal is believed only after the object was read back
and its content is not ours.
"""

import io
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import datetime, timedelta
from functools import cache
from typing import TYPE_CHECKING, Any, BinaryIO, TypeAlias, cast

import obstore
from obstore.exceptions import (
    AlreadyExistsError,
    BaseError,
    PermissionDeniedError,
    PreconditionError,
    UnauthenticatedError,
)
from obstore.fsspec import FsspecStore
from obstore.store import AzureStore, GCSStore, S3Store

from strandline.engine.runtime.outage import (
    KEYS,
    KeysRefusedError,
    StoreAwayError,
    StoreRefusesError,
)
from strandline.engine.runtime.settings import (
    ABFSS,
    GS,
    StoreOptions,
    store_options,
)

# The client of an object store: one a bucket and process, how long it is patient, and what its refusals mean.
#
# Why obstore and not fsspec or the clouds' own libraries: fsspec hides conditions, and obstore is the client that delta-rs has as
# well. It asks all three clouds by one set of functions; each cloud's library would be another client, another way to wait and
# another set of errors.


if TYPE_CHECKING:
    from obstore.store import ClientConfig, RetryConfig  # they have no names at run time

Store: TypeAlias = S3Store | GCSStore | AzureStore
"""The client of a bucket, or of a container of Azure's."""

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
    scheme, bucket, key = _parts(path)
    limits: ClientConfig = {"connect_timeout": BRIEF, "timeout": BRIEF}
    brief: RetryConfig = {**PATIENCE, "retry_timeout": BRIEF}
    store = _made(scheme, bucket, store_options(scheme), limits, brief)
    with asked(path), suppress(FileNotFoundError):
        obstore.head(store, key)


def bucket_of(address: str) -> Store:
    """Return the client of the bucket of an address; one a process, which keeps its connections."""
    scheme, bucket, _ = _parts(address)
    return _client(scheme, bucket, store_options(scheme))


@cache
def _client(scheme: str, bucket: str, options: StoreOptions) -> Store:
    return _made(scheme, bucket, options, CLIENT, PATIENCE)


def _made(
    scheme: str,
    bucket: str,
    options: StoreOptions,
    limits: "ClientConfig",
    patience: "RetryConfig",
) -> Store:
    """Make a client; keys and addresses are those of the environment, by the names that the tools of each cloud know."""
    client: ClientConfig = {"allow_http": options.is_plain, **limits}
    if scheme == GS:
        return GCSStore(bucket, client_options=client, retry_config=patience)
    if scheme == ABFSS:
        container, _, domain = bucket.partition("@")
        account, _, rest = domain.partition(".")
        # The interface for blobs of the same account: the one for folders writes no file by one request.
        blobs = f"https://{account}.{rest.replace('dfs.', 'blob.', 1)}"
        return AzureStore(
            container,
            account_name=account,
            endpoint=options.endpoint or blobs,
            client_options=client,
            retry_config=patience,
        )
    return S3Store(bucket, client_options=client, retry_config=patience)


class _ReadableStore(FsspecStore):
    """A store as DuckDB reads it; the client's own makes a new connection for each name, and knows no container of Azure's."""

    def _construct_store(self, bucket: str) -> Any:  # noqa: ANN401  # as its own
        return bucket_of(f"{self.protocol}://{bucket}/")


@cache
def file_system(scheme: str) -> FsspecStore:
    """Return the stores of a scheme as DuckDB reads them: through a file system of Python, since its own extension is not bundled."""
    return cast("FsspecStore", cast("Any", _ReadableStore)(scheme))


def _parts(address: str) -> tuple[str, str, str]:
    """Return the scheme, the bucket and the key of an address."""
    scheme, _, path = address.partition("://")
    bucket, _, key = path.partition("/")
    return scheme, bucket, key


def _tag(found: "ObjectMeta | PutResult", store: Store) -> str:
    """Return by what a store knows whether an object has changed: Google's has a number for each write, the others a tag."""
    return str(found["version"] if isinstance(store, GCSStore) else found["e_tag"])


def _unchanged(tag: str, store: Store) -> "UpdateVersion":
    return {"version": tag} if isinstance(store, GCSStore) else {"e_tag": tag}


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
            raise StoreRefusesError(_first_line(error), path) from error
        raise KeysRefusedError("", path) from error
    except BaseError as error:
        raise StoreAwayError(_first_line(error), path) from error
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
    from obstore import ObjectMeta, PutResult, UpdateVersion


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
        objects = [
            each["path"]
            for each in found["objects"]
            if each["path"] != key and (each["size"] or not _is_mark(store, each["path"]))
        ]
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
    bucket = _parts(path)[1]
    with asked(path):
        yield from (f"{bucket}/{each['path']}" for each in _objects(store, key))


def listed(path: str) -> Iterator[tuple[str, int, int]]:
    """Yield the path, the bytes and the time of each object below a folder, page by page."""
    store, key = _split(path)
    bucket = _parts(path)[1]
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
    return f"{meta['size']} {_tag(meta, store)}"


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
            return bytes(answer.bytes()), _tag(answer.meta, store)
        except FileNotFoundError:
            return None


def read_last(path: str, count: int) -> bytes:
    """Return the last bytes of an object."""
    store, key = _split(path)
    with asked(path):
        if isinstance(store, AzureStore):  # which knows no range that is counted from the end
            end = int(obstore.head(store, key)["size"])
            begin = max(0, end - count)
            return bytes(obstore.get_range(store, key, start=begin, end=end)) if end else b""
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
            return _tag(obstore.put(store, key, content, mode="create"), store)
        except AlreadyExistsError:
            found = read_tagged(path)
            return found[1] if found is not None and found[0] == content else None


def replace(path: str, content: bytes, tag: str) -> str | None:
    """Write an object that has not changed since it had a tag; return its new tag, or None where it has changed."""
    store, key = _split(path)
    with asked(path, writes=True):
        try:
            return _tag(obstore.put(store, key, content, mode=_unchanged(tag, store)), store)
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
    scheme, _, name = path.partition("://")
    moved = [*files(path)]
    if not moved:
        copy(path, to)
    for each in moved:
        copy(f"{scheme}://{each}", to + each.removeprefix(name))
    remove(path, if_possible=False)


def remove_file(path: str) -> None:
    """Remove an object; nothing where there is none."""
    store, key = _split(path)
    with asked(path), suppress(FileNotFoundError):  # as Google and Azure answer, and S3 does not
        obstore.delete(store, key)


def remove(path: str, *, if_possible: bool) -> None:  # noqa: ARG001  # as for local files
    """Remove an object, or all below a folder; nothing where there is none."""
    store, key = _split(path)
    with asked(path):
        for page in obstore.list(store, _folder(key) or None):
            _delete(store, [each["path"] for each in page])
        if key:
            # Last: an account of Azure's with folders refuses to remove one that holds something.
            _delete(store, [key])


def _delete(store: Store, keys: list[str]) -> None:
    """Remove objects of which some may be gone: another program may remove the same."""
    try:
        obstore.delete(store, keys)
    except FileNotFoundError:  # the first that was gone ended it
        for each in keys:
            with suppress(FileNotFoundError):
                obstore.delete(store, each)


def _split(path: str) -> tuple[Store, str]:
    return bucket_of(path), _parts(path)[2]


def _objects(store: Store, key: str) -> "Iterator[ObjectMeta]":
    """Yield the objects below a folder, page by page, without those by which Hadoop marks folders.

    Such a mark ends in a slash, which this client leaves out: it looks like an empty object that is not there. On Azure it has
    the folder's name.
    """
    for page in obstore.list(store, _folder(key) or None):
        for each in page:
            if each["size"] or _is_there(store, each["path"]):
                yield each


def _is_there(store: Store, key: str) -> bool:
    try:
        found = obstore.head(store, key)
    except FileNotFoundError:
        return False
    return bool(found["size"]) or not _is_mark(store, key)


def _is_mark(store: Store, key: str) -> bool:
    """Return whether an empty object marks a folder of Azure's, which is said in the words that its writer gave it along."""
    if not isinstance(store, AzureStore):
        return False
    with suppress(FileNotFoundError):
        return "hdi_isfolder" in obstore.get(store, key, options={"head": True}).attributes
    return True  # it is gone


def _folder(key: str) -> str:
    return f"{key}/" if key else ""
