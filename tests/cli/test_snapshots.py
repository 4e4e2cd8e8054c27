"""``snapshot`` and ``restore`` as they are typed."""

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from strandline.core.errors import DefinitionError
from strandline.engine.flow.preflight import refuse_strangers
from strandline.engine.lake.lake import Lake
from strandline.engine.lake.place import Place
from tests.cli.inside import strandline, succeeded
from tests.engine.written import BRONZE, SILVER
from tests.support.days import Came, judge, receive
from tests.support.snapshots import NOON, full


def test_a_lake_is_copied_and_restored_by_three_commands(tmp_path: Path) -> None:
    lake, store, new = full(tmp_path / "lake").root, tmp_path / "backup", tmp_path / "new"

    shown = succeeded("snapshot", store, "--lake", lake, "--dry-run").out
    assert "would be taken" in shown
    assert not store.exists()
    taken: Any = succeeded("snapshot", store, "--lake", lake, "--json").json
    assert taken["new_bytes"] == taken["bytes"] > 0
    again = succeeded("snapshot", store, SILVER.id, "--lake", lake, "--keep", "1")
    assert "of them 0 new" in again.out
    assert "1 older removed" in again.out
    assert not Path(taken["snapshot"]).exists()
    assert "as they were written" in succeeded("restore", store, "--dry-run").out
    restored: Any = succeeded("restore", store, "--into", new, "--json").json

    assert restored["into"] == str(new)
    sheets: Any = succeeded("ledger", "--lake", new, "--json").json
    assert {sheet["table"] for sheet in sheets} == set(restored["tables"])
    assert all(not sheet["faults"] for sheet in sheets)


def test_what_cannot_be_done_is_named(tmp_path: Path) -> None:
    lake = full(tmp_path / "lake").root

    for words, code, sentence in (
        (("snapshot", lake / "backup", "--lake", lake), 2, "one within the other"),
        (("snapshot", tmp_path / "backup", "--lake", tmp_path / "none"), 2, "there is no lake"),
        (("restore", tmp_path / "backup"), 2, "there is no snapshot"),
    ):
        answer = strandline(*words)
        assert answer.code == code, answer.printed
        assert sentence in answer.err
        assert "hint:" in answer.err


COUNTS = f"SELECT (SELECT count(*) FROM {BRONZE.id}) AS b, (SELECT count(*) FROM {SILVER.id}) AS s, (SELECT count(*) FROM quarantine.{SILVER.name}) AS q"  # noqa: S608  # our own names


def counted(lake: Path, end: str = "") -> Any:  # noqa: ANN401  # JSON
    return succeeded("query", f"{COUNTS} {end}", "--json", "--lake", lake).json


def test_a_copy_of_a_moment_has_its_versions_and_no_others(tmp_path: Path) -> None:
    """Though the lake has gone on; it is read, and no stream goes on in it."""
    lake, store, new = full(tmp_path / "lake"), tmp_path / "backup", tmp_path / "new"
    root = lake.root.local
    then: Any = succeeded("moments", "note", "--json", "--lake", root).json
    before = counted(root)
    later = Came(at=NOON + timedelta(hours=1), good=4)
    receive(lake, later, 9)
    judge(lake, later, 9)
    assert counted(root) != before

    taken = succeeded("snapshot", store, "--moment", then["moment"], "--lake", root)
    restored: Any = succeeded("restore", store, "--into", new, "--json").json

    assert f"of moment {then['moment']} of " in taken.out
    assert restored["moment"].startswith(f"moment {then['moment']} of ")
    assert {name: each["version"] for name, each in restored["tables"].items()} == {
        name: version for name, version in then["versions"].items() if name in restored["tables"]
    }
    shown: Any = succeeded("moments", "show", "--json", "--lake", new).json
    assert (shown["versions"], shown["offsets"]) == (then["versions"], then["offsets"])
    assert counted(new) == counted(new, "AT MOMENT LATEST") == before
    sheets: Any = succeeded("ledger", "--lake", new, "--json").json
    assert all(not sheet["faults"] for sheet in sheets)
    with pytest.raises(DefinitionError, match="checkpoint is gone"):
        refuse_strangers(SILVER, Lake(Place.of(new)))
    assert strandline("snapshot", store, "--moment", "noon", "--lake", root).code == 2
