"""Half an hour without a broker: a table tries again with growing pauses, reports it once a minute, and goes on."""

import json
from collections.abc import Iterator
from itertools import pairwise

import pytest

from strandline.core.errors import DataError, ReplacedError, TransientError
from strandline.engine.lake.store_lease import FencedError
from strandline.engine.runtime.log_files import Record, logger
from strandline.engine.runtime.outage import FIRST, LONGEST, Patience, Pause, soon
from strandline.engine.service.stream_host import Pulse
from strandline.operate.listener import Log
from strandline.operate.stream import StreamLog
from tests.support.rows import NOON

HALF_AN_HOUR = 1800.0
AWAY = TransientError("no Kafka broker answers at 127.0.0.1:9092", hint="start it.")


class Fast:
    """A clock that advances when a caller waits for it."""

    def __init__(self) -> None:
        """Begin at 0."""
        self.now = 0.0

    def __call__(self) -> float:
        """Return the time."""
        return self.now

    def sleep(self, seconds: float) -> None:
        """Advance at once."""
        self.now += seconds


@pytest.fixture
def fast() -> Fast:
    return Fast()


@pytest.mark.parametrize(
    "error",
    [
        FencedError("another process has taken over", hint="let it go on."),
        ReplacedError("as above", hint="as above"),
    ],
)
def test_who_was_fenced_does_not_wait_with_the_lease_in_hand(
    fast: Fast, error: ReplacedError
) -> None:
    """It waited for ever inside of the block that holds the lease, and so never took it again, though it was free."""
    tried = []

    def work() -> None:
        tried.append(1)
        raise error

    with pytest.raises(ReplacedError) as left:
        Patience(lambda _: None, lambda: len(tried) > 5, clock=fast, sleep=fast.sleep).outlast(work)

    assert (left.value, len(tried), fast.now) == (error, 1, 0.0)


def into(records: list[Record]) -> Log:
    """Return a logger whose records can be looked at."""
    return logger(lambda line: records.append(json.loads(line)), lambda: NOON, as_json=True)


def test_it_outlasts_half_an_hour_and_reports_once_a_minute(fast: Fast) -> None:
    """The pauses grow to half a minute at most, so a broker is found that soon after its return."""
    pulse, asked = Pulse(table="bronze.device_telemetry"), []
    records: list[Record] = []
    log = StreamLog(into(records), clock=fast)

    def report(error: TransientError | None) -> None:
        pulse.away = error.message if error else None

    def sleep(seconds: float) -> None:
        fast.sleep(seconds)
        log.look([pulse], {})

    patience = Patience(report, lambda: False, clock=fast, sleep=sleep)

    def work() -> None:
        asked.append(fast.now)
        if fast.now < HALF_AN_HOUR:
            raise AWAY
        patience.well()
        log.look([pulse], {})

    patience.outlast(work)

    pauses = [round(b - a) for a, b in pairwise(asked)]
    assert pauses == sorted(pauses)
    assert pauses[:5] == [1, 2, 4, 8, 16]
    assert HALF_AN_HOUR <= asked[-1] <= HALF_AN_HOUR + LONGEST
    waiting = [each for each in records if each.get("message") == AWAY.message]
    assert 29 <= len(waiting) <= 31
    goes_on = [each for each in records if each["event"] == "goes on"]
    assert [each["table"] for each in goes_on] == ["bronze.device_telemetry"]


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


def test_a_stop_ends_the_wait(fast: Fast) -> None:
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


def test_one_record_reports_all_tables_that_wait_for_the_same(fast: Fast) -> None:
    records: list[Record] = []
    waiting = [Pulse(table=f"bronze.{name}", away=AWAY.message) for name in "abc"]

    StreamLog(into(records), clock=fast).look(waiting, {})

    (found,) = records
    assert (found["event"], found["message"]) == ("waiting", AWAY.message)
    assert found["tables"] == ["bronze.a", "bronze.b", "bronze.c"]


def test_an_idle_stream_logs_nothing(fast: Fast) -> None:
    """Twenty-one idle tables printed 15,000 lines an hour."""
    records: list[Record] = []
    log = StreamLog(into(records), clock=fast)
    pulse = Pulse(table="bronze.a")
    for _ in range(3600):
        log.look([pulse], {})
        fast.sleep(1.0)
    pulse.batches = 1
    log.look([pulse], {})

    assert [each["batches"] for each in records] == [1]


def test_other_work_goes_on_during_the_pauses_which_double(fast: Fast) -> None:
    pause = Pause(fast)
    waited = []
    for _ in range(8):
        began = fast.now
        pause.failed()
        while not pause.is_due():
            fast.sleep(0.5)
        waited.append(fast.now - began)
    pause.well()
    pause.failed()
    fast.sleep(FIRST)

    assert waited == [1, 2, 4, 8, 16, LONGEST, LONGEST, LONGEST]
    assert pause.is_due()


def test_a_run_fails_at_once() -> None:
    """With the same message, whichever library raised the error."""

    def work() -> None:
        with open("/dev/full", "wb", buffering=0) as disk:  # noqa: PTH123  # the one way to a full disk for everybody
            disk.write(b".")

    with pytest.raises(TransientError, match="no room left"):
        soon(work)
