"""``strandline alerts`` refuses what cannot run before it starts Spark, and its books are shown with the others."""

from pathlib import Path

import pytest

from jobs.engine.storage.lake import Lake
from tests.cli.inside import strandline


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (("{empty}",), "no rule of"),
        (("{empty}/none",), "there is no folder"),
        (("--every", "soon"), "no time from batch to batch"),
        (("--mode", "batch"), "Invalid value"),
        ((), "no broker runs"),
    ],
)
def test_what_cannot_run_is_refused_at_once(
    tmp_path: Path, words: tuple[str, ...], reason: str
) -> None:
    """Spark takes seconds to start; a mistake is shown before."""
    given = [word.format(empty=tmp_path) for word in words]

    answer = strandline("alerts", *given, "--lake", tmp_path / "lake")

    assert answer.code == 2, answer.printed
    assert reason in answer.err
    assert not Lake(tmp_path / "lake").feeds_beat.exists()
