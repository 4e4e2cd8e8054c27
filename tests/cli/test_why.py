"""``why`` as it is typed: a sentence for a person, one verdict for a program."""

from pathlib import Path
from typing import Any

import pytest

from tests.cli.inside import strandline, succeeded


def test_a_program_gets_the_verdict_and_its_evidence(filled: Path) -> None:
    """The verdict is one word of a list, so that a program need not parse the sentence."""
    found: Any = succeeded("why", "device-telemetry/0/3", "--lake", filled, "--json").json

    assert {name: found[name] for name in ("event", "table", "verdict")} == {
        "event": "device-telemetry/0/3",
        "table": "silver.device_telemetry",
        "verdict": "late",
    }
    assert found["evidence"]["late_by_seconds"] == 62 * 60
    assert found["sentence"]


def test_a_person_gets_the_sentence_first(filled: Path) -> None:
    """And below it a line for each piece of evidence."""
    first, second, *evidence = succeeded(
        "why", "e2", "--in", "silver.device_telemetry", "--lake", filled
    ).out.splitlines()

    assert first == "silver.device_telemetry: in the table"
    assert second == "it is in silver.device_telemetry."
    assert any(line.split() == ["offset", "device-telemetry/0/1"] for line in evidence)


@pytest.mark.parametrize(
    "words",
    [
        ("nowhere/0/1",),
        ("e1", "--in", "gold.nothing"),
        ("e1", "--in", "bronze.device_telemetry"),
    ],
)
def test_a_question_about_nothing_is_refused(filled: Path, words: tuple[str, ...]) -> None:
    """As every other wrong argument is."""
    answer = strandline("why", *words, "--lake", filled)

    assert answer.code == 2
    assert "hint:" in answer.err
    assert "Traceback" not in answer.printed


@pytest.mark.parametrize("number", ["²", "9" * 5_000, "\0"])
def test_what_only_looks_like_a_place_is_a_key(filled: Path, number: str) -> None:
    """It was an error that no one had foreseen."""
    answer = succeeded("why", f"device-telemetry/0/{number}", "--quick", "--lake", filled)

    assert "unknown" in answer.out
