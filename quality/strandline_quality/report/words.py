"""How values become text in the page: numbers as people read them, and data as text only.

A payload may hold mark-up, and characters that turn the direction of writing or take no room. Mark-up is escaped; such
characters are written as code points, because a reader must see them and the page must not obey them.
"""

import unicodedata
from datetime import datetime
from html import escape

UNSEEN = {"Cc", "Cf", "Co", "Cs", "Cn", "Zl", "Zp"}
"""Categories of characters that are written as code points: control, direction, no width, half of a pair, unassigned."""

MINUTE, HOUR, DAY = 60, 3_600, 86_400
FEW = 0.0001


def text(value: object) -> str:
    """Return a value from data, or from a person, as HTML text."""
    return "".join(_sign(sign) for sign in str(value))


def _sign(sign: str) -> str:
    if unicodedata.category(sign) in UNSEEN and sign not in "\n\t":
        return f'<span class="odd">U+{ord(sign):04X}</span>'
    return escape(sign, quote=True)


def name(value: object) -> str:
    """Return the name of a table or a rule, with possible line breaks after dots, colons and underscores."""
    parts = text(value)
    for end in ".:_":
        parts = parts.replace(end, f"{end}<wbr>")
    return parts


def attribute(value: object) -> str:
    """Return a value as text of an HTML attribute."""
    unseen = (unicodedata.category(sign) in UNSEEN for sign in str(value))
    return escape(
        "".join(f"U+{ord(s):04X}" if odd else s for s, odd in zip(str(value), unseen, strict=True))
    )


def count(value: float) -> str:
    """Write a count."""
    return f"{value:,.0f}"


def share(value: float) -> str:
    """Write a share; only zero is written as 0 %, and only one as 100 %."""
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
    """Write how long before the report a moment was."""
    passed = (datetime.fromisoformat(now) - datetime.fromisoformat(iso)).total_seconds()
    return f"{span(passed)} ago" if passed >= 1 else "just now"
