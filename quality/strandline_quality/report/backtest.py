"""What rules would have raised on history, as one structure: the page, the JSON and the terminal are made from it.

Moments and days are ISO texts, so the structure survives JSON unchanged.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any


class Change(StrEnum):
    """What became of an alert between two versions of a rule."""

    ADDED = "added"
    """Only the new version raises it."""
    GONE = "gone"
    """Only the old version raised it."""
    MOVED = "moved"
    """Both do, on the same event; its id is another one, because the version is part of it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """An alert. Sensitive columns are masked in ``key`` and ``event``, as they are wherever alerts go."""

    alert_id: str
    at: str
    place: str
    key: str
    event: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Compared:
    """How many alerts of a rule changed, and some of each kind."""

    old_version: str | None
    counts: Mapping[Change, int]
    samples: Mapping[Change, tuple[Sample, ...]]


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleFigures:
    """What one rule would have raised.

    Args:
        days: Alerts of each day of the backtest, in its order.
        entities: How many of whatever the alerts are about: computers, addresses.
        top: Those with the most alerts, and how many.
        compared: The other version's alerts beside these; None where there is none to compare with.
        micros: Microseconds of CPU an event that it takes alone, if that is more than the backtest's limit.
    """

    rule: str
    title: str
    version: str | None
    severity: str
    table: str
    owner: str
    file: str
    alerts: int
    days: tuple[int, ...]
    entity: str
    entities: int
    top: tuple[tuple[str, int], ...]
    samples: tuple[Sample, ...]
    compared: Compared | None = None
    micros: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TableCost:
    """What the rules of one table cost: one Spark job for all of them."""

    table: str
    rules: int
    events: int
    seconds: float
    cpu_seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Backtest:
    """What rules would have raised between two moments of event time.

    Args:
        limit: Microseconds of CPU an event beyond which a rule is slow; None where that was not measured.
    """

    lake: str
    made_at: str
    since: str
    until: str
    days: tuple[str, ...]
    against: str | None
    tables: tuple[TableCost, ...]
    rules: tuple[RuleFigures, ...]
    skipped: tuple[tuple[str, str], ...] = ()
    limit: float | None = None

    @property
    def alerts(self) -> int:
        """Return how many alerts there would have been."""
        return sum(rule.alerts for rule in self.rules)

    @property
    def events(self) -> int:
        """Return how many events were looked at."""
        return sum(table.events for table in self.tables)

    @property
    def silent(self) -> int:
        """Return how many rules would have raised nothing."""
        return sum(rule.alerts == 0 for rule in self.rules)

    def as_json(self) -> dict[str, Any]:
        """Return it for programs."""
        return asdict(self)
