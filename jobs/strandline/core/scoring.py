"""What a trained model is: a form that compiles to SQL, whose scores are the same numbers in every mode.

The arithmetic is in decimals, in one order, in one expression: each product is rounded to nine digits before it is
added, and the sum to six at the end. So no score depends on how Spark cut, shuffled or generated code for the rows,
and real-time mode, which runs no Python, computes what a batch computes. Doubles would not do: MLlib's own prediction
adds in an order that its linear algebra library chooses, and the last digit of an exponential is the processor's.

A logistic model's score is therefore its log-odds and not a probability; 0 means even odds. A tree's score is the share
of the rows in its leaf that had the label. The score of ``Nearest`` is the squared distance to the nearest centre, in
standard deviations; with one centre that is the sum of squared z-scores.

No expression can overflow, because an error would end a stream in ANSI mode: features have at most 12 digits before the
point, weights 6, and what is beyond a bound is the bound.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from decimal import ROUND_FLOOR, ROUND_HALF_UP, Decimal
from typing import Any, TypeAlias

from strandline.core.errors import DataError

FEATURE, WEIGHT, PART, SCORE = (
    "DECIMAL(18,6)",
    "DECIMAL(18,9)",
    "DECIMAL(30,9)",
    "DECIMAL(18,6)",
)
MOST = 999_999_999
"""The largest score; a larger one is this."""

FARTHEST = 9_999
"""The most standard deviations that a feature counts."""

HEAVIEST = Decimal(1_000_000)
NANO, MICRO = Decimal("1e-9"), Decimal("1e-6")


@dataclass(frozen=True, slots=True, kw_only=True)
class Linear:
    """A weighted sum of the features.

    Args:
        intercept: What is added.
        weights: One for each feature, as text; floats have no place in a file that must be read back exactly.
    """

    intercept: str
    weights: tuple[str, ...]

    def sql(self) -> str:
        """Return SQL for the score of a row with ``features``."""
        parts = (
            f"CAST({_feature(at)} * {_literal(weight, WEIGHT)} AS {PART})"
            for at, weight in enumerate(self.weights)
        )
        return _bounded(_sum([_literal(self.intercept, PART), *parts]))


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """A question of a tree, or a leaf, which has a value and asks nothing.

    Args:
        feature: The place of the feature that is compared.
        at_most: The bound; a feature up to it goes to the left.
        left: The place of the next node among those of the tree.
        right: The same for a feature beyond the bound.
        value: The value of a leaf.
    """

    feature: int = -1
    at_most: str = ""
    left: int = -1
    right: int = -1
    value: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Trees:
    """The sum of the leaves of one tree or several; each leaf is divided by their number beforehand."""

    trees: tuple[tuple[Node, ...], ...]

    def sql(self) -> str:
        """Return SQL for the score of a row with ``features``."""
        return _bounded(_sum([_tree(nodes, 0) for nodes in self.trees]))


@dataclass(frozen=True, slots=True, kw_only=True)
class Nearest:
    """The squared distance to the nearest of some centres, in standard deviations.

    Args:
        means: The mean of each feature.
        scales: One divided by its standard deviation; zero for a feature that never varied.
        centres: The centres, in standard deviations from the means.
    """

    means: tuple[str, ...]
    scales: tuple[str, ...]
    centres: tuple[tuple[str, ...], ...]

    def sql(self) -> str:
        """Return SQL for the score of a row with ``features``."""
        far = [
            _sum([self._squared(at, each) for at, each in enumerate(centre)])
            for centre in self.centres
        ]
        return _bounded(far[0] if len(far) == 1 else f"least({', '.join(far)})")

    def standard(self, at: int) -> str:
        """Return SQL for a feature in standard deviations."""
        apart = f"({_feature(at)} - {_literal(self.means[at], FEATURE)})"
        z = f"CAST({apart} * {_literal(self.scales[at], WEIGHT)} AS {PART})"
        return f"CAST({_clipped(z, FARTHEST)} AS DECIMAL(10,6))"

    def _squared(self, at: int, centre: str) -> str:
        apart = f"({self.standard(at)} - {_literal(centre, 'DECIMAL(10,6)')})"
        return f"CAST({apart} * {apart} AS {PART})"


Form: TypeAlias = Linear | Trees | Nearest


def as_words(form: Form) -> dict[str, Any]:
    """Return a form as JSON values."""
    return {"kind": type(form).__name__.lower(), **asdict(form)}


def from_words(words: Mapping[str, Any]) -> Form:
    """Return the form of JSON values."""
    match words["kind"]:
        case "linear":
            return Linear(intercept=words["intercept"], weights=tuple(words["weights"]))
        case "trees":
            trees = (tuple(Node(**node) for node in tree) for tree in words["trees"])
            return Trees(trees=tuple(trees))
        case _:
            return Nearest(
                means=tuple(words["means"]),
                scales=tuple(words["scales"]),
                centres=tuple(map(tuple, words["centres"])),
            )


def weight(value: float) -> str:
    """Return a learnt number as text of nine digits behind the point.

    Raises:
        DataError: It is none, or too large to be multiplied exactly.
    """
    if not math.isfinite(value) or abs(value) >= HEAVIEST:
        raise DataError(
            f"the estimator learnt the weight {value}, and a weight is below {HEAVIEST:,}",
            hint="divide or multiply the feature in the model's SQL, so that its values are of the size of 1 to 1,000.",
        )
    return format(Decimal(repr(value)).quantize(NANO, ROUND_HALF_UP), "f")


def micro(value: float) -> str:
    """Return a learnt number of the size of a feature as text of six digits behind the point."""
    return format(Decimal(repr(value)).quantize(MICRO, ROUND_HALF_UP), "f")


def bound(value: float) -> str:
    """Return a tree's bound, rounded down to a feature's digits, so that the same features are at most it."""
    return format(Decimal(repr(value)).quantize(MICRO, ROUND_FLOOR), "f")


def feature_sql(sql: str, otherwise: str) -> str:
    """Return SQL for a feature as it is counted: exact, and never NULL."""
    return f"coalesce(try_cast(({sql}) AS {FEATURE}), {_literal(otherwise, FEATURE)})"


def _tree(nodes: Sequence[Node], at: int) -> str:
    node = nodes[at]
    if node.left < 0:
        return _literal(node.value, PART)
    asked = f"{_feature(node.feature)} <= {_literal(node.at_most, FEATURE)}"
    return f"if({asked}, {_tree(nodes, node.left)}, {_tree(nodes, node.right)})"


def _sum(parts: Sequence[str]) -> str:
    """Return SQL for a sum, from the first part to the last, each step at the same number of digits."""
    total = parts[0]
    for part in parts[1:]:
        total = f"CAST({total} + {part} AS {PART})"
    return total


def _bounded(sql: str) -> str:
    return f"CAST({_clipped(sql, MOST)} AS {SCORE})"


def _clipped(sql: str, most: int) -> str:
    return f"least(greatest({sql}, {_literal(str(-most), PART)}), {_literal(str(most), PART)})"


def _feature(at: int) -> str:
    return f"get(features, {at})"


def _literal(number: str, kind: str) -> str:
    return f"CAST('{number}' AS {kind})"
