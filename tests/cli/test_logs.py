"""``logs``: the log at 3 a.m., for people who look for the cause and for programs that collect records."""

import json
import os
import pty
import signal
import subprocess
import time
import tracemalloc
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from strandline.core.errors import DataError
from strandline.engine.lake.lake import Lake
from strandline.engine.runtime import clock, log_files
from strandline.engine.runtime.log_files import MOST, bound, logger
from tests.cli.inside import strandline, succeeded
from tests.cli.typed import ENVIRONMENT, ESCAPE, PROGRAM

SILVER, GOLD = "silver.device_telemetry", "gold.device_signal_10m"
CRASH = "Traceback (most recent call last):\n  File x\nMemoryError\n"
NINE = datetime(2026, 11, 20, 9, tzinfo=UTC)


class Written:
    """A stream's log, and a clock that its writer sets."""

    def __init__(self, lake: Lake) -> None:
        """Begin with an empty log at nine."""
        self.lake, self.file, self.now = lake, lake.log("stream"), NINE
        self.file.parent.local.mkdir(parents=True)
        self.file.local.touch()
        self.log = logger(self.line, lambda: self.now, as_json=True)

    def line(self, text: str, end: str = "\n") -> None:
        """Append any text, as a program does that logs nothing."""
        with self.file.local.open("a") as file:
            file.write(text + end)


@pytest.fixture
def written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Written:
    """Return a log whose writer sends no spans, whatever this process has sent before."""
    monkeypatch.setattr(log_files, "TRACES", {})
    return Written(Lake(tmp_path / "lake"))


@pytest.fixture
def night(written: Written) -> Written:
    """Return the log of a night: progress, a crash, a failure an hour later."""
    written.log.info("started", tables=[SILVER, GOLD])
    written.log.info("progress", table=SILVER, batch=7, rows=12_000)
    written.line(CRASH, end="")
    written.now += timedelta(hours=1)
    written.log.warning("waiting", tables=[SILVER], message="no Kafka broker answers")
    error = DataError("the topic was made anew", hint="decide.", topic="t")
    written.log.error("failed", table=GOLD, tries=1, exc_info=error)
    return written


def test_each_record_is_a_line_and_other_text_is_shown_as_it_is(night: Written) -> None:
    answer = succeeded("logs", "--lake", night.lake.root)

    assert answer.out == (
        f"2026-11-20 09:00:00Z info     {SILVER} and 1 more: started\n"
        f"2026-11-20 09:00:00Z info     {SILVER}: progress batch=7 rows=12,000\n"
        f"{CRASH}"
        f"2026-11-20 10:00:00Z warning  {SILVER}: waiting: no Kafka broker answers\n"
        f"2026-11-20 10:00:00Z error    {GOLD}: failed: the topic was made anew "
        "topic=t tries=1 kind=data\n"
        "    hint: decide.\n"
    )


@pytest.mark.whole
@pytest.mark.parametrize(
    ("words", "events"),
    [
        ((SILVER,), ["started", "progress", *CRASH.splitlines(), "waiting"]),
        ((GOLD,), ["started", *CRASH.splitlines(), "failed"]),
        (("--level", "warning"), [*CRASH.splitlines(), "waiting", "failed"]),
        ((GOLD, "--level", "error"), [*CRASH.splitlines(), "failed"]),
        (("--since", "2026-11-20T09:30"), [*CRASH.splitlines(), "waiting", "failed"]),
        (("--lines", "2"), ["waiting", "failed"]),
        ((SILVER, "--lines", "2"), ["MemoryError", "waiting"]),
        (("--since", "2026-11-20", "--lines", "1"), ["failed"]),
        (("--lines", "0"), []),
    ],
)
def test_records_are_chosen_and_other_text_is_never_left_out(
    night: Written, words: tuple[str, ...], events: list[str]
) -> None:
    """A traceback without a time may be the cause of what is searched."""
    lines = succeeded("logs", *words, "--json", "--lake", night.lake.root).out.splitlines()

    found = [json.loads(line) for line in lines]
    assert [each.get("event") or each["text"] for each in found] == events


def test_how_long_ago_is_understood(written: Written) -> None:
    written.now = clock.now() - timedelta(hours=3)
    written.log.info("three hours ago")
    written.now = clock.now() - timedelta(minutes=50)
    written.log.info("fifty minutes ago")

    def shown(since: str) -> int:
        answer = succeeded("logs", "--since", since, "--lake", written.lake.root)
        return len(answer.out.splitlines())

    assert (shown("1d"), shown("2h"), shown("30m")) == (2, 1, 0)


def test_programs_get_the_records_as_they_were_written(night: Written) -> None:
    lines = succeeded("logs", "--json", "--lake", night.lake.root).out.splitlines()

    records = [line for line in night.file.local.read_text().splitlines() if line.startswith("{")]
    assert [line for line in lines if "event" in json.loads(line)] == records


def test_a_broken_last_line_does_no_harm(written: Written) -> None:
    written.log.info("whole")
    written.line('{"time": "2026-11-20T09:00:00Z", "level": "in', end="")

    lines = succeeded("logs", "--lake", written.lake.root).out.splitlines()

    assert lines == [
        "2026-11-20 09:00:00Z info     whole",
        '{"time": "2026-11-20T09:00:00Z", "level": "in',
    ]


def test_text_cannot_command_the_terminal(written: Written) -> None:
    """A log has what strangers send: an escape sequence could hide lines."""
    written.line(f"{ESCAPE}[2Jgone")
    written.log.info("odd", message=f"{ESCAPE}[2Jgone", key=f"{ESCAPE}c")

    assert ESCAPE not in succeeded("logs", "--lake", written.lake.root).out


def test_a_log_of_its_full_length_is_not_read_into_memory(written: Written) -> None:
    written.log.info("progress", table=SILVER, rows=12_000)
    line = written.file.local.read_text()
    written.file.local.write_text(line * (MOST // len(line)))
    succeeded("logs", "--lake", written.lake.root)  # imports what it needs

    tracemalloc.start()
    try:
        lines = succeeded("logs", "--lake", written.lake.root).out.splitlines()
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert len(lines) == 100
    assert peak < MOST / 4


@pytest.mark.parametrize(
    ("words", "message", "hint"),
    [
        (("silver.device_telemetri",), "no table", f"did you mean {SILVER}"),
        (("--of", "strem"), "no log of strem", "did you mean stream"),
        (("--of", "../x"), "no log of ../x", "logs of stream"),
        (("--since", "yesterday"), "neither a date nor a moment", "2026-11-01T06:00"),
        (("--since", "99999999999d"), "too long ago", "leave it out"),
    ],
)
def test_what_is_not_there_is_refused_with_a_hint(
    night: Written, words: tuple[str, ...], message: str, hint: str
) -> None:
    answer = strandline("logs", *words, "--lake", night.lake.root)

    assert answer.code == 2
    assert message in answer.err
    assert hint in answer.err


def test_a_lake_without_a_log_says_how_to_get_one(tmp_path: Path) -> None:
    answer = strandline("logs", "--lake", tmp_path)

    assert answer.code == 2
    assert "there is no log of the stream" in answer.err
    assert "strandline resume" in answer.err


def test_an_empty_answer_is_explained(written: Written) -> None:
    answer = succeeded("logs", "--lake", written.lake.root)

    assert answer.out == ""
    assert "no line" in answer.err


@pytest.mark.parametrize(
    ("program", "file"), [("spark", "_logs/spark.log"), ("broker", "_kafka/broker.log")]
)
def test_another_program_is_read_the_same_way(written: Written, program: str, file: str) -> None:
    log = written.lake.root / file
    log.parent.local.mkdir(exist_ok=True)
    log.local.write_text("2026-11-20T09:00:00.000Z WARN Task: late\n")

    answer = succeeded("logs", "--of", program, "--lake", written.lake.root)

    assert answer.out == log.local.read_text()


def until(seen: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not seen():
        assert time.monotonic() < deadline
        time.sleep(0.05)


@pytest.mark.whole
def test_a_log_is_followed_through_its_rotation_until_ctrl_c(
    night: Written, tmp_path: Path
) -> None:
    """The program of a terminal, because Ctrl-C is what is tested."""
    out = tmp_path / "out"
    command = [PROGRAM, "logs", SILVER, "--follow", "--lines", "1", "--lake", str(night.lake.root)]
    with out.open("wb") as file:
        process = subprocess.Popen(
            command, env=ENVIRONMENT, stdin=subprocess.DEVNULL, stdout=file, stderr=file
        )
    try:
        until(lambda: "waiting" in out.read_text())
        night.log.info("before", table=SILVER)
        night.log.info("of another", table=GOLD)
        bound(night.file.local, most=1)
        night.log.info("after", table=SILVER)
        until(lambda: "after" in out.read_text())
        night.line("unfinished", end="")
        time.sleep(1)
        process.send_signal(signal.SIGINT)
        code = process.wait(30)
    finally:
        process.kill()
        process.wait()

    lines = out.read_text().splitlines()
    assert code == 130
    assert [line.rpartition(" ")[2] for line in lines[:-1]] == [
        *("answers", "before", "after", "unfinished")
    ]
    assert lines[-1].startswith("stopped")


@pytest.mark.whole
def test_levels_have_a_colour_on_a_terminal_alone(night: Written) -> None:
    ours, theirs = pty.openpty()
    environment = {**ENVIRONMENT, "TERM": "xterm-256color", "COLUMNS": "200"}
    process = subprocess.Popen(
        [PROGRAM, "logs", "--lake", str(night.lake.root)],
        env=environment, stdin=subprocess.DEVNULL, stdout=theirs, stderr=theirs,
    )  # fmt: skip
    os.close(theirs)
    seen = b""
    try:
        while block := os.read(ours, 65_536):
            seen += block
    except OSError:
        pass  # the other side is closed
    finally:
        os.close(ours)

    assert process.wait(30) == 0
    assert b"\x1b[31merror" in seen
    assert b"MemoryError" in seen
    assert ESCAPE not in succeeded("logs", "--lake", night.lake.root).out
