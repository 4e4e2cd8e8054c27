"""What belongs to a call ends with it: a comparison in a database, a walk along a log, whatever is asked within another call."""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import timedelta
from pathlib import Path

import pytest

from strandline.core.errors import DefinitionError, LakeError
from strandline.engine.accounting import cost
from strandline.engine.accounting.cost import costs
from strandline.engine.lake.duckdb_table import session, spilling
from strandline.engine.runtime.limit import EndedError, Limit, interrupted, refuse_ended, within
from tests.engine.written import BRONZE, long_log, small_lake
from tests.support.rows import NOON

ENDLESS = "SELECT count(*) FROM range(100000000000) t WHERE range % 7 = 3"
SOON = 5.0
"""Seconds within which what is ended has ended, on a busy machine; the question itself takes minutes."""


@contextmanager
def soon() -> Iterator[None]:
    began = time.monotonic()
    yield
    assert time.monotonic() - began < SOON


def test_a_database_of_a_comparison_is_interrupted() -> None:
    """`diff` opens such a one; DuckDB ends what runs, and what is begun after it."""

    def compare() -> None:
        with spilling() as duck:
            for _ in range(2):
                with suppress(Exception):
                    duck.execute(ENDLESS)

    with soon(), pytest.raises(EndedError, match=r"ended after 0\.2 s"), within(0.2):
        compare()


def test_a_walk_along_a_log_ends_at_the_next_commit(tmp_path: Path) -> None:
    """Also where another thread ends it, whose client has left; without a limit it is read to its end."""
    lake = small_lake(tmp_path / "lake")
    long_log(lake, 6_000)
    prices = cost.Prices()

    def read() -> int:
        day = NOON.date()
        found = costs(lake, [BRONZE], day, day + timedelta(days=1), prices)
        return sum(each.commits for each in found.days)

    def read_on() -> None:
        while True:
            read()

    assert read() == 6_000
    limit = Limit()
    threading.Timer(0.1, limit.end).start()
    with soon(), pytest.raises(EndedError, match="wanted no more"), within(60, limit):
        read_on()


def test_what_is_made_of_the_end_is_no_answer() -> None:
    """Code that takes an error for a damaged table has not answered."""

    def work() -> None:
        time.sleep(0.2)
        with suppress(LakeError):
            refuse_ended()

    with pytest.raises(EndedError), within(0.01):
        work()


def test_a_question_within_a_call_ends_with_the_call() -> None:
    """And a question that is over its own time ends alone."""
    call = Limit()
    with within(60, call):
        with pytest.raises(EndedError, match=r"0\.05 s"), within(0.05):
            time.sleep(0.3)
        refuse_ended()
        threading.Timer(0.1, call.end).start()
        with soon(), pytest.raises(EndedError), within(60), session() as duck, interrupted(duck):
            duck.execute(ENDLESS)
        with suppress(EndedError):
            refuse_ended()
            pytest.fail("the call is over")
        call._over.clear()  # else the block would say so
    refuse_ended()


def test_an_error_is_what_it_was() -> None:
    """A limit that was not reached changes nothing."""
    with pytest.raises(DefinitionError, match=r"^a mistake"), within(60):
        raise DefinitionError("a mistake", hint="x")
