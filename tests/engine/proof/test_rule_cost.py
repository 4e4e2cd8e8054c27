"""The rules that are slow are found without a trial of each."""

import random
from collections.abc import Sequence

import pytest
from pyspark.sql import SparkSession

from strandline.alerting import backtest
from strandline.alerting.alert_rule import find, rules_folder
from strandline.alerting.backtest import costly, slow_rules
from strandline.alerting.sigma import read_folder
from strandline.engine.lake.lake import Lake
from strandline.engine.repair.closed_range import Span
from tests.support.starts import STARTS, believed


def test_the_rules_that_cost_more_are_found_with_few_trials(chance: random.Random) -> None:
    """Where a group of quick rules together costs more than one may, none of them is named."""
    prices = [chance.uniform(0, 1) for _ in range(1_000)]
    slow = chance.sample(range(1_000), 5)
    for number in slow:
        prices[number] = chance.uniform(60, 500)
    asked: list[Sequence[int]] = []

    def price(group: Sequence[int]) -> float:
        asked.append(group)
        return sum(prices[number] for number in group)

    found = dict(costly(range(1_000), price, 50))

    assert found == {number: prices[number] for number in slow}
    assert len(asked) < 100


@pytest.mark.whole
def test_each_rule_is_tried_on_the_events_of_a_table(
    spark: SparkSession, lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With a limit that nothing breaks none is slow, and with one that nothing keeps each has its figure."""
    monkeypatch.setattr(backtest, "EVENTS", 500)  # the figures are not what is asked for here
    believed(lake, STARTS)
    source = find("process_events")
    assert source is not None
    rules = [rule for rule in read_folder(rules_folder()).rules if rule.source == source]
    span = Span.of_micros(0, 1 << 51)

    monkeypatch.setattr(backtest, "LIMIT", float("inf"))
    quick = slow_rules(spark, lake, source, rules, span)
    monkeypatch.setattr(backtest, "LIMIT", float("-inf"))
    each = slow_rules(spark, lake, source, rules, span)

    assert quick == {}
    assert set(each) == set(rules)
