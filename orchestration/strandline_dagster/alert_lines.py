"""The newest alerts beside each materialisation of gold.alerts, each one click from its event and its runbook.

The link leads to the alert's page, which has both (quality/strandline_quality/report/page.py); without `strandline ui` nothing serves
pages, and the commands beside it say the same. Dagster (1.13.27) shows a text of less than a thousand characters at once
and a longer one after a click, so the very newest are a text of their own.
"""

import re
from collections.abc import Mapping, Sequence
from itertools import accumulate
from typing import Any

from dagster import MetadataValue

from strandline.alerting.alert_lookup import is_address, newest_alerts, place_of
from strandline.engine.lake.lake import Lake
from strandline.engine.trust import report_server
from strandline_dagster.rule_book import Rule, rule_book

SHOWN = 20
AT_ONCE = 1_000
"""Characters."""

HEAD = """| event | severity | rule | key | its event | what to do |
|---|---|---|---|---|---|
"""
MARKUP = re.compile(r"[\\`*_\[\]<>|#!&]")


def alert_lines(lake: Lake) -> Mapping[str, MetadataValue]:
    """Return the metadata with the newest alerts; empty where there is none."""
    rows = newest_alerts(lake, SHOWN)
    if not rows:
        return {}
    rules = {rule.id: rule for rule in rule_book().rules.values()}
    where = report_server.address(lake)
    short = [_short(row, rules.get(row["rule_id"]), where) for row in rows]
    lines = [_line(row, rules.get(row["rule_id"]), where) for row in rows]
    return {
        "newest alerts": MetadataValue.md(_fitting(short)),
        "newest alerts, with commands": MetadataValue.md(HEAD + "\n".join(lines)),
    }


def _fitting(lines: Sequence[str]) -> str:
    """Return the first lines that fit into a text that is shown at once."""
    ends = accumulate(len(line) + 1 for line in lines)
    return "\n".join(line for line, end in zip(lines, ends, strict=True) if end <= AT_ONCE)


def _short(row: Mapping[str, Any], rule: Rule | None, where: str | None) -> str:
    return (
        f"* {row['event_at']:%Y-%m-%d %H:%M:%S} {_linked(row, rule, where)}, {row['rule_severity']}"
    )


def _linked(row: Mapping[str, Any], rule: Rule | None, where: str | None) -> str:
    """Return the title of an alert's rule, with the link to the alert's page."""
    title = _plain(rule.title if rule else row["rule_id"])
    return f"[{title}]({_page(row, where)})" if where else title


def _page(row: Mapping[str, Any], where: str) -> str:
    return report_server.alert_link(where, row["alert_id"], row["event_at"])


def _line(row: Mapping[str, Any], rule: Rule | None, where: str | None) -> str:
    """Return a line of the table; what comes from rules and events is words in it, and no mark-up."""
    runbook = rule.runbook if rule else ""
    to_do = runbook if is_address(runbook) else _page(row, where) if where else ""
    cells = [
        f"{row['event_at']:%Y-%m-%d %H:%M:%S}",
        row["rule_severity"],
        _linked(row, rule, where),
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
