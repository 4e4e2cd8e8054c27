"""A small batch is judged by itself, and together with those before it that were judged by the same rules."""

from dataclasses import replace

import pytest
from pyspark.sql import SparkSession

from fleet.silver import device_telemetry as silver
from strandline.core.table import Table
from strandline.engine.accounting.balance_sheet import balance
from strandline.engine.accounting.gate_files import GateShutError
from strandline.engine.lake.lake import Lake
from strandline.engine.lake.log.ledger import last_entry
from strandline_quality.rules import OnFail, Rule
from tests.support.events import Event, received
from tests.support.modes import derive
from tests.support.poison import RULE, hour

pytestmark = [pytest.mark.slow, pytest.mark.whole]

KEPT = tuple(rule for rule in silver.TABLE.rules if rule.name != RULE)
BEFORE_THE_RULE = replace(silver.TABLE, rules=KEPT)
"""The table of the day before the rule was written that at most a fifth of the readings may break."""


def batches(spark: SparkSession, lake: Lake, *hours: tuple[list[Event], Table]) -> None:
    """Run hours as one batch each, judged by the rules that the table has then."""
    for events, table in hours:
        received(lake, events)
        derive(spark, lake, table)


def test_rows_of_before_a_rule_make_no_room_for_rows_that_break_it(
    spark: SparkSession, lake: Lake
) -> None:
    """A hundred and fifty rows that it never judged prove nothing about it; with them 12 of 180 would be few."""
    trickle = [hour(f"n{n}", f"0{7 + n}:00:00", bad=4, of=10, batch=1 + n) for n in range(3)]
    old = hour("g", "06:00:00", bad=0, of=150, batch=0)
    batches(
        spark,
        lake,
        (old, BEFORE_THE_RULE),
        (trickle[0], silver.TABLE),
        (trickle[1], silver.TABLE),
    )

    with pytest.raises(GateShutError, match="12 of 30 rows"):
        batches(spark, lake, (trickle[2], silver.TABLE))

    assert balance(silver.TABLE, lake).waiting == 10


def test_half_of_sixty_rows_does_not_pass_a_limit_of_a_fifth_whatever_came_before(
    spark: SparkSession, lake: Lake
) -> None:
    """Thirty bad rows are proof by themselves: good rows before them, by the same rules, hide nothing."""
    good = hour("g", "06:00:00", bad=0, of=150, batch=0)
    batches(spark, lake, (good, silver.TABLE))

    with pytest.raises(GateShutError, match="30 of 60 rows"):
        batches(spark, lake, (hour("p", "07:00:00", bad=30, of=60, batch=1), silver.TABLE))


def test_unreadable_payloads_are_found_in_a_small_batch_as_well(
    spark: SparkSession, lake: Lake
) -> None:
    """The expectation of every table, a warning, is not diluted by the hour before either."""
    broken = [
        replace(event, payload=b"{") if n < 15 else event
        for n, event in enumerate(hour("p", "07:00:00", bad=0, of=40, batch=1))
    ]
    good = hour("g", "06:00:00", bad=0, of=150, batch=0)

    batches(spark, lake, (good, silver.TABLE), (broken, silver.TABLE))

    newest = last_entry(lake.table(silver.TABLE))
    assert newest is not None
    assert newest[1].failed == ("unread",)


def test_one_bad_row_of_a_few_is_still_judged_with_those_before_it(
    spark: SparkSession, lake: Lake
) -> None:
    """Half of a batch of two proves nothing, also for a rule that may be broken by a tenth and stops the batch."""
    never = Rule(name="never", holds="value < 900", on_fail=OnFail.FAIL, max_failed=0.1)
    table = replace(silver.TABLE, rules=(*KEPT, never))
    good = hour("g", "06:00:00", bad=0, of=60, batch=0)

    batches(spark, lake, (good, table), (hour("p", "07:00:00", bad=1, of=2, batch=1), table))

    assert balance(table, lake).waiting == 0
