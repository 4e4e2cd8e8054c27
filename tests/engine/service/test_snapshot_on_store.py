"""A lake on an object store is snapshotted and restored as one in a folder is, from each to each."""

import json
from pathlib import Path

import pytest

from strandline.core.errors import DataError, TransientError
from strandline.engine.accounting.balance_sheet import balance
from strandline.engine.lake.lake import FOLDER as SEEN
from strandline.engine.lake.lake import RESTORING, Lake
from strandline.engine.lake.locks import COMMIT_LOCK
from strandline.engine.lake.log.ledger import latest_version
from strandline.engine.lake.place import Place
from strandline.engine.lake.snapshot_files import (
    MANIFEST,
    NAME,
    Manifest,
    Taken,
    draft,
    publish,
    remove_old,
    snapshots,
)
from strandline.engine.service.snapshot import RESTORED, check, restore, take
from tests.cli.inside import strandline
from tests.engine.written import GOLD, SILVER
from tests.support.days import TABLES
from tests.support.s3_server import S3Server
from tests.support.snapshots import IDENTITY, NOON, contents, full, uploaded

FOLDER, STORE = "a folder", "a store"


@pytest.mark.parametrize(
    ("lake_in", "taken_in", "new_in"),
    [
        pytest.param(STORE, STORE, STORE),
        pytest.param(FOLDER, STORE, FOLDER, marks=pytest.mark.prove(alone="three seconds each")),
        pytest.param(STORE, FOLDER, STORE, marks=pytest.mark.prove(alone="three seconds each")),
        pytest.param(FOLDER, STORE, STORE, marks=pytest.mark.prove(alone="three seconds each")),
        pytest.param(STORE, STORE, FOLDER, marks=pytest.mark.prove(alone="three seconds each")),
    ],
)
def test_a_lake_is_there_again_wherever_it_was_and_the_snapshot_was(
    tmp_path: Path, bucket: Place, lake_in: str, taken_in: str, new_in: str
) -> None:
    """So a lake moves from a disk to a store and back."""
    lake = full(tmp_path / "lake")
    if lake_in == STORE:
        lake = uploaded(tmp_path / "lake", bucket / "lake")
    store = (bucket if taken_in == STORE else Place.of(tmp_path)) / "backup"
    into = Lake((bucket if new_in == STORE else Place.of(tmp_path)) / "new")
    before = contents(lake.root)

    dry = take(lake, TABLES, store, NOON, dry=True)
    first = take(lake, TABLES, store, NOON)
    second = take(lake, TABLES, store, NOON)
    (removed,) = remove_old(store, 1)
    check(Taken(second.path))
    restore(Taken(second.path), into, NOON)

    assert dry.manifest.tables == first.manifest.tables
    assert dry.new == first.new == first.manifest.bytes
    assert second.new < first.new
    assert removed.root == first.path
    there = contents(Taken(second.path).lake)
    here = {name: it for name, it in contents(into.root).items() if not name.startswith(SEEN)}
    left = {name for name in before.keys() - there.keys() if not name.endswith(COMMIT_LOCK)}
    assert {*IDENTITY} <= left
    assert {name.rpartition("/")[2] for name in left - {*IDENTITY}} == {".3.tmp"}
    assert all(before[name] == digest for name, digest in there.items())
    assert here.keys() == {*there, RESTORED}
    moved = {name for name in here if "/_metadata/v2/" in name}
    assert all(here[name] == there[name] for name in there.keys() - moved)
    assert [*lake.frozen.files()] == []
    for table in (SILVER, GOLD):
        text = (into.checkpoint(table) / "state" / "0" / "_metadata" / "v2" / "0").text() or ""
        assert f"{into.checkpoint(table)}/state/0/_metadata/schema/0" in text
        assert str(lake.root) not in text
    assert balance(SILVER, into).balanced
    assert latest_version(into.table(SILVER)) == 2
    assert not (store / first.path.name).exists()


def test_a_maker_that_was_replaced_completes_nothing(
    bucket: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was suspended for longer than its lease; the other has removed what it began, and it goes on writing."""
    monkeypatch.setenv("STRANDLINE_LEASE", "1")
    store = bucket / "backup"
    with pytest.raises(TransientError, match="removed the snapshot"), draft(store, NOON) as mine:  # noqa: PT012  # the other comes in the middle
        (mine.lake / "a").put("rows")
        (store / ".lock").remove()  # as its lease expires
        with draft(store, NOON) as other:
            assert other.root == mine.root
            assert not (mine.lake / "a").exists()
            (mine.lake / "b").put("rows")
            nothing = Manifest(lake="", taken_at="", tables={}, lists={}, files=0, bytes=0)
            publish(mine, nothing, NOON)

    assert snapshots(store) == []


def test_a_lake_that_is_half_restored_is_refused_and_restored_anew(
    s3: S3Server, tmp_path: Path, bucket: Place
) -> None:
    """A damaged file leaves no lake; a kill leaves a mark, by which every command refuses what is there."""
    store, new = Place.of(tmp_path / "backup"), Lake(bucket / "new")
    taken = Taken(take(full(tmp_path / "lake"), TABLES, store, NOON).path)
    file = taken.lake / "silver" / SILVER.name / "_delta_log" / f"{0:020d}.json"
    good = file.text() or ""
    file.put(good.replace("add", "dda", 1))
    with pytest.raises(DataError, match="its bytes are not those"):
        restore(taken, new, NOON)
    assert [*new.root.files()] == []
    file.put(good)
    (new.root / RESTORING).put("{}")
    (new.root / "silver" / "x").put("half")

    refused = strandline("ledger", "--lake", new.root, env=s3.environment)
    restore(taken, new, NOON)

    assert refused.code == 3
    assert "is being restored" in refused.err
    assert not (new.root / "silver" / "x").exists()
    assert not (new.root / RESTORING).exists()
    assert json.loads((new.root / RESTORED).text() or "")["taken_at"] == NOON.isoformat()


@pytest.mark.whole
def test_what_a_killed_maker_left_is_no_snapshot_and_is_removed(
    tmp_path: Path, bucket: Place
) -> None:
    store = bucket / "backup"
    lake = full(tmp_path / "lake")
    left = store / "2026-11-25T110000Z"
    (left / MANIFEST).put("begun 0")
    (left / "lake" / "x").put("half")
    assert NAME.fullmatch(left.name)
    assert snapshots(store) == []

    found = take(lake, TABLES, store, NOON)

    assert not left.exists()
    assert [each.root for each in snapshots(store)] == [found.path]
