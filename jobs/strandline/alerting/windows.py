"""When a threshold rule fires: one pass over the events of a key in the order of their time.

A *window* is any interval as long as the rule says, both ends included, wherever it begins; not a fixed grid, on which
ten failures around the full hour would be five and five.

* A count that can only grow (``gte``, ``gt``, and everything temporal) is looked at in the interval that ends with each
  event. The rule holds at the first event with which it is reached.
* A count that more events may spoil (``lt``, ``lte``, ``eq``, ``neq``) is looked at in the interval that begins with each
  event, when that interval is over. An interval without any event has no key, so nothing can be said of it.

*A rule raises one alert a key and timespan.* Timespans are counted from 1970, and the first moment in each at which the
rule holds is an alert, so an attack of a day is reported all day. An alert's id is made of the rule, its version, the key
and the beginning of the timespan, which is the window of the alert.

Why timespans that are fixed, where windows are not: an event that arrives late can only add moments at which a growing
count holds, so it can only add alerts, and each keeps its id. A stream may therefore raise an alert at once and still
agree with every pass over history, in whatever order events arrived and wherever the history begins. Were timespans
counted from the first moment at which a rule holds, an event that arrives late would move them all, and a stream would
have to wait for the watermark, over an hour. The price is that an attack over the end of a timespan is two alerts.

An event whose value is counted and that has none is no event of the rule. What is remembered of a key is its events of one
window. Nothing depends on how events fell into batches.
"""

import hashlib
import json
from collections import Counter, deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from itertools import groupby, islice
from typing import Any, NamedTuple

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import IntegerType, LongType, StringType, StructField, StructType

from strandline.alerting.alert_rule import (
    AlertRule,
    AlertSource,
    Comparison,
    Counted,
    ThresholdRule,
)
from strandline.alerting.compile import named, quoted
from strandline.alerting.one_plan import EPOCH, ID_LENGTH, _part, alerts, as_text, identity, masked
from strandline.alerting.tables.silver import FIELDS as ALERT
from strandline.core.errors import DefinitionError
from strandline.core.fold import Answer, Event, Fold, Folded, Kept, Memory, Waiting

MICROSECOND = timedelta(microseconds=1)

SHOWN = 20
"""The events of an alert that are named, at most."""


@dataclass(frozen=True, slots=True, order=True)
class Hit:
    """An event that a part of the rule found; hits are passed in this order.

    Args:
        at: Its event time, in microseconds since 1970.
        event: Its identity.
        step: The number of the part, negative, so that one event cannot be two steps.
        value: What is counted of it.
        place: Where it is in Kafka.
    """

    at: int
    event: str
    step: int
    value: str | None = None
    place: str = ""


@dataclass(frozen=True, slots=True)
class Fired:
    """An alert.

    Args:
        window: The beginning of its timespan.
        at: When it is known.
        count: What was counted then.
        hits: The events that decide: the latest that suffice, and of an interval that was waited for its first ones.
    """

    window: int
    at: int
    count: int
    hits: tuple[Hit, ...]


@dataclass(slots=True)
class Window:
    """What is remembered of one key of a rule."""

    rule: ThresholdRule
    recent: deque[Hit] = field(default_factory=deque)
    values: Counter[str] = field(default_factory=Counter)
    chains: list[tuple[Hit, ...]] = field(default_factory=list)
    raised: int | None = None

    @property
    def length(self) -> int:
        """Return the length of a window in microseconds."""
        return self.rule.within // MICROSECOND

    def take(self, hit: Hit) -> Iterator[Fired]:
        """Take the next event in, and yield the alerts that are known by it."""
        if not self.rule.comparison.grows:
            yield from self.close(hit.at)
            if not self._is_known(hit):
                self._add(hit)
            return
        while self.recent and self.recent[0].at < hit.at - self.length:
            self._drop()
        if self._is_known(hit):
            return
        self._add(hit)
        found = self._found(hit)
        if self.rule.comparison.holds(found, self.rule.number):
            yield from self._raise(hit.at, found)

    def close(self, until: int) -> Iterator[Fired]:
        """Yield the alerts of the windows that are over at a moment; no event before it will follow."""
        if self.rule.comparison.grows:
            return
        while self.recent and self.recent[0].at + self.length < until:
            first = self.recent[0]
            found = self._count()
            if self.rule.comparison.holds(found, self.rule.number):
                yield from self._raise(first.at + self.length, found)
            self._drop()

    def _is_known(self, hit: Hit) -> bool:
        """Return whether the event adds nothing: it has no value, or another part has found it already."""
        if counted(self.rule, hit) is None:
            return True
        counts_events = self.rule.counted is Counted.EVENTS
        return counts_events and bool(self.recent) and self.recent[-1].event == hit.event

    def _raise(self, at: int, count: int) -> Iterator[Fired]:
        """Yield the alert, unless its timespan has one already."""
        window = timespan(self.rule, at)
        if self.raised is None or window > self.raised:
            self.raised = window
            yield Fired(window, at, count, tuple(self._deciding()))

    def _deciding(self) -> Sequence[Hit]:
        """Return the events that decide, in their order."""
        if self.rule.counted is Counted.STEPS:
            return self.chains[-1]
        if not self.rule.comparison.grows:
            return [*islice(self.recent, SHOWN)]
        latest: dict[str, Hit] = {}
        for hit in reversed(self.recent):
            latest.setdefault(_distinct(self.rule, hit), hit)
            if len(latest) == needed(self.rule):
                break
        return [*latest.values()][::-1]

    def _found(self, hit: Hit) -> int:
        """Return what is counted in the window that ends with an event."""
        if self.rule.counted is not Counted.STEPS:
            return self._count()
        chain = self._chained(hit)
        return len(chain) if chain and chain[0].at >= hit.at - self.length else 0

    def _chained(self, hit: Hit) -> tuple[Hit, ...]:
        """Return the chain of all steps that ends with an event and begins latest; empty if it ends none."""
        self.chains = self.chains or [()] * len(self.rule.parts)
        step = -hit.step
        before = self.chains[step - 1] if step else ()
        if step and not before:
            return ()
        chain, known = (*before, hit), self.chains[step]
        if not known or chain[0].at >= known[0].at:
            self.chains[step] = chain
        return chain if step == len(self.rule.parts) - 1 else ()

    def _count(self) -> int:
        return len(self.recent) if self.rule.counted is Counted.EVENTS else len(self.values)

    def _add(self, hit: Hit) -> None:
        value = counted(self.rule, hit)
        self.recent.append(hit)
        if value is not None:
            self.values[value] += 1

    def _drop(self) -> None:
        value = counted(self.rule, self.recent.popleft())
        if value is not None:
            self.values[value] -= 1
            if not self.values[value]:
                del self.values[value]


def timespan(rule: ThresholdRule, at: int) -> int:
    """Return the beginning of the timespan of a moment."""
    return at - at % size(rule)


def size(rule: ThresholdRule) -> int:
    """Return the length of a timespan in microseconds; that of a rule about equal moments is one."""
    return max(rule.within // MICROSECOND, 1)


def needed(rule: ThresholdRule) -> int:
    """Return how many events or values are enough for a count that grows."""
    return max(rule.number + (rule.comparison is Comparison.ABOVE), 1)


def counted(rule: ThresholdRule, hit: Hit) -> str | None:
    """Return what is counted of an event, once or by its distinct values."""
    return hit.value if rule.counted is Counted.VALUES else str(hit.step)


def _distinct(rule: ThresholdRule, hit: Hit) -> str:
    """Return by what two events count as two."""
    return hit.event if rule.counted is Counted.EVENTS else str(counted(rule, hit))


def fired(rule: ThresholdRule, hits: Iterable[Hit], until: int) -> Iterator[Fired]:
    """Yield the alerts of one key.

    Args:
        rule: The rule.
        hits: The events of the key, in their order.
        until: The end of the time that is looked at: windows that reach beyond it are not over.
    """
    window = Window(rule)
    for hit in hits:
        yield from window.take(hit)
    yield from window.close(until)


# Which events of a timespan a stream remembers: as many as decide, however many there were.
#
# An event may arrive late, so a stream remembers the events of past timespans until the watermark allows no more of them.
# Were it all of them, a flood about one key would be a state as large as the flood. A window lies in two timespans at most,
# the one of its moment and the one before, and each kind of rule needs little of either (the *number* below is the rule's;
# a timespan is *raised* when it has its alert, and then matters only to the one that follows):
#
# * *Growing counts of events*: the latest events, as many as suffice. One that is left out is older than these, so a later
#   window that holds it holds them as well, and that is enough. A timespan with as many is raised by them alone.
# * *Growing counts of values, or of rules*: of each value the latest event, of as many values as suffice, for the same
#   reason; and until the timespan is raised, of each value also the first, because values that return add nothing.
# * *Steps*: all events up to ``MOST``, then the chains that begin latest, and the newest events. Events that come in order
#   need no more than those chains. Only where more than ``MOST`` events of one key come within a timespan, and then one of
#   them late, can a chain be missed.
# * *Counts that more events may spoil*: the first and the last events, one more than the number of each. An interval that
#   begins with any other has too many events, as that of the first has. Of values it is the first and the last ``MOST``
#   events; beyond these such a count is not exact.


MOST = 1_000

LARGEST = 10_000
"""The number up to which a stream counts, because a batch reads and writes as many events of a key."""


def remembered(
    rule: ThresholdRule, hits: Sequence[Hit], before: Sequence[Hit], *, is_raised: bool
) -> list[Hit]:
    """Return the events of a timespan that may decide anything yet.

    Args:
        rule: The rule.
        hits: The events of one key in the timespan, in their order.
        before: What is remembered of the timespan before.
        is_raised: Whether the timespan has its alert.
    """
    if not rule.comparison.grows:
        return _ends(hits, rule.number + 1 if rule.counted is Counted.EVENTS else MOST)
    match rule.counted:
        case Counted.EVENTS:
            return [*hits[-needed(rule) :]]
        case Counted.STEPS:
            return _chained(rule, hits, before)
        case Counted.VALUES | Counted.KINDS:
            return _by_value(rule, hits, is_raised=is_raised)


def _ends(hits: Sequence[Hit], most: int) -> list[Hit]:
    return [*hits] if len(hits) <= 2 * most else [*hits[:most], *hits[-most:]]


def _by_value(rule: ThresholdRule, hits: Sequence[Hit], *, is_raised: bool) -> list[Hit]:
    first: dict[str | None, Hit] = {}
    last: dict[str | None, Hit] = {}
    for hit in hits:
        value = counted(rule, hit)
        first.setdefault(value, hit)
        last[value] = hit
    latest = sorted(last.values())[-needed(rule) :]
    return latest if is_raised else sorted({*first.values(), *latest})


def _chained(rule: ThresholdRule, hits: Sequence[Hit], before: Sequence[Hit]) -> list[Hit]:
    if len(hits) <= MOST:
        return [*hits]
    window = Window(rule)
    for hit in (*before, *hits):
        for _ in window.take(hit):
            pass
    chains = {hit for chain in window.chains for hit in chain}
    return sorted({*chains.intersection(hits), *hits[len(chains) - MOST :]})


# The alert of a threshold rule, in the shape of every alert (jobs/strandline/alerting/one_plan.py).
#
# Its id is a hash of the rule, its version, the key and the beginning of its timespan, so that every pass over the same
# events finds the same id. In the place of an event it says how many there were, in which time, and where in Kafka the
# last few of them are; its own place is that of the event that decided. ``strandline why`` shows each.


AlertRow = tuple[str, str, str, str, str, str, datetime, str, str, int, int]


def alert_of(rule: ThresholdRule, key: str, shown: str, found: Fired) -> AlertRow:
    """Return the alert as a row of ``ALERT``.

    Args:
        rule: The rule.
        key: The key, as it is.
        shown: The key as JSON, masked where it is sensitive.
        found: When the rule fired.
    """
    first, last = found.hits[0], found.hits[-1]
    decided = last if rule.comparison.grows else first
    topic, partition, offset = decided.place.rsplit("/", 2)
    about = {
        "count": found.count,
        "since": _moment(first.at).isoformat(),
        "until": _moment(found.at).isoformat(),
        "window": _moment(found.window).isoformat(),
        "events": [hit.place for hit in found.hits[-SHOWN:]],
    }
    return (
        threshold_alert_id(rule, key, found.window),
        rule.id,
        rule.version,
        str(rule.severity),
        ", ".join(source.table.id for source in rule.sources),
        shown,
        _moment(found.at),
        json.dumps(about, separators=(",", ":")),
        topic,
        int(partition),
        int(offset),
    )


def threshold_alert_id(rule: ThresholdRule, key: str, window: int) -> str:
    """Return the id of the alert of a key and of a timespan, which begins so many microseconds after 1970."""
    texts = map(_part, (rule.id, rule.version, key, str(window)))
    return hashlib.sha256("".join(texts).encode()).hexdigest()[:ID_LENGTH]


def _moment(micros: int) -> datetime:
    return EPOCH + timedelta(microseconds=micros)


# Threshold rules in a stream: one step for each rule and key, which counts events as they arrive, in any order.
#
# The same pass decides here as in a batch. What is different is which events it is given: when events
# come, those of their timespan and of the one before. A growing count is raised at once, in the order of arrival, because a
# later event cannot take the alert back; its id is that of a backtest. A count that more events may spoil is asked when the
# watermark has passed the window.
#
# State is kept by rule, version and key, so a rule that is changed begins anew and the others go on. What is remembered of
# a timespan is bounded by the rule, and gone when the watermark has passed the timespan after it.


OUTPUT = StructType(
    [StructField("event_at", LongType()) if each.name == "event_at" else each for each in ALERT]
)
"""The columns of an alert, with its time in microseconds since 1970."""

ABOUT = ("rule", "key", "shown")
HIT = ("at", "event", "step", "value", "place")


@dataclass(frozen=True, slots=True)
class Count:
    """The step.

    Args:
        rules: Threshold rules, by what their state is named.
        running: The names of those that run; the others only see the events that were theirs once more.
    """

    rules: Mapping[str, ThresholdRule]
    running: frozenset[str]

    def __call__(self, memory: Memory, rows: list[Event], watermark: int) -> Folded:
        """Count new events of a rule and a key, and forget what no event can need any more."""
        head = memory.head.get("about", {})
        about = {name: rows[-1][name] for name in ABOUT} if rows else head
        spans = _Spans(memory)
        rule = self.rules.get(about.get("rule", ""))
        if rule is None:
            spans.forget(spans.numbers)
            memory.head = {}
            return Folded((), None)
        found = [*_counted(rule, spans, rows)] if rows else []
        if about["rule"] in self.running and not rule.comparison.grows:
            found += _waited(rule, spans, watermark)
        spans.forget([each for each in spans.numbers if _end(rule, each) <= watermark])
        memory.head = {"about": about, "spans": spans.raised} if spans.raised else {}
        wake_at = min(_due(rule, spans, watermark), default=None)
        return Folded([_answer(rule, about, each) for each in found], wake_at)


def fold(rules: Mapping[str, ThresholdRule], running: Iterable[str]) -> Fold:
    """Return the fold of threshold rules over what their parts find."""
    return Fold(
        by=("rule", "key"),
        reads=("event", "step", "value", "shown", "place"),
        output=OUTPUT,
        key=("alert_id",),
        step=Count(rules, frozenset(running)),
        form=1,
        migrate=_first_form,
    )


def _first_form(memory: Memory) -> None:
    """Migrate nothing: no form came before the first."""


class _Spans:
    """What is remembered of a rule and a key, by the number of the timespan."""

    def __init__(self, memory: Memory) -> None:
        self._memory = memory
        self.raised: dict[str, bool] = dict(memory.head.get("spans", {}))

    @property
    def numbers(self) -> list[int]:
        """Return the timespans in their order."""
        return sorted(map(int, self.raised))

    def hits(self, number: int) -> list[Hit]:
        """Return the events of a timespan, in their order."""
        if str(number) not in self.raised:
            return []
        first = self._queue(number).first
        rows = [] if first is None else self._queue(number).since(first)
        return [Hit(*(row[name] for name in HIT)) for row in rows]

    def keep(self, number: int, hits: Iterable[Hit]) -> None:
        """Replace the events of a timespan."""
        self._empty(number)
        self.raised.setdefault(str(number), False)
        self._queue(number).add({name: getattr(hit, name) for name in HIT} for hit in hits)

    def forget(self, numbers: Iterable[int]) -> None:
        """Remove timespans."""
        for number in numbers:
            self._empty(number)
            del self.raised[str(number)]

    def _empty(self, number: int) -> None:
        queue = self._queue(number)
        if queue.last is not None:
            queue.drop(queue.last)

    def _queue(self, number: int) -> Waiting:
        return self._memory.waiting(str(number), _order)


def _counted(rule: ThresholdRule, spans: _Spans, rows: Iterable[Event]) -> Iterator[Fired]:
    """Take new events in, and yield the alerts of growing counts."""
    came: dict[int, list[Hit]] = {}
    for row in rows:
        hit = Hit(*(row[name] for name in HIT))
        came.setdefault(hit.at // size(rule), []).append(hit)
    for number, new in came.items():
        known = {_identity(rule, hit): hit for hit in reversed([*spans.hits(number), *new])}
        spans.keep(number, sorted(known.values()))
    for number in sorted({*came, *(each + 1 for each in came)}):
        hits, before = spans.hits(number), spans.hits(number - 1)
        if not hits:
            continue
        if rule.comparison.grows and not spans.raised[str(number)]:
            every = fired(rule, [*before, *hits], hits[-1].at)
            first = next((each for each in every if each.window == number * size(rule)), None)
            if first is not None:
                spans.raised[str(number)] = True
                yield first
        kept = remembered(rule, hits, before, is_raised=spans.raised[str(number)])
        if len(kept) < len(hits):
            spans.keep(number, kept)


def _waited(rule: ThresholdRule, spans: _Spans, watermark: int) -> Iterator[Fired]:
    """Yield the alerts of counts that had to wait, in the windows that the watermark has passed."""
    for number in spans.numbers:
        begin = number * size(rule)
        window = timespan(rule, begin + rule.within // MICROSECOND)
        until = min(watermark + 1, begin + 2 * size(rule))
        both = [*spans.hits(number), *spans.hits(number + 1)]
        passed = [hit for hit in both if hit.at < until]
        every = (each for each in fired(rule, passed, until) if each.window == window)
        first = next(every, None) if not spans.raised[str(number)] else None
        if first is not None:
            spans.raised[str(number)] = True
            yield first


def _due(rule: ThresholdRule, spans: _Spans, watermark: int) -> Iterator[int]:
    """Yield the moments at which there is more to emit or to forget."""
    for number in spans.numbers:
        yield _end(rule, number)
        if not (rule.comparison.grows or spans.raised[str(number)]):
            ends = (hit.at + rule.within // MICROSECOND for hit in spans.hits(number))
            yield from (end for end in ends if end > watermark)


def _end(rule: ThresholdRule, number: int) -> int:
    """Return the last microsecond of the windows that begin in a timespan."""
    return (number + 2) * size(rule) - 1


def _identity(rule: ThresholdRule, hit: Hit) -> tuple[object, ...]:
    """Return by what two hits are one: copies of an event, and where events are counted, finds of several parts."""
    return (hit.at, hit.event, rule.counted is Counted.EVENTS or hit.step)


def _order(row: Kept) -> list[Any]:
    return [row["at"], row["event"], row["step"]]


def _answer(rule: ThresholdRule, about: Mapping[str, str], found: Fired) -> Answer:
    row = alert_of(rule, about["key"], about["shown"], found)
    return {**dict(zip(OUTPUT.names, row, strict=True)), "event_at": found.at}


# The alerts of threshold rules over rows of silver, in batch: one pass over each table, and one over what was found.
#
# All parts of all rules about a table are one plan (jobs/strandline/alerting/one_plan.py). What they find is brought together by rule and
# key and sorted by time, and ``fired`` goes over it, the rows of a key after each other; so memory holds the events of one window
# and never those of a key. It is Python, because no expression of Spark counts distinct values in a sliding interval in less
# than the square of its events; and it sees only what the parts found.

FOUND = (
    StructType()
    .add("rule", IntegerType())
    .add("key", StringType())
    .add("at", LongType())
    .add("event", StringType())
    .add("step", IntegerType())
    .add("value", StringType())
    .add("shown", StringType())
    .add("place", StringType())
)
"""What a part found: for which rule and key, when, which event, as which part, and what of it is shown."""

TIME = "time"
BETWEEN = " "
"""Is between a version, which has none, and an id."""
ORDER = ("rule", "key", "at", "event", "step")


class _Row(NamedTuple):
    rule: int
    key: str
    at: int
    event: str
    step: int
    value: str | None
    shown: str
    place: str


def correlated(
    tables: Mapping[AlertSource, DataFrame], rules: Sequence[ThresholdRule], until: int
) -> DataFrame:
    """Return the alerts of threshold rules, in the columns of ``ALERT``.

    Args:
        tables: Rows of the tables whose events the rules count; a table that is absent has none.
        rules: The rules.
        until: The end of the rows' time, in microseconds since 1970.

    Raises:
        DefinitionError: None of the tables is there.
    """
    found = [hits(rows, source, rules) for source, rows in tables.items()]
    if not found:
        raise DefinitionError("no table is there", hint="name tables that the rules are about.")
    every = found[0]
    for each in found[1:]:
        every = every.unionByName(each)
    ordered = every.select(*FOUND.names).repartition("rule", "key").sortWithinPartitions(*ORDER)
    return ordered.mapInPandas(_Pass(tuple(rules), until), ALERT)


def hits(rows: DataFrame, source: AlertSource, rules: Sequence[ThresholdRule]) -> DataFrame:
    """Return what the parts of rules find in the rows of a table, in the columns of ``FOUND`` and with its time as ``TIME``.

    Args:
        rows: Rows of the table, with their place in Kafka.
        source: The table.
        rules: The rules; those that count none of its events find nothing.
    """
    wanted: dict[AlertRule, list[str]] = {}
    for number, rule in enumerate(rules):
        for step, part in enumerate(rule.parts):
            if part.rule.source == source:
                value = f"CAST({named(part.value)} AS STRING)" if part.value else "''"
                key = _key(source, part.keys)
                shown = _shown(source, zip(rule.keys, part.keys, strict=True))
                made = f"named_struct('rule', {number}, 'key', {key}, 'step', {-step}, 'value', {value}, 'shown', {shown})"
                wanted.setdefault(part.rule, []).append(made)
    parts = _by_meaning(wanted)
    cases = " ".join(
        f"WHEN {quoted(rule.version + BETWEEN + rule.id)} THEN array({', '.join(structs)})"
        for rule, structs in parts
    )
    event = ", '/', ".join(
        f"coalesce({as_text(source, name)}, '')" for name in identity(source.table)
    )
    return (
        alerts(rows, [rule for rule, _ in parts])
        .selectExpr(
            f"{named(source.table.event_at)} AS {TIME}",
            f"unix_micros({named(source.table.event_at)}) AS at",
            f"concat({event}) AS event",
            "concat_ws('/', _topic, _partition, _offset) AS place",
            f"explode(CASE concat(rule_version, {quoted(BETWEEN)}, rule_id) {cases} END) AS part",
        )
        .select(TIME, "at", "event", "place", "part.*")
        .where(F.col("key").isNotNull() & F.col("value").isNotNull())
        .select(TIME, *(F.col(name).cast(FOUND[name].dataType) for name in FOUND.names))
    )


def _by_meaning(wanted: Mapping[AlertRule, list[str]]) -> list[tuple[AlertRule, list[str]]]:
    """Return each rule once, by its id and version.

    By its id alone a rule that was edited lost its new condition to the old one where a plan has both: in a feed that goes on
    at a checkpoint, and in a backtest against a rule's former version.
    """
    known: dict[tuple[str, str], tuple[AlertRule, list[str]]] = {}
    for rule, structs in wanted.items():
        known.setdefault((rule.id, rule.version), (rule, []))[1].extend(structs)
    return list(known.values())


def _key(source: AlertSource, columns: Sequence[str]) -> str:
    """Return SQL for a key as one text; NULL where a part is NULL, because two NULLs are not the same."""
    if not columns:
        return "''"
    parts = ", ".join(
        f"char_length({text}), ':', {text}" for text in (as_text(source, name) for name in columns)
    )
    return f"concat({parts})"


def _shown(source: AlertSource, keys: Iterable[tuple[str, str]]) -> str:
    """Return SQL for a key as JSON, masked where it is sensitive."""
    hidden = source.table.secret
    columns = [
        f"{quoted(name)}, {masked(source, column) if column in hidden else named(column)}"
        for name, column in keys
    ]
    return f"to_json(named_struct({', '.join(columns)}))" if columns else "'{}'"


class _Pass:
    """Goes over sorted rows; a value, because Spark sends it to its workers."""

    def __init__(self, rules: tuple[ThresholdRule, ...], until: int) -> None:
        self._rules = rules
        self._until = until

    def __call__(self, frames: Iterable[Any]) -> Iterator[Any]:
        found = []
        for (number, key), rows in groupby(_rows(frames), lambda row: (row.rule, row.key)):
            rule = self._rules[number]
            last: dict[str, str] = {}
            its = fired(rule, _hits_of_key(rows, last), self._until)
            found += [alert_of(rule, key, last["shown"], each) for each in its]
        import pandas as pd  # noqa: PLC0415  # no look at rules waits for it

        yield pd.DataFrame(found, columns=ALERT.fieldNames())


def _rows(frames: Iterable[Any]) -> Iterator[_Row]:
    for frame in frames:
        yield from map(_Row._make, frame.itertuples(index=False, name=None))


def _hits_of_key(rows: Iterable[_Row], last: dict[str, str]) -> Iterator[Hit]:
    """Yield the hits of a key, and note how the key is shown."""
    for row in rows:
        last["shown"] = row.shown
        yield Hit(row.at, row.event, row.step, row.value, row.place)
