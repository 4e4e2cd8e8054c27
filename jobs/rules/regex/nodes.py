"""A regular expression as a tree.

Sigma's flavour is a small part of PCRE: characters, classes, anchors, groups, alternatives and quantifiers. A tree of
just these can be written for any engine with the same meaning, and can be examined before any engine runs it.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import TypeAlias

Ranges: TypeAlias = tuple[tuple[int, int], ...]
"""Code points from one to another, both included; in order, and apart from each other."""

LAST = 0x10FFFF


class Anchor(StrEnum):
    """A place in a text."""

    LINE_START = "^"
    LINE_END = "$"
    START = r"\A"
    END = r"\z"
    EDGE = r"\b"
    NO_EDGE = r"\B"


@dataclass(frozen=True, slots=True)
class Chars:
    """One character of a set."""

    ranges: Ranges
    is_negated: bool = False

    @property
    def members(self) -> Ranges:
        """Return the set itself."""
        return complement(self.ranges) if self.is_negated else self.ranges


@dataclass(frozen=True, slots=True)
class Dot:
    """Any character; a newline only where the flag ``s`` is set."""


@dataclass(frozen=True, slots=True)
class Sequence:
    """One after the other."""

    parts: "tuple[Node, ...]"


@dataclass(frozen=True, slots=True)
class Choice:
    """One of several; the first that leads to a match."""

    parts: "tuple[Node, ...]"


@dataclass(frozen=True, slots=True)
class Repeat:
    """The same again, ``least`` to ``most`` times; without end where ``most`` is None."""

    part: "Node"
    least: int
    most: int | None
    is_lazy: bool = False


Node: TypeAlias = Chars | Dot | Anchor | Sequence | Choice | Repeat


def merged(ranges: list[tuple[int, int]]) -> Ranges:
    """Return ranges in order, those that touch as one."""
    found: list[tuple[int, int]] = []
    for low, high in sorted(ranges):
        if found and low <= found[-1][1] + 1:
            found[-1] = (found[-1][0], max(high, found[-1][1]))
        else:
            found.append((low, high))
    return tuple(found)


def complement(ranges: Ranges) -> Ranges:
    """Return all code points that are not in the ranges."""
    found = []
    start = 0
    for low, high in ranges:
        if low > start:
            found.append((start, low - 1))
        start = high + 1
    if start <= LAST:
        found.append((start, LAST))
    return tuple(found)


def meet(one: Ranges, other: Ranges) -> bool:
    """Return whether two sets share a character."""
    return any(low <= top and bottom <= high for low, high in one for bottom, top in other)
