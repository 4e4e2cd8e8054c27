"""One writer a table: a file lock, held by the process that writes, which is the JVM.

Why the JVM holds it and not Python: when Python is killed, its locks are released at once, but a commit that the
JVM has begun may still succeed. The kernel releases a lock of the JVM only when the JVM is gone.

Why not filelock: it takes flock locks, which Java neither sees nor takes, and has no record of the holder.

Why a lock is needed at all: on a local disk Delta's log stores check and then rename, so two processes can
both believe that they wrote the same version.

A lease lasts as long as its writer, for a stream days. A backfill must commit meanwhile, so beside the lease
there is a second lock, the turn, which each writer holds for the length of one commit. The second to take it sees the
version of the first, and Delta checks whether both touched the same files.

On an object store there are no locks of files; there both are objects (jobs/strandline/engine/lake/store_lease.py).
"""

import fcntl
import json
import os
import socket
import struct
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import partial
from typing import Any, TextIO

from pyspark.sql import SparkSession

from strandline.core.errors import TransientError
from strandline.core.table import Feed, Table
from strandline.engine.lake import store_lease
from strandline.engine.lake.lake import WRITER, Lake
from strandline.engine.lake.place import Place
from strandline.engine.lake.store_lease import StoreLease, fence, is_living, take, take_again
from strandline.engine.runtime.jvm import jvm
from strandline.engine.runtime.outage import skipped_in_outage
from strandline.engine.runtime.processes import is_there, own
from strandline.engine.runtime.settings import lease_seconds

# The lease of a table and the turn to commit to it, where the lake is on an object store.


_LEASES: dict[Place, list[StoreLease]] = {}

_FREE: dict[Place, tuple[int, str]] = {}
"""The epoch and the tag with which this process has released a turn last: one pair a table. Mostly no other process takes the
turn meanwhile, and then it is taken again by one request."""


def leases(path: Place) -> Sequence[StoreLease]:
    """Return the leases by which this process may commit to a table's folder."""
    return _LEASES.get(path, ())


@contextmanager
def lease_on_store(path: Place, folders: Sequence[Place]) -> Iterator[bool]:
    """Hold a lease for the length of the block, unless another process renews it; yield whether it is held.

    Args:
        path: Its object.
        folders: The tables that it is for; in each the commits of a holder that did not release it are refused.
    """
    held = take(path, lease_seconds())
    if held is None:
        yield False
        return
    held.keep()
    try:
        for folder in folders:
            if held.is_taken_over:
                fence(folder, held)
            _LEASES.setdefault(folder, []).append(held)
        yield True
    finally:
        for folder in folders:
            if held in leases(folder):
                _LEASES[folder].remove(held)
        held.release()


@contextmanager
def turn_on_store(
    wait: Callable[[Callable[[], bool]], None], path: Place, life: float
) -> Iterator[None]:
    """Hold the turn to commit for the length of the block.

    Args:
        wait: Waits until an attempt succeeds.
        path: Its object.
        life: Seconds after which another process takes it over.
    """
    held = list[StoreLease]()

    def could_take() -> bool:
        free = _FREE.pop(path, None)
        found = take_again(path, *free, life) if free else None
        found = found or take(path, life)
        held.extend([found] if found else [])
        return found is not None

    wait(could_take)
    try:
        yield
    finally:
        tag = held[0].release()
        if tag is not None:
            _FREE[path] = held[0].epoch, tag


GOING_DOWN = 20.0
"""Seconds that a JVM may take to end after its Python process was killed; Spark's shutdown hooks run meanwhile."""

COMMIT_LOCK = "_commit.lock"
"""The file in a table's folder; Delta ignores names that begin with an underscore."""

FLOCK = "hhqqi4x"
"""``struct flock`` of a 64-bit Linux; another system has another, and there the holder's own record must do."""

TURN = 60.0
"""Seconds to wait for another writer's commit: it takes milliseconds, or a second when Delta writes a checkpoint."""


class HasWriterError(TransientError):
    """Another process has a table's lease."""


@dataclass(slots=True)
class _Turn:
    lock: threading.RLock = field(default_factory=threading.RLock)
    is_taken: bool = False


AGAIN = 0.2
"""Seconds between two looks at a lease that this process waits for."""

_GUARD = threading.Lock()
_HELD: set[str] = set()
_TURNS: dict[str, "_Turn"] = {}
_PATIENCE: dict[str, float] = {}


@contextmanager
def lease(
    spark: SparkSession, table: Table | Feed, lake: Lake, *, role: str = WRITER
) -> Iterator[None]:
    """Hold a table's lease for the length of the block, as its writer or in another role.

    Raises:
        HasWriterError: Another process holds it.
        NewerLakeError: A newer program has written the lake.
    """
    lake.refuse_newer()
    path = lake.lease(table, role)
    with ExitStack() as held:
        _patiently(path, lambda: held.enter_context(_lease(spark, table, lake, path, role)))
        yield


@contextmanager
def waited_for(table: Table, lake: Lake, seconds: float) -> Iterator[None]:
    """Let this process wait for the table's lease inside the block, instead of being refused at once.

    A stream that had looked for requests just before one was written takes the lease all the same; it lets go of it when it looks
    again.
    """
    key = _key(lake.lease(table))
    _PATIENCE[key] = seconds
    try:
        yield
    finally:
        _PATIENCE.pop(key, None)


def _patiently(path: Place, attempt: Callable[[], None]) -> None:
    deadline = time.monotonic() + _PATIENCE.get(_key(path), 0.0)
    while True:
        try:
            return attempt()
        except HasWriterError:
            if time.monotonic() >= deadline:
                raise
        time.sleep(AGAIN)


@contextmanager
def _lease(
    spark: SparkSession, table: Table | Feed, lake: Lake, path: Place, role: str
) -> Iterator[None]:
    if not path.is_local:
        folders = lake.books(table) if isinstance(table, Table) else (lake.table(table),)
        with _once(table, path, role), lease_on_store(path, folders) as is_held:
            if not is_held:
                raise _taken(table, path, role)
            yield
        return
    path.parent.make()
    path.local.touch()
    with _once(table, path, role):
        file = jvm(spark).java.io.RandomAccessFile(str(path), "rw")
        try:
            if _retried(path, lambda: file.getChannel().tryLock()) is None:
                raise _taken(table, path, role)
            path.local.write_text(json.dumps(own()))  # in place: the lock is that of this very file
            yield
        finally:
            file.close()  # which releases the lock


@contextmanager
def turn(spark: SparkSession, path: Place) -> Iterator[None]:
    """Hold the lock of a table's next version for the length of a commit.

    Raises:
        TransientError: Another process holds it for too long.
    """
    if not path.is_local:
        with turn_without_jvm(path):
            yield
        return

    @contextmanager
    def locked() -> Iterator[None]:
        file = jvm(spark).java.io.RandomAccessFile(str(path / COMMIT_LOCK), "rw")
        try:
            _await_turn(path, lambda: file.getChannel().tryLock() is not None)
            yield
        finally:
            file.close()  # which releases the lock

    with _turn(path, locked):
        yield


@contextmanager
def turn_without_jvm(path: Place) -> Iterator[None]:
    """Hold the same lock in a process that commits without a JVM.

    Raises:
        TransientError: Another process holds it for too long.
    """

    @contextmanager
    def locked() -> Iterator[None]:
        if not path.is_local:
            with turn_on_store(partial(_await_turn, path), path / COMMIT_LOCK, TURN / 2):
                yield
            return
        with (path / COMMIT_LOCK).local.open("a+") as file:
            _await_turn(path, lambda: _could_lock(file))
            yield

    with _turn(path, locked):
        yield


@contextmanager
def _turn(path: Place, locked: Callable[[], AbstractContextManager[None]]) -> Iterator[None]:
    """Let one thread of this process at a time take the lock: Java refuses a second one as "overlapping"."""
    with _GUARD:
        mine = _TURNS.setdefault(_key(path), _Turn())
    with mine.lock:
        if mine.is_taken:  # by this thread, in an outer block
            yield
            return
        with locked():
            mine.is_taken = True
            try:
                yield
            finally:
                mine.is_taken = False


def _key(path: Place) -> str:
    """Return one name of a file, however it is reached."""
    return str(path.local.resolve()) if path.is_local else str(path)


def _await_turn(path: Place, attempt: Callable[[], bool]) -> None:
    deadline = time.monotonic() + TURN
    while not attempt():
        if time.monotonic() > deadline:
            raise TransientError(
                f"another process has been committing to {path} for {TURN:.0f} s",
                hint=f"find the process that holds its {COMMIT_LOCK} with `fuser`; it may be suspended.",
                lock=str(path / COMMIT_LOCK),
            )
        time.sleep(0.02)


def refuse_if_taken(table: Table | Feed, lake: Lake) -> None:
    """Refuse at once, without a JVM, when another process of this host writes the table, or of any host on a disk.

    Of another host and on a store it cannot be said at once whether it is there: to take the lease shows it, and so does
    ``WriterWatch``.

    Raises:
        HasWriterError: Another process writes it.
    """
    path = lake.lease(table)
    if not path.is_local:
        found = store_lease.holder(path)
        if (
            found.get("host") == socket.gethostname()
        ):  # another one may have ended; to take the lease shows it
            raise _taken(table, path, WRITER)
        return
    if not path.exists():
        return
    with path.local.open("r+") as file:
        if _retried(path, lambda: _could_lock(file) or None) is None:
            raise _taken(table, path, WRITER)


class WriterWatch:
    """Asks again and again whether a process writes a table, on this host or on another.

    On a disk the lock itself says so. On a store a holder of another host is one who renews the lease within its life, on the
    clock of who asks; one that was killed is believed for so long.
    """

    def __init__(self, table: Table | Feed, lake: Lake) -> None:
        """Begin; no lease was looked at."""
        self._table, self._lake = table, lake
        self._path = lake.lease(table)
        self._last: tuple[str, float, float] | None = None
        """The stamp of the lease, when it was seen first, and the life that its holder gives it."""

    def refuse(self) -> None:
        """Refuse a table that a process writes.

        Raises:
            HasWriterError: One does.
        """
        _patiently(self._path, self._refuse)

    def _refuse(self) -> None:
        refuse_if_taken(self._table, self._lake)
        if self._is_renewed():
            raise _taken(self._table, self._path, WRITER)

    def _is_renewed(self) -> bool:
        if self._path.is_local or not store_lease.holder(self._path):
            return False
        stamp = self._path.stamp()
        if self._last is None or self._last[0] != stamp:
            life = max(lease_seconds(), store_lease.life_of(self._path))
            self._last = stamp, time.monotonic(), life
        _, since, life = self._last
        return time.monotonic() - since < life


def is_written(table: Table | Feed, lake: Lake) -> bool:
    """Return whether a process holds the table's lease, in any role."""
    folder = lake.leases
    leases = (name for name in folder.names() if name.startswith(f"{table.id}."))
    return any(is_held(folder / name) for name in leases)


def is_held(path: Place) -> bool:
    """Return whether another process holds a lease; a copy of its file has no lock.

    It is asked for a shared lock, which the holder's refuses as well: the file may then be opened without the right to
    write, which a session of notebooks has not.
    """
    if not path.is_local:
        return bool(store_lease.holder(path))
    if not path.exists():
        return False
    with path.local.open() as file:
        return not _could_lock(file, fcntl.LOCK_SH)


def _could_lock(file: TextIO, kind: int = fcntl.LOCK_EX) -> bool:
    """Take the lock of an open file if it is free; it is held until the file is closed.

    It must be POSIX's, because Java's is: the two see each other, and neither sees the lock of ``file_lock``.
    """
    try:
        fcntl.lockf(file, kind | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


@contextmanager
def _once(table: Table | Feed, path: Place, role: str) -> Iterator[None]:
    """Refuse a second writer in this process before the file is touched.

    Such locks belong to a process: closing any handle of the file, even a refused one, releases all of them.
    """
    file = _key(path)
    with _GUARD:
        if file in _HELD:
            raise _taken(table, path, role)
        _HELD.add(file)
    try:
        yield
    finally:
        _HELD.discard(file)


def _retried(path: Place, attempt: Callable[[], Any]) -> Any:  # noqa: ANN401  # a lock of Java or of Python
    """Try again while the holder was killed and its JVM is still ending."""
    deadline = time.monotonic() + GOING_DOWN
    while (taken := attempt()) is None and time.monotonic() < deadline:
        if is_there(_holder(path)) is not False:
            return None
        time.sleep(0.2)
    return taken


def _locker(path: Place) -> int | None:
    """Return the process that has the lock of a lease's file, which is the JVM and not the Python that the file names."""
    if sys.platform != "linux":
        return None
    asked = struct.pack(FLOCK, fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0)
    with path.local.open("r+") as file:
        kind, *_, pid = struct.unpack(FLOCK, fcntl.fcntl(file, fcntl.F_GETLK, asked))
    return pid if kind != fcntl.F_UNLCK and pid > 0 else None


def _holder(path: Place) -> dict[str, Any]:
    if not path.is_local:
        return store_lease.holder(path)
    try:
        found = json.loads(path.text() or "")
    except ValueError:
        return {}
    return dict(found)


def described(path: Place) -> str:
    """Return which process holds a lease, and since when or when it was renewed last; empty where none is known."""
    holder = _holder(path)
    if not holder:
        return ""
    word = "since" if path.is_local else "renewed"
    return f"process {holder['pid']} on {holder['host']}, {word} {path.modified_at():%Y-%m-%d %H:%M:%S} UTC"


def _taken(table: Table | Feed, path: Place, role: str) -> HasWriterError:
    holder = _holder(path)
    who = described(path) or "another process"
    hint = f"wait for it or stop it (`strandline stream` ends on Ctrl-C); a table has one {role}."
    if path.is_local and is_there(holder) is False and (left := _locker(path)):
        who += f", which has ended; process {left}, which it started, keeps the lease"
        hint = (
            f"a JVM that is suspended or hangs does not hear that its Python has ended (`ps -o stat,args {left}` shows it): "
            f"`kill -9 {left}`, then type the same again; nothing is lost or repeated."
        )
    return HasWriterError(
        f"{table.id} has a {role} already: {who}",
        hint=hint,
        table=table.id,
        **{name: value for name, value in holder.items() if name != "id"},
    )


# Who holds which lease of a lake, for readers that take none.
#
# The folder is listed once, and each lease is read once. In a folder a lease is a lock, and its file has the last process that took
# it; on an object store it is an object, which says itself whether it is held and how many holders there were.


SUFFIX = ".lock"


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseRecord:
    """A lease that was taken at least once.

    Args:
        table: The table.
        role: The role that it gives.
        is_held: Whether it is held; a holder on another machine that was killed counts until its lease has expired.
        holder: The process that holds it; empty where none does.
        changed_at: When it was taken, or on an object store renewed or released.
        epoch: How many holders there were; None in a folder, which does not count them.
    """

    table: str
    role: str
    is_held: bool
    holder: Mapping[str, Any] = field(default_factory=dict)
    changed_at: datetime | None = None
    epoch: int | None = None


def lease_records(lake: Lake) -> Iterator[LeaseRecord]:
    """Yield the leases of a lake."""
    folder = lake.leases
    for name in folder.names():
        layer, _, rest = name.removesuffix(SUFFIX).partition(".")
        short, _, role = rest.partition(".")
        if name.endswith(SUFFIX) and short:
            read = _in_folder if folder.is_local else _on_store
            yield read(folder / name, f"{layer}.{short}", role or WRITER)


def _in_folder(path: Place, table: str, role: str) -> LeaseRecord:
    held = is_held(path)
    return LeaseRecord(
        table=table,
        role=role,
        is_held=held,
        holder=_values(path.text()) if held else {},
        changed_at=path.modified_at(),
    )


def _on_store(path: Place, table: str, role: str) -> LeaseRecord:
    found = _values(path.text())
    owner: Mapping[str, Any] = found.get("owner") or {}
    held = is_living(found, path)
    return LeaseRecord(
        table=table,
        role=role,
        is_held=held,
        holder=owner if held else {},
        changed_at=path.modified_at() if held else None,
        epoch=found.get("epoch"),
    )


def _values(text: str | None) -> dict[str, Any]:
    """Return what a lease says; nothing while its holder is just writing it."""
    try:
        return dict(json.loads(text or "{}"))
    except ValueError:
        return {}


# Ask the process that writes a table to hand it over for a while; it goes on by itself when it is given back.
#
# A table has one writer, which keeps its lease for days. Work that needs the table as it is between two batches (a promotion,
# a repair of time that the stream still owns) writes a request beside the leases. The writer ends its batch, so the table's
# rows and its checkpoint are at one exact offset, releases the lease, and takes it again once the request is gone.
#
# A request of the dead binds no stream: that of a process that has ended counts for nothing, and one of another host, where this
# cannot be seen, only as long as it is renewed.

PATIENCE = 300.0
"""Seconds to wait for the writer: it ends its batch first."""

LOOK_AGAIN = 0.5

REQUESTS = "handover."
RENEWED = 30.0
"""Seconds between two renewals of a request."""

EXPIRES = timedelta(minutes=3)
"""How long a request from another host counts without a renewal."""


def asker(table: Table, lake: Lake, now: datetime) -> str | None:
    """Return who asks for a table, and for what; None when no process does that is still there."""
    found = _read(_request(table, lake))
    if found is None or not _counts(found, now):
        return None
    return f"{found['why']} by process {found['pid']} on {found['host']}"


@contextmanager
def handed_over(  # noqa: PLR0913  # whose table, for what, and how long to wait
    table: Table,
    lake: Lake,
    clock: Callable[[], datetime],
    why: str,
    *,
    note: Callable[[str], None] = lambda _: None,
    patience: float = PATIENCE,
) -> Iterator[WriterWatch]:
    """Have a table without a writer for the length of the block; the lease itself is taken by the work.

    Yields what says whether it is still so, for work that takes no lease.

    Args:
        table: The table.
        lake: Its lake.
        clock: The time.
        why: What for, in a word.
        note: Called with a sentence when a writer has to be waited for.
        patience: Seconds to wait for it.

    Raises:
        TransientError: Another process has asked for it, or its writer does not hand it over.
    """
    request = _request(table, lake)
    other = asker(table, lake, clock())
    if other is not None:
        raise _asked_already(table, other)
    renewal = _Renewal(request, why, clock)
    renewal.start()
    try:
        if not renewal.is_own():
            raise _asked_already(table, asker(table, lake, clock()))
        writer = _await(table, lake, why, note, patience)
        with waited_for(table, lake, patience):
            yield writer
    finally:
        renewal.end()


class _Renewal(threading.Thread):
    """Keeps a request alive."""

    def __init__(self, request: Place, why: str, clock: Callable[[], datetime]) -> None:
        super().__init__(name="handover", daemon=True)
        self._request, self._why, self._clock = request, why, clock
        self._ended = threading.Event()
        self._write()

    def run(self) -> None:
        while not self._ended.wait(RENEWED):
            with skipped_in_outage():
                self._write()

    def end(self) -> None:
        self._ended.set()
        if self.is_alive():
            self.join()
        if self.is_own():
            self._request.remove(if_possible=True)

    def is_own(self) -> bool:
        """Return whether the request is this process's; of two that asked at once the one that wrote last has it."""
        found = _read(self._request) or {}
        return all(found.get(name) == value for name, value in own().items())

    def _write(self) -> None:
        asked = {**own(), "why": self._why, "at": self._clock().isoformat()}
        self._request.parent.make()
        self._request.put(json.dumps(asked))


def _await(
    table: Table, lake: Lake, why: str, note: Callable[[str], None], patience: float
) -> WriterWatch:
    """Wait until no process writes the table.

    Raises:
        HasWriterError: Its writer does not let go of it.
    """
    deadline, is_noted = time.monotonic() + patience, False
    writer = WriterWatch(table, lake)
    while True:
        try:
            writer.refuse()
        except HasWriterError as error:
            if time.monotonic() > deadline:
                raise HasWriterError(
                    f"{error.message}, and it was not handed over within {patience:.0f} s",
                    hint="a stream of an older version hands nothing over, and one in a long batch ends it first: "
                    f"`strandline pause`, {why} again, `strandline resume`.",
                    table=table.id,
                ) from error
            if not is_noted:
                note(f"{error.message}; it hands {table.id} over after its batch")
                is_noted = True
        else:
            return writer
        time.sleep(lake.pause(LOOK_AGAIN))


def _asked_already(table: Table, other: str | None) -> TransientError:
    return TransientError(
        f"{table.id} is handed over already: {other}",
        hint="wait until that is done, or stop it; then type the same again.",
        table=table.id,
    )


def _request(table: Table, lake: Lake) -> Place:
    # Not under the table's name, by which its leases are listed.
    return lake.leases / f"{REQUESTS}{table.id}.json"


def _read(request: Place) -> Mapping[str, Any] | None:
    try:
        found = json.loads(request.text() or "null")
    except ValueError:  # read while it was written
        return None
    return found if isinstance(found, dict) else None


def _counts(found: Mapping[str, Any], now: datetime) -> bool:
    seen = is_there(found)
    if seen is not None:
        return seen
    return abs(now - datetime.fromisoformat(found["at"])) < EXPIRES
