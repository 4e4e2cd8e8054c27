"""History comes into a lake whose streams have read nothing: they begin with it, and an event of both counts once."""

from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from strandline.core.errors import DataError, DefinitionError
from strandline.core.table import Table
from strandline.engine.accounting.balance_sheet import balance
from strandline.engine.flow.runner import Site
from strandline.engine.lake.import_notes import begun_import, note_begun, note_ended
from strandline.engine.lake.lake import Lake
from strandline.engine.lake.log.ledger import Entry
from strandline.engine.lake.open_table import opened
from strandline.engine.lake.place import Place
from strandline.engine.proof.verify import Trial, verify
from strandline.engine.repair.import_files import import_file
from strandline.operate import backfill
from tests.cli.inside import strandline, succeeded
from tests.support.events import TABLE, Event, reading, received
from tests.support.modes import derive, proven
from tests.support.morning import TABLES
from tests.support.rows import NOON

pytestmark = [pytest.mark.core, pytest.mark.slow]

TYPED = ("import", "bronze.device_telemetry", "--topic", "device-telemetry")
SILVER, GOLD = TABLES


@pytest.mark.whole
def test_history_comes_first_and_an_event_that_kafka_has_as_well_counts_once(
    spark: SparkSession, anywhere: Place, tmp_path: Path
) -> None:
    """No topic, no broker, no folder; then Kafka brings copies of late and of long ago, one unknown old event, and new ones."""
    lake = Lake(anywhere / "new")
    first, second = tmp_path / "september.jsonl", tmp_path / "october.jsonl"
    _write(first, [f"old-{n}" for n in range(5)], NOON - timedelta(days=40))
    _write(second, [f"near-{n}" for n in range(6)], NOON - timedelta(days=2))

    plan = succeeded(*TYPED, second, "--dry-run", "--json", "--lake", lake.root).json
    done = succeeded(*TYPED, second, "--slice", 4, "--json", "--lake", lake.root).json
    more = succeeded(*TYPED, first, "--lake", lake.root)

    assert (plan["rows"], done["rows"], done["before_streams"]) == (6, 6, True)
    assert "`strandline run silver.device_telemetry`, then the tables above" in more.out
    derive(spark, lake, *TABLES)
    assert (len(_rows(lake, SILVER)), len(_rows(lake, GOLD))) == (
        11,
        5,
    )  # the near ones are open yet
    newest = NOON - timedelta(days=2) + timedelta(minutes=50)
    received(
        lake,
        [
            _event("near-5", newest, newest + timedelta(minutes=5)),  # a copy of what state knows
            _event("near-0", NOON - timedelta(days=2), NOON - timedelta(days=2)),  # of long ago
            _event("unknown", NOON - timedelta(days=3), NOON - timedelta(days=3)),
            _event("new", NOON, NOON),
        ],
    )
    derive(spark, lake, *TABLES)
    received(lake, [_event("last", NOON + timedelta(hours=3), NOON + timedelta(hours=3), 2)])
    derive(spark, lake, *TABLES)
    assert balance(SILVER, lake).quarantined == {"disordered": 2}
    succeeded("quarantine", "replay", SILVER.id, "--lake", lake.root)
    counted = [row["event_id"] for row in _rows(lake, SILVER)]
    assert sorted(counted) == sorted({*counted})
    assert {"near-0", "near-5", "unknown", "new", "last"} <= {*counted}
    assert (len(counted), balance(SILVER, lake).duplicates) == (14, 2)  # one of them replayed
    assert proven(lake, TABLES)
    found = succeeded("why", "device-telemetry/-1/7", "--json", "--lake", lake.root).json
    assert (found["verdict"], found["evidence"]["imported"]) == (
        "in the table",
        {"file": str(first), "row": 2},
    )
    third = tmp_path / "august.jsonl"
    _write(third, ["older"], NOON - timedelta(days=90))
    assert succeeded(*TYPED, third, "--json", "--lake", lake.root).json["brought"] == 1
    sheets = succeeded("ledger", "--audit", "--json", "--lake", lake.root).json
    assert [(sheet["faults"], sheet["waiting"]) for sheet in sheets] == [([], 0)] * 3


@pytest.mark.prove(alone="a stream in a process of its own, for one more order of the same commits")
@pytest.mark.parametrize("is_read_before", [False, True])
def test_what_began_with_history_is_verified(
    spark: SparkSession, anywhere: Place, tmp_path: Path, *, is_read_before: bool
) -> None:
    """The stream on trial begins with it as well, and with what the topic had before it."""
    lake, path = Lake(anywhere / "new"), tmp_path / "a.jsonl"
    if is_read_before:
        older = [NOON - timedelta(hours=each) for each in (9, 8, 7)]
        received(lake, [_event(f"k{n}", at, at, n) for n, at in enumerate(older)])
    _write(path, [f"e{n}" for n in range(6)], NOON - timedelta(hours=6))
    succeeded(*TYPED, path, "--lake", lake.root)
    derive(spark, lake, *TABLES)
    for number in range(3):
        at = NOON + number * timedelta(minutes=20)
        received(lake, [_event(f"new-{number}", at, at, number)])
        derive(spark, lake, *TABLES)

    trial, site = Trial(splits=2, kills=1, seed=7), Site(spark=spark, clock=lambda: NOON)

    assert [each.differences for each in verify(TABLES, lake, trial, site)] == [(), ()]


@pytest.mark.whole
def test_streams_that_began_over_empty_topics_begin_anew_with_history(
    spark: SparkSession, anywhere: Place, tmp_path: Path
) -> None:
    """They follow commits and pass over those of an import; an interrupted one keeps them from beginning with a half."""
    lake = Lake(anywhere / "empty").open_for_writing()
    received(lake, [])
    _write(tmp_path / "none.jsonl", [], NOON)
    succeeded(*TYPED, tmp_path / "none.jsonl", "--lake", lake.root)
    derive(spark, lake, *TABLES)
    path = tmp_path / "a.jsonl"
    _write(path, [f"e{n}" for n in range(4)], NOON - timedelta(days=20), minutes=40)
    with pytest.MonkeyPatch.context() as broken:
        broken.setattr(backfill, "import_file", _interrupted)
        failed = strandline(*TYPED, path, "--slice", 3, "--lake", lake.root)
    assert (failed.code, "the disk is gone" in failed.err) == (4, True), failed.printed

    with pytest.raises(DefinitionError, match=r"was interrupted, and silver.device_telemetry"):
        derive(spark, lake, SILVER)
    succeeded(*TYPED, path, "--slice", 3, "--lake", lake.root)
    derive(spark, lake, *TABLES)

    assert [row["event_id"] for row in _rows(lake, SILVER)] == ["e0", "e1", "e2", "e3"]
    assert len(_rows(lake, GOLD)) == 1  # the last 75 minutes are open
    assert proven(lake, TABLES)


def test_a_folder_of_which_a_file_did_not_come_is_half_of_the_history(
    spark: SparkSession, anywhere: Place, tmp_path: Path
) -> None:
    """The first file is whole, so no note of a file says that another was to follow; its rows could not come any more."""
    lake, folder = Lake(anywhere / "new"), tmp_path / "history"
    folder.mkdir()
    for name, day in (("a", 30), ("b", 20), ("c", 10)):
        _write(folder / f"{name}.jsonl", [name], NOON - timedelta(days=day))
    with pytest.MonkeyPatch.context() as broken:
        broken.setattr(backfill, "import_file", _only_one())
        failed = strandline(*TYPED, folder, "--lake", lake.root)
    assert (failed.code, "the disk is gone" in failed.err) == (4, True), failed.printed

    with pytest.raises(DefinitionError, match=rf"import of {folder} into .* was interrupted"):
        derive(spark, lake, SILVER)
    succeeded(*TYPED, folder / "c.jsonl", "--lake", lake.root)
    assert begun_import(TABLE, lake) == str(folder)
    succeeded(*TYPED, folder, "--lake", lake.root)

    assert begun_import(TABLE, lake) is None
    assert sorted(row["_offset"] for row in _rows(lake, TABLE)) == [0, 1, 2]


@pytest.mark.usefixtures("spark")
def test_the_rest_of_a_folder_is_given_up(anywhere: Place) -> None:
    """Also where it is gone as a whole; what never committed a row is forgotten by the next import."""
    lake, gone = Lake(anywhere / "lake").open_for_writing(), anywhere / "gone"
    received(lake, [])
    note_begun(TABLE, lake, gone)
    note_begun(TABLE, lake, other := anywhere / "other")
    assert begun_import(TABLE, lake) == str(other)

    note_ended(TABLE, lake, gone)
    assert begun_import(TABLE, lake) == str(other)
    note_ended(TABLE, lake, other)

    assert begun_import(TABLE, lake) is None
    note_begun(TABLE, lake, gone)
    succeeded(*TYPED, gone, "--give-up", "--lake", lake.root)
    assert begun_import(TABLE, lake) is None


def _write(path: Path, names: list[str], since: datetime, minutes: int = 10) -> None:
    """Write an event each so many minutes."""
    times = (since + number * timedelta(minutes=minutes) for number in range(len(names)))
    lines = (
        reading(event_id=name, event_at=at.isoformat())
        for name, at in zip(names, times, strict=True)
    )
    path.write_bytes(b"\n".join(lines))


def _event(name: str, event_at: datetime, arrived_at: datetime, batch: int = 1) -> Event:
    return Event(
        payload=reading(event_id=name, event_at=event_at.isoformat()),
        batch=batch,
        arrived_at=arrived_at,
        ingested_at=max(arrived_at, NOON),
    )


def _rows(lake: Lake, table: Table) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = opened(lake.table(table)).to_pyarrow_table().to_pylist()
    return sorted(found, key=lambda row: str(row.get("event_id")))


def _only_one() -> Callable[..., Iterator[Entry]]:
    """Import the first file; then none can be read any more."""
    done: list[object] = []

    def imported(*words: Any, **options: Any) -> Iterator[Entry]:  # noqa: ANN401  # those of import_file
        if done:
            raise DataError("the disk is gone", hint="bring it back.")
        done.append(words)
        yield from import_file(*words, **options)

    return imported


def _interrupted(*words: Any, **options: Any) -> Iterator[Entry]:  # noqa: ANN401  # those of import_file
    """Import the first slice; then the file cannot be read any more."""
    yield next(import_file(*words, **options))
    raise DataError("the disk is gone", hint="bring it back.")
