"""A snapshot has all that belongs to its tables and nothing that identifies their lake, and a repeated one only what is new."""

import errno
import json
import os
import threading
import time
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from strandline.core.errors import DefinitionError, TransientError
from strandline.core.table import Table
from strandline.engine.accounting.balance_sheet import balance
from strandline.engine.lake import snapshot_files
from strandline.engine.lake.forgotten import Forgotten, keep, requests
from strandline.engine.lake.lake import Lake
from strandline.engine.lake.locks import COMMIT_LOCK
from strandline.engine.lake.log.commit_log import log_of
from strandline.engine.lake.log.ledger import FORGET, latest_version
from strandline.engine.lake.log.ledger_sums import name_of
from strandline.engine.lake.place import Listed, Place
from strandline.engine.lake.plain_files import MAKER
from strandline.engine.lake.snapshot_files import Taken, snapshots
from strandline.engine.lake.store_lease import hold
from strandline.engine.runtime.processes import own
from strandline.engine.service import snapshot
from strandline.engine.service.snapshot import take
from tests.engine.written import BRONZE, GOLD, SILVER, entry, written
from tests.support.days import NINE, TABLES, Came, judge, receive
from tests.support.snapshots import IDENTITY, NOON, contents, full

HELD = {
    "_topic": "t",
    "_partition": 0,
    "_offset": 9,
    "_arrived_at": NINE,
    "reasons": ["late"],
    "event_at": None,
    "_payload": b"{}",
}
GOOD = [{"event_id": name, "event_at": NINE} for name in ("x", "y")]


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    """Return a lake with everything."""
    return full(tmp_path / "lake")


@pytest.fixture
def store(tmp_path: Path) -> Place:
    """Return the folder for snapshots."""
    return Place.of(tmp_path / "backup")


@pytest.mark.whole
def test_everything_that_belongs_to_the_tables_is_taken_and_nothing_else(
    lake: Lake, store: Place
) -> None:
    before = contents(lake.root.local)

    found = take(lake, TABLES, store, NOON)

    taken = contents(Taken(found.path).lake.local)
    assert contents(lake.root.local).items() >= before.items()
    left = {name for name in before.keys() - taken.keys() if not name.endswith(COMMIT_LOCK)}
    torn = {
        str((lake.checkpoint(t) / "commits" / ".3.tmp").below(lake.root)) for t in (SILVER, GOLD)
    }
    assert left == {*IDENTITY, *torn}
    assert all(before[name] == hash_ for name, hash_ in taken.items())
    assert lake.frozen.names() == []
    for table in TABLES:
        sheet = found.manifest.tables[table.id]
        assert sheet["version"] == latest_version(lake.table(table))
        assert sheet["balance"]["faults"] == []
    assert found.manifest.tables[SILVER.id]["certificate"]["equal"]
    assert (found.manifest.files, found.manifest.bytes) == (len(taken), found.new)


@pytest.mark.whole
def test_a_table_comes_with_its_sources(lake: Lake, store: Place) -> None:
    """Its stream could not go on without them."""
    found = take(lake, [SILVER], store, NOON)

    assert set(found.manifest.tables) == {SILVER.id, BRONZE.id}


@pytest.mark.whole
def test_a_repeated_one_takes_what_is_new_and_each_is_whole(lake: Lake, store: Place) -> None:
    first = take(lake, TABLES, store, NOON)
    receive(lake, Came(at=NINE + timedelta(hours=5), good=3), 3)
    judge(lake, Came(at=NINE + timedelta(hours=5), good=3), 3)
    came = sum(
        file.stat().st_size
        for table in (BRONZE, SILVER)
        for file in lake.table(table).local.rglob("*")
        if file.name.startswith("part-3") or file.name == f"{3:020d}.json"
    )

    second = take(lake, TABLES, store, NOON + timedelta(minutes=1))

    assert 0 < came <= second.new < first.new / 3
    assert [each.root for each in snapshots(store)] == [first.path, second.path]
    first.path.remove()
    again = Lake(Taken(second.path).lake)
    assert balance(SILVER, again).balanced
    assert latest_version(again.table(SILVER)) == 3


@pytest.mark.whole
def test_a_dry_run_writes_nothing(lake: Lake, store: Place) -> None:
    found = take(lake, TABLES, store, NOON, dry=True)

    assert not store.exists()
    assert lake.frozen.names() == []
    assert found.new == take(lake, TABLES, store, NOON).new


@pytest.mark.whole
def test_no_folder_within_the_lake_is_taken(lake: Lake) -> None:
    for name in ("backup", ".", ".."):
        with pytest.raises(DefinitionError, match="one within the other"):
            take(lake, TABLES, Place.of(lake.root.local / name), NOON)


def test_two_at_once_are_refused(lake: Lake, store: Place) -> None:
    with hold(store / ".lock"), pytest.raises(TransientError, match="another process"):
        take(lake, TABLES, store, NOON)


@pytest.mark.whole
def test_what_a_killed_one_left_is_removed_by_the_next(lake: Lake, store: Place) -> None:
    (store / ".draft" / "lake" / "silver" / "x").put("half")
    left = lake.frozen / "strandline-killed"
    (left / MAKER).put(json.dumps({**own(), "started": 0.0}))

    found = take(lake, TABLES, store, NOON)

    assert not (store / ".draft").exists()
    assert not left.exists()
    assert not (Taken(found.path).lake / "silver" / "x").exists()


def test_a_disk_that_fills_up_leaves_nothing_behind(
    lake: Lake, store: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also one whose room was enough when it began."""
    copied, real = [], snapshot_files.hashed_link

    def fills(source: Listed, target: Place, path: str) -> object:
        copied.append(path)
        if len(copied) == 10:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return real(source, target, path)

    monkeypatch.setattr(snapshot, "hashed_link", fills)
    with pytest.raises(TransientError, match="no room"):
        take(lake, TABLES, store, NOON)

    assert store.names() == [".lock"]
    monkeypatch.undo()
    monkeypatch.setattr(snapshot, "free_bytes", lambda _: 100)
    monkeypatch.setattr(snapshot, "is_same_disk", lambda *_: False)
    with pytest.raises(TransientError, match="bytes are needed, and 100 are free"):
        take(lake, TABLES, store, NOON)


def test_a_batch_between_its_commits_is_awaited(lake: Lake, store: Place) -> None:
    """The quarantine has it, the table not yet."""
    late = entry(
        SILVER,
        batch=3,
        versions={BRONZE.id: (3, 3)},
        read=3,
        good=2,
        quarantined={"late": 1},
        written=2,
    )
    receive(lake, Came(at=NINE + timedelta(hours=5), good=3), 3)
    written(lake.quarantine(SILVER), [HELD], late.encoded())

    def commit() -> None:
        time.sleep(0.3)
        written(lake.table(SILVER), GOOD, late.encoded())

    writer = threading.Thread(target=commit)
    writer.start()
    found = take(lake, TABLES, store, NOON)
    writer.join()

    assert found.manifest.tables[SILVER.id]["version"] == 3
    assert found.manifest.tables[SILVER.id]["balance"]["faults"] == []


@pytest.mark.whole
def test_a_batch_that_is_never_committed_is_left_out_of_the_quarantine_too(
    lake: Lake, store: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its stream was killed; the restored one repeats it."""
    monkeypatch.setattr(snapshot, "PATIENCE", 0.0)
    late = entry(SILVER, batch=3, versions={BRONZE.id: (3, 3)}, read=1, quarantined={"late": 1})
    receive(lake, Came(at=NINE + timedelta(hours=5), good=1), 3)
    written(lake.quarantine(SILVER), [HELD], late.encoded())

    found = take(lake, TABLES, store, NOON)

    copy = Lake(Taken(found.path).lake)
    assert found.manifest.tables[SILVER.id]["balance"]["faults"] == []
    assert found.manifest.tables[SILVER.id]["balance"]["waiting"] == 1
    assert latest_version(copy.quarantine(SILVER)) == latest_version(lake.quarantine(SILVER)) - 1


@pytest.mark.whole
def test_a_request_that_ended_while_tables_were_taken_was_interrupted_in_the_copy(
    lake: Lake, store: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The copy of gold has the rows; where the record says that they are gone, it is never typed again."""
    done = Forgotten(mark="forget 34cd", begun_at=NOON.isoformat(), done_at=NOON.isoformat())
    freeze, later = snapshot._freeze, NOON.isoformat()

    def beside(table: Table, *rest: Any) -> int:  # noqa: ANN401  # passed on
        version = freeze(table, *rest)
        if table.id == GOLD.id:
            path = lake.table(GOLD)
            written(path, [], entry(GOLD, mode=FORGET, forgotten=1, written=0).encoded())
            now = {name_of(path): latest_version(path), name_of(lake.table(BRONZE)): 2}
            keep(lake, replace(done, versions=now, scrubbed_at=later))
        return version

    monkeypatch.setattr(snapshot, "_freeze", beside)

    found = take(lake, TABLES, store, NOON)

    kept = {each.mark: each for each in requests(Lake(Taken(found.path).lake))}
    assert (kept["forget 34cd"].done_at, kept["forget 34cd"].scrubbed_at) == (None, None)


@pytest.mark.whole
def test_what_is_committed_while_files_are_copied_is_not_in_it(lake: Lake, store: Place) -> None:
    """And what is deleted meanwhile is: its second name keeps it."""
    victim = next(iter(lake.table(BRONZE).local.glob("*.parquet")))

    def note(line: str) -> None:
        if line.startswith(BRONZE.id):
            receive(lake, Came(at=NINE + timedelta(hours=5), good=3), 3)
            victim.unlink()

    found = take(lake, TABLES, store, NOON, note=note)

    copy = Taken(found.path).lake / str(victim.relative_to(lake.root.local))
    assert copy.exists()
    names = log_of(Lake(Taken(found.path).lake).table(BRONZE)).names()
    assert f"{2:020d}.json" in names
    assert f"{3:020d}.json" not in names
