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
from collections.abc import Iterator, Sequence
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
from strandline.engine.runtime.processes import REQUESTS
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
        _head(store, key)


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
    """A store as DuckDB reads it; the client's own makes a new connection for each name, and knows no container of Azure's.

    What it asks is counted, so what is asked is what is written here.
    """

    def _construct_store(self, bucket: str) -> Any:  # noqa: ANN401  # as its own
        return bucket_of(f"{self.protocol}://{bucket}/")

    def _open(self, path: str, mode: str = "rb", *_: object, **__: object) -> Any:  # noqa: ANN401  # as its own
        if mode != "rb":
            raise ValueError(f"{path} is read, and not opened as {mode}")
        return _read_in_parts(self._address(path))

    async def _info(self, path: str, **_: object) -> dict[str, Any]:
        store, key = _split(self._address(path))
        _sent("HEAD", store, key)
        found = await obstore.head_async(store, key)
        return {"name": path, "size": found["size"], "type": "file"}

    def modified(self, path: str) -> datetime:
        return modified_at(self._address(path))

    def _address(self, path: str) -> str:
        bucket, key = self._split_path(path)
        return f"{self.protocol}://{bucket}/{key}"


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


PAGE = 1_000
"""Objects that a store lists, or removes, by one request."""
PART, WRITTEN = 5 << 20, 10 << 20
"""Bytes of a part of a large object, and of one that is written as a file; two more requests begin and end it."""
BLOCK = 1 << 20
"""Bytes that are read by one request at least."""


class _Ranges(io.RawIOBase):
    """An object as a file of Python that is read part by part.

    obstore's own lacks ``closed``, which Arrow asks first: it takes a reader without it for a closed one, so neither a checkpoint of
    a log nor a data file could be read from a store [pyarrow and obstore as pinned; test_object_files.py]. And it does not say how
    many requests it sends.
    """

    def __init__(self, path: str) -> None:
        self._path, (self._store, self._key) = path, _split(path)
        self._at, self._size = 0, int(_head(self._store, self._key)["size"])

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def readinto(self, into: Any) -> int:  # noqa: ANN401  # a buffer; Python 3.11 has no name for it
        end = min(self._at + len(into), self._size)
        if end <= self._at:
            return 0
        found = bytes(_range(self._store, self._key, self._at, end))
        into[: len(found)] = found
        self._at += len(found)
        return len(found)

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        begin = {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._size}[whence]
        if begin + offset < 0:
            raise ValueError(f"{self._path} has no byte {begin + offset}")
        self._at = begin + offset
        return self._at


def _read_in_parts(path: str) -> io.BufferedReader:
    return io.BufferedReader(_Ranges(path), BLOCK)


if TYPE_CHECKING:
    from obstore import Bytes, GetOptions, GetResult, ObjectMeta, PutMode, PutResult, UpdateVersion

# What is asked of a store leaves the process below, and is counted there. One that the client repeats, because the store did not answer,
# is one: it says of none how often it did.


def _sent(what: str, store: Store, key: str, times: int = 1) -> None:
    """Count requests, of a store whose clients in the JVM are counted as well."""
    if isinstance(store, S3Store):
        REQUESTS.add(what, f"{store.config.get('bucket', '')}/{key}", times)


def _head(store: Store, key: str) -> "ObjectMeta":
    _sent("HEAD", store, key)
    return obstore.head(store, key)


def _get(store: Store, key: str, options: "GetOptions | None" = None) -> "GetResult":
    _sent("GET", store, key)
    return obstore.get(store, key, options=options)


def _range(store: Store, key: str, start: int, end: int) -> "Bytes":
    _sent("GET", store, key)
    return obstore.get_range(store, key, start=start, end=end)


def _put(store: Store, key: str, content: bytes, mode: "PutMode | None" = None) -> "PutResult":
    _sent_whole(store, key, len(content), PART, in_parts=mode is None and len(content) > PART)
    return obstore.put(store, key, content, mode=mode, chunk_size=PART)


def _sent_whole(store: Store, key: str, size: int, part: int, *, in_parts: bool) -> None:
    """Count the requests that an object is written by: one, or in parts one each and two more."""
    _sent("PUT", store, key, -(-size // part) if in_parts else 1)
    if in_parts:
        _sent("POST", store, key, 2)


def _copy(store: Store, key: str, to: str) -> None:
    _sent("COPY", store, to)
    obstore.copy(store, key, to)


def _pages(store: Store, key: str, offset: str | None = None) -> "Iterator[Sequence[ObjectMeta]]":
    """Yield the objects below a folder; each page is a request, and one without any is one too."""
    folder = _folder(key)
    _sent("LIST", store, folder)
    for number, page in enumerate(
        obstore.list(store, folder or None, offset=offset, chunk_size=PAGE)
    ):
        if number:
            _sent("LIST", store, folder)
        yield page


def _remove_one(store: Store, key: str) -> None:
    _sent("DELETE", store, key)
    obstore.delete(store, key)


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
        _sent("LIST", store, _folder(key))
        found = obstore.list_with_delimiter(store, _folder(key) or None)
        all_of_them = len(found["objects"]) + len(found["common_prefixes"])
        _sent("LIST", store, _folder(key), max(0, all_of_them - 1) // PAGE)
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
        pages = _pages(store, key, begin)
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
        return int(_head(store, key)["size"])


def modified_at(path: str) -> datetime:
    """Return when an object was written."""
    store, key = _split(path)
    with asked(path):
        return _head(store, key)["last_modified"]


def stamp(path: str) -> str:
    """Return what changes with an object, without reading it: its bytes and its tag."""
    store, key = _split(path)
    with asked(path):
        meta = _head(store, key)
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
            answer = _get(store, key)
            return bytes(answer.bytes()), _tag(answer.meta, store)
        except FileNotFoundError:
            return None


def read_last(path: str, count: int) -> bytes:
    """Return the last bytes of an object."""
    store, key = _split(path)
    with asked(path):
        if isinstance(store, AzureStore):  # which knows no range that is counted from the end
            end = int(_head(store, key)["size"])
            begin = max(0, end - count)
            return bytes(_range(store, key, begin, end)) if end else b""
        answer = _get(store, key, {"range": {"suffix": count}})
        return bytes(answer.bytes())


def source(path: str) -> BinaryIO:
    """Open an object to read parts of it."""
    with asked(path):
        return _read_in_parts(path)


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
        self._path, (self._store, self._key) = path, _split(path)
        self._size = 0
        with asked(path):
            self._file = obstore.open_writer(self._store, self._key, buffer_size=WRITTEN)

    def writable(self) -> bool:
        """Return that it is."""
        return True

    def write(self, content: Any) -> int:  # noqa: ANN401  # a buffer; Python 3.11 has no name for it
        """Send more of it."""
        with asked(self._path):
            written = int(self._file.write(bytes(content)))
        self._size += written
        return written

    def close(self) -> None:
        """End it, and let it be there."""
        if self.closed:
            return
        super().close()
        in_parts = self._size >= WRITTEN
        _sent_whole(self._store, self._key, self._size, WRITTEN, in_parts=in_parts)
        with asked(self._path, writes=True):
            self._file.close()


def put(path: str, content: bytes) -> None:
    """Write an object; a reader sees the old content or the new."""
    store, key = _split(path)
    with asked(path, writes=True):
        _put(store, key, content)


def create(path: str, content: bytes) -> bool:
    """Write an object that does not exist; return False where another writer has created it."""
    return create_tagged(path, content) is not None


def create_tagged(path: str, content: bytes) -> str | None:
    """Write an object that does not exist; return its tag, or None where another writer has created it."""
    store, key = _split(path)
    with asked(path, writes=True):
        try:
            return _tag(_put(store, key, content, "create"), store)
        except AlreadyExistsError:
            found = read_tagged(path)
            return found[1] if found is not None and found[0] == content else None


def replace(path: str, content: bytes, tag: str) -> str | None:
    """Write an object that has not changed since it had a tag; return its new tag, or None where it has changed."""
    store, key = _split(path)
    with asked(path, writes=True):
        try:
            return _tag(_put(store, key, content, _unchanged(tag, store)), store)
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
            _copy(store, key, target)
        else:
            found = _get(store, key)
            # What streams is sent in parts, whatever its size.
            _sent_whole(other, target, found.meta["size"], PART, in_parts=True)
            obstore.put(other, target, found, chunk_size=PART)


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
        _remove_one(store, key)


def remove(path: str, *, if_possible: bool) -> None:  # noqa: ARG001  # as for local files
    """Remove an object, or all below a folder; nothing where there is none."""
    store, key = _split(path)
    with asked(path):
        for page in _pages(store, key):
            _delete(store, [each["path"] for each in page])
        if key:
            # Last: an account of Azure's with folders refuses to remove one that holds something.
            _delete(store, [key])


def _delete(store: Store, keys: list[str]) -> None:
    """Remove objects of which some may be gone: another program may remove the same."""
    _sent("DELETE", store, keys[0], -(-len(keys) // PAGE))
    try:
        obstore.delete(store, keys)
    except FileNotFoundError:  # the first that was gone ended it
        for each in keys:
            with suppress(FileNotFoundError):
                _remove_one(store, each)


def _split(path: str) -> tuple[Store, str]:
    return bucket_of(path), _parts(path)[2]


def _objects(store: Store, key: str) -> "Iterator[ObjectMeta]":
    """Yield the objects below a folder, page by page, without those by which Hadoop marks folders.

    Such a mark ends in a slash, which this client leaves out: it looks like an empty object that is not there. On Azure it has
    the folder's name.
    """
    for page in _pages(store, key):
        for each in page:
            if each["size"] or _is_there(store, each["path"]):
                yield each


def _is_there(store: Store, key: str) -> bool:
    try:
        found = _head(store, key)
    except FileNotFoundError:
        return False
    return bool(found["size"]) or not _is_mark(store, key)


def _is_mark(store: Store, key: str) -> bool:
    """Return whether an empty object marks a folder of Azure's, which is said in the words that its writer gave it along."""
    if not isinstance(store, AzureStore):
        return False
    with suppress(FileNotFoundError):
        return "hdi_isfolder" in _get(store, key, {"head": True}).attributes
    return True  # it is gone


def _folder(key: str) -> str:
    return f"{key}/" if key else ""
