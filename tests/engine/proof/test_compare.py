"""Two lakes are equal when they have the same rows, however these are cut into files."""

from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path

import pytest

from strandline.core.errors import DefinitionError
from strandline.engine.lake.lake import Lake
from strandline.engine.proof.compare import compare
from tests.engine.written import SILVER, numbers, small_lake, written


@pytest.mark.whole
def test_a_lake_equals_itself_and_its_quarantine_is_compared_too(tmp_path: Path) -> None:
    """Silver and its quarantine must both agree."""
    left, right = small_lake(tmp_path / "a"), small_lake(tmp_path / "b")

    found = compare(SILVER, left, right)

    assert [(one.table, one.equal, one.left_rows) for one in found] == [
        ("silver.device_telemetry", True, 3),
        ("quarantine.device_telemetry", True, 1),
    ]


@pytest.mark.whole
def test_the_cut_into_files_and_commits_is_no_difference(tmp_path: Path) -> None:
    """A stream commits often, a batch once."""
    left, right = small_lake(tmp_path / "a"), small_lake(tmp_path / "b")
    rows = numbers(6)
    written(left.table(SILVER), rows)
    for row in reversed(rows):
        written(right.table(SILVER), [row])

    assert compare(SILVER, left, right)[0].equal


@pytest.mark.whole
def test_a_row_that_is_there_twice_is_a_difference(tmp_path: Path) -> None:
    """Sets would be equal here; bags are not."""
    left, right = small_lake(tmp_path / "a"), small_lake(tmp_path / "b")
    written(right.table(SILVER), numbers(1))

    (silver, _) = compare(SILVER, left, right)

    assert not silver.equal
    assert (silver.only_left, silver.only_right) == (0, 1)
    assert silver.samples == ("only in the second: (0,)",)


def test_only_the_rows_of_a_range_are_compared(tmp_path: Path) -> None:
    """The end does not belong to the range; a held row without an event time counts by its arrival."""
    day = datetime(2026, 1, 1, tzinfo=UTC)
    left, right = Lake(tmp_path / "a"), Lake(tmp_path / "b")
    for lake, value in ((left, 1), (right, 2)):
        moments = (day, day + timedelta(days=1))
        written(lake.table(SILVER), [{"event_at": moment, "value": 0} for moment in moments])
        written(lake.table(SILVER), [{"event_at": day + timedelta(hours=12), "value": value}])
        held = {"event_at": day, "_arrived_at": day}, {"event_at": None, "_arrived_at": moments[1]}
        written(lake.quarantine(SILVER), [{**row, "_topic": str(value)} for row in held])

    def differing(hour: int, hours: int) -> list[tuple[int, int]]:
        since = day + timedelta(hours=hour)
        found = compare(SILVER, left, right, span=(since, since + timedelta(hours=hours)))
        return [(one.left_rows, one.only_left) for one in found]

    assert differing(0, 12) == [(1, 0), (1, 1)]
    assert differing(6, 12) == [(1, 1), (0, 0)]
    assert differing(18, 6) == [(0, 0), (0, 0)]
    assert differing(24, 1) == [(1, 0), (1, 1)]


@pytest.mark.whole
@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        (Decimal("1.0000"), Decimal("1.0001")),
        (None, Decimal("1.0000")),
        (datetime(2026, 1, 1, tzinfo=UTC), datetime(2026, 1, 1, 0, 0, 0, 1, tzinfo=UTC)),
        (b"\x00", b"\x00\x00"),
        (["late", "early"], ["early", "late"]),
    ],
)
def test_the_smallest_difference_of_a_value_is_one(
    ours: object, theirs: object, tmp_path: Path
) -> None:
    """The last digit, the last microsecond, NULL, the order of the reasons."""
    left, right = Lake(tmp_path / "a"), Lake(tmp_path / "b")
    for lake, value in ((left, ours), (right, theirs)):
        other = theirs if value is None else value
        written(lake.table(SILVER), [{"value": value}, {"value": other}])
        written(lake.quarantine(SILVER), numbers(1))

    (silver, _) = compare(SILVER, left, right)

    assert (silver.only_left, silver.only_right) in {(1, 1), (2, 2)}


def test_a_lake_without_the_table_is_refused_with_a_hint(tmp_path: Path) -> None:
    """To report a difference would be wrong."""
    with pytest.raises(DefinitionError) as caught:
        compare(SILVER, small_lake(tmp_path / "a"), Lake(tmp_path / "b"))

    assert str(tmp_path / "b") in caught.value.message
    assert "strandline run" in caught.value.hint


def test_tables_with_different_columns_are_refused_with_a_hint(tmp_path: Path) -> None:
    """Two versions of the code may have made them."""
    left, right = small_lake(tmp_path / "a"), Lake(tmp_path / "b")
    written(right.table(SILVER), [{"other": 1}])
    written(right.quarantine(SILVER), numbers(1))

    with pytest.raises(DefinitionError):
        compare(SILVER, left, right)
