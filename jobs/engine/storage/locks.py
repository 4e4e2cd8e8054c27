"""One writer a table: a file lock, held by the process that writes, which is the JVM.

Why the JVM holds it and not Python: when Python is killed, its locks are released at once, but a commit that the
JVM has begun may still succeed. The kernel releases a lock of the JVM only when the JVM is gone.

Why not filelock: it takes flock locks, which Java neither sees nor takes, and has no record of the holder.

Why a lock is needed at all: on a local disk Delta's log stores check and then rename, so two processes can
both believe that they wrote the same version.

A lease lasts as long as its writer, for a stream days. A backfill must commit meanwhile, so beside the lease
there is a second lock, the turn, which each writer holds for the length of one commit. The second to take it sees the
version of the first, and Delta checks whether both touched the same files.
"""

import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from jobs.core.errors import TransientError
from jobs.core.table import Table
from jobs.engine.runtime.holders import could_lock, is_held, is_there, own
from jobs.engine.runtime.jvm import jvm
from jobs.engine.storage.lake import WRITER, Lake

GOING_DOWN = 20.0
"""Seconds that a JVM may take to end after its Python process was killed; Spark's shutdown hooks run meanwhile."""

COMMIT_LOCK = "_commit.lock"
"""The file in a table's folder; Delta ignores names that begin with an underscore."""

TURN = 60.0
"""Seconds to wait for another writer's commit: it takes milliseconds, or a second when Delta writes a checkpoint."""


class HasWriterError(TransientError):
    """Another process has a table's lease."""


@dataclass(slots=True)
class _Turn:
    lock: threading.RLock = field(default_factory=threading.RLock)
    is_taken: bool = False


_GUARD = threading.Lock()
_HELD: set[Path] = set()
_TURNS: dict[Path, "_Turn"] = {}


@contextmanager
def lease(spark: SparkSession, table: Table, lake: Lake, *, role: str = WRITER) -> Iterator[None]:
    """Hold a table's lease for the length of the block, as its writer or in another role.

    Raises:
        HasWriterError: Another process holds it.
    """
    path = lake.lease(table, role)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.touch()
    with _once(table, path.resolve(), role):
        file = jvm(spark).java.io.RandomAccessFile(str(path), "rw")
        try:
            if _retried(path, lambda: file.getChannel().tryLock()) is None:
                raise _taken(table, path, role)
            path.write_text(json.dumps(own()))
            yield
        finally:
            file.close()  # which releases the lock


@contextmanager
def turn(spark: SparkSession, path: Path) -> Iterator[None]:
    """Hold the lock of a table's next version for the length of a commit.

    Raises:
        TransientError: Another process holds it for too long.
    """
    with _GUARD:
        mine = _TURNS.setdefault(path.resolve(), _Turn())
    with mine.lock:  # Java refuses a second lock of the same process as "overlapping"
        if mine.is_taken:  # by this thread, in an outer block
            yield
            return
        file = jvm(spark).java.io.RandomAccessFile(str(path / COMMIT_LOCK), "rw")
        try:
            _await_turn(path, file)
            mine.is_taken = True
            yield
        finally:
            mine.is_taken = False
            file.close()  # which releases the lock


def _await_turn(path: Path, file: Any) -> None:  # noqa: ANN401  # a Java object
    deadline = time.monotonic() + TURN
    while file.getChannel().tryLock() is None:
        if time.monotonic() > deadline:
            raise TransientError(
                f"another process has been committing to {path} for {TURN:.0f} s",
                hint=f"find the process that holds its {COMMIT_LOCK} with `fuser`; it may be suspended.",
                lock=str(path / COMMIT_LOCK),
            )
        time.sleep(0.02)


def refuse_if_taken(table: Table, lake: Lake) -> None:
    """Refuse at once, without a JVM, when another process writes the table.

    Raises:
        HasWriterError: Another process writes it.
    """
    path = lake.lease(table)
    if not path.exists():
        return
    with path.open("r+") as file:
        if _retried(path, lambda: could_lock(file) or None) is None:
            raise _taken(table, path, WRITER)


def is_written(table: Table, lake: Lake) -> bool:
    """Return whether a process holds the table's lease, in any role."""
    writer = lake.lease(table)
    others = writer.parent.glob(f"{table.id}.*{writer.suffix}")
    return any(is_held(path) for path in (writer, *others))


@contextmanager
def _once(table: Table, path: Path, role: str) -> Iterator[None]:
    """Refuse a second writer in this process before the file is touched.

    Such locks belong to a process: closing any handle of the file, even a refused one, releases all of them.
    """
    with _GUARD:
        if path in _HELD:
            raise _taken(table, path, role)
        _HELD.add(path)
    try:
        yield
    finally:
        _HELD.discard(path)


def _retried(path: Path, attempt: Callable[[], Any]) -> Any:  # noqa: ANN401  # a lock of Java or of Python
    """Try again while the holder was killed and its JVM is still ending."""
    deadline = time.monotonic() + GOING_DOWN
    while (taken := attempt()) is None and time.monotonic() < deadline:
        if is_there(_holder(path)) is not False:
            return None
        time.sleep(0.2)
    return taken


def _holder(path: Path) -> dict[str, Any]:
    try:
        found = json.loads(path.read_text())
    except ValueError:
        return {}
    return dict(found)


def _taken(table: Table, path: Path, role: str) -> HasWriterError:
    holder = _holder(path)
    who = f"process {holder['pid']} on {holder['host']}" if holder else "another process"
    return HasWriterError(
        f"{table.id} has a {role} already: {who}",
        hint=f"wait for it or stop it (`strandline stream` ends on Ctrl-C); a table has one {role}.",
        table=table.id,
        **holder,
    )
