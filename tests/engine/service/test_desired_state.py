"""The last request for a stream is recorded with its restarts; each restart waits longer, and their number is limited."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from strandline.engine.lake.lake import Lake
from strandline.engine.service.stream_health import DELAYS, Order, order, write_desired

NOON = datetime(2026, 11, 20, 12, tzinfo=UTC)


def asked() -> Order:
    return Order(runs=True, at=NOON.isoformat(), by="on-call", words=("--every", "1s"))


@pytest.mark.whole
def test_it_is_read_as_it_was_written(tmp_path: Path) -> None:
    lake = Lake(tmp_path)
    assert order(lake) is None

    once = asked().tried(NOON + timedelta(minutes=1))
    write_desired(lake, once)

    assert order(lake) == once


def test_one_that_an_earlier_version_wrote_is_still_read(tmp_path: Path) -> None:
    """A lake keeps its request over a deploy; the tables had another key."""
    lake = Lake(tmp_path)
    write_desired(lake, asked())
    former = (lake.order.text() or "").replace('"alerted": []', '"told_of": ["silver.readings"]')
    lake.order.put(former)

    found = order(lake)

    assert found is not None
    assert found.alerted == ("silver.readings",)


def test_each_attempt_waits_for_its_delay_and_the_last_one_ends_the_restarts() -> None:
    request, moment, waited = asked(), NOON, []
    while (due := request.next_at()) is not None:
        waited.append(due - moment)
        moment = due
        request = request.tried(moment)

    assert tuple(waited) == DELAYS
    assert len(request.attempts) == len(DELAYS)
    assert request.given_up(moment).next_at() is None


def test_a_stream_that_is_well_again_has_all_attempts_back() -> None:
    request = asked()
    for _ in DELAYS:
        request = request.tried(NOON)

    assert request.given_up(NOON).well() == asked()
