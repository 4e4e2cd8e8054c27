"""When a threshold rule fires, against a definition that tries every interval; and one alert a key and window."""

import random
from collections.abc import Sequence
from datetime import timedelta

import pytest

from strandline.alerting.alert_rule import AlertRule, Comparison, Counted, Part, ThresholdRule, find
from strandline.alerting.condition import Missing, Not
from strandline.alerting.windows import Fired, Hit, fired

LENGTH = 10
END = 1_000


def rule(
    counted: Counted, number: int, comparison: Comparison = Comparison.AT_LEAST, parts: int = 1
) -> ThresholdRule:
    source = find("user_actions")
    assert source is not None
    part = Part(
        rule=AlertRule(id="any", title="x", source=source, when=Not(Missing("action"))),
        keys=("user_id",),
        value="device_id",
    )
    return ThresholdRule(
        id="r",
        title="x",
        counted=counted,
        parts=(part,) * parts,
        keys=("user",),
        within=timedelta(microseconds=LENGTH),
        comparison=comparison,
        number=number,
    )


def hits(*moments: int, values: str = "", steps: Sequence[int] = ()) -> list[Hit]:
    return sorted(
        Hit(at, f"{n:04}", -(steps[n] if steps else 0), values[n] if values else None)
        for n, at in enumerate(moments)
    )


def ats(found: Sequence[Fired]) -> list[int]:
    return [each.at for each in found]


def holding(its: ThresholdRule, given: Sequence[Hit], until: int) -> list[int]:
    """Return the moments at which a rule holds, by trying the interval of each event."""
    if its.comparison.grows:
        inside = [
            (hit.at, [o for o in given[: n + 1] if o.at >= hit.at - LENGTH])
            for n, hit in enumerate(given)
        ]
    else:
        inside = [
            (hit.at + LENGTH, [o for o in given[n:] if o.at <= hit.at + LENGTH])
            for n, hit in enumerate(given)
            if hit.at + LENGTH < until
        ]
    return [at for at, some in inside if its.comparison.holds(_count(its, some), its.number)]


def _count(its: ThresholdRule, some: Sequence[Hit]) -> int:
    match its.counted:
        case Counted.EVENTS:
            return len({hit.event for hit in some})
        case Counted.VALUES:
            return len({hit.value for hit in some} - {None})
        case Counted.KINDS:
            return len({hit.step for hit in some})
        case Counted.STEPS:
            return len(its.parts) if _is_chain(its, some) else 0


def _is_chain(its: ThresholdRule, some: Sequence[Hit]) -> bool:
    """Return whether all steps occur one after the other, by events of their own, the last event the last step."""
    steps = len(its.parts)
    if not some or -some[-1].step != steps - 1:
        return False
    wanted, last = steps - 1, None
    for hit in reversed(some):
        if -hit.step == wanted and hit.event != last:
            wanted, last = wanted - 1, hit.event
    return wanted < 0


def once(moments: Sequence[int]) -> list[tuple[int, int]]:
    """Return (window, moment) of the alerts of the moments at which a rule holds, by the definition."""
    found: dict[int, int] = {}
    for at in moments:
        found.setdefault(at // LENGTH * LENGTH, at)
    return list(found.items())


@pytest.mark.whole
@pytest.mark.parametrize("comparison", Comparison)
@pytest.mark.parametrize("counted", Counted)
def test_alerts_are_those_of_the_definition(counted: Counted, comparison: Comparison) -> None:
    """On many random keys: crowded ones, sparse ones, equal moments, and values that are missing."""
    if counted in {Counted.KINDS, Counted.STEPS} and not comparison.grows:
        return
    chance = random.Random(f"{counted} {comparison}")  # noqa: S311  # no secret
    quiet = loud = 0
    for _ in range(400):
        number = chance.randrange(1, 5)
        its = rule(counted, 3 if counted is Counted.STEPS else number, comparison, parts=4)
        some = range(chance.randrange(1, 40))
        span = chance.choice((20, 100, 400))
        given = sorted(
            Hit(chance.randrange(span), f"{n:02}", -chance.randrange(4), chance.choice("abcde_"))
            for n in some
        )
        given = [
            Hit(hit.at, hit.event, hit.step, None if hit.value == "_" else hit.value)
            for hit in given
        ]
        until = given[-1].at + chance.randrange(1, 2 * LENGTH)

        found = list(fired(its, given, until))

        given = [hit for hit in given if hit.value or counted is not Counted.VALUES]
        assert [(each.window, each.at) for each in found] == once(holding(its, given, until))
        loud, quiet = loud + bool(found), quiet + (not found)
    assert loud > 20
    assert quiet > 5 or comparison in {Comparison.IS_NOT, Comparison.BELOW, Comparison.AT_MOST}


def test_a_window_lies_anywhere_and_both_its_ends_belong_to_it() -> None:
    """Four events around a full length are four."""
    four = rule(Counted.EVENTS, 4)

    assert ats(list(fired(four, hits(8, 9, 11, 12), END))) == [12]
    assert ats(list(fired(four, hits(0, 3, 7, 10), END))) == [10]
    assert ats(list(fired(four, hits(0, 3, 7, 11), END))) == []


def test_an_attack_is_one_alert_a_timespan_and_a_second_one_is_another() -> None:
    two = rule(Counted.EVENTS, 2)
    minute, day = hits(*range(9)), hits(*range(0, 100, 2))

    assert ats(list(fired(two, minute, END))) == [1]
    assert ats(list(fired(two, day, END))) == [2, *range(10, 100, LENGTH)]
    assert ats(list(fired(two, hits(0, 1, 50, 51), END))) == [1, 51]
    assert ats(list(fired(two, hits(7, 8, 9, 11), END))) == [8, 11]


@pytest.mark.whole
@pytest.mark.parametrize("comparison", [Comparison.AT_LEAST, Comparison.ABOVE])
@pytest.mark.parametrize("counted", Counted)
def test_an_event_more_takes_no_alert_of_a_growing_count_away(
    counted: Counted, comparison: Comparison, chance: random.Random
) -> None:
    """So an alert may be raised before all events are there."""
    for _ in range(200):
        its = rule(counted, 3, comparison, parts=4)
        every = [
            Hit(chance.randrange(60), f"{n:02}", -chance.randrange(4), chance.choice("abcde"))
            for n in range(chance.randrange(2, 30))
        ]
        some = chance.sample(every, len(every) - 1)

        before, after = (
            {each.window for each in fired(its, sorted(given), END)} for given in (some, every)
        )

        assert before <= after


def test_an_event_that_two_parts_find_is_counted_once() -> None:
    twice = [Hit(at, f"e{at}", -step) for at in (0, 1, 2) for step in (1, 0)]

    assert ats(list(fired(rule(Counted.EVENTS, 4, parts=2), twice, END))) == []
    assert ats(list(fired(rule(Counted.EVENTS, 3, parts=2), twice, END))) == [2]
    assert ats(list(fired(rule(Counted.KINDS, 2, parts=2), twice, END))) == [0]


def test_steps_follow_each_other_by_events_of_their_own() -> None:
    steps = rule(Counted.STEPS, 3, parts=3)

    assert ats(list(fired(steps, hits(1, 2, 3, steps=(0, 1, 2)), END))) == [3]
    assert ats(list(fired(steps, hits(1, 2, 3, steps=(2, 1, 0)), END))) == []
    assert ats(list(fired(steps, hits(1, 9, 12, steps=(0, 1, 2)), END))) == []
    assert ats(list(fired(steps, hits(1, 5, 9, 12, steps=(0, 0, 1, 2)), END))) == [12]
    one_event = [Hit(1, "e", -2), Hit(1, "e", -1), Hit(1, "e", 0)]
    assert ats(list(fired(steps, one_event, END))) == []


def test_too_few_is_known_when_the_window_is_over() -> None:
    few = rule(Counted.EVENTS, 2, Comparison.BELOW)

    assert ats(list(fired(few, hits(0, 5, 8), until=17))) == []
    assert ats(list(fired(few, hits(0, 5, 8), until=19))) == [18]


def test_an_alert_has_the_latest_events_that_suffice() -> None:
    (found,) = fired(rule(Counted.VALUES, 3), hits(0, 1, 2, 5, values="aabc"), END)

    assert (found.at, found.count, found.window) == (5, 3, 0)
    assert [hit.at for hit in found.hits] == [1, 2, 5]
    steps = rule(Counted.STEPS, 2, parts=2)
    (chain,) = fired(steps, hits(1, 2, 4, 5, steps=(0, 0, 0, 1)), END)
    assert [hit.at for hit in chain.hits] == [4, 5]
    few = rule(Counted.EVENTS, 3, Comparison.BELOW)
    (waited, *_) = fired(few, hits(0, 5, 40), until=30)
    assert [hit.at for hit in waited.hits] == [0, 5]
