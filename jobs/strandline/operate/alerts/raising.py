"""The programs of alerts: what raises them is made ready, with a Spark that has a thread for each partition; and what brings them to people."""

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date, timedelta
from pathlib import Path

from pyspark.sql import SparkSession
from strandline import catalog

from strandline.alerting.alert_rule import (
    AlertRule,
    Rule,
    Severity,
    ThresholdRule,
    model_source,
    sources,
)
from strandline.alerting.courier import Courier, DeliveryHost, Desk, Logger
from strandline.alerting.live import Offsets, decoded, encoded, feeds, handover
from strandline.alerting.notice import KafkaTopic, Sink, alert_found, sink
from strandline.alerting.rule_folder import RuleFolder, RuleSet, broken, broken_thresholds
from strandline.alerting.sigma import RefusedRule, read_folder
from strandline.alerting.tables import bronze
from strandline.alerting.windows import LARGEST
from strandline.core.errors import DefinitionError
from strandline.core.stateful import FeedMode
from strandline.core.table import Feed
from strandline.engine.accounting.routes import topics_read
from strandline.engine.flow.feed_query import slots
from strandline.engine.flow.runner import Site
from strandline.engine.kafka import broker
from strandline.engine.kafka.slices import range_ends
from strandline.engine.lake.lake import Lake
from strandline.engine.lake.log.ledger import last_entry
from strandline.engine.proof.daily_report import AlertPage
from strandline.engine.runtime import clock
from strandline.engine.runtime.outage import first_line
from strandline.engine.runtime.settings import Settings
from strandline.operate import lakes, session
from strandline.operate.alerts.examples import (
    RuleTexts,
    live_folder,
    read_rules,
    refuse_other_columns,
    refused_words,
)
from strandline.operate.lakes import seconds
from strandline.operate.listener import Log, Says
from strandline_quality.page import alert_page


def feeds_of(folder: Path, says: Says, also: Sequence[AlertRule] = ()) -> list[Feed]:
    """Return the feeds of the rules of a folder, before any of them has been tried.

    Raises:
        DefinitionError: There is no such folder, or no rule of it runs.
    """
    found = read_rules(folder)
    if words := refused_words(found):
        says(words)
    rules = [*found.every, *also]
    if not rules:
        raise DefinitionError(
            f"no rule of {folder} runs", hint="`strandline rules lint` names each with its reason."
        )
    return feeds(rules)


def ready_to_raise(found: Settings, where: Lake, mode: FeedMode, says: Says) -> Site:
    """Start a Spark that has a thread for each partition that rules may look at, also those that are added later.

    Raises:
        DefinitionError: A source declares a column that its table does not have.
    """
    address = lakes.demanded_address(found, where)
    scored = [source for each in catalog.models() if (source := model_source(each))]
    read = [source for each in (*sources(), *scored) for source in each.table.upstream]
    if found.kafka is None:
        broker.make_missing(address, [*read, bronze.TABLE], topics_read(where))
    partitions = broker.topics(address, found.kafka_options)
    needed = sum(partitions.get(topic.name, 0) for source in read for topic in source.topics)
    cores = max(found.cores, slots(mode, needed))

    def locate() -> str | None:
        return lakes.address(found, where) or broker.remembered(where)

    sized = replace(found, cores=cores)
    site = session.site(
        sized, where.open_for_writing(), found.kafka, locate=locate, says=says, feeds=True
    )
    refuse_other_columns(sources(), site.spark)
    return site


# The rules of a running ``strandline alerts``: read again when their folder changes, tried, and handed over.


NAMED = 5
"""Rules that do not run which the heartbeat names; the others are counted."""


class LiveRules:
    """The rules that run, and what becomes of a change of their folder."""

    def __init__(  # which rules, where they are kept, and what tries and logs them
        self,
        where: Callable[[], Path],
        lake: Lake,
        spark: SparkSession,
        log: Log,
        also: Callable[[], Sequence[Rule]] = lambda: (),
    ) -> None:
        """Nothing is read yet.

        Args:
            where: Returns the folder, which is another one after a promotion.
            lake: Where the rules that run are kept.
            spark: What runs examples.
            log: Where it is logged what becomes of a change.
            also: Returns rules that run beside those of the folder.
        """
        self._where, self._lake, self._spark, self._log = where, lake, spark, log
        self._folder = RuleFolder(where(), self._unsound, also)
        self._refused: tuple[RefusedRule, ...] = ()
        self.ends: Mapping[str, Offsets] = {}
        """By feed the offsets at which the last process stopped; empty after a crash."""

    def feeds(self) -> list[Feed]:
        """Return the feeds to begin with: those of the last process, if there was one; ``renewed`` returns those of the folder.

        Raises:
            DefinitionError: No rule is sound.
        """
        found = self._folder.look() or RuleSet()
        self._say_refused(found)
        if not found.rules:
            raise DefinitionError(
                "no rule can run",
                hint="`strandline rules test` and `lint` name each with its reason.",
            )
        kept = decoded(self._lake.live_rules.text(), found.rules, self._done)
        self.ends = kept.ends
        if not kept.feeds:
            return feeds(found.rules)
        self._folder.goes_on_with(kept.rules)
        return [*kept.feeds]

    def refused(self) -> dict[str, object]:
        """Return how many rules do not run, and the reasons of the first; a folder of strangers may have thousands."""
        first = {each.origin: each.reason for each in self._refused[:NAMED]}
        return {"rules": len(self._refused), "first": first}

    def keep(self, running: Sequence[Feed], ends: Mapping[str, Offsets]) -> None:
        """Keep the rules that run, and the offsets at which they stopped, for the next process."""
        self._lake.live_rules.put(encoded(running, ends))

    def _done(self, feed: Feed) -> Offsets | None:
        """Return the offsets at which a feed goes on; None where it never ran."""
        newest = last_entry(self._lake.table(feed))
        return range_ends(newest[1].offsets) if newest else None

    def renewed(self) -> tuple[list[Feed], Mapping[str, object]] | None:
        """Return other feeds if the folder has changed in what is raised, and what to record about that."""
        before = self._folder.current
        self._folder.folder = self._where()
        found = self._folder.look()
        if found is None:
            return None
        self._say_refused(found)
        changes = found.changes(before)
        if not changes:
            return None
        self._log.info("rules changed", **changes)
        return feeds(found.rules), {"by": self._by(), **changes}

    def _by(self) -> list[str]:
        """Return the owners of the files that changed; none where they are copies of objects, which have no owner."""
        is_copy = not self._lake.root.is_local and self._folder.folder.is_relative_to(
            self._lake.near.local
        )
        return [] if is_copy else [*self._folder.by]

    @staticmethod
    def handover(old: Feed, new: Feed | None, since: Offsets, done: Offsets) -> Feed:
        """Let a feed take over from another."""
        return handover(old, new, since, done)

    def _unsound(self, rules: Sequence[Rule]) -> Iterator[tuple[Rule, str]]:
        """Yield the rules that must not run, each with the reason."""
        yield from self._contradictions([each for each in rules if isinstance(each, AlertRule)])
        for rule in rules:
            if isinstance(rule, ThresholdRule):
                yield from _unsound_threshold(rule)

    def _contradictions(self, rules: Sequence[AlertRule]) -> Iterator[tuple[AlertRule, str]]:
        """Yield the rules that contradict their examples; where Spark refuses their plan, rule by rule."""
        try:
            found = broken(rules, self._spark)
        except Exception as error:  # noqa: BLE001  # the rules that run must go on, whatever Spark makes of a new one
            if len(rules) == 1:
                yield rules[0], f"Spark refuses its plan: {first_line(error)}"
                return
            for rule in rules:
                yield from self._contradictions([rule])
            return
        for each in found:
            yield each.rule, each.reason

    def _say_refused(self, found: RuleSet) -> None:
        """Log the rules that do not run, each once."""
        for each in found.refused:
            if each not in self._refused:
                self._log.warning("rule refused", rule=each.origin, reason=each.reason)
        self._refused = found.refused


def _unsound_threshold(rule: ThresholdRule) -> Iterator[tuple[ThresholdRule, str]]:
    if rule.number > LARGEST:
        yield rule, f"it counts to more than {LARGEST:,}, which only a backtest does"
        return
    try:
        yield from broken_thresholds([rule])
    except DefinitionError as error:
        yield rule, error.message


# Alerts are brought to people: what is delivered to whom, and the host of the couriers.

EVERY = "1m"
(TOPIC,) = bronze.TABLE.topics


@dataclass(frozen=True, slots=True, kw_only=True)
class Delivery:
    """What is delivered, to whom, and how often."""

    to: tuple[str, ...]
    severity: str
    every: tuple[str, ...]
    rules: Path | None
    from_beginning: bool
    once: bool


def host_of(
    asked: Delivery,
    found: Settings,
    where: Lake,
    log: Logger,
    stopped: Callable[[], threading.Event],
) -> DeliveryHost:
    """Return what delivers alerts until it is stopped.

    Args:
        asked: What is delivered.
        found: The settings.
        where: The lake.
        log: Where it is logged what becomes of notices.
        stopped: Returns what stops it, once nothing of what was asked is a mistake.

    Raises:
        DefinitionError: A severity, a time, a folder or a receiver is none.
        TransientError: No broker answers.
    """
    least, every = _severity(asked.severity), _every(asked.every)
    if asked.rules is not None and not asked.rules.is_dir():
        raise DefinitionError(
            f"there is no folder {asked.rules}", hint="name a folder with Sigma rules, or none."
        )
    stop = threading.Event() if asked.once else stopped()

    def locate() -> str:
        return _located(found, where)

    sinks = _sinks(asked.to, found, locate)
    address = lakes.demanded_address(found, where)
    if found.kafka is None:
        broker.make_missing(address, [bronze.TABLE], topics_read(where))
        _make_topics(address, sinks)
    desk = Desk(
        lake=where.open_for_writing(),
        topic=TOPIC,
        locate=locate,
        options=found.kafka_options,
        every=every,
        least=least,
        words=RuleTexts(lambda: asked.rules or live_folder(found, where)).of,
        clock=clock.now,
        log=log,
        from_the_first=asked.from_beginning,
    )
    return DeliveryHost([Courier(each, desk) for each in sinks], stop)


def _sinks(typed: tuple[str, ...], found: Settings, locate: Callable[[], str]) -> list[Sink]:
    """Return the receivers, each once.

    Raises:
        DefinitionError: One is none, or none is named.
    """
    named = typed or ((found.webhook,) if found.webhook else ())
    if not named:
        raise DefinitionError(
            "no receiver is named",
            hint="name one with --to, or set STRANDLINE_WEBHOOK.",
        )
    sinks = [sink(each, locate, found.kafka_options, read=TOPIC.name) for each in named]
    return list({each.name: each for each in sinks}.values())


def _make_topics(address: str, sinks: list[Sink]) -> None:
    """Create the topics of receivers on the lake's own broker."""
    for each in sinks:
        if isinstance(each, KafkaTopic):
            broker.create_topic(address, each.topic, 1, {})


def _located(found: Settings, where: Lake) -> str:
    """Return where Kafka is now; the lake's own broker may have returned at another port."""
    address = lakes.address(found, where) or broker.remembered(where)
    if address is None:
        raise DefinitionError(
            f"no broker runs for {where.root}",
            hint="start ours with `strandline up`, or set STRANDLINE_KAFKA=host:port.",
        )
    return address


def _severity(typed: str) -> Severity:
    try:
        return Severity(typed.lower())
    except ValueError as error:
        raise DefinitionError(
            f"{typed} is no severity", hint=f"the severities are {', '.join(Severity)}."
        ) from error


def _every(typed: tuple[str, ...]) -> Callable[[str], timedelta]:
    """Return a function from a rule to the shortest time between two of its notices."""
    times = {"": timedelta(seconds=seconds(EVERY))}
    for each in typed:
        rule, _, time = each.rpartition("=")
        times[rule] = timedelta(seconds=seconds(time))
    return lambda rule: times.get(rule, times[""])


# The pages of alerts that ``strandline ui`` serves, where a project has alerts.


def alert_pages(found: Settings, lake: Lake) -> AlertPage:
    """Return what makes the page of an alert."""

    def made(day: date, alert_id: str) -> str | None:
        folder = read_folder(live_folder(found, lake))
        rules = {rule.id: rule for rule in folder.every}
        alert = alert_found(lake, alert_id, day, rules, clock.now())
        return alert_page(alert) if alert else None

    return made
