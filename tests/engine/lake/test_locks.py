"""A table has one writer, whichever process tries, also after the former one was killed."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from fleet.gold import device_signal_10m
from fleet.silver import device_telemetry as silver
from strandline.core.errors import TransientError
from strandline.engine.lake import locks
from strandline.engine.lake.lake import Lake
from strandline.engine.lake.locks import COMMIT_LOCK, lease, refuse_if_taken, turn
from strandline.engine.lake.place import Place
from strandline.engine.runtime.processes import started

TABLE, OTHER = silver.TABLE, device_signal_10m.TABLE

HOLD = """
import sys, time
from pathlib import Path
from strandline.engine.lake.lake import Lake
from strandline.engine.lake.locks import lease
from strandline.engine.runtime.spark_session import start
from strandline.engine.runtime.settings import settings
from fleet.silver.device_telemetry import TABLE
lake = Lake(Path(sys.argv[1]))
spark = start(settings(cores=1, memory="512m"), lake.program_log("spark"))
with lease(spark, TABLE, lake):
    print(spark.sparkContext._gateway.proc.pid, flush=True)
    time.sleep(600)
"""
TRY = """
import sys
from pathlib import Path
from strandline.core.errors import TransientError
from strandline.engine.lake.lake import Lake
from strandline.engine.lake.locks import refuse_if_taken
from fleet.silver.device_telemetry import TABLE
try:
    refuse_if_taken(TABLE, Lake(Path(sys.argv[1])))
except TransientError as error:
    print(error.fields["pid"])
"""

TURN = """
import fcntl, sys, time
with open(sys.argv[1], "w") as file:
    fcntl.lockf(file, fcntl.LOCK_EX)
    print("held", flush=True)
    time.sleep(600)
"""

BARRED = """
import sys
from pathlib import Path
from strandline.engine.lake.locks import is_held
from strandline.engine.lake.place import Place
from strandline.engine.runtime.processes import bar_writes
if not bar_writes([Path("/dev")]):
    sys.exit(77)
print(*(is_held(Place.of(Path(name))) for name in sys.argv[1:]))
"""


@contextmanager
def holder(lake: Lake) -> Iterator[tuple[int, int]]:
    """Let another process hold the lease; yield its pid and that of its JVM."""
    command = [sys.executable, "-c", HOLD, str(lake.root)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        jvm = int(process.stdout.readline())
        try:
            yield process.pid, jvm
        finally:
            process.kill()


def writer_seen_elsewhere(lake: Lake) -> str:
    """Return the pid that another process reports as the writer; an empty text when there is none."""
    command = [sys.executable, "-c", TRY, str(lake.root)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=True)
    return done.stdout.strip()


def eventually_free(spark: SparkSession, lake: Lake) -> bool:
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline:
        try:
            with lease(spark, TABLE, lake):
                return True
        except TransientError:
            time.sleep(0.05)
    return False


@pytest.mark.whole
def test_the_lease_is_free_again_after_the_block(spark: SparkSession, lake: Lake) -> None:
    """Also after one that failed."""
    for _ in range(2):
        with suppress(ZeroDivisionError), lease(spark, TABLE, lake):
            assert writer_seen_elsewhere(lake) == str(os.getpid())
            _ = 1 / 0

    refuse_if_taken(TABLE, lake)
    assert writer_seen_elsewhere(lake) == ""


def test_a_lease_is_of_one_table_and_one_lake(
    spark: SparkSession, lake: Lake, tmp_path: Path
) -> None:
    """Tables of a lake are written at the same time."""
    with (
        lease(spark, TABLE, lake),
        lease(spark, OTHER, lake),
        lease(spark, TABLE, Lake(tmp_path / "second")),
    ):
        pass


@pytest.mark.whole
def test_the_same_process_is_refused_and_keeps_what_it_has(spark: SparkSession, lake: Lake) -> None:
    """Closing any handle of a file releases the process's lock on it, so the refusal could free the table."""
    with lease(spark, TABLE, lake):
        with pytest.raises(TransientError) as caught, lease(spark, TABLE, lake):
            pytest.fail("two writers")

        assert caught.value.fields["pid"] == os.getpid()
        assert writer_seen_elsewhere(lake) == str(os.getpid())


@pytest.mark.whole
@pytest.mark.slow
def test_another_process_is_refused_at_once_and_served_when_the_holder_was_killed(
    spark: SparkSession, lake: Lake
) -> None:
    """The kernel releases the lock when the JVM is gone, and not before."""
    with holder(lake) as (pid, jvm):
        asked = time.monotonic()
        with pytest.raises(TransientError) as looked:
            refuse_if_taken(TABLE, lake)
        with pytest.raises(TransientError) as tried, lease(spark, TABLE, lake):
            pytest.fail("two writers")
        took = time.monotonic() - asked

        assert looked.value.fields["pid"] == tried.value.fields["pid"] == pid
        assert str(pid) in str(looked.value)
        assert took < 1

        os.kill(jvm, signal.SIGKILL)

        assert eventually_free(spark, lake)


def test_an_empty_lock_file_is_still_a_lock(spark: SparkSession, lake: Lake) -> None:
    """A process may be refused after the holder locked the file and before it wrote its name."""
    with lease(spark, TABLE, lake):
        lake.lease(TABLE).local.write_text("")

        with pytest.raises(TransientError, match="another process"), lease(spark, TABLE, lake):
            pytest.fail("two writers")


def test_a_commit_waits_for_that_of_another_process(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not for ever: the other one may be suspended. When it is gone, the turn is free."""
    monkeypatch.setattr(locks, "TURN", 0.5)
    table = Place.of(tmp_path)
    command = [sys.executable, "-c", TURN, str(tmp_path / COMMIT_LOCK)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as other:
        try:
            assert other.stdout is not None
            assert other.stdout.readline() == "held\n"
            with pytest.raises(TransientError, match="has been committing"), turn(spark, table):
                pass
        finally:
            other.kill()

    with turn(spark, table):
        pass


@pytest.mark.whole
def test_a_session_that_may_write_nothing_sees_who_holds_a_lease(tmp_path: Path) -> None:
    """A notebook asks for the ledger while a stream writes; it opened leases to write, and was refused."""
    held, free = tmp_path / "held.lock", tmp_path / "free.lock"
    free.touch()
    with subprocess.Popen(
        [sys.executable, "-c", TURN, str(held)], stdout=subprocess.PIPE, text=True
    ) as holder:
        assert holder.stdout is not None
        holder.stdout.readline()

        asked = [sys.executable, "-c", BARRED, str(held), str(free)]
        done = subprocess.run(asked, capture_output=True, text=True, timeout=60, check=False)

        holder.kill()
    if done.returncode == 77:
        pytest.skip("no Landlock here")

    assert done.stdout.split() == ["True", "False"], done.stderr


def test_a_jvm_that_outlives_its_python_is_named_with_what_ends_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A suspended one does not hear that its Python was killed; the file names the dead."""
    monkeypatch.setattr(locks, "GOING_DOWN", 0.0)
    lake = Lake(Place.of(tmp_path)).open_for_writing()
    file = lake.lease(TABLE)
    file.parent.make()
    with subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"]) as dead:
        record = {"pid": dead.pid, "host": socket.gethostname(), "started": started(dead.pid)}
        dead.kill()
    with subprocess.Popen(
        [sys.executable, "-c", TURN, str(file)], stdout=subprocess.PIPE, text=True
    ) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        file.local.write_text(json.dumps(record))
        try:
            with pytest.raises(TransientError, match=f"process {holder.pid}, which it") as refused:
                refuse_if_taken(TABLE, lake)
        finally:
            holder.kill()
    assert f"kill -9 {holder.pid}" in refused.value.hint
