"""``stream --json``, as a stream in the background is started: its last record is the error that ended it."""

import json
from pathlib import Path

import pytest

from strandline.cli import screen
from strandline.core.errors import DataError
from strandline.engine.runtime.log_files import last_error
from tests.cli.inside import strandline


@pytest.mark.whole
def test_a_foreseen_error_is_a_record_and_the_exit_code_is_the_same(tmp_path: Path) -> None:
    """A collector of logs finds it by its level; a person gets the sentence and the hint."""
    words = ("stream", "--every", "soon", "--lake", tmp_path / "lake")
    plain, logged = strandline(*words), strandline(*words, "--json")

    found = json.loads(logged.out)
    assert logged.code == plain.code == 2
    assert (found["level"], found["event"], found["error"]) == (
        *("critical", "ended", "DefinitionError"),
    )
    assert found["message"] in plain.err
    assert found["hint"] in plain.err
    assert logged.err == ""


def test_an_unforeseen_error_is_a_record_with_its_traceback(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    with pytest.raises(SystemExit) as end, screen.logged(as_json=True):
        raise ZeroDivisionError("a mistake of ours")

    log = tmp_path / "stream.log"
    log.write_text(capsys.readouterr().out)
    assert end.value.code == 70
    assert "ZeroDivisionError: a mistake of ours" in json.loads(log.read_text())["exception"]
    assert last_error(log) == "error: ZeroDivisionError: a mistake of ours"


def test_without_json_the_error_is_left_to_the_command_line() -> None:
    error = DataError("no", hint="decide.")
    with pytest.raises(DataError) as raised, screen.logged(as_json=False):
        raise error

    assert raised.value is error
