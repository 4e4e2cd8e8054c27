"""Pictures are shapes whose sizes are the figures, with the same in words."""

import re

import pytest

from strandline_quality.page import HEIGHT, Bar, bars, line, meter, spark


def bar(good: float, held: float = 0.0, usual: tuple[float, float] | None = None) -> Bar:
    return Bar(parts=(("good", good), ("held", held)), usual=usual, label=f"{good:g} <rows>")


def heights(svg: str, kind: str) -> list[float]:
    return [float(h) for h in re.findall(rf'class="{kind}"[^>]*height="([\d.]+)"', svg)]


def test_the_highest_bar_fills_the_picture_and_the_others_are_in_proportion() -> None:
    """Parts of a bar lie on each other."""
    svg = bars([bar(40, 10), None, bar(20, 5)], "rows")

    assert heights(svg, "good") == [HEIGHT * 0.8, HEIGHT * 0.4]
    assert heights(svg, "held") == [HEIGHT * 0.2, HEIGHT * 0.1]


def test_what_is_usual_never_leaves_the_picture() -> None:
    """On a quiet day the range is far above everything, and it is seen how far."""
    assert heights(bars([bar(1, usual=(50, 900))], "rows"), "usual") == [20.0]
    assert heights(bars([bar(10, usual=(0, 5))], "rows"), "usual") == [50.0]


def test_a_little_is_seen() -> None:
    """Three bad rows of a million are three bad rows."""
    assert heights(bars([bar(1_000_000, 3)], "rows"), "held") == [1.0]


def test_a_line_is_broken_where_nothing_is_known() -> None:
    """A line over a gap would be an invention."""
    svg = line([1, 2, None, 4], "delay", ["a", "b", "", "d"])

    assert svg.count("<polyline") == 2
    assert svg.count('class="dot"') == 3


def test_nothing_at_all_can_be_drawn() -> None:
    """The first day of a lake."""
    for svg in (
        bars([], "x"),
        bars([None], "x"),
        line([], "x", []),
        spark([], "x"),
        spark([0], "x"),
    ):
        assert svg.startswith("<svg")
        assert "nan" not in svg


@pytest.mark.whole
def test_a_trend_leaves_out_the_days_on_which_nothing_was_read() -> None:
    """A line that rises from nothing on the first day would be a false alarm."""
    assert 'points="4.0,3.0 96.0,12.0"' in spark([0.2, None, 0.1], "x")
    assert 'points="96.0,3.0"' in spark([None, None, 0.1], "x")


def test_words_in_pictures_are_escaped() -> None:
    """They come from the names of rules."""
    assert "<rows>" not in bars([bar(1)], 'a"<b>')
    assert 'aria-label="a&quot;&lt;b&gt;"' in bars([bar(1)], 'a"<b>')
    assert "<b>" not in spark([1], "<b>")


def test_a_meter_shows_no_more_than_all() -> None:
    """A share that a backfill made odd must not burst the page."""
    assert 'width="100.00"' in meter(1.7)
    assert 'width="0.00"' in meter(-0.2)
