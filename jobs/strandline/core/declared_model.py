"""What is checked of the values of a model's declaration: each within its bounds, when its module is read.

Spark would report most of these too, but in the middle of a training and without the name of the field; and of some it
would report nothing: where no row is held out, a check of the rows held out has nothing to judge.
"""

import re
from dataclasses import dataclass
from decimal import Decimal
from math import inf, isfinite
from typing import TypeAlias

Mistake: TypeAlias = tuple[str, str]
"""What the sentence about a model says of it, and the hint."""

NUMBER = re.compile(r"[+-]?\d{1,12}(\.\d{1,6})?", re.ASCII)
"""A feature's value, as text."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """The values that a number may have.

    Args:
        least: The lowest.
        most: The highest.
        is_whole: Whether it counts something.
        has_ends: Whether it may be one of the two.
    """

    least: float = 0
    most: float = inf
    is_whole: bool = False
    has_ends: bool = True

    def mistakes(self, name: str, value: object) -> list[Mistake]:
        """Return what is wrong with the number of a field."""
        return [] if self._has(value) else [(f"declares {name}={value!r}", f"{name} is {self}.")]

    def _has(self, value: object) -> bool:
        kinds = (int,) if self.is_whole else (int, float, Decimal)
        if not isinstance(value, kinds) or isinstance(value, bool) or not isfinite(value):
            return False
        is_end = value in {self.least, self.most}
        return self.least <= value <= self.most and (self.has_ends or not is_end)

    def __str__(self) -> str:
        """Return which numbers they are."""
        kind = "a whole number" if self.is_whole else "a number"
        if self.most == inf:
            return f"{kind} {'not below' if self.has_ends else 'above'} {self.least:,g}"
        between, and_ = ("from", "to") if self.has_ends else ("between", "and")
        return f"{kind} {between} {self.least:,g} {and_} {self.most:,g}"


SHARE = Bounds(most=1)
PART = Bounds(most=1, has_ends=False)
"""A share that is neither nothing nor all."""


def no_number(name: str, text: object) -> list[Mistake]:
    """Return what is wrong with the text of a feature's value."""
    if NUMBER.fullmatch(str(text)):
        return []
    hint = "write a number as text, with at most 12 digits before the point and 6 behind it."
    return [(f"declares otherwise={text!r} for {name}, which is no value of a feature", hint)]


def no_tuple(name: str, value: object, kind: type) -> list[Mistake]:
    """Return what is wrong with a field that has several values."""
    if isinstance(value, tuple) and all(isinstance(each, kind) for each in value):
        return []
    hint = f"write {name}=({kind.__name__}(…),): the comma makes the tuple."
    return [(f"declares {name}={value!r}, which is no tuple of {kind.__name__}", hint)]
