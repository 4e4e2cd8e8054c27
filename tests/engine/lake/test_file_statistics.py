"""The statistics of files together say nothing that is not true of each row."""

import json
from decimal import Decimal
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from strandline.engine.lake.log.log_actions import combined


def stats(rows: int, **columns: tuple[object, object, int]) -> str:
    """Return the statistics of a file: of each column its smallest and largest value, and how many are NULL."""
    return json.dumps(
        {
            "numRecords": rows,
            "minValues": {n: low for n, (low, _, nulls) in columns.items() if nulls < rows},
            "maxValues": {n: high for n, (_, high, nulls) in columns.items() if nulls < rows},
            "nullCount": {n: nulls for n, (_, _, nulls) in columns.items()},
        }
    )


def test_extremes_and_counts_are_those_of_all_files() -> None:
    one = stats(3, at=("2026-01-02", "2026-01-05", 0), name=("b", "d", 1), size=(4, 9, 0))
    other = stats(2, at=("2026-01-01", "2026-01-03", 0), name=("a", "c", 0), size=(10, 10, 0))

    found = json.loads(combined([one, other], times={"at"}) or "")

    assert found == {
        "numRecords": 5,
        "minValues": {"at": "2026-01-01", "name": "a", "size": 4},
        "maxValues": {"at": "2026-01-05", "name": "d", "size": 10},
        "nullCount": {"at": 0, "name": 1, "size": 0},
    }


def test_a_column_of_which_one_file_says_nothing_has_no_extremes() -> None:
    found = json.loads(combined([stats(1, size=(1, 1, 0)), stats(1)]) or "")
    assert found["minValues"] == found["maxValues"] == found["nullCount"] == {}


def test_a_file_in_which_all_values_are_null_does_not_hide_those_of_others() -> None:
    found = json.loads(combined([stats(2, size=(0, 0, 2)), stats(1, size=(7, 8, 0))]) or "")
    assert found["minValues"] == {"size": 7}
    assert found["nullCount"] == {"size": 2}


def test_a_file_without_statistics_leaves_none() -> None:
    assert combined([stats(1), None]) is None
    assert combined([stats(1), "{}"]) is None


@pytest.mark.whole
@pytest.mark.parametrize("year", ["+10000-01-01T00:00:00.000Z", "-0001-01-01T00:00:00.000Z"])
def test_a_time_whose_text_has_another_order_gets_none(year: str) -> None:
    files = [stats(1, at=("2026-01-01", "2026-01-01", 0)), stats(1, at=(year, year, 0))]
    assert json.loads(combined(files, times={"at"}) or "")["maxValues"] == {}
    assert json.loads(combined(files) or "")["maxValues"] != {}, "as a name it has its order"


def test_a_number_that_would_be_rounded_gets_none() -> None:
    exact, long = Decimal("12.25"), "12345678901234567.89"
    text = stats(1, price=(1, 2, 0)).replace('"price": 1', f'"price": {long}', 1)
    assert json.loads(combined([text]) or "")["minValues"] == {}
    kept = stats(1, price=(float(exact), float(exact), 0))
    assert json.loads(combined([kept]) or "")["minValues"] == {"price": 12.25}


@pytest.mark.whole
@settings(deadline=None)
@given(st.randoms(use_true_random=False))
def test_no_row_is_outside(random: Random) -> None:
    files = [
        [random.choice([None, random.randint(-5, 5)]) for _ in range(random.randint(1, 4))]
        for _ in range(random.randint(1, 5))
    ]
    texts = []
    for values in files:
        known = [value for value in values if value is not None]
        span = (min(known, default=None), max(known, default=None), len(values) - len(known))
        texts.append(stats(len(values), n=span))
    found = json.loads(combined(texts) or "")
    known = [value for values in files for value in values if value is not None]
    assert found["minValues"].get("n") == min(known, default=None)
    assert found["maxValues"].get("n") == max(known, default=None)
