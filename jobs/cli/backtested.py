"""What ``strandline rules backtest`` does."""

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from pyspark.sql import SparkSession

from jobs.cli import chosen_rules, place, promoted
from jobs.cli.closed_history import everything, has, meet, refuse_unclosed
from jobs.cli.screen import emit, note, progress, say, show
from jobs.core.errors import DefinitionError
from jobs.engine.repair.closed_range import Span, closed_until
from jobs.engine.runtime import clock
from jobs.engine.storage.lake import Lake
from jobs.engine.storage.place import Place
from jobs.engine.storage.rule_shelf import Promotion
from jobs.engine.trust.backtest import Asked, Rule, backtest, days_of, extent
from jobs.engine.trust.rule_cost import LIMIT, slow_rules
from jobs.engine.trust.watched_job import Show
from jobs.gold import alerts as gold
from jobs.operate import ranges, session
from jobs.rules.alert_rule import AlertRule
from jobs.rules.sigma.folder import Folder
from jobs.rules.sources import SOURCES, Source
from jobs.rules.threshold_rule import ThresholdRule
from quality.report.backtest import Backtest, Change, RuleFigures, TableCost
from quality.report.backtest_page import page, sentence

COLUMNS = ("rule", "severity", "alerts", "most a day", "on", "most on")
CHANGES = ("rule", "version", *map(str, Change))
LIVE = "live"  # the alerts that were raised, where another version of the rules is named
SHOWN = 30
"""Rules that a terminal shows; the page has all of them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Words:
    """What was typed."""

    rules: str | None
    since: str | None
    until: str | None
    against: str | None
    to: Path | None
    cost: bool
    promote: bool


def backtested(words: Words, lake: str | None, *, as_json: bool) -> None:
    """Run rules over history, print what they would have raised, and write the page."""
    span = ranges.both(words.since, words.until, "neither for all that is closed")
    own = _runnable(chosen_rules.chosen(words.rules), words.rules)
    settings, where = place.existing(lake)
    if words.promote:
        promoted.refuse_elsewhere(settings)
        promoted.refuse_unfit(own)
    is_live = words.against == LIVE
    if is_live:
        where.refuse_missing(gold.TABLE)
    other = None if is_live else words.against
    others = chosen_rules.compared(other, words.rules) if other else None
    there = _existing(where, _sources(own, others))
    for source in there:
        refuse_unclosed(source, where, span)
    note("starting Spark …")
    spark = session.site(settings, where, None, says=note).spark
    if words.promote:
        promoted.refuse_contradicted(own, spark)
    desk = _Desk(spark, where, own, others, is_live)
    found = _found(desk, there, span, words)
    spark.stop()
    where.backtest_figures.put(json.dumps(found.as_json()))
    file = _written(found, where, words.to) if words.to or not as_json else None
    if not as_json:
        _say(found)
        say(f"the page: {file}")
    live = _live(own, found, words, where) if words.promote else None
    if as_json:
        emit(found.as_json() | ({"promoted": asdict(live)} if live else {}))


def _live(own: Folder, found: Backtest, words: Words, lake: Lake) -> Promotion:
    """Make the rules live that were tried."""
    promoted.refuse_untried(own, found)
    done = promoted.promoted(own, found, words.rules, lake)
    note(
        f"{len(done.rules):,} rules are live as version {done.version}; `strandline alerts` without a folder "
        "takes them over within seconds, and `strandline rules undo` takes them back"
    )
    return done


def on_history(spark: SparkSession, lake: Lake, own: Folder) -> Backtest:
    """Run rules over all that is closed, as the verb does, and note figures and page where the verb does.

    A table of which nothing is closed yet is left out, so that a new table does not hold up the rules about the others.

    Raises:
        DefinitionError: Nothing of any of their tables is closed.
    """
    there = _existing(lake, _sources(own))
    closed = [source for source in there if closed_until(source.table, lake)]
    if not closed:
        refuse_unclosed(there[0], lake, None)
    asked = Words(
        rules=None, since=None, until=None, against=None, to=None, cost=False, promote=False
    )
    found = _found(_Desk(spark, lake, own, None), closed, None, asked)
    lake.backtest_figures.put(json.dumps(found.as_json()))
    _written(found, lake, None)
    return found


@dataclass(frozen=True, slots=True)
class _Desk:
    spark: SparkSession
    lake: Lake
    own: Folder
    others: Folder | None
    live: bool = False

    def asked(self, there: Sequence[Source], span: Span) -> Iterator[Asked]:
        """Yield what is asked of each table by pattern rules, and of all of them by threshold rules."""
        for source in there:
            rules = _about(self.own.rules, source)
            others = None if self.others is None else _about(self.others.rules, source)
            if rules or others:
                sources = (source,)
                yield Asked(sources=sources, rules=rules, others=others, span=span, live=self.live)
        own, former = _counting(self.own, there), _counting(self.others, there)
        if own or former:
            counted = tuple(dict.fromkeys(s for rule in (*own, *former) for s in rule.sources))
            compared = None if self.others is None else former
            yield Asked(sources=counted, rules=own, others=compared, span=span, live=self.live)


def _found(desk: _Desk, there: Sequence[Source], given: Span | None, words: Words) -> Backtest:
    known = {source: extent(desk.spark, source.table, desk.lake) for source in there}
    span = given or everything(known, desk.lake)
    holding = [source for source, its in known.items() if its and meet(its, span)]
    if not holding:
        raise DefinitionError(
            f"there is no event between {span.since.isoformat()} and {span.until.isoformat()}",
            hint="; ".join(has(source, its) for source, its in known.items()) + ".",
        )
    costs: list[TableCost] = []
    rules: list[RuleFigures] = []
    for asked in desk.asked(holding, span):
        names = ", ".join(source.table.id for source in asked.sources)
        with _shown(f"{names}, {len(asked.every):,} rules") as show:
            cost, findings = backtest(desk.spark, desk.lake, asked, show)
        costs.append(cost)
        rules += findings
    measures = words.cost or words.promote
    if measures:
        rules = list(_priced(rules, desk, holding, span))
    refused = [*desk.own.refused, *(desk.others.refused if desk.others else ())]
    absent = [source for source in SOURCES if source not in holding]
    return Backtest(
        lake=desk.lake.root.name,
        made_at=clock.now().isoformat(timespec="seconds"),
        since=span.since.isoformat(),
        until=span.until.isoformat(),
        days=tuple(days_of(span)),
        against=words.against,
        limit=LIMIT if measures else None,
        tables=tuple(costs),
        rules=tuple(sorted(rules, key=lambda rule: (-rule.alerts, rule.title))),
        skipped=(
            *((each.origin, each.reason) for each in refused),
            *(
                (rule.title, f"{source.table.id} has no event of these days")
                for source in absent
                for rule in _about_any(desk.own, source)
            ),
        ),
    )


def _priced(
    rules: Sequence[RuleFigures], desk: _Desk, holding: Sequence[Source], span: Span
) -> Iterator[RuleFigures]:
    """Yield the figures of rules, those that are slow with what each costs alone."""
    slow: dict[tuple[str, str | None], float] = {}
    for source in holding:
        own = _about(desk.own.rules, source)
        if own:
            note(f"trying which of {len(own):,} rules of {source.table.id} are slow …")
            found = slow_rules(desk.spark, desk.lake, source, own, span)
            slow |= {(rule.id, rule.version): micros for rule, micros in found.items()}
    for each in rules:
        yield replace(each, micros=slow.get((each.rule, each.version)))


def _runnable(found: Folder, named: str | None) -> Folder:
    if found.rules or found.thresholds:
        return found
    why = f": {found.refused[0].reason}" if found.refused else ""
    raise DefinitionError(
        f"{named or 'the starter set'} has no rule that runs{why}",
        hint="`strandline rules lint` names each rule that does not run with its reason.",
    )


def _existing(lake: Lake, wanted: Sequence[Source]) -> list[Source]:
    """Return the tables that exist.

    Raises:
        DefinitionError: None exists.
    """
    found = [source for source in wanted if lake.exists(source.table)]
    if not found:
        lake.refuse_missing(wanted[0].table)
    return found


def _sources(*folders: Folder | None) -> list[Source]:
    """Return the tables that the rules of folders are about."""
    named = {rule.source for each in folders if each for rule in each.rules}
    named |= {
        source for each in folders if each for rule in each.thresholds for source in rule.sources
    }
    return [source for source in SOURCES if source in named]


def _counting(found: Folder | None, there: Sequence[Source]) -> list[ThresholdRule]:
    """Return the threshold rules all of whose tables are there."""
    rules = found.thresholds if found else ()
    return [rule for rule in rules if set(rule.sources) <= set(there)]


def _about_any(found: Folder, source: Source) -> Iterator[Rule]:
    """Yield the rules of both kinds that look at a table."""
    yield from _about(found.rules, source)
    yield from (rule for rule in found.thresholds if source in rule.sources)


def _about(rules: Sequence[AlertRule], source: Source) -> list[AlertRule]:
    return [rule for rule in rules if rule.source == source]


@contextmanager
def _shown(what: str) -> Iterator[Show]:
    """Show how many of the tasks of a stage are done; each stage is counted for itself."""
    with progress(what, 100) as advance:
        yield lambda done, total: advance(done * 100 // max(total, 1))


def _written(found: Backtest, lake: Lake, to: Path | None) -> Place:
    """Write the page, to the lake by default.

    Raises:
        DefinitionError: It cannot be written there.
    """
    file = Place.of(to) if to else lake.backtest
    try:
        file.put(page(found))
    except OSError as error:
        raise DefinitionError(
            f"the page cannot be written to {file}: {error.strerror}",
            hint="name another file with --to.",
            file=str(file),
        ) from error
    return file


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
