"""A Spark that cannot start is an error that names the setting; a lake that is a file is refused by every verb."""

from pathlib import Path

import pytest

from tests.cli import typed
from tests.cli.inside import strandline

pytestmark = pytest.mark.slow


@pytest.mark.whole
def test_more_memory_than_there_is_ends_in_a_sentence(filled: Path) -> None:
    """Java gives the reason; it was `something unforeseen` with JAVA_GATEWAY_EXITED."""
    answer = typed.strandline("check", "--lake", filled, env={"STRANDLINE_MEMORY": "99999999g"})

    assert answer.code == 2, answer.printed
    assert "Spark's JVM ended while it started: Could not reserve enough space" in answer.err
    assert "STRANDLINE_MEMORY" in answer.err


@pytest.mark.parametrize("words", [("tables",), ("status",), ("demo",), ("ledger",)])
def test_a_lake_that_is_a_file_is_refused_by_every_verb(
    words: tuple[str, ...], tmp_path: Path
) -> None:
    """Also by those that only look."""
    (tmp_path / "file").touch()

    answer = strandline(*words, "--lake", tmp_path / "file")

    assert answer.code == 2, answer.printed
    assert "is a file, not a lake" in answer.err
    assert "--lake" in answer.err
