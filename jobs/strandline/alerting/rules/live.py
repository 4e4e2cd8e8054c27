"""The rules as feeds, all to the topic of alerts: pattern rules by table, threshold rules by the tables that they count.

The plans are those that a backtest runs over the tables' rows (jobs/strandline/alerting/rules/alert.py, jobs/strandline/alerting/rules/correlate.py), so the two
cannot differ in what an event means.
"""

import hashlib
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import reduce
from typing import Any, cast

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from strandline.alerting.rules.alert_rule import AlertRule
from strandline.alerting.rules.compile import quoted
from strandline.alerting.rules.correlate import TIME, hits
from strandline.alerting.rules.handover import Offsets, Raising, Rule, Stage, Staged
from strandline.alerting.rules.threshold_rule import ThresholdRule, feed_name, sources_of
from strandline.alerting.rules.windows import fold
from strandline.alerting.source import AlertSource
from strandline.alerting.tables import bronze as alerts
from strandline.alerting.tables.silver import FIELDS as ALERT
from strandline.core.feed import CountingFeed, EventFeed, Feed
from strandline.core.stateful import folded

# Threshold rules as the function of a feed: what their parts find in each table, counted in one state for all rules.
#
# The parts are one plan a table, as in a backtest (jobs/strandline/alerting/rules/correlate.py); the state is that of jobs/strandline/alerting/rules/windows.py.
# Rules that count events of several tables read them as one stream, whose watermark is that of the table that is furthest
# behind. So what waits for the watermark waits for events of all of the tables: counts that more events may spoil, and the
# moment at which state is forgotten. Growing counts wait for nothing.


PLACE = {
    "event_topic": "substring_index(place, '/', 1)",
    "event_partition": "CAST(split_part(place, '/', 2) AS INT)",
    "event_offset": "CAST(substring_index(place, '/', -1) AS BIGINT)",
}


class Counting(Staged[ThresholdRule]):
    """The function of a feed of threshold rules, all about the same tables."""

    def __call__(self, tables: Sequence[DataFrame]) -> DataFrame:
        """Return the alerts on believed rows of the tables, in the order of ``sources_of``."""
        rules, own = self.every, self.waiting(tables)
        counted = folded(
            own.withColumn("rule", F.concat_ws(" ", "rule_version", "rule_id")),
            fold({_name(rule): rule for rule in rules}, map(_name, self.stages[-1].rules)),
            time=TIME,
        )
        at = F.timestamp_micros("event_at")
        return counted.withColumn("event_at", at).select(*ALERT.names)

    def waiting(self, tables: Sequence[DataFrame | None]) -> DataFrame:
        """Return what the parts find in rows of the tables, which is what waits in state, with its time as ``TIME``."""
        rules = self.every
        pairs = zip(sources_of(rules[0]), tables, strict=True)
        every = (hits(rows, its, rules) for its, rows in pairs if rows is not None)
        named = reduce(DataFrame.unionByName, every).selectExpr(
            "*",
            f"{_by_number([rule.id for rule in rules])} AS rule_id",
            f"{_by_number([rule.version for rule in rules])} AS rule_version",
            *(f"{sql} AS {name}" for name, sql in PLACE.items()),
        )
        return self.of_their_stage(named)


def _by_number(texts: Sequence[str]) -> str:
    """Return SQL for the text of a rule by its number."""
    return f"element_at(array({', '.join(map(quoted, texts))}), rule + 1)"


def _name(rule: ThresholdRule) -> str:
    """Return by what the state of a rule is found: another version has another."""
    return f"{rule.version} {rule.id}"


def feeds(rules: Sequence[Rule]) -> list[Feed]:
    """Return a feed for each table that pattern rules look at, and for each set of them that threshold rules count."""
    patterns: dict[AlertSource, list[AlertRule]] = defaultdict(list)
    thresholds: dict[tuple[AlertSource, ...], list[ThresholdRule]] = defaultdict(list)
    for rule in rules:
        if isinstance(rule, AlertRule):
            patterns[rule.source].append(rule)
        else:
            thresholds[sources_of(rule)].append(rule)
    return sorted([*_raising(patterns), *_counting(thresholds)], key=lambda feed: feed.id)


def _raising(patterns: dict[AlertSource, list[AlertRule]]) -> Iterator[EventFeed]:
    (topic,) = alerts.TABLE.topics
    for source, own in patterns.items():
        yield EventFeed(
            name=source.feed,
            of=source.table,
            transform=Raising((Stage(rules=tuple(own), since={}),)),
            key="alert_id",
            to=topic,
            version=fingerprint(own),
        )


def _counting(
    thresholds: dict[tuple[AlertSource, ...], list[ThresholdRule]],
) -> Iterator[CountingFeed]:
    (topic,) = alerts.TABLE.topics
    for sources, own in thresholds.items():
        tables = tuple(source.table for source in sources)
        yield CountingFeed(
            name=feed_name(sources),
            of=tables,
            transform=Counting((Stage(rules=tuple(own), since={}),)),
            key="alert_id",
            to=topic,
            version=fingerprint(own),
        )


def handover(old: Feed, new: Feed | None, since: Offsets, done: Offsets) -> Feed:
    """Return a feed with the rules of another from an offset on, and its own before.

    Args:
        old: The feed that was stopped.
        new: The feed that takes over; None where no rule looks at the tables any more.
        since: The offsets of the first events that the new rules judge.
        done: The offsets at which it goes on.

    Raises:
        TypeError: They are no feeds of alerts.
    """
    rules = _staged(new).stages[-1].rules if new else ()
    function = _staged(old).then(rules, since=since, done=done)
    goes_on: Any = new or replace(old, version="")
    return cast(Feed, replace(goes_on, transform=function))


def continued(feed: Feed, stages: tuple[Stage[Any], ...], done: Offsets) -> Feed:
    """Return a feed of alerts with the stages that it needs to go on at some offsets."""
    changed: Any = feed
    function = replace(_staged(feed), stages=stages).from_offsets(done)
    return cast(Feed, replace(changed, transform=function))


def stages_of(feed: Feed) -> tuple[Stage[Any], ...]:
    """Return the stages of a feed of alerts."""
    return _staged(feed).stages


def _staged(feed: Feed) -> Staged[Any]:
    """Return the function of a feed of alerts."""
    function = getattr(feed, "transform", None)
    if isinstance(function, Staged):
        return function
    raise TypeError(feed.id)


def fingerprint(rules: Sequence[Rule]) -> str:
    """Return a hash of the rules that run, by what they mean; their order and their words do not change it."""
    lines = sorted(f"{rule.id} {rule.version} {rule.severity}{_made(rule)}" for rule in rules)
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()[:12]


def _made(rule: Rule) -> str:
    """Return what a rule computes of its events, which a promotion of a model changes, and not the rule's version."""
    return f" {rule.source.made}" if isinstance(rule, AlertRule) and rule.source.made else ""
