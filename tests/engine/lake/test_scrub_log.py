"""A scrubbed history has the same versions and no text of files that are gone; what is there stays as it is."""

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import cast

import pytest
from pyspark.sql import SparkSession

from strandline.engine.lake import forgotten as module
from strandline.engine.lake.forgotten import scrub_log, search
from strandline.engine.lake.lake import Lake
from strandline.engine.lake.log.commit_log import commit_file
from strandline.engine.lake.log.ledger_sums import Snapshot, fingerprint, snapshot, sums_of, write
from strandline.engine.lake.open_table import opened
from strandline.engine.lake.place import Place
from tests.engine.written import SILVER, entry, written
from tests.support import lakes

NO_SPARK = cast(SparkSession, None)
"""No checkpoint is there that Spark would have to write anew."""


@pytest.fixture
def table(either: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Place:
    """Return a table whose first file was replaced by one without a row, in a folder or on a store."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    path = either / "silver" / "x"
    written(path, [row("d-17", 1), row("d-2", 2)], entry(SILVER, written=2).encoded())
    written(path, [row("d-3", 3)], entry(SILVER, batch=1, written=1).encoded(), mode="overwrite")
    return path


def row(device: str, value: int) -> dict[str, object]:
    return {"device_id": device, "value": value}


@pytest.mark.whole
def test_files_and_texts_of_the_past_go_and_numbers_stay(table: Place) -> None:
    """The latest version has its rows and its statistics."""
    rows = opened(table).to_pyarrow_table().to_pylist()
    times = _times(table)

    assert scrub_log(NO_SPARK, table, 1) == (1, 1)

    first = commit_file(table, 0).text() or ""
    (added,) = (json.loads(line)["add"] for line in first.splitlines() if '"add"' in line)
    stats = json.loads(added["stats"])
    assert "d-17" not in first
    assert (stats["numRecords"], stats["minValues"], stats["maxValues"]) == (
        2,
        {"value": 1},
        {"value": 2},
    )
    assert "d-3" in (commit_file(table, 1).text() or "")
    assert opened(table).to_pyarrow_table().to_pylist() == rows
    assert times == _times(table)
    assert len(opened(table).file_uris()) == sum(n.endswith(".parquet") for n in table.names())


def _times(table: Place) -> list[datetime]:
    """Return when the commits were written, in a folder; an object that is written anew has another time."""
    files = (commit_file(table, version) for version in (0, 1))
    return [file.modified_at() for file in files if file.is_local]


def test_a_second_time_there_is_nothing_to_do(table: Place) -> None:
    """As after a kill between two commits."""
    scrub_log(NO_SPARK, table, 1)

    assert scrub_log(NO_SPARK, table, 1) == (0, 0)


def test_closed_books_know_the_commit_again(table: Place) -> None:
    """Otherwise every reader would add up the log from its first commit."""
    write(
        table, Snapshot(sums=sums_of(table, 0), sheet={"fits": {"silver.x": fingerprint(table, 0)}})
    )

    scrub_log(NO_SPARK, table, 1)

    assert snapshot(table).sums.version == 0
    assert snapshot(table).sheet["fits"] == {"silver.x": fingerprint(table, 0)}


def test_the_history_after_the_request_stays(table: Place) -> None:
    """Those versions can be read as before."""
    written(table, [row("d-4", 4)], entry(SILVER, batch=2, written=1).encoded(), mode="overwrite")

    scrub_log(NO_SPARK, table, 0)

    assert opened(table, 1).to_pyarrow_table().to_pylist() == [row("d-3", 3)]


@pytest.mark.parametrize(
    ("text", "is_time"),
    [("2026-11-20T12:00:00.000Z", True), ("2026-The name", False), ("d-17", False), ("", False)],
)
def test_times_are_kept_and_texts_are_not(text: str, is_time: bool) -> None:  # noqa: FBT001  # a parameter
    """Queries skip files by time. A text that looks like one is kept in no column that is declared as a text."""
    struct = {"type": "struct", "fields": [{"name": "y", "type": "timestamp"}]}
    columns = (("x", "timestamp"), ("note", "string"), ("within", struct))
    schema = {"fields": [{"name": name, "type": kind} for name, kind in columns]}
    values = {"x": text, "note": text, "within": {"y": text, "n": 1}}

    kept = module._plain(values, module.times_of(schema))

    assert kept == ({"x": text, "within": {"y": text, "n": 1}} if is_time else {"within": {"n": 1}})


@pytest.mark.whole
def test_a_text_that_looks_like_a_date_goes_from_the_statistics(either: Place) -> None:
    """An order number may begin with one; it named the customer in the log for ever."""
    path, at = either / "silver" / "x", datetime(2026, 11, 20, tzinfo=UTC)
    name = "2026-11-20T12:00:00.000Z-Smith"
    rows = [{"device_id": name, "event_at": at}], [{"device_id": "d-3", "event_at": at}]
    written(path, rows[0], entry(SILVER, written=1).encoded())
    written(path, rows[1], entry(SILVER, batch=1, written=1).encoded(), mode="overwrite")

    scrub_log(NO_SPARK, path, 1)

    first = commit_file(path, 0).text() or ""
    assert ("Smith" in first, '\\"event_at\\":\\"2026-11-20T' in first) == (False, True)


@pytest.mark.whole
@pytest.mark.slow
def test_checkpoints_are_written_anew_without_the_texts(spark: SparkSession, table: Place) -> None:
    """A checkpoint repeats the statistics, of files that were removed since as well."""
    if not table.is_local and not lakes.is_on_store():
        pytest.skip("the Spark of the suite has no jars of a store")
    opened(table, 0).create_checkpoint()
    lake = Lake(table.parent.parent)
    assert [hit.file for hit in search(lake, "d-17") if ".checkpoint" in hit.file]

    scrub_log(spark, table, 1)

    assert [*search(lake, "d-17")] == []
    assert opened(table).to_pyarrow_table().to_pylist() == [row("d-3", 3)]
    assert spark.read.format("delta").load(str(table)).count() == 1
