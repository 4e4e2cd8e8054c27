"""A moment without a zone is in UTC, and one with a zone stays what it is."""

from datetime import UTC, datetime

from jobs.core.moment import in_utc


def test_a_moment_without_a_zone_is_in_utc() -> None:
    assert in_utc(datetime(2026, 11, 1, 6)) == datetime(2026, 11, 1, 6, tzinfo=UTC)  # noqa: DTZ001  # the case


def test_a_zone_is_kept() -> None:
    moment = datetime.fromisoformat("2026-11-01T06:00:00+02:00")

    assert in_utc(moment).isoformat() == "2026-11-01T06:00:00+02:00"
