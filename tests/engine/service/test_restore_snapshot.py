"""A restored lake is what it was, file by file and row by row, or it is not there."""

import errno
import json
import os
from pathlib import Path

import pytest

from strandline.core.errors import DataError, DefinitionError, TransientError
from strandline.engine.accounting.balance_sheet import balance
from strandline.engine.lake.completeness import Retirement, retired, write_down
from strandline.engine.lake.forgotten import requests
from strandline.engine.lake.import_notes import note_range
from strandline.engine.lake.lake import Lake
from strandline.engine.lake.log.ledger import latest_version
from strandline.engine.lake.place import Place
from strandline.engine.lake.snapshot_files import MANIFEST, Taken, find
from strandline.engine.lake.store_lease import hold
from strandline.engine.proof import certificate
from strandline.engine.service import snapshot
from strandline.engine.service.snapshot import RESTORED, check, restore, take
from tests.engine.written import GOLD, SILVER
from tests.support.days import TABLES
from tests.support.snapshots import IDENTITY, NOON, contents, full


@pytest.fixture
def taken(tmp_path: Path) -> Taken:
    """Return a snapshot whose lake is gone."""
    lake = full(tmp_path / "lake")
    found = take(lake, TABLES, Place.of(tmp_path / "backup"), NOON)
    lake.root.remove()
    return Taken(found.path)


@pytest.fixture
def into(tmp_path: Path) -> Lake:
    """Return the place of the new lake."""
    return Lake(tmp_path / "new" / "lake")


@pytest.mark.whole
def test_the_lake_is_there_again_with_its_checkpoints_at_their_new_place(
    taken: Taken, into: Lake
) -> None:
    restore(taken, into, NOON)

    here, there = contents(into.root.local), contents(taken.lake.local)
    moved = {name for name in here if "/_metadata/v2/" in name}
    assert here.keys() == {*there, RESTORED}
    assert all(here[name] == there[name] for name in there.keys() - moved)
    for table in (SILVER, GOLD):
        text = (into.checkpoint(table) / "state" / "0" / "_metadata" / "v2" / "0").text()
        assert text
        assert f"file:{into.checkpoint(table)}/state/0/_metadata/schema/0" in text
    for table in TABLES:
        assert balance(table, into).balanced
        assert latest_version(into.table(table)) == 2
    verified = certificate.kept(SILVER, into)
    assert verified
    assert verified.equal
    origin = json.loads((into.root / RESTORED).text() or "")
    assert origin["taken_at"] == NOON.isoformat()


@pytest.mark.whole
def test_what_was_interrupted_is_interrupted_in_the_restored_lake(
    tmp_path: Path, into: Lake
) -> None:
    """An import whose tables above have not followed, and a request to forget; it said that all is balanced."""
    lake = full(tmp_path / "lake")
    note_range(SILVER, lake, "2026-11-20T00:00:00+00:00", "2026-11-21T00:00:00+00:00")
    faults = balance(SILVER, lake).faults
    found = take(lake, TABLES, Place.of(tmp_path / "backup"), NOON)

    restore(Taken(found.path), into, NOON)

    assert any("interrupted" in each for each in faults)
    assert balance(SILVER, into).faults == faults
    assert [(each.mark, each.is_done) for each in requests(into)] == [("forget 12ab", False)]


@pytest.mark.whole
def test_what_is_retired_and_who_may_do_what_is_so_in_the_restored_lake(
    tmp_path: Path, into: Lake
) -> None:
    lake = full(tmp_path / "lake")
    write_down(GOLD.id, Retirement(who="ann", at=NOON.isoformat(), why="enough"), lake)
    lake.roles.put('[people]\nann = ["read"]\n')
    found = take(lake, TABLES, Place.of(tmp_path / "backup"), NOON)

    restore(Taken(found.path), into, NOON)

    assert retired(into) == retired(lake) != {}
    assert into.roles.text() == lake.roles.text()


@pytest.mark.whole
def test_it_is_not_taken_for_the_original(taken: Taken, into: Lake) -> None:
    """By no lease, order, heartbeat, log or history of Dagster."""
    restore(taken, into, NOON)

    assert not [name for name in IDENTITY if (into.root / name).exists()]
    assert not into.broker.exists()


@pytest.mark.whole
def test_it_shares_no_file_with_the_snapshot(taken: Taken, into: Lake) -> None:
    restore(taken, into, NOON)

    files = [file for file in into.root.local.rglob("*") if file.is_file()]
    assert {file.stat().st_nlink for file in files} == {1}


@pytest.mark.whole
@pytest.mark.parametrize("pattern", ["*.parquet", "_delta_log/*.json"])
def test_a_flipped_byte_is_named_and_no_lake_is_made(
    taken: Taken, into: Lake, pattern: str
) -> None:
    file = min((taken.lake / "silver" / SILVER.name).local.glob(pattern))
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 1
    file.write_bytes(content)

    for use in (lambda: restore(taken, into, NOON), lambda: check(taken)):
        with pytest.raises(DataError) as raised:
            use()
        assert raised.value.fields["file"] == str(file)
    assert not into.root.exists()
    assert [name for name in into.root.parent.names() if not name.endswith(".lock")] == []


@pytest.mark.parametrize("what", ["file", "list", "manifest"])
def test_what_is_gone_or_cut_is_named(taken: Taken, into: Lake, what: str) -> None:
    file = {
        "file": next(Path(taken.lake / "gold" / GOLD.name).glob("*.parquet")),
        "list": taken.list_of("gold." + GOLD.name).local,
        "manifest": (taken.root / MANIFEST).local,
    }[what]
    if what == "file":
        file.unlink()
    else:
        file.write_text(file.read_text()[:-30])

    with pytest.raises(DataError) as raised:
        restore(taken, into, NOON)
    assert raised.value.fields["file"] == str(file)
    assert not into.root.exists()


def test_a_snapshot_that_lies_about_a_balance_is_refused(taken: Taken, into: Lake) -> None:
    """Files that are as they were written prove nothing when another program reads them otherwise."""
    record = json.loads((taken.root / MANIFEST).text() or "")
    record["tables"][SILVER.id]["balance"]["good"] += 1
    (taken.root / MANIFEST).put(json.dumps(record))

    with pytest.raises(DataError, match=f"{SILVER.id} has another balance"):
        restore(taken, into, NOON)
    assert not into.root.exists()


def test_only_an_empty_folder_is_filled(taken: Taken, into: Lake) -> None:
    into.root.make()
    restore(taken, into, NOON)

    with pytest.raises(DefinitionError, match="is not empty"):
        restore(taken, into, NOON)
    with pytest.raises(DefinitionError, match="one within the other"):
        restore(taken, Lake(taken.root / "x"), NOON)


def test_what_a_killed_one_left_is_removed_and_a_running_one_is_waited_for(
    taken: Taken, into: Lake
) -> None:
    draft = into.root.parent / ".lake.restoring"
    (draft / "silver" / "x").put("half")
    with hold(into.root.parent / ".lake.restoring.lock"), pytest.raises(TransientError):
        restore(taken, into, NOON)
    assert draft.exists()

    restore(taken, into, NOON)

    assert not draft.exists()
    assert not (into.root / "silver" / "x").exists()


@pytest.mark.whole
def test_a_disk_that_fills_up_leaves_nothing_behind(
    taken: Taken, into: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fills(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(snapshot, "hashed_copy", fills)
    with pytest.raises(TransientError, match="no room"):
        restore(taken, into, NOON)

    assert not into.root.exists()
    assert [name for name in into.root.parent.names() if not name.endswith(".lock")] == []


def test_the_newest_is_found_and_a_folder_without_one_is_named(taken: Taken) -> None:
    store = taken.root.parent
    assert find(store) == find(taken.root) == taken

    (store / ".draft").make()
    taken.root.remove()
    with pytest.raises(DefinitionError, match="there is no snapshot") as raised:
        find(store)
    assert "one was begun and not completed" in raised.value.hint
