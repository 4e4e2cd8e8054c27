"""The length of a window is read as Spark reads it."""

from datetime import timedelta

import pytest

from strandline.core.kind import length_of


@pytest.mark.parametrize(
    ("text", "length"),
    [
        ("10 minutes", timedelta(minutes=10)),
        ("1 hour", timedelta(hours=1)),
        ("25 hours", timedelta(hours=25)),
        ("INTERVAL 1 HOUR 30 MINUTES", timedelta(minutes=90)),
        ("1 week", timedelta(days=7)),
        ("100 milliseconds", timedelta(milliseconds=100)),
    ],
)
def test_a_window_is_as_long_as_spark_reads_it(text: str, length: timedelta) -> None:
    """Without pandas, which would take longer to import than the answer takes."""
    assert length_of(text) == length


@pytest.mark.parametrize("text", ["", "ten minutes", "10", "1 month", "0 minutes", "-1 hour", "1h"])
def test_what_is_no_length_of_time_is_refused(text: str) -> None:
    """Spark refuses a month in a window as well: it has no length of its own."""
    with pytest.raises(ValueError, match=r"."):
        length_of(text)
