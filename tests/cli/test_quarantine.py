"""``quarantine`` shows held rows to people and programs, without Spark; it refuses impossible arguments at once."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from fleet.silver import user_actions
from strandline.core.errors import DefinitionError
from strandline.engine.lake.lake import Lake
from strandline.operate.lakes import placed
from tests.cli.inside import strandline, succeeded
from tests.engine.written import written
from tests.support.rows import NOON

pytestmark = pytest.mark.slow

SILVER = "silver.device_telemetry"
HELD = {
    "_topic": "user-actions",
    "_partition": 0,
    "_offset": 0,
    "_arrived_at": NOON,
    "reasons": ["late"],
    "event_at": NOON,
    "_message_key": b"alice",
    "_payload": b'{"action_id": "2", "user_id": "alice"}',
    "_headers": [{"key": "k", "value": b"alice"}],
    "_batch": 0,
}


def test_the_list_names_reasons_and_ages_for_people_and_programs(filled: Path) -> None:
    """One row of the five was late."""
    answer = succeeded("quarantine", "list", "--lake", filled)
    (pile,) = succeeded("quarantine", "list", SILVER, "--lake", filled, "--json").json

    assert SILVER in answer.out
    assert "late" in answer.out
    assert (pile["table"], pile["reason"], pile["open"], pile["discarded"]) == (
        SILVER,
        "late",
        1,
        0,
    )
    assert pile["oldest"].startswith("2026-11-20 09:02:00")


def test_a_row_is_shown_with_its_bytes_and_its_batch(filled: Path) -> None:
    """As text where they are text."""
    answer = succeeded("quarantine", "show", SILVER, "--lake", filled)
    (row,) = succeeded("quarantine", "show", SILVER, "--lake", filled, "--json").json

    assert f"{row['topic']}/0/3: open, held by batch 0" in answer.out
    assert '"event_id":"e3"' in answer.out
    assert '"event_id":"e3"' in row["payload"]["text"]
    assert (row["reasons"], row["done"]) == (["late"], [])


def test_open_rows_are_exported(filled: Path, tmp_path: Path) -> None:
    """And the file is not written over."""
    words = ("quarantine", "export", SILVER, "--to", tmp_path / "held.ndjson", "--lake", filled)

    assert "1 rows" in succeeded(*words).out
    assert len((tmp_path / "held.ndjson").read_text().splitlines()) == 1
    assert strandline(*words).code == 2


def test_a_row_is_discarded_and_taken_back_with_the_name_of_who_typed_it(
    filled: Path, tmp_path: Path
) -> None:
    """A replay of it would heal nothing, and its answer counts that."""
    lake = ("--lake", shutil.copytree(filled, tmp_path / "lake"))
    discard = ("quarantine", "discard", SILVER)

    succeeded(*discard, "--reason", "late", "--because", "a clock that was reset", *lake)
    (pile,) = succeeded("quarantine", "list", *lake, "--json").json
    assert (pile["open"], pile["discarded"]) == (0, 1)
    place = "device-telemetry/0/3"
    (row,) = succeeded("quarantine", "show", SILVER, "--at", place, *lake, "--json").json
    assert row["done"][0]["why"] == "a clock that was reset"
    assert row["done"][0]["who"]
    succeeded(*discard, "--undo", *lake)
    plan: Any = succeeded("quarantine", "replay", SILVER, "--dry-run", *lake, "--json").json

    assert (plan["rows"], plan["healed"], plan["remain"]) == (1, 0, 1)
    succeeded("ledger", *lake)


def test_to_see_sensitive_fields_one_gives_a_reason_which_is_logged(tmp_path: Path) -> None:
    """As for ``query``."""
    lake = Lake(tmp_path / "lake")
    written(lake.table(user_actions.TABLE), [{"action_id": "1", "user_id": "alice"}])
    written(lake.quarantine(user_actions.TABLE), [HELD])
    words = ("quarantine", "show", user_actions.TABLE.id, "--lake", lake.root)

    masked = succeeded(*words)
    refused = strandline(*words, "--unmasked", " ")
    before = lake.log("unmasked").exists()
    clear = succeeded(*words, "--unmasked", "fraud case 17")

    assert "alice" not in masked.printed
    assert (refused.code, "alice" in refused.printed, before) == (2, False, False)
    assert "alice" in clear.out
    (line,) = lake.log("unmasked").local.read_text().splitlines()
    logged = json.loads(line)
    assert (logged["why"], logged["quarantine"]) == ("fraud case 17", user_actions.TABLE.id)
    assert logged["who"]
    assert logged["at"]


@pytest.mark.parametrize(
    "words",
    [
        ("discard", SILVER, "--reason", "late"),
        ("discard", SILVER, "--because", "of nothing"),
        ("discard", SILVER, "--undo", "--reason", "late"),
        ("replay", SILVER, "--since", "2026-11-20"),
        ("replay", "gold.device_signal_10m"),
        ("show", SILVER, "--at", "17"),
        ("list", "bronze.device_telemetry"),
    ],
    ids=" ".join,
)
def test_impossible_arguments_are_refused_with_a_hint(words: tuple[str, ...], filled: Path) -> None:
    """Before Spark is started for it."""
    answer = strandline("quarantine", *words, "--lake", filled)

    assert answer.code == 2
    assert "hint:" in answer.err
    assert "starting Spark" not in answer.err


def test_a_topic_may_have_slashes_in_its_place() -> None:
    """The last two parts are numbers."""
    assert placed("a/b/1/17") == ("a/b", 1, 17)
    assert placed(None) is None
    for wrong in ("17", "a/1", "a/1/x", "/1/2"):
        with pytest.raises(DefinitionError):
            placed(wrong)
