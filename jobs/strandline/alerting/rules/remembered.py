"""Which events of a timespan a stream remembers: as many as decide, however many there were.

An event may arrive late, so a stream remembers the events of past timespans until the watermark allows no more of them.
Were it all of them, a flood about one key would be a state as large as the flood. A window lies in two timespans at most,
the one of its moment and the one before, and each kind of rule needs little of either (the *number* below is the rule's;
a timespan is *raised* when it has its alert, and then matters only to the one that follows):

* *Growing counts of events*: the latest events, as many as suffice. One that is left out is older than these, so a later
  window that holds it holds them as well, and that is enough. A timespan with as many is raised by them alone.
* *Growing counts of values, or of rules*: of each value the latest event, of as many values as suffice, for the same
  reason; and until the timespan is raised, of each value also the first, because values that return add nothing.
* *Steps*: all events up to ``MOST``, then the chains that begin latest, and the newest events. Events that come in order
  need no more than those chains. Only where more than ``MOST`` events of one key come within a timespan, and then one of
  them late, can a chain be missed.
* *Counts that more events may spoil*: the first and the last events, one more than the number of each. An interval that
  begins with any other has too many events, as that of the first has. Of values it is the first and the last ``MOST``
  events; beyond these such a count is not exact.
"""

from collections.abc import Sequence

from strandline.alerting.rules.threshold_rule import Counted, ThresholdRule
from strandline.alerting.rules.windows import Hit, Window, counted, needed

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
