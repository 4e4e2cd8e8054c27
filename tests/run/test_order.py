"""What was asked of a stream is remembered, with its attempts; each attempt waits longer, and the last one is the last."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

from jobs.run.lake import Lake
from jobs.run.order import DELAYS, Order, order, write

NOON = datetime(2026, 11, 20, 12, tzinfo=UTC)


def asked() -> Order:
    return Order(runs=True, at=NOON.isoformat(), by="on-call", words=("--every", "1s"))


def test_it_is_read_as_it_was_written(tmp_path: Path) -> None:
    lake = Lake(tmp_path)
    assert order(lake) is None

    once = asked().tried(NOON + timedelta(minutes=1))
    write(lake, once)

    assert order(lake) == once


def test_each_attempt_waits_for_its_delay_and_then_a_person_is_asked() -> None:
    found, moment, waited = asked(), NOON, []
    while (due := found.next_at()) is not None:
        waited.append(due - moment)
        moment = due
        found = found.tried(moment)

    assert tuple(waited) == DELAYS
    assert len(found.attempts) == len(DELAYS)
    assert found.given_up(moment).next_at() is None


def test_a_stream_that_is_well_again_has_all_its_attempts_before_it() -> None:
    tired = asked()
    for _ in DELAYS:
        tired = tired.tried(NOON)

    assert tired.given_up(NOON).well() == asked()
