"""How values become text in the page: numbers as people read them, and nothing from data as anything but text.

A payload may hold mark-up, and signs that turn the direction of writing or take no room at all. The first is escaped;
the second are written out, because a reader must see that they are there and the page must not obey them.
"""

import unicodedata
from datetime import datetime
from html import escape

UNSEEN = {"Cc", "Cf", "Co", "Cs", "Cn", "Zl", "Zp"}
"""Kinds of signs that are written out: control, direction, no width, half of a pair, no sign at all."""

MINUTE, HOUR, DAY = 60, 3_600, 86_400
FEW = 0.0001


def text(value: object) -> str:
    """Return a value that came from data, or from a person, as text of the page."""
    return "".join(_sign(sign) for sign in str(value))


def _sign(sign: str) -> str:
    if unicodedata.category(sign) in UNSEEN and sign not in "\n\t":
        return f'<span class="odd">U+{ord(sign):04X}</span>'
    return escape(sign, quote=True)


def name(value: object) -> str:
    """Return the name of a table or a rule, which may be broken behind its dots and lines."""
    parts = text(value)
    for end in ".:_":
        parts = parts.replace(end, f"{end}<wbr>")
    return parts


def attribute(value: object) -> str:
    """Return a value as it may stand in an attribute."""
    unseen = (unicodedata.category(sign) in UNSEEN for sign in str(value))
    return escape(
        "".join(f"U+{ord(s):04X}" if odd else s for s, odd in zip(str(value), unseen, strict=True))
    )


def count(value: float) -> str:
    """Write how many."""
    return f"{value:,.0f}"


def share(value: float) -> str:
    """Write a share; what is not nothing is never written as nothing, nor what is not all as all."""
    if 0 < value < FEW:
        return "&lt;0.01 %"
    if 1 - FEW < value < 1:
        return "&gt;99.99 %"
    return f"{value * 100:.2f} %" if 0 < value < 1 else f"{value * 100:.0f} %"


def span(seconds: float) -> str:
    """Write a length of time in the unit that fits."""
    for unit, name in ((DAY, "d"), (HOUR, "h"), (MINUTE, "min")):
        if abs(seconds) >= unit * (2 if unit == DAY else 1):
            return f"{seconds / unit:,.1f} {name}".replace(".0 ", " ")
    return f"{seconds:,.0f} s"


def moment(iso: str) -> str:
    """Write a moment, in UTC."""
    at = datetime.fromisoformat(iso)
    return f'<time datetime="{attribute(iso)}">{at.day} {at:%b %Y, %H:%M}</time>'


def day(iso: str) -> str:
    """Write a day."""
    at = datetime.fromisoformat(iso)
    return f"{at.day} {at:%B}"


def ago(iso: str, now: str) -> str:
    """Write how long before the report something was."""
    passed = (datetime.fromisoformat(now) - datetime.fromisoformat(iso)).total_seconds()
    return f"{span(passed)} ago" if passed >= 1 else "just now"
