"""Files whose times are INT96, as Spark wrote them before, are read as all others, and written again in their time."""

import json
from collections import Counter
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from itertools import count
from pathlib import Path
from typing import Any

import pyarrow.compute as pc
import pytest
from deltalake import DeltaTable

from strandline.engine.lake.commit import compact as module
from strandline.engine.lake.commit.compact import (
    Choice,
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
from strandline.engine.lake.log import log_actions
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


def over_after(times: int) -> Callable[[], bool]:
    """Return a clock that is asked so many times before the time is over."""
    asked = count()
    return lambda: next(asked) >= times


def test_files_of_before_are_written_again_some_in_each_commit(
    bronze: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "LOOKED_AT", 2)
    rows, known, version = rows_of(bronze), [*entries(bronze)], latest_version(bronze)
    said = sorted(file["stats"] for file in live_files(bronze).files.values())
    assert [each.files for each in rewrite_times(bronze, OLD, NOW, go=False)] == [2, 2, 1]
    assert latest_version(bronze) == version
    assert not looked_file(bronze).exists()

    steps = [[each.files for each in rewrite_times(bronze, OLD, NOW)] for _ in range(2)]

    assert steps == [[2, 2, 1], []], "a run goes on until nothing is left"
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


def test_a_run_that_is_out_of_time_is_continued_by_the_next(bronze: Place) -> None:
    rows = rows_of(bronze)
    steps = [[*rewrite_times(bronze, OLD, NOW, is_over=over_after(7))] for _ in range(FILES)]

    assert [(each.files, each.left) for each in steps[0]] == [
        (3, ""),
        (0, "files of before, for lack of time"),
    ]
    assert [sum(each.files for each in step) for step in steps[1:]] == [2, 0, 0, 0]
    assert set(written_as(bronze)) == {"INT64"}
    assert rows_of(bronze) == rows
    assert [*rewrite_times(bronze, OLD, NOW, is_over=lambda: True)] == []


def test_of_months_of_commits_none_is_read_for_this(
    bronze: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What came since is found among the files that the table has."""
    [*rewrite_times(bronze, OLD, NOW)]
    sent(Lake(bronze.parent.parent), FILES, 4)
    read, actions_of = Counter[int](), log_actions.actions

    def counted(path: Place, version: int, *kinds: Kind) -> Iterator[Any]:
        read[version] += 1
        return actions_of(path, version, *kinds)

    monkeypatch.setattr(log_actions, "actions", counted)
    [*rewrite_times(bronze, OLD, NOW)]

    assert set(read.values()) == {1}, "by which the table's files are known"
    assert looked(bronze) == set(live_files(bronze).files)


def test_a_file_that_was_left_is_looked_at_again_where_a_run_ended_early(
    bronze: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "LOOKED_AT", 1)
    first = Choice(before_ms=2**62, apart=[min(live_files(bronze).files)])
    for _ in range(FILES):
        [*rewrite_times(bronze, first, NOW, is_over=over_after(2))]
    assert written_as(bronze)["INT96"] == OF_A_FILE

    (done,) = rewrite_times(bronze, OLD, NOW)

    assert done.files == 1
    assert set(written_as(bronze)) == {"INT64"}


NO_FILE = b""
NO_FOOTER = b"PAR1 and no more"
FOOTER_TORN = b"PAR1" + b"\xff" * 40 + (40).to_bytes(4, "little") + b"PAR1"


@pytest.mark.parametrize("content", [NO_FILE, NO_FOOTER, FOOTER_TORN])
def test_a_file_that_cannot_be_read_is_said_and_the_others_are_written(
    bronze: Place, content: bytes
) -> None:
    damaged = bronze / min(live_files(bronze).files)
    whole = damaged.local.read_bytes()
    damaged.local.write_bytes(content)

    done, said = rewrite_times(bronze, OLD, NOW)

    assert (done.files, said.files) == (FILES - 1, 0)
    assert said.left.startswith(f"its file {damaged.name} cannot be read: ")
    damaged.local.write_bytes(whole)
    (done,) = rewrite_times(bronze, OLD, NOW)
    assert (done.files, done.left) == (1, "")
    assert set(written_as(bronze)) == {"INT64"}


def test_of_a_file_whose_pages_are_torn_nothing_is_written_again(bronze: Place) -> None:
    damaged = bronze / max(live_files(bronze).files)
    whole = damaged.local.read_bytes()
    damaged.local.write_bytes(b"PAR1" + b"\xff" * 200 + whole[204:])
    on_disk = set(bronze.names())

    done, said = rewrite_times(bronze, OLD, NOW)

    assert done.files == FILES - 1
    assert said.left.startswith(f"its file {damaged.name} was not written again: ")
    came = {each for each in set(bronze.names()) - on_disk if each.endswith(".parquet")}
    assert came == {each for each in live_files(bronze).files if each != damaged.name}


def test_what_a_restore_brings_back_is_written_again(bronze: Place) -> None:
    before = live_files(bronze).files
    [*rewrite_times(bronze, OLD, NOW)]
    now = live_files(bronze).files
    gone, back = min(now), min(before)
    swapped = [
        {"remove": {"path": gone, "dataChange": True}},
        {"add": {**before[back], "dataChange": True}},
    ]
    text = "".join(json.dumps(each, separators=(",", ":")) + "\n" for each in swapped)
    commit_file(bronze, latest_version(bronze) + 1).put(text)

    (done,) = rewrite_times(bronze, OLD, NOW)

    assert done.files == 1
    assert set(written_as(bronze)) == {"INT64"}


def test_what_may_not_be_touched_now_is_written_again_later(bronze: Place) -> None:
    paths = sorted(live_files(bronze).files)
    (done,) = rewrite_times(bronze, Choice(before_ms=2**62, apart=paths[:2]), NOW)
    assert done.files == FILES - 2
    assert [*rewrite_times(bronze, Choice(before_ms=0), NOW)] == []
    assert written_as(bronze)["INT96"] == 2 * OF_A_FILE

    (done,) = rewrite_times(bronze, OLD, NOW)

    assert done.files == 2
    assert set(written_as(bronze)) == {"INT64"}


def test_no_more_bytes_are_written_than_a_commit_may_have(
    bronze: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "WRITTEN", 1)
    assert [each.files for each in rewrite_times(bronze, OLD, NOW)] == [1] * FILES


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


@pytest.mark.parametrize(
    "text", ["{", "", '{"table": "t", "version": 5, "until": null, "after": ""}']
)
def test_of_a_record_that_is_torn_or_of_other_code_nothing_is_known(
    bronze: Place, text: str
) -> None:
    [*rewrite_times(bronze, OLD, NOW)]
    assert looked(bronze) == set(live_files(bronze).files)
    looked_file(bronze).put(text)
    assert looked(bronze) == set()
    assert [*rewrite_times(bronze, OLD, NOW)] == []
    assert looked(bronze) == set(live_files(bronze).files)


def test_the_commit_is_one_that_streams_pass_over(bronze: Place) -> None:
    [*rewrite_times(bronze, OLD, NOW)]
    found = [*actions(bronze, latest_version(bronze), Kind.ADD, Kind.REMOVE)]
    assert len(found) == 2 * FILES
    assert {each.body["dataChange"] for each in found} == {False}
