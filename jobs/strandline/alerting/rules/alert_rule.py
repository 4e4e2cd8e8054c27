"""A rule that raises alerts, as a value: what it looks for, how bad that is, who answers, and examples that prove it.

Not to be confused with a rule of rows (``strandline_quality.rules.Rule``), which decides whether a row is believed. An alert rule
looks at rows that are.

This is the *pattern* rule, which looks at one event. A rule that counts events or waits for a second one is a kind of
its own (jobs/strandline/alerting/rules/threshold_rule.py) with the same frame (``severity``, ``runbook``, ``owner``, ``version``); whatever lists, mutes or delivers
rules needs the frame only.
"""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from strandline.alerting.rules.condition import Condition, columns, simplified
from strandline.alerting.source import AlertSource
from strandline.core.errors import DefinitionError

Event = Mapping[str, object]


class Severity(StrEnum):
    """How bad it is when a rule fires, in Sigma's levels."""

    INFORMATIONAL = "informational"
    """No one is called; it enriches the event."""
    LOW = "low"
    """Notable in numbers."""
    MEDIUM = "medium"
    """Reviewed by hand, now and then."""
    HIGH = "high"
    """Reviewed soon."""
    CRITICAL = "critical"
    """Reviewed now."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AlertRule:
    """A pattern in one event that a person wants to know of.

    Args:
        id: Its name for ever; alerts and their history carry it.
        title: What it detects, in a line.
        source: The table whose rows it looks at.
        when: The condition; it is kept in its simplified form.
        severity: How bad it is.
        fires_on: Events on which it must fire; columns that are not named are NULL.
        quiet_on: Events on which it must not.
        owner: Who answers; the table's owner when empty.
        runbook: What to do then: a page, or an address.
        about: More than the title.
        tags: Such as ``attack.t1059.001``.
        origin: Where it was declared.
        document: What it was read from.

    Raises:
        DefinitionError: The condition names no column of the table, or an example is no row of it.
    """

    id: str
    title: str
    source: AlertSource
    when: Condition
    severity: Severity = Severity.MEDIUM
    fires_on: tuple[Event, ...] = field(default=(), hash=False)
    quiet_on: tuple[Event, ...] = field(default=(), hash=False)
    owner: str = ""
    runbook: str = ""
    about: str = ""
    tags: tuple[str, ...] = ()
    origin: str = ""
    document: Mapping[str, Any] | None = field(default=None, compare=False, repr=False)

    def __post_init__(self) -> None:
        """Bring condition and examples into the form in which they are used, and refuse those that have none."""
        object.__setattr__(self, "when", simplified(self.when))
        object.__setattr__(self, "owner", self.owner or self.source.table.owner)
        unknown = sorted(columns(self.when) - set(self.source.fields.fieldNames()))
        if unknown:
            raise DefinitionError(
                f"the rule {self.id} looks at {', '.join(unknown)}, which {self.source.table.id} does not have",
                hint=f"its columns are {', '.join(self.source.fields.fieldNames())}.",
                rule=self.id,
            )
        for name in ("fires_on", "quiet_on"):
            rows = tuple(self.source.row(event) for event in getattr(self, name))
            object.__setattr__(self, name, rows)

    @property
    def sources(self) -> tuple[AlertSource, ...]:
        """Return the tables that it looks at, as a threshold rule does."""
        return (self.source,)

    @property
    def version(self) -> str:
        """Return the hash of its meaning: the table and the condition, and not the words about them."""
        meaning = f"{self.source.table.id}\n{self.when!r}"
        return hashlib.sha256(meaning.encode()).hexdigest()[:12]

    @property
    def is_tested(self) -> bool:
        """Return whether it has examples of both kinds."""
        return bool(self.fires_on and self.quiet_on)

    def __str__(self) -> str:
        """Return its name."""
        return self.id
