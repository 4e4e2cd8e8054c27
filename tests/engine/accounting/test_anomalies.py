"""A mark is set where a figure changed, and nowhere else."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

from strandline.engine.accounting.history_queries import COLUMNS, RULES, SHARE, VOLUME, Batch, marks

NINE = datetime(2026, 11, 20, 9, tzinfo=UTC)
MINUTE = timedelta(minutes=1)


def batch(number: int, **values: float) -> Batch:
    figures = {"read": 100.0, "good": 99.0, "quarantined": 1.0, "duplicates": 0.0} | values
    return Batch(
        table="silver.x",
        version=number,
        mode="micro-batch",
        batch=number,
        at=NINE + number * MINUTE,
        since=None,
        until=None,
        values=figures,
        opened=None,
        rules="r1",
        schema="s1",
    )


CALM = [batch(number) for number in range(20)]


def test_usual_figures_have_no_mark() -> None:
    """Otherwise the page would be full of marks."""
    assert marks([batch(20), batch(21, read=104)], CALM) == []


def test_a_volume_outside_its_range_is_marked_with_what_is_usual() -> None:
    """The reader sees at once whether that is much."""
    (mark,) = marks([batch(20, read=400.0, quarantined=4.0)], CALM)

    assert (mark.what, mark.version, mark.value) == (VOLUME, 20, 400.0)
    assert mark.said == "400 rows read, usually 90 to 110"


def test_a_share_outside_its_range_is_marked() -> None:
    """The volume is the same, but an eighth of it is held back."""
    (mark,) = marks([batch(20, quarantined=12.0)], CALM)

    assert (mark.what, mark.measure) == (SHARE, "share:quarantined")
    assert mark.said == "12.0% quarantined, usually 0.5% to 1.5%"


def test_the_share_of_a_rule_that_nothing_broke_before_is_marked() -> None:
    """Batches without a figure for a rule had no row that broke it."""
    found = marks([batch(20, **{"broke:not_listed:site": 30.0})], CALM)

    assert [mark.said for mark in found] == ["30.0% not_listed:site, usually 0.0% to 0.5%"]


def test_nothing_is_marked_before_there_are_enough_points() -> None:
    """A guess would be a false alarm."""
    assert marks([batch(13, read=9_000.0, quarantined=90.0)], CALM[:13]) == []


def test_other_columns_and_other_rules_are_marked_once() -> None:
    """The mark is at the batch that introduced them."""
    new = replace(batch(20), schema="s2")
    newer = replace(batch(21), schema="s2", rules="r2")

    found = marks([new, newer, replace(newer, version=22)], CALM)

    assert [(mark.what, mark.version, mark.said) for mark in found] == [
        (COLUMNS, 20, "columns changed"),
        (RULES, 21, "rules changed"),
    ]


def test_entries_from_before_rules_had_fingerprints_are_no_change() -> None:
    """An update of the program changes no rule."""
    older = [replace(each, rules="") for each in CALM]

    assert marks([batch(20)], older) == []


def test_a_backfill_is_not_compared_with_batches() -> None:
    """Its figures are those of a range."""
    assert marks([batch(20, read=0.0, good=-50.0, backfill=1.0)], CALM) == []


def test_a_batch_that_passed_an_opened_gate_does_not_become_usual() -> None:
    """Twenty bad days must not make the twenty-first a good one."""
    bad = [replace(batch(n, quarantined=50.0, opened=1.0), opened="x") for n in range(20, 60)]

    (mark,) = marks([batch(60, quarantined=50.0)], [*CALM, *bad])

    assert mark.measure == "share:quarantined"
