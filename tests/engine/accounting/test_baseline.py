"""The usual range is learnt from past values, and there is none before enough of them."""

from datetime import UTC, datetime, timedelta

import pytest

from strandline.engine.accounting.history_queries import FEWEST, Memory, Point, Range, expected

MONDAY = datetime(2026, 11, 2, 9, tzinfo=UTC)
HOUR, WEEK = timedelta(hours=1), timedelta(weeks=1)


def hourly(*values: float) -> list[Point]:
    return [Point(MONDAY + n * HOUR, value) for n, value in enumerate(values)]


def test_nothing_is_expected_before_there_are_fourteen_points() -> None:
    """Alarms on the third day would teach operators to overlook alarms."""
    points = hourly(*[10.0] * (FEWEST - 1))

    assert FEWEST == 14
    assert expected(points, MONDAY + 50 * HOUR) is None
    assert expected([*points, Point(MONDAY + 14 * HOUR, 10.0)], MONDAY + 50 * HOUR) is not None


def test_median_and_spread_are_those_of_the_values() -> None:
    """Median 10, median distance 1; four deviations of 1.4826 of it are 5.9304."""
    points = hourly(*[9.0, 10.0, 11.0] * 5)

    found = expected(points, MONDAY + 20 * HOUR)

    assert found is not None
    assert (found.middle, found.points) == (10.0, 15)
    assert (found.low, found.high) == pytest.approx((4.0696, 15.9304))
    assert 15.9 in found
    assert 16.0 not in found
    assert 4.0 not in found


def test_one_enormous_batch_does_not_make_the_next_one_usual() -> None:
    """A catch-up of a night reads a hundred times as much."""
    calm, once = hourly(*[100.0, 102.0] * 10), [*hourly(*[100.0, 102.0] * 10, 10_000.0)]

    usual, after = expected(calm, MONDAY + 60 * HOUR), expected(once, MONDAY + 60 * HOUR)

    assert usual is not None
    assert after is not None
    assert after.high < 120
    assert 10_000.0 not in after


def test_the_same_hour_of_the_week_counts_where_it_is_known() -> None:
    """Monday at nine has a thousand rows, every other hour ten."""
    mondays = [Point(MONDAY - n * WEEK, 1_000.0) for n in range(1, 15)]
    others = [Point(MONDAY - n * HOUR, 10.0) for n in range(1, 100)]

    at_nine = expected([*mondays, *others], MONDAY)
    at_ten = expected([*mondays, *others], MONDAY + HOUR)

    assert at_nine is not None
    assert at_ten is not None
    assert (at_nine.middle, at_nine.points) == (1_000.0, 14)
    assert at_ten.middle == 10.0


def test_a_batch_that_failed_is_not_learnt_from() -> None:
    """A batch that passed an opened gate must not become usual."""
    bad = [Point(point.at, 900.0, is_believed=False) for point in hourly(*[0.0] * 30)]
    good = hourly(*[10.0] * 14)

    found = expected([*bad, *good], MONDAY + 60 * HOUR)

    assert found is not None
    assert (found.middle, found.points) == (10.0, 14)
    assert expected(bad, MONDAY + 60 * HOUR) is None


def test_points_at_the_time_itself_or_later_are_ignored() -> None:
    """Otherwise a value would be compared with itself."""
    points = hourly(*[10.0] * 14)

    assert expected(points, points[-1].at) is None


def test_a_steady_measure_may_still_move_a_little() -> None:
    """Without any spread every change would be unusual; a tenth never is, nor a change below ``least``."""
    found = expected(hourly(*[100.0] * 14), MONDAY + 20 * HOUR)
    share = expected(hourly(*[0.0] * 14), MONDAY + 20 * HOUR, least=0.005)

    assert found == Range(low=90.0, middle=100.0, high=110.0, points=14)
    assert share == Range(low=0.0, middle=0.0, high=0.005, points=14)


def test_a_measure_that_is_never_negative_has_no_negative_range() -> None:
    """The number of rows read cannot be negative; a change of rows can."""
    rows = expected(hourly(*[0.0, 50.0] * 10), MONDAY + 40 * HOUR)
    change = expected(hourly(*[-50.0, 50.0] * 10), MONDAY + 40 * HOUR)

    assert rows is not None
    assert change is not None
    assert rows.low == 0.0
    assert change.low < 0


def test_a_memory_returns_the_same_range_as_all_points() -> None:
    """It only saves reading all of them each time."""
    points = hourly(*[float(n % 7) for n in range(400)])
    at = MONDAY + 400 * HOUR

    assert Memory(points).expected(at) == expected(points, at)
