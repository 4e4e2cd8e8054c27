"""The rules as feeds, all to the topic of alerts, and how one set of rules follows another at an offset.

Pattern rules are feeds by table, threshold rules by the tables that they count.

The plans are those that a backtest runs over the tables' rows (jobs/strandline/alerting/one_plan.py, jobs/strandline/alerting/windows.py), so the two
cannot differ in what an event means.
"""

import hashlib
import json
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from itertools import pairwise
from typing import Any, Generic, Self, TypeVar, cast

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from strandline.alerting.alert_rule import (
    AlertRule,
    AlertSource,
    Rule,
    ThresholdRule,
    feed_name,
    sources_of,
)
from strandline.alerting.compile import quoted
from strandline.alerting.one_plan import raised
from strandline.alerting.sigma import names_of, read_correlation, read_rule
from strandline.alerting.sigma_tree import UnsupportedError
from strandline.alerting.tables import bronze as alerts
from strandline.alerting.tables.silver import FIELDS as ALERT
from strandline.alerting.windows import TIME, fold, hits
from strandline.core.stateful import folded
from strandline.core.table import CountingFeed, EventFeed, Feed

# From one set of rules to the next, at an offset: events before it meet the former rules, the others the new ones.
#
# A query cannot change its plan, so another goes on at the checkpoint of the first. Between the checkpoint and the offset
# at which the first was stopped there are events that the former rules have judged. They are judged again, by the former
# rules: what these raise has the same ids. Were they judged by the new rules, a changed rule would raise a second alert,
# of its new version, on an event that it has alerted on.
#
# Threshold rules judge the events of their stages likewise: a new version counts from the offset on,
# and does not know what the former one has counted.
#
# The offset is the end of the topics once the first query has stopped, so it is beyond every event that the first has
# judged. Several changes may come between two checkpoints, so there is a list of stages; those before the checkpoint are
# dropped at the next change.


R = TypeVar("R", bound=Rule)

Offsets = Mapping[tuple[str, int], int]
"""Offsets by topic and partition."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage(Generic[R]):
    """Rules, and the offsets of the first events that they judge; of every event where there is none."""

    rules: tuple[R, ...]
    since: Offsets


@dataclass(frozen=True, slots=True)
class Staged(Generic[R]):
    """Rules in stages, of which the last has those that run."""

    stages: tuple[Stage[R], ...]

    @property
    def every(self) -> list[R]:
        """Return the rules of all stages, each version once."""
        every = {(rule.id, rule.version): rule for stage in self.stages for rule in stage.rules}
        current = {(rule.id, rule.version): rule for rule in self.stages[-1].rules}
        return [*{**every, **current}.values()]

    def then(self, rules: Sequence[R], *, since: Offsets, done: Offsets) -> Self:
        """Return the same with other rules from an offset on.

        Args:
            rules: The other rules.
            since: The offsets of the first events that they judge.
            done: The offsets of the checkpoint; stages that ended before them are not needed.
        """
        added = Stage(rules=tuple(rules), since=since)
        return replace(self, stages=(*self.from_offsets(done).stages, added))

    def from_offsets(self, done: Offsets) -> Self:
        """Return the same without the stages that ended before some offsets."""
        needed = [
            stage
            for stage, after in pairwise(self.stages)
            if any(done.get(part, 0) < end for part, end in after.since.items())
        ]
        return replace(self, stages=(*needed, self.stages[-1]))

    def of_their_stage(self, found: DataFrame) -> DataFrame:
        """Keep what rules find in events of their own stages.

        Args:
            found: Rows with ``rule_id`` and ``rule_version``, and ``event_topic``, ``event_partition`` and ``event_offset``.
        """
        for condition in self._conditions():
            found = found.where(condition)
        return found

    def _conditions(self) -> Iterator[str]:
        """Yield SQL that each row must satisfy: a rule that is not in all stages finds events of its own only."""
        stages = defaultdict(list)
        for number, stage in enumerate(self.stages):
            for rule in stage.rules:
                stages[rule.version, rule.id].append(number)
        together = defaultdict(list)
        for name, numbers in stages.items():
            if len(numbers) < len(self.stages):
                together[tuple(numbers)].append(" ".join(name))
        for own, names in together.items():
            listed = ", ".join(map(quoted, names))
            within = " OR ".join(self._within(number) for number in own)
            yield f"concat(rule_version, ' ', rule_id) NOT IN ({listed}) OR {within}"

    def _within(self, number: int) -> str:
        begun = f"NOT {_is_before(self.stages[number].since)}"
        if number + 1 == len(self.stages):
            return f"({begun})"
        return f"({begun} AND {_is_before(self.stages[number + 1].since)})"


class Raising(Staged[AlertRule]):
    """The function of a feed of pattern rules."""

    def __call__(self, rows: DataFrame) -> DataFrame:
        """Return the alerts on believed rows."""
        return self.of_their_stage(raised(rows, self.every))


def _is_before(since: Offsets) -> str:
    parts = (
        f"(event_topic = {quoted(topic)} AND event_partition = {partition} AND event_offset < {offset}L)"
        for (topic, partition), offset in sorted(since.items())
    )
    return f"({' OR '.join(['false', *parts])})"


# Threshold rules as the function of a feed: what their parts find in each table, counted in one state for all rules.
#
# The parts are one plan a table, as in a backtest (jobs/strandline/alerting/windows.py); the state is that of jobs/strandline/alerting/windows.py.
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


# The rules that raise alerts, kept outside of the process: what a start needs to know about the one before.
#
# A checkpoint is behind what was judged: up to five minutes in real-time mode, after a stop as after a crash. A process that
# starts judges these events again. With other rules than the last one it would raise a second alert, of another version, on
# an event that has one. So it begins with the stages of the last process, and its own rules follow
# at an offset: that at which the last one stopped, or the end of the topics where that is unknown, after a crash.
#
# Rules are kept as their documents, and read again like those of a folder. One that is no longer read as the same version,
# because the code has changed, is left out.


Known = Mapping[tuple[str, str], Rule]
"""Rules by id and version."""

Done = Callable[[Feed], Offsets | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Kept:
    """What the last process has left.

    Args:
        feeds: Its feeds, each with its stages.
        ends: By feed the offsets before which it has judged; empty where it did not say.
    """

    feeds: tuple[Feed, ...] = ()
    ends: Mapping[str, Offsets] = field(default_factory=dict)

    @property
    def rules(self) -> tuple[Rule, ...]:
        """Return the rules that ran last."""
        return tuple(rule for feed in self.feeds for rule in stages_of(feed)[-1].rules)


def encoded(running: Sequence[Feed], ends: Mapping[str, Offsets]) -> str:
    """Return the text to keep of feeds, with the offsets at which they stopped."""
    stages = {feed.id: stages_of(feed) for feed in running}
    every = {
        (rule.id, rule.version): rule
        for own in stages.values()
        for stage in own
        for rule in stage.rules
    }
    words = {
        "rules": [
            {
                "id": rule.id,
                "version": rule.version,
                "severity": rule.severity,
                "documents": [*_documents(rule)],
            }
            for rule in every.values()
        ],
        "feeds": {
            name: [
                {
                    "rules": [[rule.id, rule.version] for rule in stage.rules],
                    "since": _listed(stage.since),
                }
                for stage in own
            ]
            for name, own in stages.items()
        },
        "ends": {name: _listed(offsets) for name, offsets in ends.items()},
    }
    return json.dumps(words, default=str)


def decoded(text: str | None, current: Iterable[Rule], done: Done) -> Kept:
    """Return what was kept; nothing where there is no such text, or none that can be read.

    Args:
        text: What was kept.
        current: The rules of today, whose words hold where they mean the same.
        done: Returns the offsets at which a feed goes on; None where it never ran, so that nothing was judged.
    """
    try:
        found = json.loads(text or "")
        known = _known(found["rules"], current)
        kept = tuple(_feeds(found["feeds"], known, done))
        return Kept(feeds=kept, ends={name: _offsets(own) for name, own in found["ends"].items()})
    except (ValueError, KeyError, TypeError):  # none yet, torn by a disk, or of another version
        return Kept()


def _documents(rule: Rule) -> Iterator[dict[str, object]]:
    """Yield the document of a rule, and those of the rules whose events it counts."""
    yield {"origin": rule.origin, "document": rule.document}
    for part in rule.parts if isinstance(rule, ThresholdRule) else ():
        yield from _documents(part.rule)


def _known(listed: Iterable[Mapping[str, Any]], current: Iterable[Rule]) -> Known:
    """Return the rules that are listed; of one that means the same today nothing is read, which takes a millisecond."""
    today = {(rule.id, rule.version): rule for rule in current}
    found: dict[tuple[str, str], Rule] = {}
    for each in listed:
        name = (each["id"], each["version"])
        own = today.get(name)
        rule = own if own and own.severity == each["severity"] else _read(each["documents"])
        if rule is not None and (rule.id, rule.version) == name:
            found[name] = rule
    return found


def _read(documents: Sequence[Mapping[str, Any]]) -> Rule | None:
    own, *others = documents
    if own["document"] is None:
        return None  # it was declared in Python, so the code has another one now
    try:
        if not others:
            return read_rule(own["document"], own["origin"])
        named = dict[str, AlertRule]()
        for other in others:
            rule = read_rule(other["document"], other["origin"])
            named |= dict.fromkeys(names_of(other["document"]), rule)
        return read_correlation(own["document"], own["origin"], named)
    except UnsupportedError:
        return None


def _feeds(listed: Mapping[str, Any], known: Known, done: Done) -> Iterator[Feed]:
    for name, stages in listed.items():
        own = tuple(
            Stage(
                rules=tuple(known[id_, v] for id_, v in stage["rules"] if (id_, v) in known),
                since=_offsets(stage["since"]),
            )
            for stage in stages
        )
        feed = next((feed for feed in feeds(own[-1].rules) if feed.id == name), None)
        goes_on_at = done(feed) if feed else None
        if feed is not None and goes_on_at is not None:
            yield continued(feed, own, goes_on_at)


def _listed(offsets: Offsets) -> list[list[object]]:
    return [[topic, partition, offset] for (topic, partition), offset in sorted(offsets.items())]


def _offsets(listed: Iterable[Sequence[Any]]) -> dict[tuple[str, int], int]:
    return {(topic, partition): offset for topic, partition, offset in listed}
