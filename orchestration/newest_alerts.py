"""The newest alerts beside each materialisation of gold.alerts, each one click from its event and its runbook.

The link leads to the alert's page, which has both (quality/report/alert_page.py); without `strandline ui` nothing serves
pages, and the commands beside it say the same.
"""

import re
from collections.abc import Mapping
from typing import Any

from dagster import MetadataValue

from jobs.core.table import Table
from jobs.engine.storage.lake import Lake
from jobs.engine.trust import report_server

ALERTS = "gold.alerts"
SHOWN = 20

HEAD = """| event | severity | rule | key | its event | what to do |
|---|---|---|---|---|---|
"""
MARKUP = re.compile(r"[\\`*_\[\]<>|#!&]")


def newest_alerts(table: Table, lake: Lake) -> Mapping[str, MetadataValue]:
    """Return the metadata with the newest alerts; empty for other tables, and where there is no alert."""
    if table.id != ALERTS:
        return {}
    # Not imported above: a project of other tables has the other metadata.
    from jobs.engine.trust.alert_lookup import newest_alerts as found  # noqa: PLC0415
    from orchestration.rule_book import rule_book  # noqa: PLC0415

    rows = found(lake, SHOWN)
    if not rows:
        return {}
    rules = {rule.id: rule for rule in rule_book(tries=False).rules.values()}
    where = report_server.address(lake)
    lines = [_line(row, rules, where) for row in rows]
    return {"newest alerts": MetadataValue.md(HEAD + "\n".join(lines))}


def _line(row: Mapping[str, Any], rules: Mapping[str, Any], where: str | None) -> str:
    """Return a line of the table; what comes from rules and events is words in it, and no mark-up."""
    from jobs.engine.trust.alert_lookup import place_of  # noqa: PLC0415  # as above
    from jobs.rules.runbook import is_address  # noqa: PLC0415

    rule = rules.get(row["rule_id"])
    title = _plain(rule.title if rule else row["rule_id"])
    runbook = rule.runbook if rule else ""
    page = report_server.alert_link(where, row["alert_id"], row["event_at"]) if where else ""
    to_do = runbook if is_address(runbook) else page
    cells = [
        f"{row['event_at']:%Y-%m-%d %H:%M:%S}",
        row["rule_severity"],
        f"[{title}]({page})" if page else title,
        _plain(row["event_key"]),
        f"`strandline why {place_of(row)}`",
        f"[runbook]({_address(to_do)})" if to_do else _plain(runbook),
    ]
    return f"| {' | '.join(cells)} |"


def _plain(text: str) -> str:
    return MARKUP.sub(lambda sign: f"&#{ord(sign[0])};", " ".join(text.split()))


def _address(text: str) -> str:
    """Return an address that ends where it ends."""
    return re.sub(r"[\s()<>|]", "", text)
