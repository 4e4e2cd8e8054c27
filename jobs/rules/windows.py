"""When a threshold rule fires: one pass over the events of a key in the order of their time.

A *window* is any interval as long as the rule says, both ends included, wherever it begins; not a fixed grid, on which
ten failures around the full hour would be five and five.

* A count that can only grow (``gte``, ``gt``, and everything temporal) is looked at in the interval that ends with each
  event. The rule holds at the first event with which it is reached.
* A count that more events may spoil (``lt``, ``lte``, ``eq``, ``neq``) is looked at in the interval that begins with each
  event, when that interval is over. An interval without any event has no key, so nothing can be said of it.

*A rule raises one alert a key and window.* An episode begins at a moment at which the rule holds and has not held for the
length of a window before. From then on there is one alert for each length of a window in which the rule holds, so an
attack of a minute is one alert and one of a day is reported all day. An alert's id is made of the rule, its version, the
key, and the beginning of its window: the beginning of the episode and a whole number of lengths.

What is remembered of a key is its events of one length, and three moments. Nothing depends on how events fell into batches.
"""

from collections import Counter, deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import timedelta

from jobs.rules.threshold_rule import Counted, ThresholdRule

MICROSECOND = timedelta(microseconds=1)


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
    """An alert: the beginning of its window, when it is known, the count then, and the event that decided."""

    window: int
    at: int
    count: int
    since: int
    hit: Hit


@dataclass(slots=True)
class Window:
    """What is remembered of one key of a rule."""

    rule: ThresholdRule
    recent: deque[Hit] = field(default_factory=deque)
    values: Counter[str] = field(default_factory=Counter)
    chains: list[int | None] = field(default_factory=list)
    began: int | None = None
    latest: int = 0
    raised: int = -1

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
        found, since = self._found(hit)
        if self.rule.comparison.holds(found, self.rule.number):
            yield from self._raise(hit.at, found, since, hit)

    def close(self, until: int) -> Iterator[Fired]:
        """Yield the alerts of the windows that are over at a moment; no event before it will follow."""
        if self.rule.comparison.grows:
            return
        while self.recent and self.recent[0].at + self.length < until:
            first = self.recent[0]
            found = self._count()
            if self.rule.comparison.holds(found, self.rule.number):
                yield from self._raise(first.at + self.length, found, first.at, first)
            self._drop()

    def _is_known(self, hit: Hit) -> bool:
        """Return whether the event is counted already, found by another part."""
        counts_events = self.rule.counted is Counted.EVENTS
        return counts_events and bool(self.recent) and self.recent[-1].event == hit.event

    def _raise(self, at: int, count: int, since: int, hit: Hit) -> Iterator[Fired]:
        """Yield the alert, unless its window has one already."""
        if self.began is None or at - self.latest > self.length:
            self.began, self.raised = at, -1
        self.latest = at
        number = (at - self.began) // self.length if self.length else 0
        if number > self.raised:
            self.raised = number
            yield Fired(self.began + number * self.length, at, count, since, hit)

    def _found(self, hit: Hit) -> tuple[int, int]:
        """Return what is counted in the window that ends with an event, and the first event that counts."""
        if self.rule.counted is not Counted.STEPS:
            return self._count(), self.recent[0].at
        since = self._chained(hit)
        if since is None or since < hit.at - self.length:
            return 0, hit.at
        return len(self.rule.parts), since

    def _chained(self, hit: Hit) -> int | None:
        """Return the latest beginning of a chain of all steps that ends with an event; None if it ends none."""
        self.chains = self.chains or [None] * len(self.rule.parts)
        step = -hit.step
        begun = self.chains[step - 1] if step else hit.at
        if begun is not None:
            self.chains[step] = max(begun, self.chains[step] or begun)
        return begun if step == len(self.rule.parts) - 1 else None

    def _count(self) -> int:
        return len(self.recent) if self.rule.counted is Counted.EVENTS else len(self.values)

    def _counted(self, hit: Hit) -> str | None:
        return hit.value if self.rule.counted is Counted.VALUES else str(hit.step)

    def _add(self, hit: Hit) -> None:
        value = self._counted(hit)
        self.recent.append(hit)
        if value is not None:
            self.values[value] += 1

    def _drop(self) -> None:
        value = self._counted(self.recent.popleft())
        if value is not None:
            self.values[value] -= 1
            if not self.values[value]:
                del self.values[value]


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
