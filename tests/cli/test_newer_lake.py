"""A program that is too old for a lake refuses before it writes, answers questions, and names what can read it."""

import json

import pytest

from fleet.bronze import device_telemetry as bronze
from strandline.core.topic import RECEIVED
from strandline.engine.lake.lake import Lake
from tests.cli.inside import Answer, strandline
from tests.support.by_hand import create

pytestmark = pytest.mark.core

TABLE = bronze.TABLE.id
NEWER = {
    "ledger entries": {"number": 7, "what": "a cluster that was left", "since": "2031-02-03"},
    "telepathy": {"number": 1, "what": "rows that were only thought of", "since": "2031-02-04"},
}

WRITING = [
    ("run", TABLE),
    ("stream", TABLE),
    ("resume",),
    ("restart",),
    ("drain",),
    ("backfill", "silver.device_telemetry", "--since", "2026-01-01", "--until", "2026-01-02"),
    ("rewind", "silver.device_telemetry", "--to", "2026-01-01T00:00", "--go"),
    ("rebuild", "silver.device_telemetry"),
    ("promote", "silver.device_telemetry"),
    ("undo", "silver.device_telemetry"),
    ("mend", TABLE),
    ("accept-loss", TABLE, "--because", "it is gone"),
    ("quarantine", "replay", "silver.device_telemetry"),
    ("quarantine", "discard", "silver.device_telemetry", "--because", "noise", "--reason", "late"),
    ("gate", "silver.device_telemetry", "--open", "calibrated"),
    ("expire", "--go"),
    ("forget", "--where", "device_id = 'd-17'", "--go"),
    ("maintain",),
    ("migrate", "--go"),
    ("rules", "undo"),
    ("models", "rollback", "brute_force"),
]
"""Each verb that changes a lake which is there, in words that nothing else refuses first."""


@pytest.fixture
def newer(lake: Lake) -> Lake:
    """Return a lake with a bronze table, which a program of five years from now has written."""
    create(lake.table(bronze.TABLE), RECEIVED)
    lake.formats.put(json.dumps(NEWER))
    return lake


def _typed(lake: Lake, *words: str) -> Answer:
    return strandline(*words, env={"STRANDLINE_LAKE": str(lake.root)})


@pytest.mark.parametrize("words", WRITING, ids=" ".join)
def test_a_verb_that_writes_refuses_before_it_does(newer: Lake, words: tuple[str, ...]) -> None:
    before = _files(newer)

    answer = _typed(newer, *words)

    assert answer.code == 2, answer.printed
    assert "a newer program has written" in answer.err
    assert "ledger entries have form 7 (a cluster that was left)" in answer.err
    assert "telepathy have form 1 (rows that were only thought of)" in answer.err
    assert "Start a program of 2031-02-04 or later" in answer.err
    assert _files(newer) == before


@pytest.mark.whole
@pytest.mark.parametrize(
    "words", [("ledger",), ("tables",), ("status",), ("maintain", "--dry-run")], ids=" ".join
)
def test_a_question_is_answered_and_says_what_it_may_lack(
    newer: Lake, words: tuple[str, ...]
) -> None:
    answer = _typed(newer, *words)

    assert answer.code == 0, answer.printed
    assert "the answer may lack something" in answer.err


def test_a_lake_of_before_opens_as_it_did(lake: Lake) -> None:
    create(lake.table(bronze.TABLE), RECEIVED)

    answer = _typed(lake, "maintain")

    assert answer.code == 0, answer.printed
    assert "newer" not in answer.printed
    assert not lake.formats.is_file()


def test_a_file_that_cannot_be_read_is_no_permission(newer: Lake) -> None:
    """Torn, or of another program: it is not known what the lake holds, and a question says so and goes on."""
    for text in ("", "[1]", "{", '{"x": {"form": 2}}', '{"x": "many"}'):
        newer.formats.put(text)

        refused, asked = _typed(newer, "maintain"), _typed(newer, "ledger")

        assert (refused.code, asked.code) == (4, 0), refused.printed + asked.printed
        assert "_formats.json of the lake cannot be read" in refused.err
        assert "_formats.json of the lake cannot be read" in asked.err


def _files(lake: Lake) -> dict[str, bytes | None]:
    return {file.below(lake.root): file.bytes() for file in lake.root.files()}
