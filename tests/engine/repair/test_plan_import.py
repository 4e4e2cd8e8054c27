"""What an import of a file would do follows from its name, its bytes and the ledger; nothing is started for it."""

from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from jobs.core.errors import DefinitionError
from jobs.core.table import Ingested
from jobs.core.topic import Topic
from jobs.engine.repair.plan_import import Plan, planned
from jobs.engine.storage.history_file import HistoryFile, milliseconds_of
from jobs.engine.storage.import_marks import BATCH, IMPORT, part_of_imports
from jobs.engine.storage.import_notes import ImportNotes
from jobs.engine.storage.lake import Lake
from jobs.engine.storage.ledger import latest_version
from jobs.engine.storage.place import Place
from jobs.engine.storage.window_index import MICROSECOND
from tests.engine.written import entry
from tests.support.ledgers import write_log
from tests.support.rows import NOON

HERE, THERE = Topic(name="orders"), Topic(name="orders-eu")
ORDERS = Ingested(name="orders", reads=(HERE, THERE))
TODAY = milliseconds_of(NOON)
LINE = b'{"at":"2026-10-01T08:00:00Z","number":%d}\n'


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    """Return a lake without rows."""
    return Lake(Place.of(tmp_path / "lake"))


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


def _planned(lake: Lake, path: Path, topic: Topic = HERE) -> Plan:
    return planned(ORDERS, topic, lake, HistoryFile(place=Place.of(path), column="at", until=TODAY))


def _lines(path: Path, count: int, first: int = 0) -> Path:
    path.write_bytes(b"".join(LINE % number for number in range(first, first + count)))
    return path
