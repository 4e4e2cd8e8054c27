"""Two plans differ where state would be read as what it is not."""

from dataclasses import replace

import pytest

from strandline.engine.flow.compare_plans import Remedy, state_differences
from strandline.engine.flow.spark_plan import Operator, StatefulPlan, milliseconds_of

SUMS = Operator(
    kind="Aggregate",
    keys=(("k", "silver.a.k"), ("site", "silver.a.site")),
    keeps=("Sum(silver.a.v)", "Max(silver.a.v)"),
)
BOUND = 'LessThanOrEqual(silver.b.at, TimestampAddInterval(silver.a.at, {}, timeZoneId="UTC"))'
MEETING = Operator(
    kind="Join",
    keys=(),
    keeps=("silver.a.k", "silver.b.k"),
    rules=("Inner", f"And(EqualTo(silver.a.k, silver.b.k), {BOUND.format(120)})"),
)
PLAN = StatefulPlan(sources=("silver.a",), operators=(SUMS,), watermarks=(("silver.a.at", 60_000),))
SAVE = ["stateStoreSave"]


def remedies(
    now: StatefulPlan, former: StatefulPlan | None = PLAN, held: list[str] | None = None
) -> list[Remedy]:
    found = state_differences(former, now, SAVE if held is None else held)
    return [each.remedy for each in found]


def with_operator(operator: Operator) -> StatefulPlan:
    return replace(PLAN, operators=(operator,))


def test_the_same_plan_has_no_difference() -> None:
    assert remedies(PLAN) == []
    assert StatefulPlan.of_json(PLAN.as_json()) == PLAN


@pytest.mark.parametrize(
    "operator",
    [
        replace(SUMS, keys=SUMS.keys[::-1]),
        replace(SUMS, keys=(("k", "Upper(silver.a.k)"), SUMS.keys[1])),
        replace(SUMS, keeps=SUMS.keeps[::-1]),
        replace(SUMS, keeps=("Sum(silver.a.w)", SUMS.keeps[1])),
        replace(SUMS, kind="Deduplicate"),
    ],
)
def test_keys_and_what_is_kept_are_compared_by_meaning_and_order(operator: Operator) -> None:
    assert Remedy.REBUILD in remedies(with_operator(operator))


def test_a_column_of_another_name_is_the_same_key() -> None:
    renamed = replace(SUMS, keys=(("key", "silver.a.k"), SUMS.keys[1]))

    assert remedies(with_operator(renamed)) == []


def test_a_watermark_may_wait_shorter_and_not_longer() -> None:
    shorter = replace(PLAN, watermarks=(("silver.a.at", 30_000),))

    assert remedies(shorter) == [Remedy.NOTHING]
    assert remedies(PLAN, shorter) == [Remedy.REBUILD]


def test_an_inner_join_may_become_stricter_and_no_other() -> None:
    inner = with_operator(MEETING)
    stricter = replace(
        MEETING, rules=("Inner", f"And(EqualTo(silver.a.k, silver.b.k), {BOUND.format(60)})")
    )
    other_key = replace(
        MEETING, rules=("Inner", f"And(EqualTo(silver.a.x, silver.b.x), {MEETING.rules[1]})")
    )
    outer = replace(MEETING, rules=("LeftOuter", *MEETING.rules[1:]))
    outer_stricter = replace(stricter, rules=("LeftOuter", *stricter.rules[1:]))

    assert remedies(with_operator(stricter), inner) == []
    assert remedies(inner, with_operator(stricter)) == [Remedy.REBUILD]
    assert remedies(with_operator(other_key), inner) == [Remedy.REBUILD]
    assert remedies(with_operator(outer_stricter), with_operator(outer)) == [Remedy.REBUILD]


def test_state_that_is_needed_no_longer_may_go_if_no_row_waits_in_it() -> None:
    alone = replace(PLAN, operators=())

    assert remedies(alone, held=["dedupe"]) == [Remedy.HAND_OVER]
    assert remedies(alone, held=SAVE) == [Remedy.REBUILD]
    assert remedies(PLAN, alone, held=[]) == [Remedy.REBUILD]


def test_without_a_record_nothing_is_claimed_about_meaning() -> None:
    assert remedies(with_operator(replace(SUMS, keys=SUMS.keys[::-1])), None) == []


def test_the_first_difference_of_two_long_expressions_is_shown() -> None:
    long = "f(" * 80
    before, after = (with_operator(replace(SUMS, keeps=(f"{long}{n}",))) for n in ("600", "1200"))

    (difference,) = state_differences(before, after, SAVE)

    assert "600, now …" in difference.what
    assert difference.what.endswith("1200")


def test_an_interval_is_read_as_spark_prints_it() -> None:
    assert milliseconds_of("1 hours 15 minutes 0.001 seconds") == 4_500_001
