"""The expectations of a batch: how many of its rows may break each rule, and the bounds of its figures.

An expectation is a value that needs no library, so Dagster's checks, the catalogue in the report and the command
line name the same expectations as the suite that judges (quality/strandline_quality/suite.py), without importing it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from strandline_quality.rules import Rule, Severity


@dataclass(frozen=True, slots=True, kw_only=True)
class Share:
    """At most a share of the rows breaks a rule.

    Args:
        name: The name of the rule.
        predicate: True for a good row, false for another, never NULL.
        allowed: The share of rows that may break it.
        few: The number of rows that may break it whatever their share.
        severity: What happens to the batch otherwise.
        about: The purpose, in a sentence.
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
        name: The name of the figure.
        aggregate: The aggregate of the rows that computes it, as SQL; absent for a figure from the ledger.
        low: The least allowed value; no bound when absent.
        high: The largest allowed value; no bound when absent.
        from_history: Whether the bounds come from earlier batches; while these are few, there are no bounds.
        severity: What happens to the batch otherwise.
        about: The purpose, in a sentence.
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
"""The lower and the upper bound of figures, from history."""

UNREAD = ("malformed", "wrong_type", "unknown_schema")
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
        about="rows that Spark's state refused; lateness is chosen so that there is none",
    ),
)
"""The expectations of each batch of every table that judges events."""

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
"""The expectations of such a batch once there is enough history."""

FIGURES = frozenset({"rows", "unread", "refused_by_state", "minutes_behind"})
"""The figures measured of each batch, for expectations without an aggregate."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Counts:
    """The counters of a batch, known without reading its rows again.

    Args:
        rows: The number of rows, believed or not.
        broke: The number of rows that break each rule; a row counts under every rule that it breaks.
        figures: The other figures.
    """

    rows: int
    broke: Mapping[str, int] = field(default_factory=dict)
    figures: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """The result of one expectation.

    Args:
        name: The name of the expectation.
        severity: What its failure means.
        holds: Whether the batch is as expected.
        says: The result as text.
        failed: The number of rows that break the rule.
        rows: The number of rows that were judged.
        value: The value of the figure, for an expectation about one.
        error: The reason why it could not be evaluated; then nothing is known, and that counts as critical.
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
        """Return whether the batch must not be published."""
        return not self.holds and (self.severity is Severity.CRITICAL or self.error is not None)


def shares(rules: Sequence[Rule]) -> tuple[Share, ...]:
    """Return the expectations that follow from the rules."""
    return tuple(
        Share(
            name=rule.name,
            predicate=rule.asked,
            allowed=rule.allowed,
            few=rule.few,
            severity=rule.weight,
            about=rule.about,
        )
        for rule in rules
    )


def of_counters(rules: Sequence[Rule], expects: Sequence[Within]) -> tuple[Expectation, ...]:
    """Return the expectations that counters can decide, before a batch is committed."""
    own = {each.name for each in expects}
    counted = (each for each in expects if each.aggregate is None)
    common = (each for each in (*ALWAYS, *USUAL) if each.name not in own)
    return (*shares(rules), *counted, *common)


def exceeds(failed: int, rows: int, *, allowed: float, few: int) -> bool:
    """Return whether too many rows break a rule; the one place where that is decided."""
    return failed > few and failed > allowed * rows


def outside(value: float | None, low: float | None, high: float | None) -> bool:
    """Return whether a figure is out of its bounds; an absent one is not."""
    if value is None:
        return False
    return (low is not None and value < low) or (high is not None and value > high)


def fails(expected: Expectation, counts: Counts, bounds: Bounds) -> bool:
    """Return, without the library, whether the suite would fail an expectation; a test holds the two equal."""
    if isinstance(expected, Share):
        failed = counts.broke.get(expected.name, 0)
        return exceeds(failed, counts.rows, allowed=expected.allowed, few=expected.few)
    low, high = expected.low, expected.high
    if expected.from_history:
        low, high = bounds.get(expected.name, (None, None))
    return counts.rows > 0 and outside(counts.figures.get(expected.name), low, high)


def _message(expected: Expectation, found: dict[str, Any]) -> str:
    if isinstance(expected, Share):
        failed, rows = found["unexpected_count"], found["element_count"]
        share = failed / rows if rows else 0.0
        return f"{failed:,} of {rows:,} rows ({share:.1%}) break it; {_allowed(expected)}"
    value, low, high = found["observed_value"], found["low"], found["high"]
    if value is None:
        return "not measured"
    return f"{_number(value)}; expected {_range(low, high)}"


def _allowed(expected: Share) -> str:
    if expected.allowed >= 1:
        return "any share may"
    more = f" and more than {expected.few} rows" if expected.few else ""
    return f"a share of more than {expected.allowed:.1%}{more} is too much"


def _range(low: float | None, high: float | None) -> str:
    if low is None and high is None:
        return "any value, because there is too little history"
    if low is None:
        return f"at most {_number(high)}"
    if high is None:
        return f"at least {_number(low)}"
    return f"{_number(low)} to {_number(high)}"


def _number(value: float | None) -> str:
    if value is None:
        return "nothing"
    return f"{value:,.0f}" if value == int(value) else f"{value:,.3f}"
