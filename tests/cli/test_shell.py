"""The shell answers one statement after the other, and neither an error nor Ctrl-C ends it."""

import io
import sys
from pathlib import Path

import pexpect
import pytest

from strandline.cli.verbs.query import _Shell, is_whole
from strandline.engine.lake.lake import Lake
from strandline.engine.lake.order_log import Asked, newest
from tests.cli.inside import strandline
from tests.cli.typed import ENVIRONMENT, PROGRAM
from tests.engine.written import SILVER, small_lake, written

ENDLESS = (
    "SELECT count(*) FROM range(1000000) a, range(1000000) b WHERE hash(a.range + b.range) % 7 = 3;"
)


@pytest.fixture
def small(tmp_path: Path) -> Lake:
    """Return a lake in which silver has three rows."""
    return small_lake(tmp_path / "lake")


def answered(text: str, lake: Lake, why: str | None = None) -> int:
    """Return the exit code of a shell that reads a text."""
    shell = _Shell(lake, why)
    shell.read(io.StringIO(text))
    return shell.failed


def test_statements_from_a_pipe_are_answered_in_their_order(
    small: Lake, capsys: pytest.CaptureFixture[str]
) -> None:
    """Of several lines, of several on a line, and a last one without its semicolon; nothing after .quit."""
    text = """
        .format csv
        SELECT count(*) AS rows -- not the end;
          FROM silver.device_telemetry;
        SELECT ';' AS mark
    """
    assert answered(text, small) == 0
    assert capsys.readouterr().out == "rows\n3\nmark\n;\n"
    assert answered(".quit\nSELECT 1;", small) == 0
    assert capsys.readouterr().out == ""


def test_an_error_ends_nothing_and_is_the_exit_code(
    small: Lake, capsys: pytest.CaptureFixture[str]
) -> None:
    """The first of them."""
    code = answered(
        "FROM gold.nothing;\n.nonsense\nDROP VIEW silver.device_telemetry;\nSELECT 42;", small
    )

    shown = capsys.readouterr()
    assert code == 2
    assert shown.err.count("error:") == 3
    assert "hint: the tables here are" in shown.err
    assert "42" in shown.out


def test_tables_and_their_columns_are_listed(
    small: Lake, capsys: pytest.CaptureFixture[str]
) -> None:
    assert answered(".tables\n.schema silver.device_telemetry\n.help", small) == 0

    shown = capsys.readouterr().out
    assert "quarantine.device_telemetry\ngold.device_signal_10m\n" in shown
    assert "number  long" in shown
    assert "AT (VERSION => 12)" in shown


def test_a_long_answer_shows_its_beginning_alone(
    small: Lake, capsys: pytest.CaptureFixture[str]
) -> None:
    """Ten million rows on a screen would be read by no one, and fill the memory first."""
    assert answered("FROM range(10000000);", small) == 0

    assert "(the first 200 rows, " in capsys.readouterr().out


def test_unmasked_questions_are_written_down_one_by_one(small: Lake) -> None:
    assert answered("SELECT 1;\nSELECT 2;", small, "case 17") == 0

    asked = [each.asked["sql"].strip(" ;") for each in newest(small, Asked()).orders]
    assert asked == ["SELECT 2", "SELECT 1"]
    refused = strandline("shell", "--unmasked", " ", "--lake", small.root)
    assert (refused.code, "for a reason only" in refused.err) == (2, True)


@pytest.mark.whole
@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("SELECT 1;", True),
        ("SELECT 1; -- one", True),
        ("SELECT 1", False),
        ("SELECT ';", False),
        ("SELECT 'é;'\n", False),
        ("SELECT 'é' ;\n", True),
        ("/* ; */", False),
        (".tables", True),
        ("", True),
    ],
)
def test_a_statement_ends_with_its_own_semicolon(text: str, expected: bool) -> None:  # noqa: FBT001  # a row of a table
    assert is_whole(text) is expected


@pytest.mark.whole
def test_on_a_terminal_it_completes_remembers_and_is_not_ended_by_ctrl_c(
    small: Lake, tmp_path: Path
) -> None:
    """As a person types."""
    environment = {**ENVIRONMENT, "XDG_STATE_HOME": str(tmp_path), "TERM": "xterm"}
    shell = pexpect.spawn(
        PROGRAM,
        ["shell", "--lake", str(small.root)],
        env=environment,
        encoding="utf-8",
        timeout=60,
        dimensions=(40, 160),
    )
    shell.logfile = sys.stdout
    shell.expect("strandline>")
    shell.send("SELECT max(number) * 21\rFROM silver.device_tel\t")
    shell.expect("device_telemetry")
    shell.send(" WHERE numb\t")
    shell.expect("number")
    shell.send(" > 0;\r")
    shell.expect("42")
    shell.expect("strandline>")
    written(small.table(SILVER), [{"number": 4}])
    shell.send("\x1b[A\r")  # the same again, from the history; and the answer is new
    shell.expect("84")
    shell.expect("strandline>")
    shell.send(f"{ENDLESS}\r")
    # Until the line is taken, its library reads the key itself.
    while shell.expect(["stopped; the shell goes on", pexpect.TIMEOUT], timeout=0.3):
        shell.sendintr()
    shell.expect("strandline>")
    shell.send("SELECT half")
    shell.sendintr()
    shell.expect("strandline>")
    shell.send("FROM gold.nothing;\r")
    shell.expect("no table gold.nothing")
    shell.expect("strandline>")
    shell.send(".quit\r")
    shell.expect(pexpect.EOF)
    shell.close()

    assert shell.exitstatus == 0
    history = tmp_path / "strandline" / "shell_history"
    assert "device_telemetry" in history.read_text()
    assert history.stat().st_mode & 0o077 == 0
