"""A log that is written for months has a bound, and its last words cost the same however long it is."""

import subprocess
import sys
from pathlib import Path

from jobs.run.always import last_words
from jobs.run.gates import Shut, Where, write
from jobs.run.lake import Lake
from jobs.run.logs import END, MOST, add, bound, last_lines
from jobs.silver import device_telemetry as silver

APPEND = """
import sys
for _ in sys.stdin:
    print("more", flush=True)
"""


def test_a_program_writes_on_at_the_end_of_a_log_that_was_cut_under_it(tmp_path: Path) -> None:
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


def test_what_is_added_line_by_line_has_a_bound(tmp_path: Path) -> None:
    log = tmp_path / "log.jsonl"
    for number in range(1_000):
        add(log, f"{number:099}", most=1_000)

    files = sorted(tmp_path.iterdir())
    assert sum(file.stat().st_size for file in files) <= 2 * 1_100
    assert last_lines(log, 1) == [f"{999:099}"]


def test_a_gate_that_shuts_and_opens_for_years_has_a_log_of_two_files(
    lake: Lake,
) -> None:
    lake.gates.mkdir(exist_ok=True)
    log = lake.gates / "log.jsonl"
    with log.open("wb") as file:
        file.truncate(MOST + 1)

    write(Shut(table=silver.TABLE.id, where=Where.BEFORE, stream="s", batch=1), silver.TABLE, lake)

    assert log.stat().st_size < END
    assert log.with_name("log.jsonl.1").stat().st_size == MOST + 1


def test_last_words_are_read_from_the_end(tmp_path: Path) -> None:
    """Of a file of a terabyte, which is mostly a hole."""
    log = tmp_path / "stream.log"
    with log.open("wb") as file:
        file.seek(2**40)
        file.write(b"\nstreaming 3 tables\nerror: the topic was made anew\n\nhint: another lake.\n")

    assert last_words(log) == "error: the topic was made anew hint: another lake."
    assert last_lines(log, 1) == ["hint: another lake."]


def test_what_was_never_said(tmp_path: Path) -> None:
    assert last_lines(tmp_path / "stream.log", 3) == []
    assert last_words(tmp_path / "stream.log") == "it said nothing"
