"""What cannot be verified is refused before Spark starts, and a picture of the lake can be drawn without it."""

from pathlib import Path

import pytest
from rich.console import Console

from strandline.cli.verbs.play import picture
from strandline.core.errors import DataError
from strandline.engine.lake.lake import Lake
from strandline.engine.proof.certificate import Certificate
from strandline.operate.audit import refuse_different, sheets_of
from tests.cli.inside import strandline


def test_bronze_is_what_everything_else_is_verified_against(filled: Path) -> None:
    answer = strandline("verify", "bronze.device_telemetry", "--lake", filled)

    assert answer.code == 2
    assert "bronze.device_telemetry" in answer.err
    assert "hint: name silver or gold tables" in answer.err


def test_a_verification_names_its_tables(filled: Path) -> None:
    answer = strandline("verify", "--lake", filled)

    assert answer.code == 2
    assert "no table was named" in answer.err


def test_a_table_that_was_never_run_is_refused_with_the_command_to_type(filled: Path) -> None:
    answer = strandline("verify", "gold.confirmed_logins", "--lake", filled)

    assert answer.code == 2
    assert "`strandline run gold.confirmed_logins`" in answer.err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--since", "2026-11-01"), "a range has two ends"),
        (("--since", "2026-11-02", "--until", "2026-11-01"), "the range is empty"),
        (("--since", "yesterday", "--until", "2026-11-01"), "neither a date nor a moment"),
    ],
)
def test_a_range_that_is_none_is_refused_with_a_hint(
    words: tuple[str, ...], message: str, filled: Path
) -> None:
    answer = strandline("verify", "silver.device_telemetry", *words, "--lake", filled)

    assert answer.code == 2
    assert message in answer.err
    assert "hint:" in answer.err


def failed(*differences: str) -> Certificate:
    return Certificate(
        table="silver.readings",
        equal=False,
        rows=1,
        splits=1,
        kills=0,
        seed=5,
        offsets={},
        versions={},
        code="",
        at="",
        seconds=0.0,
        differences=differences,
    )


@pytest.mark.parametrize("is_held", [False, True])
def test_a_failed_verification_says_where_to_look(is_held: bool) -> None:  # noqa: FBT001  # a parameter of the test
    lost = "silver.readings: 0 rows of the live table are not in a batch, and 5 of a batch are not"
    held = "quarantine.readings: 5 rows of the live table are not in a batch, and 0 of a batch"

    with pytest.raises(DataError) as error:
        refuse_different([failed(lost, *([held] if is_held else []))], 5)

    assert "--seed 5" in error.value.hint
    for verb in ("ledger", "preflight", "rebuild"):
        assert f"`strandline {verb} silver.readings`" in error.value.hint
    assert ("quarantine replay silver.readings" in error.value.hint) is is_held


def test_an_empty_lake_has_nothing_to_verify(tmp_path: Path) -> None:
    answer = strandline("verify", "--all", "--lake", tmp_path)

    assert answer.code == 2
    assert "hint:" in answer.err


def test_the_picture_shows_every_topic_table_and_lag(filled: Path) -> None:
    """A table that reads two is drawn once, and named below the other."""
    console = Console(width=200, record=True)
    lake = Lake(filled)
    console.print(picture(lake, sheets_of(lake)))

    lines = console.export_text().splitlines()
    shown = "\n".join(lines)
    assert "topic device-telemetry + device-telemetry-v1" in shown
    assert "silver.device_telemetry 3 rows, 1 held, lag 0" in shown
    assert "silver.user_actions never run" in shown
    assert sum("gold.confirmed_logins" in line for line in lines) == 2
