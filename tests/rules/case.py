r"""The specification's table of modifiers: for each, events on which a rule fires and events on which it stays quiet.

A case is a detection as it is written in YAML, and the values of one field (or whole events) on both sides. Quoted from
the specification where it gives an example.
"""

from dataclasses import dataclass, field
from functools import cache
from typing import Any

from strandline.alerting.alert_rule import AlertRule
from strandline.alerting.sigma import read_rule

PROCESS = {"category": "process_creation"}
NETWORK = {"category": "network_connection"}


@dataclass(frozen=True)
class Case:
    """A detection, and what it does."""

    name: str
    detection: dict[str, Any]
    fires: list[Any]
    quiet: list[Any]
    logsource: dict[str, str] = field(default_factory=lambda: PROCESS)

    @cache  # noqa: B019  # as many as there are cases
    def rule(self) -> AlertRule:
        """Return the rule of the case, with its events as examples."""
        return read_rule(
            {
                "title": self.name,
                "logsource": self.logsource,
                "detection": {"condition": "a", **self.detection},
                "strandline": {"fires_on": self.fires, "quiet_on": self.quiet},
            },
            self.name,
        )

    __hash__ = object.__hash__


def one(name: str, key: str, value: object, fires: list[object], quiet: list[object]) -> Case:
    """Return a case about one field."""
    column = key.partition("|")[0]
    where = NETWORK if column in {"SourceIp", "DestinationIp", "DestinationPort"} else PROCESS
    return Case(
        name,
        {"a": {key: value}},
        [{column: each} for each in fires],
        [{column: each} for each in quiet],
        where,
    )


def line(
    name: str, modifiers: str, value: object, fires: list[object], quiet: list[object]
) -> Case:
    """Return a case about a command line."""
    return one(name, f"CommandLine{modifiers}", value, fires, quiet)
