"""A file is deleted when no version in reach has it, every stream has read past it, and it is old enough."""

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from strandline.engine.lake.commit.compact import Choice, merge_files
from strandline.engine.lake.lake import Lake
from strandline.engine.lake.log import vacuum
from strandline.engine.lake.log.commit_log import commit_file, committed_at
from strandline.engine.lake.log.ledger import Entry, latest_version
from strandline.engine.lake.log.log_actions import live_files
from strandline.engine.lake.log.vacuum import EXPLAINED, KEEP, sweep, swept, swept_file
from strandline.engine.lake.place import Place
from tests.engine.written import BRONZE, entry
from tests.support import events
from tests.support.events import Event, reading, received

BATCHES = 12
ALL = 2**62
NOW = datetime(2030, 1, 1, tzinfo=UTC)


@pytest.fixture
def merged(tmp_path: Path) -> Place:
    """Return a table whose files were put together in its last version."""
    lake = Lake(tmp_path).open_for_writing()
    received(lake, [Event(payload=reading(event_id=f"e{n}"), batch=n) for n in range(BATCHES)])
    path = lake.table(events.TABLE)
    [*merge_files(path, Choice(before_ms=ALL), NOW)]
    return path


def after(path: Place, length: timedelta) -> datetime:
    return committed_at(path, latest_version(path)) + length + timedelta(seconds=1)


def files(path: Place) -> set[str]:
    return {each for each in path.names() if each.endswith(".parquet")}


def replaced(path: Place, words: Entry | None, removes: str, adds: str | None = None) -> None:
    """Commit the removal of a file, and perhaps the addition of one that is there."""
    version = latest_version(path) + 1
    at = committed_at(path, version - 1).timestamp() * 1000
    info = {"timestamp": int(at), **({"userMetadata": words.encoded()} if words else {})}
    lines: list[dict[str, object]] = [
        {"commitInfo": info},
        {"remove": {"path": removes, "dataChange": True}},
    ]
    if adds:
        lines.append(
            {
                "add": {
                    "path": adds,
                    "partitionValues": {},
                    "size": 1,
                    "modificationTime": 1,
                    "dataChange": True,
                    "stats": '{"numRecords":1}',
                }
            }
        )
    text = "".join(json.dumps(each, separators=(",", ":")) + "\n" for each in lines)
    commit_file(path, version).put(text)


@pytest.mark.whole
def test_files_go_when_they_are_old_and_read(merged: Place) -> None:
    assert [*sweep(merged, ALL, after(merged, KEEP / 2))] == []
    assert [*sweep(merged, BATCHES, after(merged, KEEP))] == [], "a stream has not read so far"
    assert not swept(merged).deletes

    gone = [*sweep(merged, ALL, after(merged, KEEP))]

    assert len(gone) == BATCHES
    assert all(each.size > 0 for each in gone)
    assert files(merged) == {*live_files(merged).files}
    assert swept(merged).deletes
    assert [*sweep(merged, ALL, after(merged, KEEP))] == []


@pytest.mark.whole
def test_the_walk_along_the_log_goes_on_where_it_ended(
    merged: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    [*sweep(merged, ALL, after(merged, KEEP))]
    asked = []
    monkeypatch.setattr(
        vacuum,
        "committed_at",
        lambda path, version: asked.append(version) or committed_at(path, version),
    )
    [*sweep(merged, ALL, after(merged, KEEP))]
    assert asked == []


@pytest.mark.whole
def test_what_a_repair_removed_stays_for_longer(merged: Place) -> None:
    [*sweep(merged, ALL, after(merged, KEEP))]
    (only,) = files(merged)
    replaced(merged, entry(BRONZE, mode="backfill", since="a", until="b"), removes=only)

    assert [*sweep(merged, ALL, after(merged, KEEP))] == []
    assert swept(merged).later == [latest_version(merged)]
    assert files(merged) == {only}
    assert len([*sweep(merged, ALL, after(merged, EXPLAINED))]) == 1
    assert files(merged) == set()
    assert swept(merged).later == []


@pytest.mark.whole
def test_a_file_that_was_added_again_stays(merged: Place) -> None:
    (own,) = live_files(merged).files
    other = min(files(merged) - {own})
    replaced(merged, None, removes=own, adds=other)

    [*sweep(merged, ALL, after(merged, KEEP))]
    assert files(merged) == {other}


def test_nothing_is_deleted_where_it_is_only_to_be_shown(merged: Place) -> None:
    before = files(merged)
    assert len([*sweep(merged, ALL, after(merged, KEEP), go=False)]) == BATCHES
    assert files(merged) == before
    assert not swept_file(merged).exists()


def test_one_that_is_killed_goes_on_and_says_that_files_are_gone(merged: Place) -> None:
    walk = sweep(merged, ALL, after(merged, KEEP))
    next(walk), next(walk)
    walk.close()  # as a process that ends in between
    assert swept(merged).deletes
    assert len(files(merged)) == BATCHES

    [*sweep(merged, ALL, after(merged, KEEP))]
    assert len(files(merged)) == 1


@pytest.mark.whole
def test_another_table_of_the_name_begins_anew(merged: Place) -> None:
    [*sweep(merged, ALL, after(merged, KEEP))]
    text = commit_file(merged, 0).text() or ""
    commit_file(merged, 0).put(text.replace('"id":"', '"id":"x'))
    assert swept(merged).version == -1
    assert not swept(merged).deletes
