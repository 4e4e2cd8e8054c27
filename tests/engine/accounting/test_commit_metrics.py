"""The figures of a commit: those of its entry, and those that only the log beside it has."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from deltalake import DeltaTable

from strandline.engine.accounting.commit_history import Measured, fingerprint, measured
from strandline.engine.lake.lake import Lake
from strandline.engine.lake.place import Place
from tests.engine.written import SILVER, numbers, written
from tests.support.days import commit

NOON = datetime(2026, 11, 20, 12, tzinfo=UTC)
MINUTE = timedelta(minutes=1)


def read(lake: Lake) -> Measured:
    found = measured(SILVER, lake.table(SILVER), 0)
    assert isinstance(found, Measured)
    return found


def test_times_and_absent_values_come_from_the_statistics_of_the_files(tmp_path: Path) -> None:
    """The entry does not repeat what Delta has counted already."""
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


def test_the_newest_event_is_that_of_the_entry(tmp_path: Path) -> None:
    """Statistics of text are truncated, and files may be compacted; the entry was written with the batch."""
    lake = Lake(tmp_path)
    fields = {"newest": (NOON - MINUTE).isoformat(), "rules": "r1", "unknown_fields": 3}
    commit(lake, SILVER, [{"event_at": NOON - 5 * MINUTE}], NOON, fields)

    found = read(lake)

    assert (found.values["freshness_s"], found.rules) == (60, "r1")
    assert found.values["unknown_fields"] == 3


def test_a_backfill_has_the_time_of_its_range_and_is_marked(tmp_path: Path) -> None:
    """Its figures are changes, and may be negative."""
    lake = Lake(tmp_path)
    bounds = {"since": NOON.isoformat(), "until": (NOON + MINUTE).isoformat()}
    commit(lake, SILVER, numbers(1), NOON, good=-2, gone=2, **bounds)

    found = read(lake)

    assert (found.since, found.until) == (NOON, NOON + MINUTE)
    assert (found.values["backfill"], found.values["good"], found.values["gone"]) == (1, -2, 2)


@pytest.mark.whole
@pytest.mark.parametrize("metadata", [None, "a deployment", '{"job": 1}'])
def test_a_commit_of_another_tool_has_no_figures(metadata: str | None, tmp_path: Path) -> None:
    """It has only the columns that it may have changed."""
    written(tmp_path, numbers(1), metadata)
    written(tmp_path, numbers(1), metadata)

    first, second = (measured(SILVER, Place.of(tmp_path), version) for version in (0, 1))

    assert isinstance(first, str)
    assert fingerprint(first) == fingerprint(DeltaTable(tmp_path).schema().to_json())
    assert second is None
