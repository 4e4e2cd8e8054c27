"""Alert rules tried on history, on what is closed, so that no stream changes it any more; and which of them go live."""

import json
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from pyspark.sql import SparkSession

from strandline.alerting.alert_rule import (
    AlertRule,
    AlertSource,
    Rule,
    ThresholdRule,
    rules_folder,
    sources,
)
from strandline.alerting.backtest import LIMIT, Asked, backtest, days_of, extent, slow_rules
from strandline.alerting.rule_folder import file_of
from strandline.alerting.sigma import Folder, read_folder
from strandline.alerting.tables import gold
from strandline.core.errors import DefinitionError
from strandline.engine.lake import shelves
from strandline.engine.lake.completeness import refuse_unbounded
from strandline.engine.lake.lake import Lake
from strandline.engine.lake.place import Place
from strandline.engine.lake.shelves import Promotion
from strandline.engine.repair.closed_range import Span, closed_until, refuse_open, refuse_streamless
from strandline.engine.runtime import clock
from strandline.engine.runtime.jvm import Show
from strandline.engine.runtime.settings import Settings
from strandline.operate.alerts import examples
from strandline.operate.alerts.examples import (
    compared,
    contradictions,
    refuse_masked,
    refuse_other_columns,
)
from strandline.operate.audit import written
from strandline.operate.listener import Progress, Says
from strandline_quality.findings import Backtest, RuleFigures, TableCost
from strandline_quality.page import backtest_page

# Alert rules go live, and are taken back: which may, and how.


SLOWEST = 100.0
"""Microseconds of CPU an event that a rule may take alone: a fifth of a core with 2,000 events a second."""

SHOWN = 3
"""Reasons of a refusal that are shown."""


def refuse_elsewhere(found: Settings) -> None:
    """Refuse to promote where the rules of another folder raise alerts, because nothing would change.

    Raises:
        DefinitionError: The settings name a folder.
    """
    if found.rules:
        raise DefinitionError(
            f"nothing is promoted: the rules that raise alerts are those of STRANDLINE_RULES, {found.rules}",
            hint="put the file there, which is live within seconds; or unset STRANDLINE_RULES and promote.",
        )


def refuse_unfit(own: Folder) -> None:
    """Refuse what can be refused before anything runs.

    Raises:
        DefinitionError: A file has a rule that does not run, or a rule lacks an example of one kind.
    """
    _refuse(
        [
            *(f"{each.origin}: {each.reason}" for each in own.refused),
            *(
                f"{rule.origin} lacks examples of both kinds"
                for rule in own.every
                if not rule.is_tested
            ),
        ],
        "`strandline rules lint` names all of them.",
    )


def refuse_contradicted(own: Folder, spark: SparkSession) -> None:
    """Refuse rules that do the opposite of what an example says.

    Raises:
        DefinitionError: One does.
    """
    _refuse(
        [f"{each.origin}: {each.reason}" for each in contradictions(own, spark)],
        "correct the rule or the example; `strandline rules explain` names the clauses that fail.",
    )


def refuse_untried(own: Folder, found: Backtest) -> None:
    """Refuse rules that the backtest did not try, or that cost too much.

    Raises:
        DefinitionError: There is one.
    """
    tried = {(rule.rule, rule.version) for rule in found.rules}
    slow = [
        f"{rule.title} takes {rule.micros:,.0f} µs of CPU an event alone, more than {SLOWEST:.0f}"
        for rule in found.rules
        if rule.micros is not None and rule.micros > SLOWEST
    ]
    untried = [
        f"{rule.origin} was not tried: its tables have no event of these days"
        for rule in own.every
        if (rule.id, rule.version) not in tried
    ]
    _refuse(
        [*slow, *untried],
        "name another range with --since and --until, or rules that look for plainer things.",
    )


def promoted(own: Folder, found: Backtest, named: str | None, lake: Lake) -> Promotion:
    """Make rules live that a backtest has tried.

    Raises:
        DefinitionError: They would take the place of other rules, or bring rules that were not tried.
    """
    folder = examples.folder_of(named)
    names = sorted({file_of(origin) for origin in _origins(own)})
    before = read_folder(examples.promoted_folder(lake))
    wanted = {rule.id: rule for rule in own.every}

    def check(draft: Path) -> None:
        _refuse(
            _objections(before, read_folder(draft), wanted, names),
            "promote the folder with all of them, or rename the file.",
        )

    return shelves.put_live(
        lake,
        {name: (folder / name).read_bytes() for name in names},
        without=_replaced(before, wanted, names),
        base=rules_folder(),
        check=check,
        record={
            "at": found.made_at,
            "by": clock.login(),
            "rules": tuple(
                {"rule": rule.id, "version": rule.version, "file": rule.origin}
                for rule in wanted.values()
            ),
            "backtest": figures(found),
        },
    )


def figures(found: Backtest) -> Mapping[str, object]:
    """Return what is recorded of a backtest."""
    return {
        "since": found.since,
        "until": found.until,
        "events": found.events,
        "alerts": found.alerts,
        "alerts_by_rule": {rule.rule: rule.alerts for rule in found.rules},
        "cpu_seconds": sum(cost.cpu_seconds for cost in found.tables),
    }


def take_back(lake: Lake) -> tuple[Promotion, Promotion | None]:
    """Take the last promotion back; return it, and the one that is live again."""
    gone = shelves.take_back(lake, at=clock.now().isoformat(timespec="seconds"), by=clock.login())
    stack = shelves.promotions(lake)
    return gone, stack[-1] if stack else None


def _objections(
    before: Folder, after: Folder, wanted: Mapping[str, Rule], names: Sequence[str]
) -> Iterator[str]:
    """Yield why a folder must not go live."""
    for each in after.refused:
        if file_of(each.origin) in names:
            yield f"{each.origin}: {each.reason}"
    there = {rule.id: rule for rule in after.every}
    for rule in before.every:
        if rule.id not in there and rule.id not in wanted:
            yield f"the live rule {rule.title} ({rule.origin}) would raise nothing any more"
    known = {rule.id for rule in before.every}
    for id_, rule in there.items():
        if id_ not in known and id_ not in wanted:
            yield f"{rule.origin} has a rule that was not tried"
    for id_, rule in wanted.items():
        if id_ not in there or there[id_].version != rule.version:
            yield f"{rule.origin} would not be the rule that was tried"


def _replaced(before: Folder, wanted: Mapping[str, Rule], names: Sequence[str]) -> list[str]:
    """Return the live files with another name all of whose rules are promoted again."""
    by_file = defaultdict(set)
    for rule in before.every:
        by_file[file_of(rule.origin)].add(rule.id)
    return [name for name, ids in by_file.items() if name not in names and ids <= wanted.keys()]


def _origins(own: Folder) -> Iterator[str]:
    """Yield the origin of each rule, and of those that threshold rules count."""
    yield from (rule.origin for rule in own.every)
    yield from (part.rule.origin for rule in own.thresholds for part in rule.parts)


def _refuse(reasons: Iterator[str] | Sequence[str], hint: str) -> None:
    listed = list(reasons)
    if not listed:
        return
    more = f" (and {len(listed) - SHOWN:,} more)" if len(listed) > SHOWN else ""
    raise DefinitionError(
        f"nothing is promoted: {'; '.join(listed[:SHOWN])}{more}", hint=hint, reasons=listed
    )


LIVE = "live"  # the alerts that were raised, where another version of the rules is named


@dataclass(frozen=True, slots=True, kw_only=True)
class Words:
    """What is asked of a backtest."""

    rules: str | None
    since: str | None
    until: str | None
    against: str | None
    to: Path | None
    cost: bool
    promote: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """Rules, and the history that they are tried on.

    Args:
        lake: Where the history is.
        own: The rules.
        others: The rules that they are compared with.
        live: Whether they are compared with the alerts that were raised.
        there: The tables that are there.
        span: The range; all that is closed when None.
        words: What else is asked.
    """

    lake: Lake
    own: Folder
    others: Folder | None = None
    live: bool = False
    there: Sequence[AlertSource]
    span: Span | None = None
    words: Words

    def asked(self, holding: Sequence[AlertSource], span: Span) -> Iterator[Asked]:
        """Yield what is asked of each table by pattern rules, and of all of them by threshold rules."""
        for source in holding:
            rules = _about(self.own.rules, source)
            others = None if self.others is None else _about(self.others.rules, source)
            if rules or others:
                sources = (source,)
                yield Asked(sources=sources, rules=rules, others=others, span=span, live=self.live)
        own, former = _counting(self.own, holding), _counting(self.others, holding)
        if own or former:
            counted = tuple(dict.fromkeys(s for rule in (*own, *former) for s in rule.sources))
            compared = None if self.others is None else former
            yield Asked(sources=counted, rules=own, others=compared, span=span, live=self.live)


def runnable(found: Folder, named: str | None) -> Folder:
    """Return rules of which some run.

    Raises:
        DefinitionError: None does.
    """
    if found.rules or found.thresholds:
        return found
    why = f": {found.refused[0].reason}" if found.refused else ""
    raise DefinitionError(
        f"{named or 'the project'} has no rule that runs{why}",
        hint="`strandline rules lint` names each rule that does not run with its reason.",
    )


def prepared(own: Folder, words: Words, span: Span | None, found: Settings, lake: Lake) -> Trial:
    """Refuse what can be refused before Spark starts, and return what is to be tried.

    Raises:
        DefinitionError: The rules may not go live, a table is not there, or a stream may still change the range.
    """
    if words.promote:
        refuse_elsewhere(found)
        refuse_unfit(own)
    is_live = words.against == LIVE
    if is_live:
        lake.refuse_missing(gold.TABLE)
    other = None if is_live else words.against
    others = compared(other, words.rules) if other else None
    # Of an operator's order to promote rules a line is written.
    for each in () if words.promote else _typed(own, others, words):
        refuse_masked(each, lake)
    there = _existing(lake, _sources(own, others))
    for source in there:
        refuse_unclosed(source, lake, span)
    return Trial(
        lake=lake, own=own, others=others, live=is_live, there=there, span=span, words=words
    )


def _typed(own: Folder, others: Folder | None, words: Words) -> Iterator[Folder]:
    """Yield the rules that a person may have written for this question: those of a folder or a file, and of its commits."""
    is_own = words.rules is not None and Path(words.rules).exists()
    if is_own:
        yield own
    if others is not None and (is_own or Path(str(words.against)).exists()):
        yield others


def tried(trial: Trial, spark: SparkSession, says: Says, progress: Progress) -> Backtest:
    """Run rules over history.

    Raises:
        DefinitionError: The range has no event, a source declares a column that its table does not have, or a rule that is
            to go live contradicts an example of its own.
    """
    words, lake = trial.words, trial.lake
    refuse_other_columns(trial.there, spark)
    if words.promote:
        refuse_contradicted(trial.own, spark)
    known = {source: extent(spark, source.table, lake) for source in trial.there}
    span = trial.span or everything(known, lake)
    holding = [source for source, its in known.items() if its and meet(its, span)]
    if not holding:
        raise DefinitionError(
            f"there is no event between {span.since.isoformat()} and {span.until.isoformat()}",
            hint="; ".join(has(source, its) for source, its in known.items()) + ".",
        )
    costs: list[TableCost] = []
    rules: list[RuleFigures] = []
    for asked in trial.asked(holding, span):
        names = ", ".join(source.table.id for source in asked.sources)
        with _shown(progress, f"{names}, {len(asked.every):,} rules") as show:
            cost, findings = backtest(spark, lake, asked, show)
        costs.append(cost)
        rules += findings
    measures = words.cost or words.promote
    if measures:
        rules = list(_priced(rules, trial, holding, span, (spark, says)))
    refused = [*trial.own.refused, *(trial.others.refused if trial.others else ())]
    absent = [source for source in sources() if source not in holding]
    return Backtest(
        lake=lake.root.name,
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
                for rule in _about_any(trial.own, source)
            ),
        ),
    )


def on_history(
    spark: SparkSession, lake: Lake, own: Folder, says: Says, progress: Progress
) -> Backtest:
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
    found = tried(Trial(lake=lake, own=own, there=closed, words=asked), spark, says, progress)
    keep_figures(found, lake)
    write_page(found, lake, None)
    return found


def keep_figures(found: Backtest, lake: Lake) -> None:
    """Keep the figures of a backtest, for the list of rules."""
    lake.backtest_figures.put(json.dumps(found.as_json()))


def made_live(trial: Trial, found: Backtest) -> Promotion:
    """Make the rules live that were tried.

    Raises:
        DefinitionError: One was not tried, costs too much, or would take the place of another.
    """
    refuse_untried(trial.own, found)
    return promoted(trial.own, found, trial.words.rules, trial.lake)


def write_page(found: Backtest, lake: Lake, to: Path | None) -> Place:
    """Write the page, to the lake by default.

    Raises:
        DefinitionError: It cannot be written there.
    """
    return written(backtest_page(found), Place.of(to) if to else lake.backtest)


def _priced(
    rules: Sequence[RuleFigures],
    trial: Trial,
    holding: Sequence[AlertSource],
    span: Span,
    by: tuple[SparkSession, Says],
) -> Iterator[RuleFigures]:
    """Yield the figures of rules, those that are slow with what each costs alone."""
    spark, says = by
    slow: dict[tuple[str, str | None], float] = {}
    for source in holding:
        own = _about(trial.own.rules, source)
        if own:
            says(f"trying which of {len(own):,} rules of {source.table.id} are slow …")
            found = slow_rules(spark, trial.lake, source, own, span)
            slow |= {(rule.id, rule.version): micros for rule, micros in found.items()}
    for each in rules:
        yield replace(each, micros=slow.get((each.rule, each.version)))


def _existing(lake: Lake, wanted: Sequence[AlertSource]) -> list[AlertSource]:
    """Return the tables that exist.

    Raises:
        DefinitionError: None exists.
    """
    found = [source for source in wanted if lake.exists(source.table)]
    if not found:
        lake.refuse_missing(wanted[0].table)
    return found


def _sources(*folders: Folder | None) -> list[AlertSource]:
    """Return the tables that the rules of folders are about."""
    named = {rule.source for each in folders if each for rule in each.rules}
    named |= {
        source for each in folders if each for rule in each.thresholds for source in rule.sources
    }
    return [source for source in sources() if source in named]


def _counting(found: Folder | None, there: Sequence[AlertSource]) -> list[ThresholdRule]:
    """Return the threshold rules all of whose tables are there."""
    rules = found.thresholds if found else ()
    return [rule for rule in rules if set(rule.sources) <= set(there)]


def _about_any(found: Folder, source: AlertSource) -> Iterator[Rule]:
    """Yield the rules of both kinds that look at a table."""
    yield from _about(found.rules, source)
    yield from (rule for rule in found.thresholds if source in rule.sources)


def _about(rules: Sequence[AlertRule], source: AlertSource) -> list[AlertRule]:
    return [rule for rule in rules if rule.source == source]


@contextmanager
def _shown(progress: Progress, what: str) -> Iterator[Show]:
    """Show how many of the tasks of a stage are done; each stage is counted for itself."""
    with progress(what, 100) as advance:
        yield lambda done, total: advance(done * 100 // max(total, 1))


def refuse_unclosed(source: AlertSource, lake: Lake, span: Span | None) -> None:
    """Refuse a range that a table's stream may still change.

    Raises:
        DefinitionError: It may, or nothing is closed yet.
    """
    if span is not None:
        refuse_open(source.table, lake, span)
        return
    refuse_streamless(source.table, lake)
    refuse_unbounded(source.table, lake)
    if closed_until(source.table, lake) is None:
        raise DefinitionError(
            f"nothing of {source.table.id} is closed yet",
            hint=f"its stream closes what is {source.table.lateness.delay} older than the newest event; "
            "`strandline produce` and `strandline run` bring more.",
            table=source.table.id,
        )


def everything(known: Mapping[AlertSource, Span | None], lake: Lake) -> Span:
    """Return all that every table has closed.

    Raises:
        DefinitionError: Nothing is.
    """
    ends = [end for source in known if (end := closed_until(source.table, lake))]
    first = min((its.since for its in known.values() if its), default=None)
    if first is None or not ends or first >= min(ends):
        names = ", ".join(source.table.id for source in known)
        raise DefinitionError(
            f"no event of {names} is closed yet", hint="try again when newer events were read."
        )
    return Span(since=first, until=min(ends))


def meet(its: Span, span: Span) -> bool:
    """Return whether two ranges have a moment in common."""
    return its.since < span.until and span.since < its.until


def has(source: AlertSource, its: Span | None) -> str:
    """Return in words which events a table has."""
    if its is None:
        return f"{source.table.id} is empty"
    return f"{source.table.id} has events from {its.since.isoformat()} to {its.until.isoformat()}"
