"""Files that are put together change no row and no sum, and a commit of another writer is never lost."""

import json
from datetime import UTC, datetime
from pathlib import Path

import pyarrow.compute as pc
import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from strandline.engine.lake.commit import compact as module
from strandline.engine.lake.commit.compact import Choice, left_apart, merge_files
from strandline.engine.lake.duckdb_table import rows_where
from strandline.engine.lake.lake import Lake
from strandline.engine.lake.log.commit_log import Kind, actions, commit_file, commit_text, sum_file
from strandline.engine.lake.log.ledger import Entry, entries, latest_version
from strandline.engine.lake.log.ledger_sums import sums_of
from strandline.engine.lake.log.log_actions import LaterCommits, added, changes_rows, live_files
from strandline.engine.lake.open_table import live_rows, statistics
from strandline.engine.lake.place import Place
from tests.support import events
from tests.support.events import Event, reading, received
from tests.support.rows import Row, shown

OLD = Choice(before_ms=2**62)
NOW = datetime(2030, 1, 1, tzinfo=UTC)
BATCHES = 20


def sent(lake: Lake, first: int, batches: int) -> list[Entry]:
    numbers = range(first, first + batches)
    return received(lake, [Event(payload=reading(event_id=f"e{n}"), batch=n) for n in numbers])


def rows_of(path: Place) -> list[Row]:
    return shown(rows_where(path, pc.scalar(True)))


@pytest.fixture
def bronze(tmp_path: Path) -> Place:
    lake = Lake(tmp_path).open_for_writing()
    sent(lake, 0, BATCHES)
    return lake.table(events.TABLE)


def test_many_files_become_one_and_no_row_changes(bronze: Place) -> None:
    rows, sums, known = rows_of(bronze), sums_of(bronze), [*entries(bronze)]

    (done,) = merge_files(bronze, OLD, NOW)

    assert done.files == BATCHES
    assert done.bytes_after < done.bytes_before
    assert len(DeltaTable(str(bronze)).file_uris()) == 1
    assert rows_of(bronze) == rows
    assert live_rows(bronze) == BATCHES
    assert [*entries(bronze)] == known
    version = latest_version(bronze)
    assert version == BATCHES + 1
    assert added(bronze, version).rows == 0, "a stream reads nothing of it"
    assert not changes_rows(bronze, version)
    after = sums_of(bronze)
    assert after.version == version
    after.version = sums.version
    assert after == sums
    assert [*merge_files(bronze, OLD, NOW)] == []


@pytest.mark.whole
def test_the_files_as_the_log_names_them_are_those_that_delta_sees(bronze: Place) -> None:
    [*merge_files(bronze, OLD, NOW)]
    sent(Lake(bronze.parent.parent), BATCHES, 3)
    found = live_files(bronze)
    assert sorted(found.files) == sorted(statistics(DeltaTable(str(bronze)))["path"].to_pylist())

    DeltaTable(str(bronze)).create_checkpoint()
    assert live_files(bronze).files.keys() == found.files.keys()
    again = {path: json.loads(each["stats"]) for path, each in live_files(bronze).files.items()}
    assert again == {path: json.loads(each["stats"]) for path, each in found.files.items()}
    assert json.loads(live_files(bronze).metadata["schemaString"]) == json.loads(
        found.metadata["schemaString"]
    )


@pytest.mark.whole
def test_the_checksum_goes_on_so_no_spark_job_computes_it(bronze: Place) -> None:
    [*merge_files(bronze, OLD, NOW)]
    version = latest_version(bronze)
    sums = json.loads(sum_file(bronze, version).text() or "")
    (file,) = live_files(bronze).files.values()
    assert sums["numFiles"] == 1
    assert sums["tableSizeBytes"] == file["size"]
    assert [each["path"] for each in sums["allFiles"]] == [file["path"]]
    info = next(actions(bronze, version, Kind.INFO)).body
    assert sums["txnId"] == info["txnId"]


def test_a_merge_that_ends_before_its_commit_leaves_no_checksum(
    bronze: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another writer makes the version, and Delta would believe what is written of it already."""
    version = latest_version(bronze)

    def killed(*_: object) -> Place:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(module, "commit_file", killed)
        with pytest.raises(KeyboardInterrupt):
            [*merge_files(bronze, OLD, NOW)]
    after_a_kill = sum_file(bronze, version + 1).is_file()

    def beaten(self: LaterCommits, until: int) -> None:
        follow(self, until)
        commit_file(bronze, version + 1).put('{"commitInfo":{}}\n')

    follow = LaterCommits.follow
    monkeypatch.setattr(LaterCommits, "follow", beaten)

    assert [*merge_files(bronze, OLD, NOW)] == []
    assert (after_a_kill, sum_file(bronze, version + 1).is_file()) == (False, False)


@pytest.mark.whole
def test_a_checksum_from_before_its_version_is_replaced(bronze: Place) -> None:
    """An older program left one where it was killed."""
    version = latest_version(bronze)
    sum_file(bronze, version + 1).put((sum_file(bronze, version).text() or "").replace("e", "f"))

    [*merge_files(bronze, OLD, NOW)]

    sums = json.loads(sum_file(bronze, version + 1).text() or "")
    assert sums["txnId"] == next(actions(bronze, version + 1, Kind.INFO)).body["txnId"]


@pytest.mark.whole
@pytest.mark.slow
def test_what_delta_makes_of_a_checksum_that_was_written_before_its_commit(
    spark: SparkSession, bronze: Place
) -> None:
    """It keeps it, and derives the later ones from it: so none may be there before its version is. Rows come from the log.

    As a killed merge of before left it, a checksum says that there is one file; then Spark appends a row.
    """
    version, path = latest_version(bronze), str(bronze)
    one = spark.read.format("delta").load(path).limit(1).localCheckpoint()
    sums = json.loads(sum_file(bronze, version).text() or "")
    false = {**sums, "numFiles": 1, "allFiles": sums["allFiles"][:1], "txnId": "of the merge"}
    sum_file(bronze, version + 1).put(json.dumps(false, separators=(",", ":")))

    for _ in range(2):
        one.write.format("delta").mode("append").save(path)
        spark._jvm.org.apache.spark.sql.delta.DeltaLog.clearCache()

    false, derived = (json.loads(sum_file(bronze, version + n).text() or "") for n in (1, 2))
    assert (false["txnId"], derived["numFiles"]) == ("of the merge", 2)
    assert spark.read.format("delta").load(path).count() == BATCHES + 2


def test_what_others_commit_meanwhile_stays(bronze: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    original = module.merged_file

    def slow(*args: object) -> Place:
        sent(Lake(bronze.parent.parent), BATCHES, 2)
        return original(*args)  # type: ignore[arg-type]  # passed on

    monkeypatch.setattr(module, "merged_file", slow)
    (done,) = merge_files(bronze, OLD, NOW)

    assert done.files == BATCHES
    assert live_rows(bronze) == BATCHES + 2
    assert len(live_files(bronze).files) == 3


@pytest.mark.parametrize("change", ["a file", "the columns"])
def test_if_another_writer_changed_what_was_read_nothing_is_committed(
    bronze: Place, change: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    original = module.merged_file

    def beaten(*args: object) -> Place:
        version = latest_version(bronze)
        found = live_files(bronze)
        other: dict[str, object] = {
            "metaData": {
                **found.metadata,
                "id": "x",
                "format": {"provider": "parquet", "options": {}},
            }
        }
        if change == "a file":
            other = {"remove": {"path": min(found.files), "dataChange": True}}
        commit_file(bronze, version + 1).put(json.dumps(other, separators=(",", ":")) + "\n")
        return original(*args)  # type: ignore[arg-type]  # passed on

    monkeypatch.setattr(module, "merged_file", beaten)
    assert [*merge_files(bronze, OLD, NOW)] == []

    assert latest_version(bronze) == BATCHES + 1
    on_disk = [each for each in bronze.names() if each.endswith(".parquet")]
    assert len(on_disk) == BATCHES, "the file that was written is gone again"


@pytest.mark.whole
def test_what_was_not_read_by_a_stream_is_left_apart(bronze: Place) -> None:
    unread = [each.body["path"] for v in (19, 20) for each in actions(bronze, v, Kind.ADD)]
    (done,) = merge_files(bronze, Choice(before_ms=2**62, apart=unread), NOW)
    assert done.files == BATCHES - 2
    assert {*unread} < {*live_files(bronze).files}


def test_a_column_that_arrow_would_change_leaves_the_table_alone(bronze: Place) -> None:
    text = commit_text(bronze, 0) or ""
    assert left_apart(bronze, OLD) == ()
    commit_file(bronze, 0).put(text.replace('\\"timestamp\\"', '\\"timestamp_ntz\\"'))
    assert [*merge_files(bronze, OLD, NOW)] == []
    kinds = left_apart(bronze, OLD)
    assert kinds
    assert all(each.endswith(" timestamp_ntz") for each in kinds), "and it is said for which"
    assert left_apart(bronze, Choice(before_ms=0)) == (), "where there is nothing to put together"


@pytest.mark.whole
def test_a_table_whose_files_may_hold_deleted_rows_is_left_alone(bronze: Place) -> None:
    text = commit_text(bronze, 0) or ""
    commit_file(bronze, 0).put(text.replace('"minReaderVersion":1', '"minReaderVersion":3'))
    assert [*merge_files(bronze, OLD, NOW)] == []


def test_a_file_that_is_missing_leaves_its_neighbours_alone(bronze: Place) -> None:
    (bronze / min(live_files(bronze).files)).remove()
    assert [*merge_files(bronze, OLD, NOW)] == []
    assert latest_version(bronze) == BATCHES


@pytest.mark.whole
def test_it_is_only_counted_where_nothing_is_to_be_changed(bronze: Place) -> None:
    before = sorted(bronze.local.rglob("*"))
    (done,) = merge_files(bronze, OLD, NOW, go=False)
    assert done.files == BATCHES
    assert sorted(bronze.local.rglob("*")) == before
