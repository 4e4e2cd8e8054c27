"""What ``strandline rules backtest`` does."""

from dataclasses import asdict

from strandline.cli import place
from strandline.cli.screen import emit, note, progress, say, show
from strandline.engine.storage.rule_shelf import Promotion
from strandline.operate import ranges, session
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
from strandline.operate.alerts.rules import chosen
from strandline_quality.report.backtest import Backtest, Change, RuleFigures
from strandline_quality.report.backtest_page import sentence

COLUMNS = ("rule", "severity", "alerts", "most a day", "on", "most on")
CHANGES = ("rule", "version", *map(str, Change))
SHOWN = 30
"""Rules that a terminal shows; the page has all of them."""


def backtested(words: Words, lake: str | None, *, as_json: bool) -> None:
    """Run rules over history, print what they would have raised, and write the page."""
    span = ranges.both(words.since, words.until, "neither for all that is closed")
    own = runnable(chosen(words.rules), words.rules)
    settings, where = place.existing(lake)
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
