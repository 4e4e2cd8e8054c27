"""One writer a table: a lock on a file, held by the process that really writes, the JVM.

Why the JVM holds it and not Python: when Python is killed, its locks are gone at once, but a commit that the
JVM has begun may still end. A lock of the JVM is released by the kernel when the JVM is gone, not before.

Why a lock is needed at all: on a local disk Delta's log stores check and then rename, so two processes can
both believe to have written the same version.
"""

import fcntl
import json
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession

from jobs.core.errors import TransientError
from jobs.core.table import Table
from jobs.run.jvm import jvm
from jobs.run.lake import Lake


@contextmanager
def lease(spark: SparkSession, table: Table, lake: Lake) -> Iterator[None]:
    """Be the table's only writer for the length of the block.

    Raises:
        TransientError: Another writer has the table.
    """
    path = lake.lease(table)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.touch()
    file = jvm(spark).java.io.RandomAccessFile(str(path), "rw")
    try:
        lock = file.getChannel().tryLock()
    except (
        Py4JJavaError
    ):  # OverlappingFileLockException: this very process writes the table already
        lock = None
    if lock is None:
        file.close()
        raise _taken(table, path)
    holder = {"pid": os.getpid(), "host": socket.gethostname()}
    path.write_text(json.dumps(holder))
    try:
        yield
    finally:
        lock.release()
        file.close()


def refuse_if_taken(table: Table, lake: Lake) -> None:
    """Look, without a JVM, whether another process writes the table, so that a refusal comes at once.

    Raises:
        TransientError: Another writer has the table.
    """
    path = lake.lease(table)
    if not path.exists():
        return
    with path.open("r+") as file:
        try:
            fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise _taken(table, path) from None


def _taken(table: Table, path: Path) -> TransientError:
    try:
        holder = json.loads(path.read_text())
    except ValueError:
        holder = {}
    who = f"process {holder['pid']} on {holder['host']}" if holder else "another process"
    return TransientError(
        f"{table.id} has a writer already: {who}",
        hint="wait for it or stop it (`strandline stream` ends on Ctrl-C); a table has one writer.",
        table=table.id,
        **holder,
    )
