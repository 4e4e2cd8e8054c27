"""A log that is written for months is bounded, and reading its last error costs the same at any length."""

import fcntl
import subprocess
import sys
from pathlib import Path

import pytest

from fleet.silver import device_telemetry as silver
from strandline.engine.accounting.gate_files import Shut, Where, write
from strandline.engine.lake.lake import Lake
from strandline.engine.runtime.log_files import MOST, add, bound, last_error, last_lines

APPEND = """
import sys
for _ in sys.stdin:
    print("more", flush=True)
"""


@pytest.mark.whole
def test_a_program_writes_on_at_the_end_of_a_log_that_was_truncated(tmp_path: Path) -> None:
    log = tmp_path / "stream.log"
    log.write_text("old\n" * 100)
    with log.open("ab") as appended:
        program = subprocess.Popen(
            [sys.executable, "-c", APPEND], stdin=subprocess.PIPE, stdout=appended, text=True
        )

    assert bound(log, most=100)
    program.communicate("once\n")

    assert log.read_text() == "more\n"
    assert log.with_name("stream.log.1").read_text() == "old\n" * 100
    assert not bound(log, most=100)


def test_a_log_that_another_program_copies_is_left_to_it(tmp_path: Path) -> None:
    """The second copy would be that of a truncated file, in place of the first."""
    log = tmp_path / "broker.log"
    log.write_text("old\n" * 100)

    with log.open("rb") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        assert not bound(log, most=100)

    assert bound(log, most=100)
    assert log.with_name("broker.log.1").read_text() == "old\n" * 100


@pytest.mark.whole
def test_a_log_that_grows_line_by_line_is_bounded(tmp_path: Path) -> None:
    log = tmp_path / "log.jsonl"
    for number in range(1_000):
        add(log, f"{number:099}", most=1_000)

    files = sorted(tmp_path.iterdir())
    assert sum(file.stat().st_size for file in files) <= 2 * 1_100
    assert last_lines(log, 1) == [f"{999:099}"]


def test_a_gate_that_shuts_and_opens_for_years_has_a_log_of_two_files(
    lake: Lake,
) -> None:
    lake.gates.local.mkdir(exist_ok=True)
    log = lake.gates / "log.jsonl"
    with log.local.open("wb") as file:
        file.truncate(MOST + 1)

    write(Shut(table=silver.TABLE.id, where=Where.BEFORE, stream="s", batch=1), silver.TABLE, lake)

    assert log.local.stat().st_size < MOST
    assert log.local.with_name("log.jsonl.1").stat().st_size == MOST + 1


def test_the_last_error_is_read_from_the_end(tmp_path: Path) -> None:
    """The file has a terabyte, which is mostly a hole."""
    log = tmp_path / "stream.log"
    with log.open("wb") as file:
        file.seek(2**40)
        file.write(b"\nstreaming 3 tables\nerror: the topic was made anew\n\nhint: another lake.\n")

    assert last_error(log) == "error: the topic was made anew hint: another lake."
    assert last_lines(log, 1) == ["hint: another lake."]


def test_a_log_that_does_not_exist_has_no_error(tmp_path: Path) -> None:
    assert last_lines(tmp_path / "stream.log", 3) == []
    assert last_error(tmp_path / "stream.log") == "its log is empty"
