"""The size of a batch follows what is measured, and never leaves its bounds, whatever that is."""

from dataclasses import replace
from random import Random

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from strandline.engine.flow.batch.governor import (
    FIRST,
    LARGEST,
    LEAST,
    TARGET,
    Measured,
    Size,
    after_batch,
    after_death,
)


def machine(size: Size, *, pace: float, fixed: float = 0.5, bears: int | None = None) -> Measured:
    """Return what a batch of a backlog takes on a machine with so many rows a second, whose heap bears so many rows."""
    seconds = fixed + size.rows / pace
    held = 0.5 * size.rows / bears if bears else 0.0
    return Measured(rows=size.rows, seconds=seconds, cpu=seconds, held=min(held, 1.0))


def test_a_size_stays_within_its_bounds_whatever_is_measured(chance: Random) -> None:
    for _ in range(300):
        size = Size()
        for _ in range(chance.randrange(40)):
            before, rows = size, chance.choice([chance.randrange(3 * LARGEST), size.rows])
            dies = chance.random() < 0.2
            size = after_death(size, rows) if dies else after_batch(size, anything(chance, rows))
            assert LEAST <= size.rows <= LARGEST
            assert size.most is None or size.rows <= size.most or size.rows == LEAST
            assert size.rows <= (before.rows if dies else 2 * before.rows)
            assert size.why


def anything(chance: Random, rows: int) -> Measured:
    """Return a measurement that no machine might make."""
    times = (chance.choice([0.0, chance.expovariate(0.1)]) for _ in range(2))
    shares = (chance.choice([0.0, 1.0, chance.random()]) for _ in range(2))
    seconds, cpu = times
    held, collecting = shares
    return Measured(rows=rows, seconds=seconds, cpu=cpu, held=held, collecting=collecting)


@pytest.mark.whole
@given(st.floats(2_000, 400_000), st.floats(0, 2))
@example(2_000.0, 2.0)
def test_it_converges_to_batches_of_about_the_target_time(pace: float, fixed: float) -> None:
    size = Size()
    sizes = []
    for _ in range(30):
        size = after_batch(size, machine(size, pace=pace, fixed=fixed))
        sizes.append(size.rows)

    assert len(set(sizes[12:])) == 1, "another size restarts the query"
    seconds = machine(size, pace=pace, fixed=fixed).seconds
    assert 0.6 * TARGET <= seconds <= 1.7 * TARGET


@pytest.mark.whole
@given(st.integers(20_000, 1_000_000))
def test_memory_bounds_it_before_a_batch_needs_more_than_there_is(bears: int) -> None:
    """At ``bears`` half of the heap is in use, so twice of that is the end."""
    size = Size(rows=min(FIRST, bears))
    for _ in range(60):
        size = after_batch(size, machine(size, pace=1_000_000.0, bears=bears))
        assert size.rows < 2 * bears or size.rows == LEAST

    assert size.rows >= 0.3 * bears


def test_a_short_heap_halves_it_and_it_comes_back_slowly() -> None:
    size = Size(rows=400_000)
    short = after_batch(size, Measured(rows=400_000, seconds=8.0, cpu=8.0, held=0.9))

    assert (short.rows, short.most) == (200_000, 300_000)
    assert "memory was short with 400,000 rows" in short.why
    well = short
    for _ in range(3):
        well = after_batch(well, Measured(rows=well.rows, seconds=3.0, cpu=3.0))
    assert short.rows < well.rows < 400_000


def test_collecting_all_the_time_is_a_short_heap_as_well() -> None:
    found = Measured(rows=300_000, seconds=9.0, cpu=9.0, collecting=0.6)

    assert after_batch(Size(rows=300_000), found).rows == 150_000


def test_a_batch_of_little_shows_nothing_about_a_full_one() -> None:
    """A stream that has caught up keeps its size for the next outage."""
    size = Size(rows=400_000, why="as it was")

    for rows in (0, 3, LEAST - 1, LEAST, 150_000):
        assert after_batch(size, Measured(rows=rows, seconds=0.3, cpu=0.3)) == size


def test_a_larger_batch_that_needs_more_cpu_a_row_is_taken_back() -> None:
    size = Size(rows=200_000)
    size = after_batch(size, Measured(rows=200_000, seconds=4.0, cpu=4.0))
    assert size.rows == 400_000

    size = after_batch(size, Measured(rows=400_000, seconds=9.0, cpu=20.0))

    assert (size.rows, size.most) == (200_000, 200_000)
    assert "needed more CPU" in size.why


def test_a_neighbour_that_takes_the_time_and_no_cpu_is_no_reason_to_go_back() -> None:
    size = replace(Size(rows=400_000), best_rows=200_000, best=50_000.0)

    found = after_batch(size, Measured(rows=400_000, seconds=9.5, cpu=8.0))

    assert found.rows == 400_000


def test_a_death_halves_what_died_and_not_what_was_wanted() -> None:
    dead = after_death(Size(rows=400_000), 90_000)

    assert (dead.rows, dead.most) == (45_000, 45_000)
    assert "a process ended within a batch of 90,000 rows" in dead.why
    assert after_death(dead, 45_000).rows == 22_000


def test_only_ends_that_memory_is_known_to_have_made_count_as_such_until_a_batch_goes_well() -> (
    None
):
    size = Size(rows=400_000)
    for short in (False, True, False, True):
        size = after_death(size, 90_000, short=short)

    assert (size.deaths, size.short) == (4, 2)
    assert size.why.endswith("for want of memory")
    well = after_batch(size, Measured(rows=size.rows, seconds=1.0, cpu=1.0))
    assert (well.deaths, well.short) == (0, 0)
