r"""Texts of which an event must contain one for a rule to fire at all, and one search for those of many rules.

A rule without a key (jobs/strandline/alerting/rules/keys.py) would be asked of every event. But most look for texts: of 350 texts in a command
line of 110 characters, one search each took 111 µs, and one regular expression for all 9 µs, 1,000 texts 261 and 23
[measured, OpenJDK 17]. The expression is a tree of their beginnings, ``-(?:dec(?:ode|ompress)|enc)``, so that at each place of
the text it is compared with the few beginnings that fit, however many texts there are.

As a key, a needle is necessary and never sufficient.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from strandline.alerting.rules.condition import AllOf, AnyOf, Condition, Matches, Text, Wild
from strandline_quality.linear import SHORTEST, linear

Needle: TypeAlias = tuple[str, str]
"""A column, and a text in lower case that the column, in lower case, contains."""

LONGEST = 16
"""Characters of a needle; the beginning of a text is enough to pass over most events."""

MOST = 64
"""The needles of a rule at most."""


def needles(condition: Condition) -> frozenset[Needle] | None:
    """Return needles one of which an event must have; None if it needs none."""
    match condition:
        case AllOf(parts):
            found = [each for part in parts if (each := needles(part)) is not None]
            return min(found, key=_worth, default=None)
        case AnyOf(parts):
            every = [needles(part) for part in parts]
            known = [each for each in every if each is not None]
            both: frozenset[Needle] = frozenset().union(*known)
            return both if len(known) == len(every) and len(both) <= MOST else None
        case Text(column, glob):
            plain = [part for part in glob.folded.parts if not isinstance(part, Wild)]
            return _needle(column, max(plain, key=len, default=""), is_lower=not glob.cased)
        case Matches(column, pattern, flags):
            read = linear(pattern, flags)
            return _needle(column, read.literal or "", is_lower=read.ignores_case)
        case _:
            return None


def as_one_search(texts: Iterable[str]) -> str:
    """Return a regular expression of Java that finds any of several texts; of two that begin alike, the shorter."""
    root = _Branch()
    for text in texts:
        branch = root
        for letter in text:
            branch = branch.next.setdefault(letter, _Branch())
        branch.is_end = True
    return root.written()


@dataclass(slots=True)
class _Branch:
    next: dict[str, "_Branch"] = field(default_factory=dict)
    is_end: bool = False

    def written(self) -> str:
        if self.is_end:
            return ""
        parts = [
            _escaped(letter) + branch.written() for letter, branch in sorted(self.next.items())
        ]
        return parts[0] if len(parts) == 1 else f"(?:{'|'.join(parts)})"


def by_column(found: Iterable[Needle]) -> Mapping[str, frozenset[str]]:
    """Return the texts of each column."""
    columns: dict[str, set[str]] = {}
    for column, text in found:
        columns.setdefault(column, set()).add(text)
    return {column: frozenset(texts) for column, texts in sorted(columns.items())}


def _worth(found: frozenset[Needle]) -> tuple[int, int]:
    """Return less for needles that fewer events have: few of them, and long ones."""
    return len(found), -min(len(text) for _, text in found)


def _needle(column: str, text: str, *, is_lower: bool) -> frozenset[Needle] | None:
    """Return the needle of a text; letters beyond ASCII that are not yet in lower case have none that is sure."""
    if len(text) < SHORTEST or not (is_lower or text.isascii()):
        return None
    return frozenset(((column, text.lower()[:LONGEST]),))


def _escaped(letter: str) -> str:
    return letter if letter.isascii() and letter.isalnum() else f"\\x{{{ord(letter):x}}}"
