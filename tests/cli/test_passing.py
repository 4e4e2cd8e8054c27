"""A table with another writer is passed over, the others are run, and the log is not flooded."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from shutil import copytree, rmtree

import pytest

from fleet.gold import device_signal_10m as gold
from fleet.silver import device_telemetry as silver
from strandline.core.errors import TransientError
from strandline.core.table import Table
from strandline.engine.accounting.balance_sheet import balance
from strandline.engine.lake.lake import Lake
from strandline.operate.listener import PAUSE, Throttle
from strandline.operate.run import free
from tests.cli.inside import strandline

HOLD = """
import fcntl, sys
with open(sys.argv[1], "r+") as file:
    fcntl.lockf(file, fcntl.LOCK_EX)
    print("held", flush=True)
    sys.stdin.read()
"""


@contextmanager
def written_by_another(lake: Lake, table: Table) -> Iterator[None]:
    """Let another process have a table's lease."""
    path = lake.lease(table)
    path.parent.local.mkdir(parents=True, exist_ok=True)
    path.local.touch()
    with subprocess.Popen(
        [sys.executable, "-c", HOLD, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as holder:
        assert holder.stdout is not None
        assert holder.stdin is not None
        assert holder.stdout.readline() == b"held\n"
        try:
            yield
        finally:
            holder.stdin.close()


@pytest.fixture
def unread(filled: Path, tmp_path: Path) -> Lake:
    """Return a lake whose gold was never run."""
    copytree(filled, tmp_path / "lake")
    lake = Lake(tmp_path / "lake")
    for folder in (lake.table(gold.TABLE), lake.checkpoint(gold.TABLE)):
        rmtree(folder)
    return lake


@pytest.mark.whole
@pytest.mark.slow
def test_a_table_with_a_writer_is_passed_over_and_what_reads_it_is_run(unread: Lake) -> None:
    """The message names the table and the reason, the exit code lets a scheduler try again, and the log has one line a table."""
    with written_by_another(unread, silver.TABLE):
        answer = strandline("run", silver.TABLE.id, gold.TABLE.id, "--lake", unread.root)

    assert answer.code == 3, answer.printed
    assert f"{silver.TABLE.id} is passed over: {silver.TABLE.id} has a writer already" in answer.err
    assert f"1 of 2 tables could not be brought up to date: {silver.TABLE.id}" in answer.err
    assert balance(gold.TABLE, unread).read == 3
    lines = answer.err.splitlines()
    assert [line for line in lines if line.startswith(f"{gold.TABLE.id}: ")] == [
        line for line in lines if "batches, 3 read" in line
    ]
    assert not any(": batch " in line for line in lines)


def test_nothing_is_begun_when_every_table_has_a_writer(unread: Lake) -> None:
    """The refusal comes at once, without Spark."""
    with written_by_another(unread, silver.TABLE), pytest.raises(TransientError, match="a writer"):
        free([silver.TABLE], unread, print)


def test_what_reads_a_table_that_another_process_is_making_waits_for_it(tmp_path: Path) -> None:
    """There is nothing to read yet, which is no mistake in the command."""
    lake = Lake(tmp_path).open_for_writing()
    bronze = silver.TABLE.upstream[0]
    with written_by_another(lake, bronze):
        left, passed = free([bronze, gold.TABLE, silver.TABLE], lake, print)

    assert [table.id for table in left] == [gold.TABLE.id]
    assert list(passed.why) == [bronze.id, silver.TABLE.id]
    with pytest.raises(TransientError, match="2 of 3 tables") as refused:
        passed.refuse(3)
    assert refused.value.exit_code == 3


def test_a_repeated_message_is_logged_once_a_minute() -> None:
    """By a clock of the test."""
    now = [0.0]
    late, early = (Throttle(at_once=each, clock=lambda: now[0]) for each in (False, True))
    heard = []
    for second in range(0, 150, 5):
        now[0] = float(second)
        heard.append((late.is_due(), early.is_due()))

    assert [5 * n for n, (due, _) in enumerate(heard) if due] == [PAUSE, 2 * PAUSE]
    assert [5 * n for n, (_, due) in enumerate(heard) if due] == [0, PAUSE, 2 * PAUSE]
