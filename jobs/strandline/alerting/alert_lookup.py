"""One alert of gold, with what a person needs to judge it: its rule, its event, where that is, and what to do."""

import json
import re
from collections.abc import Mapping
from datetime import UTC, date, datetime, time, timedelta
from typing import Any

from strandline.alerting.alert_rule import Rule
from strandline.alerting.tables import gold
from strandline.core.errors import LakeError
from strandline.engine.ask.locate import World
from strandline.engine.ask.why import why
from strandline.engine.lake.lake import Lake
from strandline.engine.lake.read.find_rows import Where, look, newest_rows
from strandline.project import project
from strandline_infra import home
from strandline_quality.report.page import AlertFound

# What to do when a rule fires: the section of the page that the rule names, so that no one has to search for it.
#
# A folder of rules is not trusted, so nothing is read but pages of the project, and of each at most a bound.


LARGEST = 256 * 1024
ADDRESS = re.compile(r"https?://\S+")
FENCED = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)
"""Commands, whose comments look as headings do."""

HEADING = re.compile(r"^(#+) +(.+?) *$", re.MULTILINE)


def is_address(runbook: str) -> bool:
    """Return whether a runbook is a page of the web, to which a link leads."""
    return bool(ADDRESS.fullmatch(runbook))


def words(runbook: str) -> str:
    """Return the section that a runbook names, the whole page without one, or the name itself if it is no page here."""
    page, _, wanted = runbook.partition("#")
    try:
        found = project()
        root = (found.root if found else home.top()).resolve()
        file = (root / page if found else home.page(page)).resolve(strict=True)
        if file.suffix != ".md" or not file.is_relative_to(root):
            return runbook
        with file.open(encoding="utf-8") as opened:
            text = opened.read(LARGEST)
    except (OSError, ValueError):
        return runbook
    return _section(text, wanted) if wanted else text


def _section(text: str, wanted: str) -> str:
    """Return a section with its heading, found by the name that links have; the whole text if there is none."""
    begun: re.Match[str] | None = None
    bare = FENCED.sub(lambda code: " " * len(code[0]), text)
    for heading in HEADING.finditer(bare):
        if begun and len(heading[1]) <= len(begun[1]):
            return text[begun.start() : heading.start()].strip()
        if begun is None and _anchor(heading[2]) == wanted:
            begun = heading
    return text[begun.start() :].strip() if begun else text


def _anchor(heading: str) -> str:
    """Return the name under which a link finds a heading."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


RAISED_AT = "raised_at"


def newest_alerts(lake: Lake, number: int) -> list[dict[str, Any]]:
    """Return the rows of the newest alerts, the newest first."""
    return newest_rows(lake.table(gold.TABLE), RAISED_AT, number)


def alert_found(
    lake: Lake, alert_id: str, day: date, rules: Mapping[str, Rule], now: datetime
) -> AlertFound | None:
    """Return an alert; None if gold does not have it.

    Args:
        lake: The lake.
        alert_id: Its id.
        day: The day of its event; an id is no order of time, and without a day every file would be read.
        rules: The rules by their ids.
        now: The current time.
    """
    begins = datetime.combine(day, time(), UTC)
    within = {gold.TABLE.event_at: (begins, begins + timedelta(days=1))}
    where = Where(equal={"alert_id": alert_id}, within=within, most=1)
    found = look(lake.table(gold.TABLE), where)
    return _shown(found[0].row, lake, rules, now) if found else None


def place_of(row: Mapping[str, Any]) -> str:
    """Return where in Kafka the event of an alert is."""
    return f"{row['event_topic']}/{row['event_partition']}/{row['event_offset']}"


def _shown(row: dict[str, Any], lake: Lake, rules: Mapping[str, Rule], now: datetime) -> AlertFound:
    rule = rules.get(row["rule_id"])
    place, at = place_of(row), row["event_at"]
    page = rule.runbook if rule and is_address(rule.runbook) else ""
    return AlertFound(
        lake=lake.root.name,
        alert_id=row["alert_id"],
        title=rule.title if rule else row["rule_id"],
        about=rule.about if rule else "",
        severity=row["rule_severity"],
        rule=row["rule_id"],
        version=row["rule_version"],
        file=rule.origin if rule else "no longer in the folder",
        tags=rule.tags if rule else (),
        table=row["event_table"],
        at=at.isoformat(),
        raised_at=row[RAISED_AT].isoformat(),
        key=json.loads(row["event_key"]),
        event=json.loads(row["event"]),
        place=place,
        where=_where(place, lake, now),
        runbook=words(rule.runbook) if rule and rule.runbook and not page else "",
        runbook_page=page,
        commands=(
            f"strandline why {place}",
            f"strandline rules explain --event {place}",
        ),
    )


def _where(place: str, lake: Lake, now: datetime) -> str:
    """Return what became of the event; a lake that cannot say it does not keep the alert from being shown."""
    try:
        return why(place, None, World(lake=lake, now=now, search=False)).sentence
    except LakeError as error:
        return error.message
