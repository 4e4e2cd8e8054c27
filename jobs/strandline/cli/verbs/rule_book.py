"""What ``strandline rules`` does, its list and its backtest."""

import importlib
import json
from collections import Counter
from dataclasses import asdict
from enum import StrEnum
from pathlib import Path
from typing import Any

from strandline.alerting.alert_rule import AlertRule, ThresholdRule
from strandline.alerting.compile import Explanation
from strandline.alerting.sigma import Folder
from strandline.cli import screen
from strandline.cli.screen import emit, note, progress, say, show
from strandline.core.errors import DefinitionError
from strandline.engine.lake.shelves import Promotion
from strandline.engine.repair import closed_range
from strandline.operate import lakes, session
from strandline.operate.alerts.backtest import (
    Trial,
    Words,
    keep_figures,
    made_live,
    prepared,
    runnable,
    tried,
    write_page,
)
from strandline.operate.alerts.examples import (
    chosen,
    contradictions,
    event_of,
    lacks,
    read_rules,
    refuse_masked,
    refused_words,
)
from strandline.operate.alerts.examples import explained as explained_rules
from strandline_quality.findings import Backtest, Change, RuleFigures
from strandline_quality.page import sentence


def tested(folder: Path | None, lake: str | None, *, as_json: bool) -> None:
    """Run examples.

    Raises:
        DefinitionError: A rule does the opposite of what an example says.
    """
    found = read_rules(folder)
    settings, where = lakes.configured(lake)
    note("starting Spark …")
    # Not imported above: the other subcommands answer before it is imported.
    session = importlib.import_module("strandline.operate.session")
    site = session.site(settings, where, None, is_brief=True, says=note)
    wrong = contradictions(found, site.spark)
    site.spark.stop()
    rules = found.every
    examples = sum(len(rule.fires_on) + len(rule.quiet_on) for rule in rules)
    untested = sum(not rule.is_tested for rule in rules)
    if as_json:
        emit(
            {
                "rules": len(rules),
                "examples": examples,
                "untested": untested,
                "broken": [{"rule": each.rule, "reason": each.reason} for each in wrong],
            }
        )
    else:
        for each in wrong:
            say(f"{each.origin}: {each.reason}")
        say(f"{len(rules):,} rules, {examples:,} examples, {len(wrong):,} of them wrong")
        if untested:
            note(
                f"{untested:,} rules lack an example of one kind; `strandline rules lint` names them"
            )
    if words := refused_words(found):
        note(words)
    if wrong:
        raise DefinitionError(
            f"{len(wrong):,} examples contradict their rules",
            hint="correct the rule or the example; `strandline rules explain` names the clauses that fail.",
        )


def linted(folder: Path | None, *, as_json: bool) -> None:
    """List what does not run, and what rules lack.

    Raises:
        DefinitionError: A rule does not run.
    """
    found = read_rules(folder)
    lacking = [(rule.origin, what) for rule in found.every if (what := lacks(rule))]
    if as_json:
        emit(
            {
                "runs": len(found.every),
                "refused": [{"file": e.origin, "reason": e.reason} for e in found.refused],
                "lacking": [{"file": origin, "lacks": what} for origin, what in lacking],
            }
        )
    else:
        for refused in found.refused:
            say(f"{refused.origin}: {refused.reason}")
        for origin, what in lacking:
            say(f"{origin}: runs, and lacks {what}")
        say(f"{len(found.every):,} rules run, {len(found.refused):,} do not")
    if found.refused:
        raise DefinitionError(
            f"{len(found.refused):,} rules do not run", hint="correct each by its reason above."
        )


def explained(  # noqa: PLR0913  # as the command line has them
    asked: tuple[Path | None, str | None],
    table: str | None,
    folder: Path | None,
    *,
    near: int,
    lake: str | None,
    as_json: bool,
) -> None:
    """Show what rules say of one event."""
    found = read_rules(folder)
    if folder is not None and asked[1] is not None:
        refuse_masked(found, screen.existing(lake)[1])
    source, row = event_of(asked, table, lambda: screen.existing(lake)[1])
    fired, missed, said = explained_rules(source, row, found, near)
    if as_json:
        emit([_explanation(each) for each in (*fired, *missed)])
        return
    for each in fired:
        say(f"fires: {each.rule.title} ({each.rule.severity}, {each.rule.origin})")
    for each in missed:
        say(
            f"near miss, {each.held} of {each.asked} parts hold: {each.rule.title} ({each.rule.origin})"
        )
        for reason in each.failing:
            say(f"  {reason}")
    quiet = said - len(fired) - len(missed)
    say(f"{said:,} rules look at {source.table.id}; {quiet:,} others stay quiet")


def undone(lake: str | None, *, as_json: bool) -> None:
    """Take the last promotion back."""
    from strandline.operate.alerts.backtest import take_back  # noqa: PLC0415  # the other subcommands do not promote

    _, where = screen.existing(lake, writes=True)
    gone, again = take_back(where)
    if as_json:
        emit({"taken_back": gone.version, "live": again.version if again else None})
        return
    live = f"version {again.version} is" if again else "the project's rules are"
    say(f"version {gone.version} of {gone.at}, by {gone.by}, is taken back; {live} live again")


def _explanation(each: Explanation) -> dict[str, object]:
    return {
        "rule": each.rule.id,
        "title": each.rule.title,
        "fires": each.fires,
        "held": each.held,
        "asked": each.asked,
        "failing": list(each.failing),
    }


# What ``strandline rules list`` does: the rules that run, with what the last backtest found out about them.


LISTED = ("rule", "title", "severity", "table", "owner", "version", "examples")


class Only(StrEnum):
    """Which rules are listed, by what a backtest found out."""

    NEVER = "never"
    """Those that raised nothing."""
    SLOW = "slow"
    """Those that cost more than the limit, each alone (jobs/strandline/alerting/backtest.py)."""


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


# What ``strandline rules backtest`` does.


COLUMNS = ("rule", "severity", "alerts", "most a day", "on", "most on")
CHANGES = ("rule", "version", *map(str, Change))
SHOWN = 30
"""Rules that a terminal shows; the page has all of them."""


def backtested(words: Words, lake: str | None, *, as_json: bool) -> None:
    """Run rules over history, print what they would have raised, and write the page."""
    span = closed_range.both(words.since, words.until, "neither for all that is closed")
    own = runnable(chosen(words.rules), words.rules)
    settings, where = screen.existing(lake)
    trial = prepared(own, words, span, settings, where)
    note("starting Spark …")
    spark = session.site(settings, where, None, says=note).spark
    found = tried(trial, spark, note, progress)
    spark.stop()
    keep_figures(found, where)
    file = write_page(found, where, words.to) if words.to or not as_json else None
    if not as_json:
        _say(found)
        say(f"the page: {file}")
    live = _live(trial, found) if words.promote else None
    if as_json:
        emit(found.as_json() | ({"promoted": asdict(live)} if live else {}))


def _live(trial: Trial, found: Backtest) -> Promotion:
    done = made_live(trial, found)
    note(
        f"{len(done.rules):,} rules are live as version {done.version}; `strandline alerts` without a folder "
        "takes them over within seconds, and `strandline rules undo` takes them back"
    )
    return done


def _say(found: Backtest) -> None:
    fired = [rule for rule in found.rules if rule.alerts]
    show(None, COLUMNS, [_row(rule) for rule in fired[:SHOWN]])
    if found.against:
        changed = [
            rule for rule in found.rules if rule.compared and any(rule.compared.counts.values())
        ]
        show(f"against {found.against}", CHANGES, [_changed(rule) for rule in changed[:SHOWN]])
        say(f"{len(changed):,} of {len(found.rules):,} rules change some alert")
    say(sentence(found))
    for cost in found.tables:
        say(
            f"{cost.table}: {cost.rules:,} rules over {cost.events:,} events "
            f"took {cost.seconds:.1f} s and {cost.cpu_seconds:.1f} s of CPU"
        )
    for rule in found.rules:
        if rule.micros is not None:
            say(f"slow: {rule.title} takes {rule.micros:,.0f} µs of CPU an event alone")
    if found.skipped:
        note(f"{len(found.skipped):,} rules were not tried; the page gives each reason")


def _row(rule: RuleFigures) -> tuple[object, ...]:
    name, most = rule.top[0] if rule.top else ("", 0)
    on = f"{rule.entities:,} of {rule.entity}"
    return (rule.title, rule.severity, rule.alerts, max(rule.days), on, f"{name}: {most:,}")


def _changed(rule: RuleFigures) -> tuple[object, ...]:
    compared = rule.compared
    versions = f"{(compared and compared.old_version) or 'new'} → {rule.version or 'removed'}"
    return (rule.title, versions, *(compared.counts[each] if compared else 0 for each in Change))
