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

An event whose value is counted and that has none is no event of the rule.

What is remembered of a key is its events of one window. Nothing depends on how events fell into batches.
"""

from collections import Counter, deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from itertools import islice

from strandline.alerting.rules.threshold_rule import Comparison, Counted, ThresholdRule

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
