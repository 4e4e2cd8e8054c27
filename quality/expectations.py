"""What is expected of a batch: how many of its rows may break each rule, and between which bounds its figures lie.

An expectation is a value that knows no library, so that Dagster's checks, the catalogue in the report and the command
line name the same things as the suite that judges (quality/suite.py), without importing it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from quality.rules import Rule, Severity


@dataclass(frozen=True, slots=True, kw_only=True)
class Share:
    """At most a share of the rows breaks a rule.

    Args:
        name: The rule's.
        predicate: What holds of a good row, never NULL.
        allowed: The share that may break it.
        few: How many may break it whatever their share.
        severity: What becomes of the batch otherwise.
        about: What it is for.
    """

    name: str
    predicate: str
    allowed: float
    few: int
    severity: Severity
    about: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Within:
    """A figure of the batch lies between two bounds.

    Args:
        name: The figure's.
        aggregate: How rows are asked for it, as SQL; absent for a figure that only the ledger knows.
        low: The least that is allowed; no bound when absent.
        high: The most that is allowed.
        from_history: Whether the bounds come from earlier batches; then nothing is expected while they are few.
        severity: What becomes of the batch otherwise.
        about: What it is for.
    """

    name: str
    aggregate: str | None = None
    low: float | None = None
    high: float | None = None
    from_history: bool = False
    severity: Severity = Severity.WARNING
    about: str = ""


Expectation: TypeAlias = Share | Within
Bounds: TypeAlias = Mapping[str, tuple[float | None, float | None]]
"""The least and the most of figures, from history."""

UNREAD = ("malformed", "wrong_type")
"""Reasons of payloads that could not be read as a row at all."""

ALWAYS: tuple[Within, ...] = (
    Within(
        name="unread",
        high=0.2,
        about="the share of payloads that could not be read; more of them mean that a producer has changed",
    ),
    Within(
        name="refused_by_state",
        high=0,
        about="rows that Spark's state refused; the law of lateness is chosen so that there is none",
    ),
)
"""What is expected of each batch of every table that judges events."""

VOLUME, HELD_SHARE = "rows_as_usual", "held_back_as_usual"

USUAL: tuple[Within, ...] = (
    Within(
        name=VOLUME,
        from_history=True,
        about="rows of a batch, against what was read at this hour of the week",
    ),
    Within(
        name=HELD_SHARE,
        from_history=True,
        about="the share of rows that are held back, against what it was at this hour of the week",
    ),
)
"""What is expected of them once there is enough history."""

FIGURES = frozenset({"rows", "unread", "refused_by_state", "minutes_behind"})
"""What is measured of each batch, for expectations without an aggregate."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Counts:
    """What is known of a batch without looking at its rows again.

    Args:
        rows: How many there are, believed or not.
        broke: How many break each rule; a row counts under every one that it breaks.
        figures: Whatever else was measured.
    """

    rows: int
    broke: Mapping[str, int] = field(default_factory=dict)
    figures: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """What came of one expectation.

    Args:
        name: The expectation's.
        severity: What its failure means.
        holds: Whether the batch is as expected.
        says: What was found, in words.
        failed: Rows that break the rule.
        rows: Rows that were judged.
        value: The figure that was found, of an expectation about one.
        error: Why it could not be asked; then nothing is known, and that counts as critical.
    """

    name: str
    severity: Severity
    holds: bool
    says: str
    failed: int = 0
    rows: int = 0
    value: float | None = None
    error: str | None = None

    @property
    def is_critical(self) -> bool:
        """Tell whether the batch must not be published."""
        return not self.holds and (self.severity is Severity.CRITICAL or self.error is not None)


def shares(rules: Sequence[Rule]) -> tuple[Share, ...]:
    """Return what is expected of a batch by rules of its rows."""
    return tuple(
        Share(
            name=rule.name,
            predicate=rule.predicate,
            allowed=rule.allowed,
            few=rule.few,
            severity=rule.weight,
            about=rule.about,
        )
        for rule in rules
    )


def of_counters(rules: Sequence[Rule], expects: Sequence[Within]) -> tuple[Expectation, ...]:
    """Return what is expected of a batch before it is committed, as far as counters can tell."""
    own = {each.name for each in expects}
    counted = (each for each in expects if each.aggregate is None)
    common = (each for each in (*ALWAYS, *USUAL) if each.name not in own)
    return (*shares(rules), *counted, *common)


def exceeds(failed: int, rows: int, *, allowed: float, few: int) -> bool:
    """Tell whether too many rows break a rule; the one place where that is decided."""
    return failed > few and failed > allowed * rows


def outside(value: float | None, low: float | None, high: float | None) -> bool:
    """Tell whether a figure lies beyond its bounds; one that is absent does not."""
    if value is None:
        return False
    return (low is not None and value < low) or (high is not None and value > high)


def fails(expected: Expectation, counts: Counts, bounds: Bounds) -> bool:
    """Tell at a glance whether the suite will find that an expectation does not hold; held equal to it by a test."""
    if isinstance(expected, Share):
        failed = counts.broke.get(expected.name, 0)
        return exceeds(failed, counts.rows, allowed=expected.allowed, few=expected.few)
    low, high = expected.low, expected.high
    if expected.from_history:
        low, high = bounds.get(expected.name, (None, None))
    return counts.rows > 0 and outside(counts.figures.get(expected.name), low, high)
