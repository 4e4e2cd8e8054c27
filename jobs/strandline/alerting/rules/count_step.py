"""Threshold rules in a stream: one step for each rule and key, which counts events as they arrive, in any order.

``jobs/strandline/alerting/rules/windows.py`` decides here as it does in a batch. What is different is which events it is given: when events
come, those of their timespan and of the one before. A growing count is raised at once, in the order of arrival, because a
later event cannot take the alert back; its id is that of a backtest. A count that more events may spoil is asked when the
watermark has passed the window.

State is kept by rule, version and key, so a rule that is changed begins anew and the others go on. What is remembered of
a timespan is bounded by the rule (jobs/strandline/alerting/rules/remembered.py), and gone when the watermark has passed the timespan after it.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from pyspark.sql.types import LongType, StructField, StructType

from strandline.alerting.rules.remembered import remembered
from strandline.alerting.rules.threshold_alert import alert_of
from strandline.alerting.rules.threshold_rule import Counted, ThresholdRule
from strandline.alerting.rules.windows import MICROSECOND, Fired, Hit, fired, size, timespan
from strandline.alerting.tables.silver import FIELDS as ALERT
from strandline.core.fold import Answer, Event, Fold, Folded
from strandline.core.waiting import Kept, Memory, Waiting

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
    """Return the fold of threshold rules over what their parts find (jobs/strandline/alerting/rules/correlate.py)."""
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
