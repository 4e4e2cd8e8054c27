"""Alert rules go live, and are taken back: which may, and how."""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from pyspark.sql import SparkSession

from strandline.alerting.rules.alert_rule import AlertRule, ThresholdRule
from strandline.alerting.rules.rule_folder import file_of
from strandline.alerting.rules.sigma import Folder, read_folder
from strandline.alerting.source import rules_folder
from strandline.core.errors import DefinitionError
from strandline.engine.lake.lake import Lake
from strandline.engine.lake.shelf import rule_shelf
from strandline.engine.lake.shelf.rule_shelf import Promotion
from strandline.engine.runtime import clock
from strandline.engine.runtime.settings import Settings
from strandline.operate.alerts import examples
from strandline.operate.alerts.examples import contradictions
from strandline_quality.report.backtest import Backtest

Rule = AlertRule | ThresholdRule

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

    return rule_shelf.put_live(
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
    gone = rule_shelf.take_back(
        lake, at=clock.now().isoformat(timespec="seconds"), by=clock.login()
    )
    stack = rule_shelf.promotions(lake)
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
