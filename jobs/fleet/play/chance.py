"""Random draws that depend only on a seed, a question and a number.

Why not numpy's generators: their streams may change between releases; they are drawn in order, so the size of
a chunk would change the events; and a copy of an earlier event could not be made without keeping that event. Here every draw is a pure function in 64-bit integers (the finaliser of SplitMix64), the same on every
machine, and any event can be made again from its number alone.
"""

from decimal import Decimal
from itertools import accumulate
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

Numbers: TypeAlias = NDArray[np.int64]
Bits: TypeAlias = NDArray[np.uint64]

MASK = 2**64 - 1
GOLDEN = 0x9E3779B97F4A7C15
FIRST = 0xBF58476D1CE4E5B9
SECOND = 0x94D049BB133111EB
SCALE = 2**32


class Chance:
    """The draws of one seed."""

    def __init__(self, seed: int) -> None:
        """Spread the seed over all bits, so that seeds 1 and 2 have nothing in common."""
        self._seed = _mix_one(seed & MASK)

    def bits(self, question: str, numbers: Numbers) -> Bits:
        """Return 64 bits for each number; different questions are independent.

        For one question no two numbers get the same bits, because each step is invertible.
        """
        key = self._seed
        for letter in question.encode():
            key = _mix_one((key ^ letter) & MASK)
        x = numbers.astype(np.uint64) * np.uint64(GOLDEN) + np.uint64(key)
        x = (x ^ (x >> np.uint64(30))) * np.uint64(FIRST)
        x = (x ^ (x >> np.uint64(27))) * np.uint64(SECOND)
        return x ^ (x >> np.uint64(31))

    def below(self, limit: int, question: str, numbers: Numbers) -> Numbers:
        """Return a whole number from 0 to just below the limit for each number."""
        return (self.bits(question, numbers) % np.uint64(max(limit, 1))).astype(np.int64)

    def pick(self, bounds: Bits, question: str, numbers: Numbers) -> Numbers:
        """Return for each number which part it falls into; see :func:`parts`."""
        drawn = self.bits(question, numbers) >> np.uint64(32)
        return np.searchsorted(bounds, drawn, side="right").astype(np.int64)


def parts(weights: list[float]) -> Bits:
    """Return the upper bounds of parts of one whole; the rest is the part after the last."""
    sums = accumulate(int(weight * SCALE) for weight in weights)
    return np.array([min(part, SCALE) for part in sums], dtype=np.uint64)


def shares_by_rank(count: int, skew: float) -> Bits:
    """Return the bounds of parts whose sizes are proportional to 1/n**skew."""
    # Decimal, because the last bit of a float's power is the C library's choice.
    power = -Decimal(repr(skew))
    weights = [Decimal(rank) ** power for rank in range(1, count + 1)]
    whole = sum(weights)
    sums = [int(part * SCALE / whole) for part in accumulate(weights)]
    return np.array(sums[:-1], dtype=np.uint64)


def _mix_one(x: int) -> int:
    x = (x + GOLDEN) & MASK
    x = ((x ^ (x >> 30)) * FIRST) & MASK
    x = ((x ^ (x >> 27)) * SECOND) & MASK
    return x ^ (x >> 31)
