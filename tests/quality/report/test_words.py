"""Data is only ever text of the page."""

import pytest

from strandline_quality.page import ago, attribute, count, name, share, span, text


@pytest.mark.whole
@pytest.mark.parametrize(
    ("data", "shown"),
    [
        ("<script>alert(1)</script>", "&lt;script&gt;alert(1)&lt;/script&gt;"),
        ("\"'&", "&quot;&#x27;&amp;"),
        ("a\u202eb", 'a<span class="odd">U+202E</span>b'),
        ("\u2066x\u2069", '<span class="odd">U+2066</span>x<span class="odd">U+2069</span>'),
        ("a\u200bb", 'a<span class="odd">U+200B</span>b'),
        ("\x00\x1b[31m", '<span class="odd">U+0000</span><span class="odd">U+001B</span>[31m'),
        ("\ud800", '<span class="odd">U+D800</span>'),
        ("\u2028", '<span class="odd">U+2028</span>'),
        ("two\nlines", "two\nlines"),
        ("Grüße 漢字 🙂", "Grüße 漢字 🙂"),
    ],
)
def test_marks_are_escaped_and_what_cannot_be_seen_is_written_out(data: str, shown: str) -> None:
    """A sign that turns the direction of writing could make a bad value look like a good one."""
    assert text(data) == shown
    assert text(data).encode()


def test_an_attribute_cannot_be_left() -> None:
    """There is no room for a sign's own element in it."""
    assert attribute('"><b>\u202e') == "&quot;&gt;&lt;b&gt;U+202E"


def test_a_name_may_be_broken_where_it_has_joints() -> None:
    """A telephone is narrower than many a name."""
    assert name("silver.a_b") == "silver.<wbr>a_<wbr>b"


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (0.0, "0 %"),
        (1.0, "100 %"),
        (0.0312, "3.12 %"),
        (0.00001, "&lt;0.01 %"),
        (0.99999, ">99.99 %"),
    ],
)
def test_what_is_not_nothing_is_never_written_as_nothing(value: float, shown: str) -> None:
    """And what is less than all is never written as all."""
    assert share(value) == shown.replace(">", "&gt;")


def test_lengths_of_time_have_the_unit_that_fits() -> None:
    """90,000 seconds cannot be read; 25 h can."""
    assert [span(s) for s in (3, 90, 3_600, 90_000, 200_000)] == [
        "3 s",
        "1.5 min",
        "1 h",
        "25 h",
        "2.3 d",
    ]
    assert ago("2026-11-20T09:00:00+00:00", "2026-11-20T11:30:00+00:00") == "2.5 h ago"
    assert count(1234567) == "1,234,567"
