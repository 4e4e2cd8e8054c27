"""The open rows of a quarantine by age, and a few samples without sensitive values."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from fleet.silver import device_telemetry, user_actions
from strandline.core.table import Table
from strandline.engine.accounting.browse_held import open_rows, samples
from strandline.engine.lake.lake import Lake
from tests.engine.written import written

NOW = datetime(2026, 11, 21, 12, tzinfo=UTC)


def row(
    offset: int, ago: timedelta, reasons: list[str], payload: bytes = b"{}"
) -> dict[str, object]:
    return {
        "_topic": "t",
        "_partition": 0,
        "_offset": offset,
        "_arrived_at": NOW - ago,
        "reasons": reasons,
        "_payload": payload,
    }


def held(root: Path, rows: list[dict[str, object]], table: Table = device_telemetry.TABLE) -> Lake:
    lake = Lake(root)
    written(lake.table(table), [{"action": "x", "action_id": "1", "user_id": "u"}])
    written(lake.quarantine(table), rows)
    return lake


def test_rows_are_counted_by_how_long_ago_they_arrived(tmp_path: Path) -> None:
    """A row that has waited for a month is worse than one of this morning; a row at a border counts as older."""
    ages = [minutes * timedelta(minutes=1) for minutes in (1, 59, 60, 600, 10_000, 30_000, 90_000)]
    lake = held(tmp_path, [row(n, age, ["late"]) for n, age in enumerate(ages)])

    found = open_rows(device_telemetry.TABLE, lake, NOW)

    assert found is not None
    assert dict(found.ages) == {
        "under an hour": 2,
        "under a day": 2,
        "under a week": 1,
        "under a month": 1,
        "older": 1,
    }
    assert (found.rows, found.oldest) == (7, (NOW - ages[-1]).isoformat())


def test_the_samples_are_the_newest_of_each_reason(tmp_path: Path) -> None:
    """Five samples of one kind would hide the others; rows that arrived after the report's days are no samples."""
    minute = timedelta(minutes=1)
    rows = [row(n, n * minute, ["late"]) for n in range(20)]
    rows += [row(100, 500 * minute, ["malformed"]), row(101, 600 * minute, ["early", "late"])]
    lake = held(tmp_path, rows)

    found = samples(device_telemetry.TABLE, lake, NOW)

    assert [(each.offset, each.reasons) for each in found] == [
        (1, ("late",)),
        (100, ("malformed",)),
        (101, ("early", "late")),
        (2, ("late",)),
        (3, ("late",)),
    ]


@pytest.mark.whole
@pytest.mark.parametrize(
    "payload",
    [
        b'{"action_id":"a1","action":"login","user_id":"alice.example","event_at":null}',
        b'{"action":"login","user_id":"alice.example"',
        b'{"action":"login","usr":"alice.example"}',
    ],
)
def test_the_sensitive_columns_of_a_table_are_masked_in_its_samples(
    payload: bytes, tmp_path: Path
) -> None:
    """The page is sent around by mail."""
    lake = held(tmp_path, [row(0, timedelta(hours=1), ["x"], payload)], user_actions.TABLE)

    (found,) = samples(user_actions.TABLE, lake, NOW)

    assert "alice" not in found.payload


@pytest.mark.whole
def test_a_table_without_quarantined_rows_has_no_samples(tmp_path: Path) -> None:
    """Neither before its first row nor, if it judges no rows, at any time."""
    lake = Lake(tmp_path)

    assert open_rows(device_telemetry.TABLE, lake, NOW) is None
    assert samples(device_telemetry.TABLE.upstream[0], lake, NOW) == ()
