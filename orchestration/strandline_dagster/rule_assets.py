"""Alert rules as assets, one a rule, read without Spark: their names, their checks, the newest alerts, and a step that backtests them.

Why one asset a rule, and not one for all rules of a table: a rule has an owner, a version, and a history of its own.
Reading 1,000 rules takes a second of CPU and their definitions another [measured], of the five that a load may take, and
each run of Dagster loads them. So a folder with more than ``MOST`` shows the most severe of them, and says so. What is
chosen is backtested in one Spark job for each table.

A rule's asset is named for its file and not for its id, because people know the file, and a file that cannot be read has
no id. A rule that cannot be read is an asset as well, the same as before and with its history, whose check ``runs`` fails with
the reason; no file of a folder keeps the definitions from being loaded.
"""

import json
import re
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from hashlib import sha256
from itertools import accumulate
from pathlib import Path
from typing import Any, TypeAlias

from dagster import (
    AssetCheckEvaluation,
    AssetCheckResult,
    AssetChecksDefinition,
    AssetCheckSeverity,
    AssetCheckSpec,
    AssetExecutionContext,
    AssetKey,
    AssetsDefinition,
    AssetSpec,
    MaterializeResult,
    MetadataValue,
    SensorDefinition,
    SensorEvaluationContext,
    SensorResult,
    SkipReason,
    TableRecord,
    TableSchema,
)

from strandline.alerting.alert_rule import AlertRule, Severity, ThresholdRule
from strandline.alerting.notice import is_address, newest_alerts, place_of, words
from strandline.alerting.rule_folder import state
from strandline.alerting.sigma import Folder, RefusedRule, UnreadableError, read_folder
from strandline.core.errors import LakeError
from strandline.engine.lake.lake import Lake
from strandline.engine.lake.place import Place
from strandline.engine.proof import daily_report
from strandline.engine.runtime.outage import AWAY
from strandline.engine.runtime.settings import settings
from strandline.operate.alerts.examples import contradictions, live_folder
from strandline.operate.listener import tenths
from strandline_dagster.placed import asset_check, asset_key, group, multi_asset, sensor
from strandline_dagster.resources import (
    LakeResource,
    More,
    SparkResource,
    again_or_failed,
    backtest_linked,
    evaluation,
    key,
    note,
    refuse_away,
    unless_away,
)
from strandline_quality.findings import Backtest, RuleFigures, TableCost

GROUP = "rules"

Rule: TypeAlias = AlertRule | ThresholdRule


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleBook:
    """What a folder has: rules by their origins, and the reasons why the others do not run.

    Args:
        rules: Those that run.
        refused: The reason of each that does not.
        problem: Why the folder as a whole cannot be read.
    """

    rules: Mapping[str, Rule]
    refused: Mapping[str, str]
    problem: str = ""

    @property
    def origins(self) -> list[str]:
        """Return the origins of all, those that run and those that do not."""
        return sorted({*self.rules, *self.refused})


def rule_folder() -> Path:
    """Return the folder of the rules that run.

    Raises:
        StoreAwayError: They are in the lake, whose store does not answer.
        KeysRefusedError: The same, and it refuses the keys.
    """
    found = settings()
    if not found.rules:
        refuse_away()
    return live_folder(found, Lake(Place.of(found.lake)))


def rule_book() -> RuleBook:
    """Read the folder; of a lake whose store does not answer nothing is known, and all else that Dagster has is there."""
    try:
        folder = rule_folder()
    except AWAY as error:
        return RuleBook(rules={}, refused={}, problem=error.message)
    if not folder.is_dir():
        return RuleBook(rules={}, refused={}, problem=f"there is no folder {folder}")
    try:
        found = read_folder(folder)
    except (UnreadableError, OSError) as error:
        return RuleBook(rules={}, refused={}, problem=str(error))
    rules = found.every
    return RuleBook(
        rules={rule.origin: rule for rule in rules},
        refused={each.origin: each.reason for each in found.refused},
    )


def chosen(book: RuleBook, origins: Iterable[str]) -> Folder:
    """Return some rules of the folder as a folder."""
    rules = [book.rules[origin] for origin in origins if origin in book.rules]
    return Folder(
        tuple(rule for rule in rules if isinstance(rule, AlertRule)),
        tuple(RefusedRule(each, book.refused[each]) for each in origins if each in book.refused),
        tuple(rule for rule in rules if isinstance(rule, ThresholdRule)),
    )


def why_not(origin: str, book: RuleBook) -> str:
    """Return why a rule does not run; nothing if it does."""
    if origin in book.rules:
        return ""
    gone = f"{origin} is no longer a rule of the folder, or another rule counts what it finds"
    return book.problem or book.refused.get(origin, gone)


def rule_keys(origins: Sequence[str]) -> dict[str, AssetKey]:
    """Return the name of the asset of each origin; of files whose names are the same to Dagster the later have numbers."""
    named = {origin: _plain(origin) for origin in origins}
    seen: Counter[str] = Counter()
    keys = {}
    for origin, name in named.items():
        seen[name] += 1
        keys[origin] = asset_key(GROUP, name if seen[name] == 1 else f"{name}__{seen[name]}")
    return keys


def _plain(origin: str) -> str:
    file, _, number = origin.partition("#")
    return re.sub(r"\W", "_", str(Path(file).with_suffix("")) + (f"_{number}" if number else ""))


# The newest alerts beside each materialisation of gold.alerts, each one click from its event and its runbook.
#
# The link leads to the alert's page, which has both (quality/strandline_quality/page.py); without `strandline ui` nothing serves
# pages, and the commands beside it say the same. Dagster (1.13.27) shows a text of less than a thousand characters at once
# and a longer one after a click, so the very newest are a text of their own.


NEWEST = 20
AT_ONCE = 1_000
"""Characters."""

HEAD = """| event | severity | rule | key | its event | what to do |
|---|---|---|---|---|---|
"""
MARKUP = re.compile(r"[\\`*_\[\]<>|#!&]")


def alert_lines(lake: Lake) -> Mapping[str, MetadataValue]:
    """Return the metadata with the newest alerts; empty where there is none."""
    rows = newest_alerts(lake, NEWEST)
    if not rows:
        return {}
    rules = {rule.id: rule for rule in rule_book().rules.values()}
    where = daily_report.address(lake)
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
    title = _plain_line(rule.title if rule else row["rule_id"])
    return f"[{title}]({_page(row, where)})" if where else title


def _page(row: Mapping[str, Any], where: str) -> str:
    return daily_report.alert_link(where, row["alert_id"], row["event_at"])


def _line(row: Mapping[str, Any], rule: Rule | None, where: str | None) -> str:
    """Return a line of the table; what comes from rules and events is words in it, and no mark-up."""
    runbook = rule.runbook if rule else ""
    to_do = runbook if is_address(runbook) else _page(row, where) if where else ""
    cells = [
        f"{row['event_at']:%Y-%m-%d %H:%M:%S}",
        row["rule_severity"],
        _linked(row, rule, where),
        _plain_line(row["event_key"]),
        f"`strandline why {place_of(row)}`",
        f"[runbook]({_address(to_do)})" if to_do else _plain_line(runbook),
    ]
    return f"| {' | '.join(cells)} |"


def _plain_line(text: str) -> str:
    return MARKUP.sub(lambda sign: f"&#{ord(sign[0])};", " ".join(text.split()))


def _address(text: str) -> str:
    """Return an address that ends where it ends."""
    return re.sub(r"[\s()<>|]", "", text)


# The checks of each alert rule, and how a backtest and a look at the folder answer them.


STORM = 200
"""Alerts of a rule a day; a person who reads one in two minutes does nothing else for a day."""

RUNS = "runs"
EXAMPLES = "examples_hold"
TRIED = "backtested"
CALM = "no_storm"
FIRES = "has_fired"

QUESTIONS = {
    RUNS: "The folder's file is read, and the rule runs on its table.",
    EXAMPLES: "It fires on the events on which it must, and stays quiet on the others.",
    TRIED: "It was tried on the closed history of its tables.",
    CALM: f"On no day of history it would have raised more than {STORM:,} alerts.",
    FIRES: "On some day of history it would have raised an alert.",
}


def specs(key: AssetKey) -> list[AssetCheckSpec]:
    """Return the checks of a rule."""
    return [
        AssetCheckSpec(
            name,
            asset=key,
            description=about,
            metadata={"severity": "critical" if name in {RUNS, EXAMPLES} else "warning"},
        )
        for name, about in QUESTIONS.items()
    ]


def runs(key: AssetKey, reason: str) -> AssetCheckResult:
    """Answer whether a rule runs, by the reason why it does not."""
    return _answer(key, RUNS, passed=not reason, says=reason or "it runs", is_grave=True)


def examples(key: AssetKey, wrong: str, number: int) -> AssetCheckResult:
    """Answer whether the examples of a rule hold, by the first that does not."""
    says = wrong or (f"{number:,} examples hold" if number else "it has no example")
    return _answer(key, EXAMPLES, passed=not wrong and number > 0, says=says, is_grave=bool(wrong))


def untried(key: AssetKey, reason: str) -> AssetCheckResult:
    """Answer that a rule was not tried on history."""
    return _answer(key, TRIED, passed=False, says=reason)


def of_backtest(
    key: AssetKey, rule: Rule, its: RuleFigures, found: Backtest, more: More
) -> Iterator[AssetCheckResult]:
    """Answer what a backtest says of a rule."""
    most, on = max(zip(its.days, found.days, strict=True))
    span: dict[str, MetadataValue] = {
        "since": MetadataValue.text(found.since),
        "until": MetadataValue.text(found.until),
        **more,
    }
    tried = f"tried on {_cost(rule, found).events:,} events"
    yield _answer(key, TRIED, passed=True, says=tried, more=span)
    worst = f"at most {most:,} alerts a day" + (
        f", on {date.fromisoformat(on):%-d %B %Y}" if most else ""
    )
    yield _answer(key, CALM, passed=most <= STORM, says=worst, more=span)
    yield _answer(key, FIRES, passed=its.alerts > 0, says=f"{its.alerts:,} alerts", more=span)


def figures(rule: Rule, its: RuleFigures, found: Backtest) -> dict[str, MetadataValue]:
    """Return what a materialisation of a rule shows: alerts, on whom, samples, and the cost of its Spark job."""
    cost = _cost(rule, found)
    return {
        "alerts": MetadataValue.int(its.alerts),
        "alerts a day": MetadataValue.float(round(its.alerts / len(found.days), 3)),
        "most a day": MetadataValue.int(max(its.days)),
        "events": MetadataValue.int(cost.events),
        "rules of the same job": MetadataValue.int(cost.rules),
        "seconds of the job": MetadataValue.float(round(cost.seconds, 3)),
        "CPU seconds of the job": MetadataValue.float(round(cost.cpu_seconds, 3)),
        "since": MetadataValue.text(found.since),
        "until": MetadataValue.text(found.until),
        **(_alerts(its, found) if its.alerts else {}),
    }


def _alerts(its: RuleFigures, found: Backtest) -> dict[str, MetadataValue]:
    days = {day: alerts for day, alerts in zip(found.days, its.days, strict=True) if alerts}
    return {
        "days": _table("day", days),
        f"most on {its.entity}": _table(its.entity, dict(its.top)),
        "samples": MetadataValue.md(_samples(its)),
    }


def _cost(rule: Rule, found: Backtest) -> TableCost:
    """Return the cost of a rule's job: one for all pattern rules about a table, and the last one for all threshold rules."""
    if isinstance(rule, ThresholdRule):
        return found.tables[-1]
    return next(cost for cost in found.tables if cost.table == rule.source.table.id)


def facts_of(rule: Rule, *, is_brief: bool = False) -> dict[str, MetadataValue]:
    """Return what a rule is; not brief, the words of its runbook are among it."""
    runbook = (
        MetadataValue.url(rule.runbook)
        if is_address(rule.runbook)
        else MetadataValue.text(rule.runbook)
        if is_brief
        else MetadataValue.md(words(rule.runbook))
    )
    return {
        "rule": MetadataValue.text(rule.id),
        "version": MetadataValue.text(rule.version),
        "severity": MetadataValue.text(str(rule.severity)),
        "file": MetadataValue.path(str(rule_folder() / rule.origin.partition("#")[0])),
        **({"runbook": runbook} if rule.runbook else {}),
    }


def _samples(its: RuleFigures) -> str:
    """Return alerts with the commands that explain them; values of events stay on the page, where they are escaped."""
    return "\n".join(f"* {each.at}: `strandline why {each.place}`" for each in its.samples)


def _table(name: str, counts: Mapping[str, int]) -> MetadataValue:
    records = [TableRecord({name: value, "alerts": number}) for value, number in counts.items()]
    schema = TableSchema.from_name_type_dict({name: "string", "alerts": "int"})
    return MetadataValue.table(records, schema)


def _answer(  # noqa: PLR0913  # what Dagster shows of an answer
    key: AssetKey,
    name: str,
    *,
    passed: bool,
    says: str,
    is_grave: bool = False,
    more: More | None = None,
) -> AssetCheckResult:
    """Answer; a rule that does not do what it is for is an error, one that is loud or quiet a warning."""
    return AssetCheckResult(
        asset_key=key,
        check_name=name,
        passed=passed,
        severity=AssetCheckSeverity.ERROR if is_grave else AssetCheckSeverity.WARN,
        description=says,
        metadata=more or {},
    )


# Looks at the folder of rules once a minute, so that a rule that no longer runs is a failed check within a minute.
#
# The checks hang on the rules and, about the folder as a whole, on the topic of alerts, which no run writes: Dagster's page
# ignores a result that is older than the table.


EVERY = 60
OLD = 900
"""Seconds after which an unchanged folder is read again: what its rules look at may have changed."""

SHOWN = 20

READABLE = "every_rule_runs"
ABOUT = "Every file of the folder is read, and every rule in it runs."


def folder_check(topic: AssetKey, keys: Mapping[str, AssetKey]) -> AssetChecksDefinition:
    """Make the check of the folder, to be answered on demand."""

    @asset_check(asset=topic, name=READABLE, description=ABOUT)
    def every_rule_runs() -> AssetCheckResult:
        return of_folder(topic, rule_book(), keys)

    return every_rule_runs


def look_at_rules(topic: AssetKey, keys: Mapping[str, AssetKey]) -> SensorDefinition:
    """Make the sensor."""

    @sensor(
        name="look_at_rules",
        minimum_interval_seconds=EVERY,
    )
    @unless_away
    def look(context: SensorEvaluationContext) -> SensorResult | SkipReason:
        """Read the folder if its files have changed, and answer the checks of which the answer is another one."""
        seen = json.loads(context.cursor) if context.cursor else {"reasons": {}}
        files = sha256(repr(sorted(state(rule_folder()).items())).encode()).hexdigest()
        if seen.get("files") == files and time.time() - seen["at"] < OLD:
            return SkipReason("no file of the folder has changed")
        book = rule_book()
        reasons = {origin: why_not(origin, book) for origin in keys}
        events = [evaluation(of_folder(topic, book, keys))]
        events += list(_answers(reasons, seen["reasons"], keys))
        cursor = {"files": files, "at": time.time(), "reasons": reasons}
        return SensorResult(asset_events=events, cursor=json.dumps(cursor))

    return look


def of_folder(topic: AssetKey, book: RuleBook, keys: Mapping[str, AssetKey]) -> AssetCheckResult:
    """Answer whether the folder is read and every rule runs."""
    reasons = [f"{origin}: {reason}" for origin, reason in book.refused.items()]
    said = [book.problem] if book.problem else reasons[:SHOWN]
    if len(reasons) > SHOWN:
        said.append(f"and {len(reasons) - SHOWN:,} more")
    hidden = sum(origin not in keys for origin in book.rules)
    if hidden:
        said.append(
            f"{hidden:,} rules have no asset: they are new, and reloading shows them, or too many"
        )
    return AssetCheckResult(
        asset_key=topic,
        check_name=READABLE,
        passed=not (book.problem or book.refused),
        severity=AssetCheckSeverity.ERROR,
        description="\n".join(said) or f"{len(book.rules):,} rules run",
        metadata={
            "run": len(book.rules),
            "refused": len(book.refused),
            "folder": str(rule_folder()),
        },
    )


def _answers(
    now: Mapping[str, str], before: Mapping[str, str], keys: Mapping[str, AssetKey]
) -> Iterator[AssetCheckEvaluation]:
    for origin, reason in now.items():
        if before.get(origin) != reason:
            yield evaluation(runs(keys[origin], reason))


def tried(
    wanted: Mapping[str, AssetKey], lake: LakeResource, spark: SparkResource, *, times: int
) -> Iterator[MaterializeResult[object] | AssetCheckResult]:
    """Read rules again, run their examples and all closed history, and yield what came of each.

    Raises:
        Failure: Nothing of their tables is closed, or the folder cannot be read.
        RetryRequested: History cannot be read at the moment, and retries are left.
    """
    # Not imported above: it imports pandas, which takes longer than all other definitions.
    from strandline.operate.alerts.backtest import on_history  # noqa: PLC0415  # as above

    book = rule_book()
    folder = chosen(book, wanted)
    for origin, name in wanted.items():
        if origin not in book.rules:
            yield runs(name, why_not(origin, book))
    rules = folder.every
    if not rules:
        return
    wrong = _wrong(folder, spark)
    try:
        found = on_history(spark.spark_session, lake.lake(), folder, note, tenths(note))
    except LakeError as error:
        for rule in rules:
            yield from _sound(rule, wanted[rule.origin], wrong)
            yield untried(wanted[rule.origin], error.message)
        raise again_or_failed(error, times) from error
    link = backtest_linked(lake)
    by_rule = {its.rule: its for its in found.rules}
    skipped = dict(found.skipped)
    for rule in rules:
        name, its = wanted[rule.origin], by_rule.get(rule.id)
        shown = figures(rule, its, found) if its else {}
        yield MaterializeResult(asset_key=name, metadata={**shown, **facts_of(rule), **link})
        yield from _sound(rule, name, wrong)
        if its is None:
            yield untried(name, skipped.get(rule.title, "its tables have no event"))
        else:
            yield from of_backtest(name, rule, its, found, link)


def _sound(rule: Rule, name: AssetKey, wrong: Mapping[str, str]) -> Iterator[AssetCheckResult]:
    yield runs(name, "")
    number = len(rule.fires_on) + len(rule.quiet_on)
    yield examples(name, wrong.get(rule.id, ""), number)


def _wrong(folder: Folder, spark: SparkResource) -> dict[str, str]:
    """Return the first example that contradicts each rule, as a reason."""
    found: dict[str, str] = {}
    for each in contradictions(folder, spark.spark_session):
        found.setdefault(each.rule, each.reason)
    return found


MOST = 1_000

KIND = "alert_rule"
"""Not ``sigma``, for which Dagster draws the sign of a product of that name."""

TEAM = re.compile(r"[\w-]+", re.ASCII)
TAG = re.compile(r"[\w.-]{1,63}", re.ASCII)
"""What Dagster accepts as a team, and as a tag."""

TECHNIQUE = re.compile(r"attack\.(t\d{4}(?:\.\d{3})?)", re.IGNORECASE)


def named(book: RuleBook) -> dict[str, AssetKey]:
    """Return the name of each asset by its origin: the rules that do not run, then the others by their severity."""
    by_severity = sorted(book.rules.values(), key=lambda rule: -list(Severity).index(rule.severity))
    first = [*book.refused, *(rule.origin for rule in by_severity)][:MOST]
    return rule_keys(sorted(first))


def rule_assets(book: RuleBook, keys: Mapping[str, AssetKey]) -> list[AssetsDefinition]:
    """Make the assets of all rules; none where there is no rule."""
    if not keys:
        return []
    origins = {name: origin for origin, name in keys.items()}

    @multi_asset(
        name="backtest_rules",
        specs=[_spec(origin, name, book) for origin, name in keys.items()],
        check_specs=[spec for name in origins for spec in specs(name)],
        can_subset=True,
    )
    def backtest_rules(
        context: AssetExecutionContext, lake: LakeResource, spark: SparkResource
    ) -> Iterator[MaterializeResult[object] | AssetCheckResult]:
        wanted = {origins[name]: name for name in sorted(context.selected_asset_keys)}
        yield from tried(wanted, lake, spark, times=context.retry_number)

    return [backtest_rules]


def _spec(origin: str, name: AssetKey, book: RuleBook) -> AssetSpec:
    rule = book.rules.get(origin)
    if rule is None:
        reason = f"{origin} does not run: {book.refused[origin]}"
        return AssetSpec(name, group_name=group(GROUP), kinds={KIND}, description=reason)
    return AssetSpec(
        name,
        deps=[key(source.table) for source in rule.sources],
        group_name=group(GROUP),
        kinds={KIND, str(rule.severity)},
        owners=[f"team:{rule.owner}"] if TEAM.fullmatch(rule.owner) else [],
        description=_about(rule),
        tags={tag: "" for tag in rule.tags if TAG.fullmatch(tag)}
        | {"severity": str(rule.severity)},
        metadata=facts_of(rule, is_brief=True),
        code_version=rule.version,
    )


def _about(rule: Rule) -> str:
    techniques = [found[1].upper() for tag in rule.tags if (found := TECHNIQUE.fullmatch(tag))]
    attack = f"\n\nATT&CK: {', '.join(techniques)}" if techniques else ""
    return f"**{rule.title}**\n\n{rule.about}{attack}"
