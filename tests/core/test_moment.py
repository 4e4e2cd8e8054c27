"""A moment without a zone is in UTC, and one with a zone stays what it is."""

from datetime import UTC, datetime, timedelta

import pytest

from strandline.core.kind import FIRST, LAST, in_utc, shifted


@pytest.mark.whole
def test_a_moment_without_a_zone_is_in_utc() -> None:
    assert in_utc(datetime(2026, 11, 1, 6)) == datetime(2026, 11, 1, 6, tzinfo=UTC)  # noqa: DTZ001  # the case


def test_a_zone_is_kept() -> None:
    moment = datetime.fromisoformat("2026-11-01T06:00:00+02:00")

    assert in_utc(moment).isoformat() == "2026-11-01T06:00:00+02:00"


def test_a_moment_beyond_the_calendar_is_its_end() -> None:
    """A record of a broken clock is in bronze at the last millisecond of the year 9999."""
    last = datetime(9999, 12, 31, 23, 59, 59, 999_000, tzinfo=UTC)
    hour = timedelta(hours=1)

    assert shifted(last, hour) == LAST
    assert shifted(FIRST, -hour) == FIRST
    assert shifted(last, -hour) == last - hour
