"""What an import of a file would do follows from its name, its bytes and the ledger; nothing is started for it."""

import gzip
import hashlib
import os
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import BinaryIO

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from strandline.core.changed_rows import debezium
from strandline.core.errors import DataError, DefinitionError
from strandline.core.parse import avro, parse_csv, parse_json, parse_raw
from strandline.core.parse_registered import registered
from strandline.core.table import Ingested
from strandline.core.topic import Parse, Topic
from strandline.engine.lake.commit.file_index import MICROSECOND
from strandline.engine.lake.import_notes import ImportNotes, unfinished_file
from strandline.engine.lake.lake import Lake
from strandline.engine.lake.log.ledger import BATCH, IMPORT, latest_version, part_of_imports
from strandline.engine.lake.place import Place
from strandline.engine.lake.plain_files import HistoryFile, milliseconds_of
from strandline.engine.repair.import_files import Plan, give_up, planned, refuse_unlike
from tests.engine.written import entry
from tests.support.ledgers import write_log
from tests.support.rows import NOON

HERE, THERE = Topic(name="orders"), Topic(name="orders-eu")
ORDERS = Ingested(name="orders", reads=(HERE, THERE))
CELLS = Ingested(name="cells", reads=(Topic(name="cells", parse=parse_csv),))
TODAY = milliseconds_of(NOON)
LINE = b'{"at":"2026-10-01T08:00:00Z","number":%d}\n'


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    """Return a lake without rows."""
    return Lake(Place.of(tmp_path / "lake"))


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return the names of the files that are opened from now on."""
    names: list[str] = []
    real = Place.opened

    def counted(place: Place) -> BinaryIO:
        names.append(place.name)
        return real(place)

    monkeypatch.setattr(Place, "opened", counted)
    return names


def test_a_file_is_imported_as_records_of_one_topic(lake: Lake, tmp_path: Path) -> None:
    """Also where the other topic has more imported rows, or fewer, than the file has: the offsets of two topics differ."""
    here, there = _lines(tmp_path / "x.jsonl", 10), _lines(tmp_path / "m.jsonl", 5)
    copy = tmp_path / "copy.jsonl"
    copy.write_bytes(here.read_bytes())
    imported(lake, _planned(lake, here))

    for path in (here, copy):
        with pytest.raises(DefinitionError, match="came as those of orders"):
            _planned(lake, path, THERE)
    imported(lake, _planned(lake, there, THERE))
    for path in (here, copy):
        with pytest.raises(DefinitionError, match="came as those of orders"):
            _planned(lake, path, THERE)
    imported(lake, _planned(lake, _lines(tmp_path / "n.jsonl", 20, first=100), THERE))
    with pytest.raises(DefinitionError, match="came as those of orders"):
        _planned(lake, here, THERE)
    assert _planned(lake, here).left == 0
    assert _planned(lake, _lines(tmp_path / "o.jsonl", 1, first=900), THERE).note.first == 25


def test_a_wild_time_does_not_widen_the_range_of_its_file(lake: Lake, tmp_path: Path) -> None:
    """One broken clock in a month would keep the month out until the year that it names."""
    path = _lines(tmp_path / "a.jsonl", 2)
    for at in ("9999-12-31T23:59:59Z", "2099-01-01T00:00:00Z", "0001-01-01T00:00:00+05:00"):
        with path.open("ab") as file:
            file.write(LINE.replace(b"2026-10-01T08:00:00Z", at.encode()) % 7)

    plan = _planned(lake, path)

    day = datetime(2026, 10, 1, 8, tzinfo=UTC)
    assert (plan.note.rows, plan.span.since, plan.span.until) == (5, day, day + MICROSECOND)


def test_the_rest_of_a_file_is_read_by_the_clock_of_its_begin(lake: Lake, tmp_path: Path) -> None:
    """Or a record behind the kill could have another arrival than without it."""
    path = _lines(tmp_path / "a.jsonl", 5)
    imported(lake, _planned(lake, path), rows=2)

    later = HistoryFile(place=Place.of(path), column="at", until=TODAY + 1_000_000_000)

    assert planned(ORDERS, HERE, lake, later).file.until == TODAY


def test_a_file_that_was_looked_at_is_not_read_again(
    lake: Lake, tmp_path: Path, opened: list[str]
) -> None:
    """Not before its import, not after it, and not as a copy, as long as nothing wrote to it; a new one is read once."""
    path, copy = _lines(tmp_path / "a.jsonl", 5), tmp_path / "copy.jsonl"
    assert _planned(lake, path, keep=True) == _planned(lake, path, keep=True)
    assert opened == ["a.jsonl"]
    imported(lake, _planned(lake, path))
    copy.write_bytes(path.read_bytes())
    for _ in range(2):
        assert (_planned(lake, path, keep=True).left, _planned(lake, copy, keep=True).left) == (
            0,
            0,
        )
    assert opened == ["a.jsonl", "copy.jsonl"]

    os.utime(path, ns=(0, 0))
    for _ in range(2):
        assert _planned(lake, path, keep=True).left == 0
    assert opened == ["a.jsonl", "copy.jsonl", "a.jsonl"]
    _lines(copy, 4, first=100)
    assert _planned(lake, copy, keep=True).left == 4
    _lines(path, 4, first=100)
    with pytest.raises(DataError, match="changed since 5 of its 5 rows"):
        _planned(lake, path, keep=True)


@pytest.mark.whole
def test_a_draft_is_of_one_topic_and_of_one_field(
    lake: Lake, tmp_path: Path, opened: list[str]
) -> None:
    """Another field has other arrivals. Without a wish to keep it nothing is written."""
    path = _lines(tmp_path / "a.jsonl", 5)
    _planned(lake, path)
    assert not lake.root.exists()
    _planned(lake, path, keep=True)
    opened.clear()

    assert _planned(lake, path, THERE, keep=True).note.topic == "orders-eu"
    with pytest.raises(DefinitionError, match="has a moment in other"):
        planned(ORDERS, THERE, lake, HistoryFile(place=Place.of(path), column="other"))
    assert opened == ["a.jsonl"] * 2


@pytest.mark.whole
@pytest.mark.parametrize("name", ["a.jsonl", "a.jsonl.gz", "a.csv", "a.parquet"])
def test_the_hash_of_a_file_is_that_of_its_bytes(lake: Lake, tmp_path: Path, name: str) -> None:
    """Also of a text that is hashed while its lines are read; a compressed one may have several parts."""
    path = tmp_path / name
    lines = b"".join(LINE % number for number in range(50_000))
    match path.suffix:
        case ".parquet":
            pq.write_table(pa.table({"at": [NOON]}), path)
        case ".gz":
            path.write_bytes(gzip.compress(lines[: 1 << 20]) + gzip.compress(lines[1 << 20 :]))
        case _:
            path.write_bytes(b"2026-10-01T08:00:00Z\n" if path.suffix == ".csv" else lines)
    table, column = (CELLS, "1") if path.suffix == ".csv" else (ORDERS, "at")

    plan = planned(table, table.topics[0], lake, HistoryFile(place=Place.of(path), column=column))

    assert plan.note.fingerprint == hashlib.sha256(path.read_bytes()).hexdigest()


def test_what_is_given_up_does_not_come_and_nothing_else_waits_for_it(
    lake: Lake, tmp_path: Path
) -> None:
    """The rows that are committed stay the rows of their file; the next file begins behind them."""
    path = _lines(tmp_path / "a.jsonl", 5)
    imported(lake, _planned(lake, path), rows=2)
    half = unfinished_file(ORDERS, lake)
    assert half is not None
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(DataError, match="--give-up"):
        _planned(lake, path)
    path.unlink()
    with pytest.raises(DefinitionError, match="--give-up"):
        _planned(lake, path)

    kept = give_up(ORDERS, lake, half)

    assert (kept.rows, kept.given_up) == (2, 3)
    assert unfinished_file(ORDERS, lake) is None
    assert _planned(lake, _lines(tmp_path / "b.jsonl", 1, first=9)).note.first == 2
    plan = _planned(lake, _lines(path, 5))
    assert (plan.left, plan.note.given_up) == (0, 3)


@pytest.mark.parametrize(
    ("parse", "fitting"),
    [
        (parse_json, "json parquet"),
        (debezium(), "json parquet"),
        (parse_csv, "csv"),
        (parse_raw, "json csv"),
        (registered(), ""),
        (debezium(parse=registered()), ""),
        (avro('{"type": "record", "name": "x", "fields": []}'), ""),
    ],
)
def test_a_file_fits_a_topic_whose_payloads_are_like_its_records(
    tmp_path: Path, parse: Parse, fitting: str
) -> None:
    """A line is no record of Avro: each would be malformed. An own function may read any line."""
    topic = Topic(name="x", parse=parse)
    for ending in ("json", "csv", "parquet"):
        file = HistoryFile(place=Place.of(tmp_path / f"a.{ending}"), column="at")
        if ending in fitting:
            refuse_unlike(file, topic)
        else:
            with pytest.raises(DefinitionError, match="the payloads of topic x"):
                refuse_unlike(file, topic)


def imported(lake: Lake, plan: Plan, rows: int | None = None) -> None:
    """Write what an import of a file writes to the ledger, of all of its records or of some."""
    note = plan.note
    ImportNotes(ORDERS, lake).write(note)
    count = note.rows if rows is None else rows
    ends = {part_of_imports(note.topic): (note.first + plan.done, note.first + plan.done + count)}
    words = entry(ORDERS, mode=IMPORT, stream=f"{IMPORT} {note.fingerprint}", read=count)
    path = lake.table(ORDERS)
    write_log(
        path,
        [replace(words, batch=BATCH, offsets=ends, imported=ends)],
        latest_version(path) + 1,
    )


def _planned(lake: Lake, path: Path, topic: Topic = HERE, *, keep: bool = False) -> Plan:
    file = HistoryFile(place=Place.of(path), column="at", until=TODAY)
    return planned(ORDERS, topic, lake, file, keep=keep)


def _lines(path: Path, count: int, first: int = 0) -> Path:
    path.write_bytes(b"".join(LINE % number for number in range(first, first + count)))
    return path
