"""Files whose times are INT96, as Spark wrote them before, are read as all others, and written again in their time."""

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow.compute as pc
import pytest
from deltalake import DeltaTable

from strandline.engine.lake.commit import compact as module
from strandline.engine.lake.commit.compact import (
    Choice,
    Looked,
    looked,
    looked_file,
    merge_files,
    rewrite_times,
)
from strandline.engine.lake.duckdb_table import (
    all_rows,
    columns_of,
    peek,
    rows_where,
    scan,
    session,
)
from strandline.engine.lake.find_rows import Where, look, newest_rows
from strandline.engine.lake.lake import Lake
from strandline.engine.lake.log.commit_log import Kind, actions, commit_file, sum_file
from strandline.engine.lake.log.ledger import entries, latest_version
from strandline.engine.lake.log.log_actions import LaterCommits, changes_rows, live_files
from strandline.engine.lake.open_table import live_rows
from strandline.engine.lake.place import Place
from tests.support import events
from tests.support.by_hand import as_before, written_as
from tests.support.events import Event, reading, received
from tests.support.rows import NOON, Row, shown

OLD = Choice(before_ms=2**62)
NOW = datetime(2030, 1, 1, tzinfo=UTC)
FILES = 5
"""Fewer than are put together."""

OF_A_FILE = 3
"""Columns of times in a file of bronze."""


def sent(lake: Lake, first: int, batches: int = FILES) -> None:
    numbers = range(first, first + batches)
    received(
        lake,
        [
            Event(
                payload=reading(event_id=f"e{n}"),
                batch=n,
                arrived_at=NOON + timedelta(minutes=n),
                ingested_at=NOON + timedelta(minutes=n),
            )
            for n in numbers
        ],
    )


def rows_of(path: Place) -> list[Row]:
    return shown(rows_where(path, pc.scalar(True)))


@pytest.fixture
def bronze(tmp_path: Path) -> Place:
    """Return a table with five files of before."""
    lake = Lake(tmp_path).open_for_writing()
    sent(lake, 0)
    path = lake.table(events.TABLE)
    as_before(path)
    assert set(written_as(path)) == {"INT96"}
    return path


def test_files_of_both_kinds_are_read_alike(bronze: Place, tmp_path: Path) -> None:
    calm = Lake(tmp_path / "calm").open_for_writing()
    sent(calm, 0, 2 * FILES)
    sent(Lake(bronze.parent.parent), FILES)
    other = calm.table(events.TABLE)
    assert set(written_as(bronze)) == {"INT96", "INT64"}
    assert set(written_as(other)) == {"INT64"}

    def answers(path: Place) -> list[object]:
        at = NOON + timedelta(minutes=FILES)
        with session() as duck:
            scan(duck, "rows", path)
            scanned = duck.execute("FROM rows ORDER BY _offset").fetchall()
        within = Where(within={"_arrived_at": (at - timedelta(minutes=1), at)})
        return [
            rows_of(path),
            scanned,
            peek(path, "t").ask("SELECT _arrived_at, _offset FROM t ORDER BY _offset"),
            peek(path, "t").ask("SELECT max(_arrived_at), min(_ingested_at) FROM t"),
            [each.row for each in look(path, Where(equal={"_arrived_at": at}))],
            sorted(each.row["_offset"] for each in look(path, within)),
            newest_rows(path, "_arrived_at", 3),
            sorted(
                repr(row.values)
                for some in all_rows(path, latest_version(path), columns_of(path, ("_offset",)))
                for row in some
            ),
        ]

    assert answers(bronze) == answers(other)
    assert len(look(bronze, Where(equal={"_arrived_at": NOON}))) == 1


def test_what_is_put_together_has_its_times_as_all_others(bronze: Place) -> None:
    sent(Lake(bronze.parent.parent), FILES)
    rows = rows_of(bronze)

    (done,) = merge_files(bronze, OLD, NOW)

    assert done.files == 2 * FILES
    assert rows_of(bronze) == rows
    assert set(written_as(bronze)) == {"INT64"}


def test_files_of_before_are_written_again_some_at_each_maintenance(
    bronze: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "LOOKED_AT", 2)
    rows, known, version = rows_of(bronze), [*entries(bronze)], latest_version(bronze)
    said = sorted(file["stats"] for file in live_files(bronze).files.values())
    (counted,) = rewrite_times(bronze, OLD, NOW, go=False)
    assert (counted.files, latest_version(bronze), looked_file(bronze).exists()) == (
        2,
        version,
        False,
    )

    steps = [[each.files for each in rewrite_times(bronze, OLD, NOW)] for _ in range(5)]

    assert steps[:3] == [[2], [2], [1]]
    assert steps[3:] == [[], []]
    assert latest_version(bronze) == version + 3
    assert not any(changes_rows(bronze, version + n) for n in (1, 2, 3))
    assert rows_of(bronze) == rows
    assert set(written_as(bronze)) == {"INT64"}
    assert [*entries(bronze)] == known
    assert live_rows(bronze) == FILES
    assert sorted(file["stats"] for file in live_files(bronze).files.values()) == said
    sums = json.loads(sum_file(bronze, version + 3).text() or "")
    sizes = [file["size"] for file in live_files(bronze).files.values()]
    assert (sums["numFiles"], sums["tableSizeBytes"]) == (FILES, sum(sizes))
    assert sorted(file["size"] for file in sums["allFiles"]) == sorted(sizes)
    assert len(DeltaTable(str(bronze)).to_pandas()) == FILES


def test_a_table_that_is_well_is_not_looked_at_again(
    bronze: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    [*rewrite_times(bronze, OLD, NOW)]
    [*rewrite_times(bronze, OLD, NOW)]
    opened: list[str] = []
    open_file = module.open_file
    monkeypatch.setattr(
        module, "open_file", lambda file: opened.append(file.name) or open_file(file)
    )

    [*rewrite_times(bronze, OLD, NOW)]
    assert opened == []
    sent(Lake(bronze.parent.parent), FILES, 1)
    assert [*rewrite_times(bronze, OLD, NOW)] == []
    assert len(opened) == 1, "the file that came since"


def test_what_may_not_be_touched_now_is_written_again_later(bronze: Place) -> None:
    paths = sorted(live_files(bronze).files)
    (done,) = rewrite_times(bronze, Choice(before_ms=2**62, apart=paths[:2]), NOW)
    assert done.files == FILES - 2
    assert [*rewrite_times(bronze, Choice(before_ms=0), NOW)] == []
    assert written_as(bronze)["INT96"] == 2 * OF_A_FILE

    (done,) = rewrite_times(bronze, OLD, NOW)

    assert done.files == 2
    assert set(written_as(bronze)) == {"INT64"}


def test_no_more_bytes_are_written_than_a_maintenance_may(
    bronze: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "WRITTEN", 1)
    assert [[e.files for e in rewrite_times(bronze, OLD, NOW)] for _ in range(FILES)] == [
        [1]
    ] * FILES


def test_if_another_writer_replaced_a_file_it_is_done_again(
    bronze: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    follow, gone = LaterCommits.follow, min(live_files(bronze).files)
    version = latest_version(bronze)

    def beaten(self: LaterCommits, until: int) -> None:
        remove = {"remove": {"path": gone, "dataChange": True}}
        commit_file(bronze, version + 1).put(json.dumps(remove, separators=(",", ":")) + "\n")
        follow(self, until + 1)

    with monkeypatch.context() as patch:
        patch.setattr(LaterCommits, "follow", beaten)
        assert [*rewrite_times(bronze, OLD, NOW)] == []
    on_disk = [each for each in bronze.names() if each.endswith(".parquet")]
    assert len(on_disk) == FILES, "what was written is gone again"

    (done,) = rewrite_times(bronze, OLD, NOW)
    assert done.files == FILES - 1


def test_of_a_table_that_was_made_anew_or_put_back_nothing_was_looked_at(bronze: Place) -> None:
    [*rewrite_times(bronze, OLD, NOW)]
    found = looked(bronze)
    assert found.version == FILES
    looked_file(bronze).put(json.dumps({"table": found.table, "version": 99}))
    assert looked(bronze) == Looked(table=found.table)
    looked_file(bronze).put(json.dumps({"table": "another", "version": 1}))
    assert looked(bronze) == Looked(table=found.table)
    looked_file(bronze).put("{")
    assert looked(bronze) == Looked(table=found.table)


def test_the_commit_is_one_that_streams_pass_over(bronze: Place) -> None:
    [*rewrite_times(bronze, OLD, NOW)]
    found = [*actions(bronze, latest_version(bronze), Kind.ADD, Kind.REMOVE)]
    assert len(found) == 2 * FILES
    assert {each.body["dataChange"] for each in found} == {False}
