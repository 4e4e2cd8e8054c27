"""A commit in figures: what its entry says, and what only the log beside it knows."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from deltalake import DeltaTable

from jobs.run.lake import Lake
from jobs.run.ledger import commit_file
from jobs.run.measures import Measured, fingerprint, measured
from tests.run.written import SILVER, numbers, written
from tests.support.days import commit

NOON = datetime(2026, 11, 20, 12, tzinfo=UTC)
MINUTE = timedelta(minutes=1)


def read(lake: Lake) -> Measured:
    found = measured(SILVER, commit_file(lake.table(SILVER), 0))
    assert isinstance(found, Measured)
    return found


def test_times_and_absent_values_come_from_the_statistics_of_the_files(tmp_path: Path) -> None:
    """The entry need not say what Delta has counted already."""
    lake = Lake(tmp_path)
    rows = [
        {"event_at": NOON - n * MINUTE, "_arrived_at": NOON - (n - 1) * MINUTE, "site": site}
        for n, site in ((10, "a"), (5, None), (7, None), (6, "b"))
    ]
    commit(lake, SILVER, rows, NOON)

    found = read(lake)

    assert (found.since, found.until) == (NOON - 10 * MINUTE, NOON - 5 * MINUTE)
    assert found.values["freshness_s"] == 300
    assert found.values["lag"] == 240
    assert found.values["null:site"] == 0.5
    assert not [name for name in found.values if name.startswith("null:_")]


def test_the_entry_has_the_last_word_on_the_newest_event(tmp_path: Path) -> None:
    """Statistics of text are cut, and files may be compacted; the entry was there."""
    lake = Lake(tmp_path)
    told = {"newest": (NOON - MINUTE).isoformat(), "rules": "r1", "unknown_fields": 3}
    commit(lake, SILVER, [{"event_at": NOON - 5 * MINUTE}], NOON, told)

    found = read(lake)

    assert (found.values["freshness_s"], found.rules) == (60, "r1")
    assert found.values["unknown_fields"] == 3


def test_a_backfill_speaks_of_its_range_and_is_marked(tmp_path: Path) -> None:
    """Its figures are what it changed, and may be negative."""
    lake = Lake(tmp_path)
    bounds = {"since": NOON.isoformat(), "until": (NOON + MINUTE).isoformat()}
    commit(lake, SILVER, numbers(1), NOON, good=-2, gone=2, **bounds)

    found = read(lake)

    assert (found.since, found.until) == (NOON, NOON + MINUTE)
    assert (found.values["backfill"], found.values["good"], found.values["gone"]) == (1, -2, 2)


@pytest.mark.parametrize("metadata", [None, "a deployment", '{"job": 1}'])
def test_a_commit_of_somebody_else_has_no_figures(metadata: str | None, tmp_path: Path) -> None:
    """Only the columns that it may have made."""
    written(tmp_path, numbers(1), metadata)
    written(tmp_path, numbers(1), metadata)

    first, second = (measured(SILVER, commit_file(tmp_path, version)) for version in (0, 1))

    assert isinstance(first, str)
    assert fingerprint(first) == fingerprint(DeltaTable(tmp_path).schema().to_json())
    assert second is None
