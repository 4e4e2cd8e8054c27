"""History from files becomes rows beside the stream: once, accounted for, and as if Kafka had had it first."""

import random
from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from strandline.core.errors import DataError
from strandline.core.table import Table
from strandline.core.topic import PLACE
from strandline.engine.accounting.balance_sheet import balance
from strandline.engine.accounting.table_books import close
from strandline.engine.lake.lake import Lake
from strandline.engine.lake.log.ledger import Entry, latest_version
from strandline.engine.lake.log.ledger_sums import snapshot
from strandline.engine.lake.open_table import opened
from strandline.engine.lake.place import Place
from strandline.engine.lake.plain_files import Record
from strandline.engine.proof.compare import compare
from strandline.engine.repair.expire import expire
from strandline.engine.repair.import_files import _slice, import_file
from strandline.operate import backfill
from tests.cli.inside import strandline, succeeded
from tests.support.events import TABLE, Event, reading, readings, received
from tests.support.modes import derive, proven
from tests.support.morning import LATER, MORNING, TABLES, step_by_step, streamed
from tests.support.past import as_received, month, written
from tests.support.proofs import Times
from tests.support.rows import NOON, at
from tests.support.seeds import copied

pytestmark = [pytest.mark.core, pytest.mark.slow]

TYPED = ("import", "bronze.device_telemetry", "--topic", "device-telemetry")
FROM_KAFKA = (*PLACE, "_message_key", "_headers")


@pytest.mark.whole
@pytest.mark.prove
def test_imported_days_equal_the_same_days_through_kafka(
    spark: SparkSession, morning: Lake, tmp_path: Path, chance: random.Random, times: Times
) -> None:
    """Silver, quarantine and gold; the stream goes on afterwards, and all books balance."""
    past = month(chance, NOON - timedelta(days=5), days=2, a_day=times(40, 150))
    parquet, lines = written(tmp_path / "past", past)
    plan = succeeded(*TYPED, tmp_path / "past", "--dry-run", "--json", "--lake", morning.root)
    assert plan.json["rows"] == len(as_received(past))

    done = succeeded(
        *TYPED, tmp_path / "past", "--slice", times(60, 200), "--json", "--lake", morning.root
    )

    assert (done.json["rows"], done.json["brought"]) == (plan.json["rows"], plan.json["rows"])
    again = succeeded(*TYPED, tmp_path / "past", "--lake", morning.root)
    assert "nothing new" in again.out
    (tmp_path / "copy.parquet").write_bytes(parquet.read_bytes())
    copied = succeeded(*TYPED, tmp_path / "copy.parquet", "--dry-run", "--lake", morning.root)
    assert copied.out.startswith("0 rows of 0 files would come")
    lines.write_bytes(parquet.read_bytes())
    changed = strandline(*TYPED, lines, "--dry-run", "--lake", morning.root)
    assert (changed.code, "changed since" in changed.err) == (4, True), changed.printed
    streamed(spark, morning, LATER)
    sheets = succeeded("ledger", "--audit", "--json", "--lake", morning.root).json
    assert [sheet["faults"] for sheet in sheets] == [[], [], []]
    assert [sheet["waiting"] for sheet in sheets] == [0, 0, 0]

    kafka = Lake(tmp_path / "kafka").open_for_writing()
    events = [
        Event(
            payload=each.payload, batch=0, arrived_at=each.arrived_at, ingested_at=each.arrived_at
        )
        for each in as_received(past)
    ]
    received(kafka, [*events, *readings(MORNING), *readings(LATER)])
    derive(spark, kafka, *TABLES)
    for table in TABLES:
        for one in compare(table, morning, kafka, without=FROM_KAFKA):
            assert one.equal, one


def test_records_of_a_broken_clock_are_held_and_keep_no_good_ones_out(
    morning: Lake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A year that no calendar has, a future and a time before Kafka: each has the arrival of the record before it.

    The books are closed on the way, or a long import would add up all of its own entries for each slice.
    """
    monkeypatch.setattr(
        backfill, "close_or_reason", lambda table, lake: close(lake, [table], every=1)
    )
    days = NOON - timedelta(days=5)
    path = tmp_path / "a.jsonl"
    times = (
        "9999-12-31T23:59:59Z",
        days.isoformat(),
        "2099-01-01T00:00:00Z",
        "0001-01-01T00:00:00+05:00",
    )
    lines = (reading(event_id=f"clock-{n}", event_at=at) for n, at in enumerate(times))
    path.write_bytes(b"\n".join(lines))

    done = succeeded(*TYPED, path, "--json", "--lake", morning.root).json

    assert (done["rows"], done["brought"], done["since"]) == (4, 4, days.isoformat())
    for table in TABLES[0].upstream + TABLES[:1]:
        path = morning.table(table)
        assert snapshot(path).sums.version == latest_version(path)
    sheets = succeeded("ledger", "--audit", "--json", "--lake", morning.root).json
    assert [(sheet["faults"], sheet["waiting"]) for sheet in sheets] == [([], 0)] * 3
    found = [
        succeeded("why", f"device-telemetry/-1/{number}", "--json", "--lake", morning.root).json
        for number in range(4)
    ]
    assert [each["verdict"] for each in found] == ["early", "in the table", "early", "late"]
    assert {datetime.fromisoformat(each["evidence"]["arrived_at"]) for each in found} == {days}


@pytest.mark.whole
def test_days_that_bronze_no_longer_has_come_once_and_reach_gold(
    spark: SparkSession, anywhere: Place, tmp_path: Path
) -> None:
    """A row whose record has expired is there all the same: its event is a copy, and windows are computed from rows."""
    lake = aged(spark, anywhere)
    expire(spark, replace(TABLE, keeps="2 hours"), lake, NOON)
    known = [
        line for line in readings(MORNING) if b'"event_at":"2026-11-20T09:' in (line.payload or b"")
    ]
    new = reading(event_id="new", device_id="d1", event_at=at("09:05:00").isoformat())
    path = tmp_path / "archive.jsonl"
    path.write_bytes(b"\n".join([*(each.payload or b"" for each in known), new]))

    plan = succeeded(*TYPED, path, "--dry-run", "--json", "--lake", lake.root).json
    done = succeeded(*TYPED, path, "--json", "--lake", lake.root).json

    assert balance(TABLE, lake).expired > 0
    assert (plan["rows"], plan["not_followed"]) == (done["rows"], {}) == (len(known) + 1, {})
    silver, gold = (rows_of(lake, each) for each in TABLES)
    assert sorted(row["event_id"] for row in silver) == [
        "a",
        "b",
        "c",
        "d",
        "e",
        "f",
        "h",
        "i",
        "new",
    ]
    counted = {(row["device_id"], row["window_from"]): row["readings"] for row in gold}
    assert counted["d1", at("09:00:00")] == 2  # b and the new one
    sheets = succeeded("ledger", "--audit", "--json", "--lake", lake.root).json
    assert [(sheet["faults"], sheet["waiting"]) for sheet in sheets] == [([], 0)] * 3
    assert [sheet["duplicates"] for sheet in sheets][1] == 2 + len(known)
    streamed(spark, lake, LATER)
    assert proven(lake, TABLES)


def test_history_of_a_time_that_silver_has_deleted_is_refused(
    spark: SparkSession, anywhere: Place, tmp_path: Path
) -> None:
    """It would come and go, and no window could be computed with it; a table above that keeps less is named."""
    lake, path = aged(spark, anywhere), tmp_path / "archive.jsonl"
    path.write_bytes(_of_days_ago("old"))
    silver, gold = (replace(each, keeps="2 hours") for each in TABLES)

    expire(spark, gold, lake, NOON)
    plan = succeeded(*TYPED, path, "--dry-run", "--lake", lake.root)
    expire(spark, silver, lake, NOON)
    refused = strandline(*TYPED, path, "--dry-run", "--lake", lake.root)

    assert f"{gold.id} keeps its rows from" in plan.out
    assert (refused.code, "cannot come to silver.device_telemetry" in refused.err) == (2, True)
    assert "hint: import what arrived from 2026-11-20T11:00:00+00:00 on" in refused.err


def test_nothing_of_a_folder_is_committed_while_one_of_its_files_cannot_come(
    morning: Lake, tmp_path: Path
) -> None:
    """A file that is torn, and one with a time that a stream still owns, behind one that is good."""
    before = latest_version(morning.table(TABLE))
    (tmp_path / "a.jsonl").write_bytes(_of_days_ago("good"))
    for name, content, sentence in (
        ("b.jsonl.gz", b"torn", "b.jsonl.gz cannot be read to its end"),
        ("c.jsonl", reading(event_at=NOON.isoformat()), "still belongs to the streams"),
    ):
        (tmp_path / name).write_bytes(content)
        refused = strandline(*TYPED, tmp_path, "--lake", morning.root)
        assert refused.code in {2, 4}
        assert sentence in refused.err
        (tmp_path / name).unlink()
    assert latest_version(morning.table(TABLE)) == before


@pytest.mark.whole
def test_what_is_committed_is_brought_though_its_file_fails_and_the_rest_can_be_given_up(
    morning: Lake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its rows are in bronze, and no stream reads them; a file that is lost keeps no other one out."""
    half, other = tmp_path / "half.jsonl", tmp_path / "other.jsonl"
    half.write_bytes(b"\n".join(_of_days_ago(f"half-{number}") for number in range(3)))
    other.write_bytes(_of_days_ago("other"))
    with monkeypatch.context() as broken:
        broken.setattr(backfill, "import_file", _interrupted)
        failed = strandline(*TYPED, half, "--slice", 2, "--lake", morning.root)
    assert (failed.code, "the disk is gone" in failed.err) == (4, True), failed.printed
    half.unlink()

    refused = strandline(*TYPED, other, "--lake", morning.root)
    assert (refused.code, "--give-up" in refused.err) == (2, True), refused.printed
    sheets = succeeded("ledger", "--json", "--lake", morning.root).json
    assert [(sheet["faults"], sheet["waiting"]) for sheet in sheets] == [([], 0)] * 3
    assert [sheet["imported"] for sheet in sheets] == [2, 2, 0]

    done = succeeded(*TYPED, other, "--give-up", "--json", "--lake", morning.root).json
    assert (done["rows"], done["brought"]) == (1, 1)
    last = succeeded("why", "device-telemetry/-1/2", "--json", "--lake", morning.root).json
    assert last["evidence"]["imported"] == {"file": str(other), "row": 1}
    again = strandline(*TYPED, other, "--give-up", "--lake", morning.root)
    assert (again.code, "nothing to give up" in again.err) == (2, True), again.printed


def test_history_that_cannot_come_is_refused_before_anything_is_written(
    morning: Lake, tmp_path: Path
) -> None:
    """A time that a stream still owns, a format that is not the topic's, records without a moment, a table of no topic."""
    before = latest_version(morning.table(TABLE))
    path = tmp_path / "a.jsonl"
    path.write_bytes(reading(event_at=NOON.isoformat()))

    for words, code, sentence in (
        ((*TYPED, path), 2, "still belongs to the streams above bronze.device_telemetry"),
        (
            (*TYPED[:3], "device-telemetry-v1", path),
            2,
            "the payloads of topic device-telemetry-v1 come from CSV",
        ),
        ((*TYPED, path, "--arrived-at-column", "meta.seq"), 2, "none of the 1 records"),
        ((*TYPED[:2], path), 2, "the file has records of one of them"),
        (("import", "silver.device_telemetry", path), 2, "name the bronze table at its begin"),
        ((*TYPED, tmp_path / "nothing"), 2, "is neither a file nor a folder"),
    ):
        refused = strandline(*words, "--dry-run", "--lake", morning.root)
        assert (refused.code, sentence in refused.err) == (code, True), refused.printed
    assert latest_version(morning.table(TABLE)) == before


def aged(spark: SparkSession, anywhere: Place) -> Lake:
    """Return a lake with the morning in files of different ages."""
    lake = Lake(anywhere / "aged").open_for_writing()
    return copied(lake, "morning, commit by commit", lambda seed: step_by_step(spark, seed))


def rows_of(lake: Lake, table: Table) -> list[dict[str, Any]]:
    """Return the rows of a table."""
    found: list[dict[str, Any]] = opened(lake.table(table)).to_pyarrow_table().to_pylist()
    return found


def _of_days_ago(name: str) -> bytes:
    return reading(event_id=name, event_at=(NOON - timedelta(days=5)).isoformat())


def _interrupted(*words: Any, **options: Any) -> Iterator[Entry]:  # noqa: ANN401  # those of import_file
    """Import the first slice; then the file cannot be read any more."""
    yield next(import_file(*words, **options))
    raise DataError("the disk is gone", hint="bring it back.")


def test_a_slice_is_bounded_by_its_bytes_and_leaves_no_record_out() -> None:
    """A file of long lines was in memory whole: 200,000 records of up to 32 MB."""
    sizes = [10, 10, 100, 5, 5, 5, 30, 0, 1]
    records = iter([(number, Record(b"x" * size, None)) for number, size in enumerate(sizes)])

    slices = []
    while part := list(_slice(records, 3, 40)):
        slices.append([len(each.payload) for _, each in part])

    assert slices == [[10, 10, 100], [5, 5, 5], [30, 0, 1]]
    one = iter([(0, Record(b"x" * 50, None)), (1, Record(b"x", None))])
    assert [number for number, _ in _slice(one, 3, 40)] == [0]
    assert [number for number, _ in _slice(one, 3, 40)] == [1]
