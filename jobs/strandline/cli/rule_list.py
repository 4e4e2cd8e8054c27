"""What ``strandline rules list`` does: the rules that run, with what the last backtest found out about them."""

import json
from collections import Counter
from enum import StrEnum
from pathlib import Path
from typing import Any

from strandline.alerting.rules.alert_rule import AlertRule
from strandline.alerting.rules.sigma.folder import Folder
from strandline.alerting.rules.threshold_rule import ThresholdRule
from strandline.cli.screen import emit, note, show
from strandline.core.errors import DefinitionError
from strandline.operate import lakes
from strandline.operate.alerts.rules import read_rules, refused_words

LISTED = ("rule", "title", "severity", "table", "owner", "version", "examples")


class Only(StrEnum):
    """Which rules are listed, by what a backtest found out."""

    NEVER = "never"
    """Those that raised nothing."""
    SLOW = "slow"
    """Those that cost more than the limit, each alone (jobs/strandline/alerting/history/rule_cost.py)."""


def listed(
    folder: Path | None, *, attack: bool, only: Only | None, lake: str | None, as_json: bool
) -> None:
    """List rules, or the tags that they cover.

    Raises:
        DefinitionError: No backtest has found out which rules are asked for.
    """
    found = read_rules(folder)
    if attack:
        _tags(found, as_json=as_json)
        return
    last = _last_backtest(lake)
    _refuse_unknown(last, only)
    tried = {(each["rule"], each["version"]): each for each in last.get("rules", ())}
    shown = ["alerts"] if last else []
    shown += ["micros"] if only is Only.SLOW else []
    records = [
        _record(rule) | {name: figures.get(name) for name in shown}
        for rule in found.every
        for figures in [tried.get((rule.id, rule.version), {})]
        if _is_wanted(figures, only)
    ]
    records.sort(key=lambda each: (each["table"], each["title"]))
    if only is Only.SLOW:
        records.sort(key=lambda each: -each["micros"])
    if as_json:
        emit(records)
        return
    names = (*LISTED, *shown)
    show(None, names, [tuple(each[name] for name in names) for each in records])
    if words := refused_words(found):
        note(words)


def _tags(found: Folder, *, as_json: bool) -> None:
    covered = Counter(tag for rule in found.every for tag in rule.tags)
    rows = sorted((tag, times) for tag, times in covered.items() if tag.startswith("attack."))
    if as_json:
        emit([{"tag": tag, "rules": times} for tag, times in rows])
    else:
        show(None, ("tag", "rules"), rows)


def _last_backtest(lake: str | None) -> dict[str, Any]:
    """Return the figures of the last backtest; nothing if there was none."""
    _, where = lakes.configured(lake)
    text = where.backtest_figures.text()
    return dict(json.loads(text)) if text else {}


def _refuse_unknown(last: dict[str, Any], only: Only | None) -> None:
    if only is Only.NEVER and not last:
        raise DefinitionError(
            "no backtest has said yet which rules fire", hint="`strandline rules backtest` does."
        )
    if only is Only.SLOW and last.get("limit") is None:
        raise DefinitionError(
            "the last backtest has not measured what each rule costs",
            hint="`strandline rules backtest --cost` does.",
        )


def _is_wanted(figures: dict[str, Any], only: Only | None) -> bool:
    match only:
        case Only.NEVER:
            return figures.get("alerts") == 0
        case Only.SLOW:
            return figures.get("micros") is not None
        case None:
            return True


def _record(rule: AlertRule | ThresholdRule) -> dict[str, Any]:
    sources = (rule.source,) if isinstance(rule, AlertRule) else rule.sources
    return {
        "rule": rule.id,
        "title": rule.title,
        "severity": str(rule.severity),
        "table": ", ".join(source.table.id for source in sources),
        "owner": rule.owner,
        "version": rule.version,
        "examples": len(rule.fires_on) + len(rule.quiet_on),
        "runbook": rule.runbook,
        "tags": list(rule.tags),
        "file": rule.origin,
    }
