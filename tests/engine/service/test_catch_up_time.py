"""The time until a table has caught up is measured, and honest where there is none."""

from random import Random

import pytest

from strandline.engine.service.backlog import (
    ENOUGH,
    FEW,
    OVER,
    Trend,
    in_words,
    of_pulse,
    seconds_left,
)


def looks(behind: list[int], every: float = 1.0) -> Trend:
    trend = Trend()
    for number, rows in enumerate(behind):
        trend.add(number * every, rows)
    return trend


def test_a_fall_in_large_steps_is_measured_through_them(chance: Random) -> None:
    """A batch of ten seconds takes 200,000 rows at once; the phase of the last look must not decide."""
    phase = chance.randrange(10)

    trend = looks([3_000_000 - 200_000 * ((second + phase) // 10) for second in range(120)])

    assert trend.falls == pytest.approx(20_000, rel=0.1)


def test_what_arrives_meanwhile_counts_against_it() -> None:
    arrives, reads = 5_000, 15_000

    trend = looks([1_000_000 + (arrives - reads) * second for second in range(60)])

    assert trend.falls == pytest.approx(10_000)
    assert seconds_left(410_000, trend.falls) == pytest.approx(41)


def test_nothing_is_said_before_enough_was_seen() -> None:
    assert looks([900_000, 800_000]).falls is None
    assert looks([900_000 - 1_000 * n for n in range(int(ENOUGH))]).falls is None
    assert in_words(900_000, None) == "900,000 rows behind; how fast is not known yet"


@pytest.mark.whole
@pytest.mark.parametrize("falls", [0.0, -0.2, -5_000.0])
def test_a_table_that_gets_no_closer_has_no_time(falls: float) -> None:
    assert seconds_left(900_000, falls) is None
    assert "it does not catch up at this rate" in in_words(900_000, falls)


def test_a_time_of_months_is_none() -> None:
    assert seconds_left(9_000_000, 1.0) is None
    assert "it does not catch up at this rate" in in_words(9_000_000, 1.0)


def test_older_looks_are_forgotten_and_their_number_is_bounded() -> None:
    trend = looks([1_000_000] * 500 + [1_000_000 - 1_000 * n for n in range(int(OVER) + 1)])

    assert trend.falls == pytest.approx(1_000)
    assert len(trend.seen) == OVER + 1


def test_a_new_backlog_is_measured_from_its_beginning() -> None:
    """An outage ends: what is behind jumps, and then falls."""
    trend = looks([0, 3, FEW] * 10 + [2_000_000 - 10_000 * n for n in range(40)])

    assert trend.falls == pytest.approx(10_000)


@pytest.mark.parametrize(
    ("behind", "words"),
    [
        (None, ""),
        (0, ""),
        (FEW, ""),
        (30_000, "30,000 rows behind, 2,000 fewer a second: caught up in 15 s"),
        (1_200_000, "1,200,000 rows behind, 2,000 fewer a second: caught up in 10 min"),
        (16_200_000, "16,200,000 rows behind, 2,000 fewer a second: caught up in 2 h 15 min"),
        (400_000_000, "400,000,000 rows behind, 2,000 fewer a second: caught up in 2.3 days"),
    ],
)
def test_it_is_put_into_words(behind: int | None, words: str) -> None:
    assert in_words(behind, 2_000.0) == words


def test_a_heartbeat_of_an_older_version_says_nothing() -> None:
    assert of_pulse({"lag": 900_000}) == ""
    pulse = {"behind_rows": 90_000, "falls": 3_000.0, "size": {"rows": 50_000, "why": "so"}}
    assert of_pulse(pulse).endswith("caught up in 30 s (batches of 50,000: so)")


def test_in_the_first_minute_of_a_start_no_table_is_said_never_to_catch_up() -> None:
    """Bronze reads first, and what silver has to read grows meanwhile; it was said of each table at every start."""
    assert looks([100_000 + 1_000 * n for n in range(55)]).falls is None
    falls = looks([100_000 + 1_000 * n for n in range(70)]).falls
    assert falls is not None
    assert falls < 0
