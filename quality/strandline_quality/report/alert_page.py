"""The page of one alert: the event, where it is, what to do, and the commands that show more; made as the report is."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from strandline_quality.report.page import data, environment


@dataclass(frozen=True, slots=True, kw_only=True)
class AlertFound:
    """An alert with what a person needs to judge it. Sensitive columns are masked in ``key`` and ``event``.

    Args:
        lake: The name of the lake.
        alert_id: Its id.
        title: The title of its rule; the rule's id where no such rule is there any more.
        about: More than the title.
        severity: How bad it is.
        rule: The rule's id.
        version: The rule's version.
        file: Where the rule is declared.
        tags: The rule's tags.
        table: The table of the event.
        at: The time of the event.
        raised_at: When the alert came to its topic.
        key: The key of the event.
        event: The event.
        place: Where in Kafka the event is.
        where: What ``strandline why`` says of it.
        runbook: What to do, in words.
        runbook_page: The page with what to do, if it is one of the web.
        commands: What shows more.
    """

    lake: str
    alert_id: str
    title: str
    about: str
    severity: str
    rule: str
    version: str
    file: str
    tags: tuple[str, ...]
    table: str
    at: str
    raised_at: str
    key: Mapping[str, Any]
    event: Mapping[str, Any]
    place: str
    where: str
    runbook: str
    runbook_page: str
    commands: tuple[str, ...]


def page(found: AlertFound) -> str:
    """Return an alert as one HTML file."""
    heading, _, words = found.runbook.partition("\n")
    return (
        environment()
        .get_template("alert.html")
        .render(
            found=found,
            tone={"critical": "bad", "high": "bad", "medium": "warn"}.get(found.severity, "none"),
            event=[(name, _text(value)) for name, value in found.event.items()],
            key=", ".join(_text(value) for value in found.key.values()),
            where=found.where[:1].upper() + found.where[1:],
            heading=heading.lstrip("# ") if heading.startswith("#") else "",
            runbook=words.strip() if heading.startswith("#") else found.runbook,
            data=data(asdict(found)),
        )
    )


def _text(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
