"""``quarantine`` shows held rows to people and programs, without Spark; it refuses impossible arguments at once."""

import shutil
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame
from strandline import catalog

from fleet.silver import user_actions
from strandline.core.errors import DefinitionError
from strandline.core.routes import all_but, field
from strandline.core.table import Ingested, Judged
from strandline.core.topic import ROUTED, Topic
from strandline.engine.lake.lake import Lake
from strandline.engine.lake.order_log import Asked, newest
from strandline.operate.lakes import placed
from tests.cli.inside import strandline, succeeded
from tests.engine.written import entry, written
from tests.support import by_hand
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


def _unused(_: DataFrame) -> DataFrame:
    raise NotImplementedError


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
    before = newest(lake, Asked()).orders
    clear = succeeded(*words, "--unmasked", "fraud case 17")

    assert "alice" not in masked.printed
    assert (refused.code, "alice" in refused.printed, before) == (2, False, [])
    assert "alice" in clear.out
    (shown,) = newest(lake, Asked()).orders
    assert (shown.why, shown.tables) == ("fraud case 17", (user_actions.TABLE.id,))
    assert shown.who
    assert shown.at


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


def test_a_record_without_a_kind_shows_no_field_that_a_table_above_masks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nor any other value: which table would have taken it is not known. With a reason its bytes are shown."""
    bronze = Ingested(name="shop", reads=(Topic(name="shop", kind=field("type")),))
    silver = Judged(
        name="shop_orders",
        reads=(bronze,),
        transform=_unused,
        key=("id",),
        event_at="at",
        sensitive=("customer",),
        takes=all_but(),
    )
    monkeypatch.setattr(catalog, "tables", lambda: (bronze, silver))
    lake = Lake(tmp_path / "lake")
    payload = b'{"customer": "alice", "note": "call bob", "carol": 1}'
    own = ("shop", 0, 0, NOON, b"alice", payload, [{"key": "from", "value": b"alice"}], 0, NOON)
    by_hand.create(lake.table(bronze), ROUTED)
    by_hand.commit(
        lake.table(bronze),
        [by_hand.table(ROUTED, [(*own, None, None, "by type")])],
        entry(bronze, read=1, good=1, written=1).encoded(),
    )
    words = ("quarantine", "show", bronze.id, "--lake", lake.root)

    masked, as_json = succeeded(*words), succeeded(*words, "--json")
    clear = succeeded(*words, "--unmasked", "case 17")

    for each in (masked, as_json):
        assert not [name for name in ("alice", "bob", "carol") if name in each.printed]
        assert "shop" in each.printed
    assert "customer" in masked.out
    assert payload.decode() in clear.out
