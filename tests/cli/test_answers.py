"""Answers for people are plain text that is never cut; answers for programs are JSON and nothing else."""

import os
import pty
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.cli import typed
from tests.cli.inside import strandline, succeeded
from tests.cli.typed import ENVIRONMENT, ESCAPE, PROGRAM

pytestmark = pytest.mark.slow

LONG = "x" * 1000


def asked(*words: object) -> Any:  # noqa: ANN401  # JSON
    answer = succeeded(*words, "--json")
    assert ESCAPE not in answer.out
    return answer.json


def test_the_ledger_for_programs_has_the_figures_that_the_issue_names(filled: Path) -> None:
    """One object a table, in the order in which data flows."""
    sheets = asked("ledger", "--lake", filled)

    named = (
        "table",
        "read",
        "good",
        "duplicates",
        "quarantined",
        "dropped_by_watermark",
        "balanced",
    )
    assert [[sheet[name] for name in named] for sheet in sheets] == [
        ["bronze.device_telemetry", 5, 5, 0, {}, 0, True],
        ["silver.device_telemetry", 5, 3, 1, {"late": 1}, 0, True],
        ["gold.device_signal_10m", 3, 3, 0, {}, 0, True],
    ]


@pytest.mark.whole
def test_one_table_of_the_ledger_can_be_asked_for(filled: Path) -> None:
    """By the name that it has everywhere."""
    (sheet,) = asked("ledger", "silver.device_telemetry", "--lake", filled)

    assert sheet["table"] == "silver.device_telemetry"


@pytest.mark.whole
def test_an_imbalance_is_an_error_that_names_the_batch(filled: Path, tmp_path: Path) -> None:
    """The exit code is what a schedule looks at; the answer still comes."""
    shutil.copytree(filled, tmp_path / "lake")
    newest = max((tmp_path / "lake/silver/device_telemetry/_delta_log").glob("*.json"))
    before = newest.read_text()
    newest.write_text(before.replace('\\"duplicates\\":', '\\"duplicates\\":1'))

    answer = strandline("ledger", "--lake", tmp_path / "lake", "--json")

    assert before != newest.read_text()
    assert answer.code == 4
    assert isinstance(answer.json, list)
    assert "silver.device_telemetry: batch" in answer.err
    assert "hint:" in answer.err


@pytest.mark.whole
def test_the_tables_are_listed_with_what_they_read_and_hold(filled: Path) -> None:
    """The first thing that one asks of a lake."""
    found = {row["table"]: row for row in asked("tables", "--lake", filled)}

    assert found["silver.device_telemetry"]["reads"] == "bronze.device_telemetry"
    assert found["silver.device_telemetry"]["rows"] == 3
    assert found["silver.device_telemetry"]["quarantined"] == 1
    assert found["bronze.device_telemetry"]["rows"] == 5


def test_a_question_is_answered_with_names_and_values(filled: Path) -> None:
    """Decimals and times become text, as JSON has neither."""
    sql = "SELECT event_id, value, event_at FROM silver.device_telemetry ORDER BY ALL LIMIT 1"

    (row,) = asked("query", sql, "--lake", filled)

    assert row["event_id"] == "e1"
    assert row["value"] in {"1.5000", 1.5}
    assert str(row["event_at"]).startswith("2026-11-20 09:00:00")


def test_a_lake_compared_with_itself_is_equal(filled: Path) -> None:
    """Every table but bronze, and the quarantine."""
    found = asked("compare", filled, filled)

    assert [(one["table"], one["left_rows"], one["equal"]) for one in found] == [
        ("silver.device_telemetry", 3, True),
        ("quarantine.device_telemetry", 1, True),
        ("gold.device_signal_10m", found[2]["left_rows"], True),
    ]


def test_status_and_doctor_answer_programs_too(filled: Path) -> None:
    """No broker and no stream is an answer, not an error."""
    status = asked("status", "--lake", filled)
    doctor = strandline("doctor", "--lake", filled, "--json")

    assert (status["broker_pid"], status["stream"], status["kafka"]) == (None, None, None)
    checks = doctor.json
    assert isinstance(checks, list)
    assert doctor.code == (0 if all(check["ok"] for check in checks) else 2)


@pytest.mark.whole
@pytest.mark.parametrize(
    "words",
    [
        ("ledger",),
        ("tables",),
        ("status",),
        (
            "query",
            "SELECT repeat('x', 1000) AS a, repeat('x', 1000) AS b, 1 AS n",
        ),
    ],
    ids=lambda words: words[0],
)
def test_without_a_terminal_text_is_plain_and_nothing_is_cut(
    words: tuple[str, ...], filled: Path
) -> None:
    """A log has no width and knows no colours."""
    answer = typed.succeeded(*words, "--lake", filled, env={"COLUMNS": "40"})

    assert ESCAPE not in answer.printed
    assert "…" not in answer.printed
    if words[0] == "query":
        assert answer.out.count(LONG) == 2
    if words[0] == "ledger":
        assert "quarantined by silver.device_telemetry: late 1" in answer.out


def test_square_brackets_in_data_are_data(filled: Path) -> None:
    """The screen's own mark-up must not eat them."""
    answer = succeeded("query", "SELECT '[red]stop[/red]' AS word", "--lake", filled)

    assert "[red]stop[/red]" in answer.out


@pytest.mark.whole
def test_on_a_terminal_the_answer_fits_its_width(filled: Path) -> None:
    """Only a terminal has a width."""
    main, side = pty.openpty()
    with subprocess.Popen(
        [PROGRAM, "tables", "--lake", str(filled)],
        env={**ENVIRONMENT, "TERM": "xterm", "COLUMNS": "120"},
        stdout=side,
        stderr=side,
    ) as process:
        os.close(side)
        output = b""
        while chunk := _read(main):
            output += chunk
    os.close(main)

    assert process.returncode == 0
    assert b"silver.device_telemetry" in output


@pytest.mark.whole
def test_a_reader_that_goes_away_is_no_error(filled: Path) -> None:
    """``strandline query … | head`` must end quietly."""
    sql = "SELECT * FROM range(300000)"
    command = f"'{PROGRAM}' query '{sql}' --lake '{filled}' --json | head -1"

    done = subprocess.run(
        ["/bin/sh", "-c", command],
        env=ENVIRONMENT,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )

    assert "Traceback" not in done.stderr
    assert "Exception" not in done.stderr


def _read(terminal: int) -> bytes:
    try:
        return os.read(terminal, 65536)
    except OSError:  # the other side is closed
        return b""
