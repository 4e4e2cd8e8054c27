"""Threshold rules in a stream raise what they raise over history, however events arrive and fall into batches."""

import random
from collections.abc import Sequence
from datetime import timedelta

import pytest

from strandline.alerting import windows
from strandline.alerting.alert_rule import Comparison, Counted, ThresholdRule
from strandline.alerting.windows import Hit, fired, fold, threshold_alert_id
from strandline.core.fold import InMemory, Memory
from tests.rules.test_windows import LENGTH, rule

NAME = "r 1"
FOREVER = 10**6
LATE = 25
"""How far behind the newest event another may arrive: more than two timespans."""

KINDS = [
    (counted, comparison)
    for counted in Counted
    for comparison in Comparison
    if comparison.grows or counted in {Counted.EVENTS, Counted.VALUES}
]


class Stream:
    """One key of a rule in a stream, whose state is text between batches."""

    def __init__(self, its: ThresholdRule, running: Sequence[str] = (NAME,)) -> None:
        """Begin without state."""
        self._fold = fold({NAME: its}, running)
        self._pieces = InMemory()
        self.text: str | None = None
        self.most = 0
        self.alerts: list[dict[str, object]] = []

    def batch(self, hits: Sequence[Hit], watermark: int) -> None:
        """Take a batch in."""
        memory = self._fold.recall(self.text, self._pieces)
        rows = [
            {"rule": NAME, "key": "k", "shown": "{}"}
            | {name: getattr(hit, name) for name in Hit.__slots__}
            for hit in hits
        ]
        folded = self._fold.step(memory, rows, watermark)
        self.alerts += folded.answers
        self.text = memory.text()
        assert (folded.wake_at is None) is (self.text is None)
        assert folded.wake_at is None or folded.wake_at > watermark
        self.most = max(self.most, _kept(memory))

    def all(self, arriving: Sequence[Hit], chance: random.Random) -> None:
        """Take events in, in batches of any size, each with the watermark of those before it."""
        newest, rest = 0, [*arriving]
        while rest:
            size = min(chance.choice((1, 1, 2, 5, 40)), len(rest))
            batch, rest = rest[:size], rest[size:]
            self.batch(batch, newest - LATE)
            newest = max(newest, *(hit.at for hit in batch))
        self.batch([], FOREVER)


def _kept(memory: Memory) -> int:
    names = memory.head.get("spans", {})
    return sum(len(memory.waiting(name, lambda row: [row["at"]])) for name in names)


def given(chance: random.Random, *, parts: int, crowd: int) -> list[Hit]:
    """Return events of a key: sparse and crowded stretches, equal moments, copies, and finds of several parts."""
    hits = []
    at = chance.randrange(LENGTH)
    for number in range(chance.randrange(1, crowd)):
        at += chance.choice((0, 0, 0, 0, 1, 1, 2, 5, 30))
        steps = chance.sample(range(parts), chance.choice((1, 1, 2)))
        hits += [
            Hit(at, f"{number:03}", -s, chance.choice("abcdef"), f"t/0/{number}") for s in steps
        ]
    return [*hits, *chance.sample(hits, len(hits) // 5)]


def arriving(hits: Sequence[Hit], chance: random.Random) -> list[Hit]:
    """Return events in the order of an arrival that runs behind by less than ``LATE``."""
    return sorted(
        hits, key=lambda hit: hit.at + chance.choice((0, LATE - 1, chance.randrange(LATE)))
    )


def expected(its: ThresholdRule, hits: Sequence[Hit]) -> list[str]:
    """Return the ids of the alerts of a batch over all events, each event once."""
    found = fired(its, sorted(set(hits)), FOREVER)
    return [threshold_alert_id(its, "k", each.window) for each in found]


@pytest.mark.whole
@pytest.mark.parametrize(("counted", "comparison"), KINDS)
def test_a_stream_raises_what_a_batch_raises(
    counted: Counted, comparison: Comparison, chance: random.Random
) -> None:
    """Each id once, for events that come in any order in any batches, up to floods."""
    loud = 0
    for _ in range(60):
        number = 3 if counted is Counted.STEPS else chance.randrange(1, 5)
        its = rule(counted, number, comparison, parts=4)
        hits = given(chance, parts=4, crowd=chance.choice((20, 150)))
        stream = Stream(its)

        stream.all(arriving(hits, chance), chance)

        wanted = expected(its, hits)
        assert sorted(str(each["alert_id"]) for each in stream.alerts) == sorted(wanted)
        assert stream.text is None
        loud += bool(wanted)
    assert loud > 5


@pytest.mark.whole
@pytest.mark.parametrize("counted", Counted)
def test_of_events_in_order_the_alert_is_the_same_altogether(
    counted: Counted, chance: random.Random
) -> None:
    """Its time, its events and its place; its count is what the stream remembers, enough for the rule."""
    for _ in range(20):
        its = rule(counted, 3, parts=3)
        hits = sorted(set(given(chance, parts=3, crowd=80)))
        stream = Stream(its)

        for hit in hits:
            stream.batch([hit], hit.at - LATE)

        of_batch = [(each.at, each.hits[-1].place) for each in fired(its, hits, FOREVER)]
        of_stream = [(each["event_at"], f"t/0/{each['event_offset']}") for each in stream.alerts]
        assert of_stream == of_batch


@pytest.mark.parametrize(
    ("counted", "comparison", "most"),
    [
        (Counted.EVENTS, Comparison.AT_LEAST, 5 * 3),
        (Counted.VALUES, Comparison.AT_LEAST, 5 * 2 * 3),
        (Counted.KINDS, Comparison.AT_LEAST, 5 * 2 * 3),
        (Counted.EVENTS, Comparison.BELOW, 5 * 2 * 4),
        (Counted.STEPS, Comparison.AT_LEAST, 5 * 20),
    ],
)
def test_state_is_bounded_by_the_rule_and_not_by_its_events(
    counted: Counted,
    comparison: Comparison,
    most: int,
    chance: random.Random,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A flood of 4,000 events in ten timespans: a few of each that the watermark has not passed are remembered."""
    monkeypatch.setattr(windows, "MOST", 20)
    flood = [
        Hit(n // 40, f"{n:05}", -chance.choice((0, 0, 1)), chance.choice("ab"), "t/0/0")
        for n in range(4_000)
    ]
    if counted is Counted.STEPS:
        flood = sorted([*flood, *(Hit(n, "end", -2, "c", "t/0/0") for n in (19, 58, 99))])
    its = rule(counted, 3, comparison, parts=3)
    stream = Stream(its)

    for begin in range(0, len(flood), 100):
        stream.batch(flood[begin : begin + 100], flood[begin].at - LATE)
    stream.batch([], FOREVER)

    assert stream.most <= most
    assert sorted(str(a["alert_id"]) for a in stream.alerts) == sorted(expected(its, flood))


def test_a_batch_that_is_repeated_from_its_state_raises_the_same() -> None:
    """As after a crash between the topic and the checkpoint."""
    stream = Stream(rule(Counted.EVENTS, 2))
    stream.batch([Hit(1, "a", 0, "", "t/0/0")], 0)
    before = stream.text

    stream.batch([Hit(2, "b", 0, "", "t/0/1")], 0)
    stream.text = before
    stream.batch([Hit(2, "b", 0, "", "t/0/1")], 0)

    first, second = stream.alerts
    assert first == second


def test_a_value_that_returned_counts_from_its_first_event_on() -> None:
    """Of an event that arrives late, only the first of them is in reach."""
    its = rule(Counted.VALUES, 3)
    hits = [
        Hit(at, event, 0, value, "t/0/0")
        for at, event, value in ((11, "a", "x"), (12, "b", "y"), (19, "c", "x"), (2, "late", "z"))
    ]
    stream = Stream(its)

    for hit in hits:
        stream.batch([hit], 0)

    assert [each["alert_id"] for each in stream.alerts] == expected(its, hits)
    assert len(stream.alerts) == 1


def test_a_count_that_must_wait_is_known_when_the_watermark_has_passed_its_window() -> None:
    """And not before, whatever has come beyond it."""
    stream = Stream(rule(Counted.EVENTS, 2, Comparison.BELOW))
    stream.batch([Hit(1, "a", 0, "", "t/0/0"), Hit(18, "c", 0, "", "t/0/1")], 0)
    stream.batch([], 1 + LENGTH - 1)
    assert stream.alerts == []

    stream.batch([], 1 + LENGTH)

    (alert,) = stream.alerts
    assert alert["event_at"] == 1 + LENGTH


def test_windows_that_are_open_when_a_rule_ends_raise_nothing() -> None:
    """What would follow in them is not for that rule any more, so they would seem too quiet."""
    few = rule(Counted.EVENTS, 2, Comparison.BELOW)
    goes_on, ends = Stream(few), Stream(few, running=())
    for stream in (goes_on, ends):
        stream.batch([Hit(1, "a", 0, "", "t/0/0")], 0)
        stream.batch([], FOREVER)

    assert (len(goes_on.alerts), len(ends.alerts)) == (1, 0)
    assert ends.text is None


def test_the_state_of_a_rule_that_is_gone_is_forgotten_when_it_is_due() -> None:
    stream = Stream(rule(Counted.EVENTS, 2))
    stream.batch([Hit(1, "a", 0, "", "t/0/0")], 0)
    another = fold({}, ())
    memory = another.recall(stream.text, InMemory())

    folded = another.step(memory, [], FOREVER)

    assert (memory.text(), [*folded.answers], folded.wake_at) == (None, [], None)
    assert rule(Counted.EVENTS, 2).within == timedelta(microseconds=LENGTH)
