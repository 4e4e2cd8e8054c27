"""``snapshot`` and ``restore`` as they are typed."""

from pathlib import Path
from typing import Any

from tests.cli.inside import strandline, succeeded
from tests.engine.written import SILVER
from tests.support.snapshots import full


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
