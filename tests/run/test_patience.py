"""Half an hour without a broker: one table asks on, with growing pauses, says so once a minute, and goes on."""

from collections.abc import Iterator
from itertools import pairwise

import pytest

from jobs.cli.telling import Telling
from jobs.core.errors import DataError, TransientError
from jobs.run.host import Pulse
from jobs.run.patience import LONGEST, Patience, soon

HALF_AN_HOUR = 1800.0
AWAY = TransientError("no Kafka broker answers at 127.0.0.1:9092", hint="start it.")


class Fast:
    """A clock that is moved by those who wait for it."""

    def __init__(self) -> None:
        """Begin at nought."""
        self.now = 0.0

    def __call__(self) -> float:
        """Tell the time."""
        return self.now

    def sleep(self, seconds: float) -> None:
        """Let time pass at once."""
        self.now += seconds


@pytest.fixture
def fast() -> Fast:
    return Fast()


def test_it_outlasts_half_an_hour_and_says_so_once_a_minute(fast: Fast) -> None:
    """Growing pauses, which are no longer than half a minute: so soon after its return a broker is found."""
    pulse, said, asked = Pulse(table="bronze.device_telemetry"), [], []
    telling = Telling(said.append, clock=fast)

    def hears(error: TransientError | None) -> None:
        pulse.away = error.message if error else None

    def sleep(seconds: float) -> None:
        fast.sleep(seconds)
        telling.look([pulse])

    patience = Patience(hears, lambda: False, clock=fast, sleep=sleep)

    def work() -> None:
        asked.append(fast.now)
        if fast.now < HALF_AN_HOUR:
            raise AWAY
        patience.well()
        telling.look([pulse])

    patience.outlast(work)

    pauses = [round(b - a) for a, b in pairwise(asked)]
    assert pauses == sorted(pauses)
    assert pauses[:5] == [1, 2, 4, 8, 16]
    assert HALF_AN_HOUR <= asked[-1] <= HALF_AN_HOUR + LONGEST
    waiting = [line for line in said if "no Kafka broker answers" in line]
    assert 29 <= len(waiting) <= 31
    assert "bronze.device_telemetry goes on" in said


def test_the_pause_is_short_again_after_the_work_went_on(fast: Fast) -> None:
    asked: list[float] = []
    patience = Patience(lambda _: None, lambda: False, clock=fast, sleep=fast.sleep)

    def steps() -> Iterator[None]:
        for is_well in (False, False, False, True, False):
            asked.append(fast.now)
            if is_well:
                patience.well()
            yield

    done = steps()

    def work() -> None:
        if next(done, 0) is None:
            raise AWAY

    patience.outlast(work)

    assert [round(b - a) for a, b in pairwise(asked)] == [1, 2, 4, 1]


def test_who_is_stopped_waits_no_longer(fast: Fast) -> None:
    patience = Patience(lambda _: None, lambda: fast.now >= 0.2, clock=fast, sleep=fast.sleep)

    def work() -> None:
        raise AWAY

    patience.outlast(work)

    assert fast.now < 1.0


def test_a_fault_is_not_waited_for(fast: Fast) -> None:
    fault = DataError("the topic was made anew", hint="use another lake.")
    patience = Patience(lambda _: None, lambda: False, clock=fast, sleep=fast.sleep)

    def work() -> None:
        raise fault

    with pytest.raises(DataError):
        patience.outlast(work)
    assert fast.now == 0.0


def test_one_line_tells_of_all_tables_that_wait_for_the_same(fast: Fast) -> None:
    said: list[str] = []
    waiting = [Pulse(table=f"bronze.{name}", away=AWAY.message) for name in "abc"]

    Telling(said.append, clock=fast).look(waiting)

    assert said == [f"waiting, and trying again: bronze.a and 2 more: {AWAY.message}"]


def test_a_stream_in_which_nothing_happens_says_nothing(fast: Fast) -> None:
    """Twenty-one tables that rested said 15,000 lines an hour."""
    said: list[str] = []
    telling = Telling(said.append, clock=fast)
    pulse = Pulse(table="bronze.a")
    for _ in range(3600):
        telling.look([pulse])
        fast.sleep(1.0)
    pulse.batches = 1
    telling.look([pulse])

    assert len(said) == 2
    assert "1 batches" in said[-1]


def test_a_run_that_ends_is_told_at_once() -> None:
    """By the same sentence, whichever library has said it in its own words."""

    def work() -> None:
        with open("/dev/full", "wb", buffering=0) as disk:  # noqa: PTH123  # the one way to a full disk for everybody
            disk.write(b".")

    with pytest.raises(TransientError, match="no room left"):
        soon(work)
