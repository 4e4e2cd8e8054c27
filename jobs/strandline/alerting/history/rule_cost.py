"""Find the rules that are slow: what a rule costs alone, in CPU of Spark for each event of history.

A backtest runs all rules about a table in one plan, in which the cost of one is not seen. So rules are tried in groups, and
a group that costs more than one rule may is halved until the rules are found that cause it. Most rules are quick, so a
thousand of them are some dozens of trials.

A trial runs the plan that raises alerts over the same few events several times: the first time Spark compiles it. What
the same events cost without a rule is taken off. Where a table has fewer events they are repeated, because a job has a price of
its own.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

from pyspark import StorageLevel
from pyspark.sql import DataFrame, SparkSession

from strandline.alerting.rules.alert import raised
from strandline.alerting.rules.alert_rule import AlertRule
from strandline.alerting.source import AlertSource
from strandline.engine.repair.closed_range import Span
from strandline.engine.runtime.meter import Meter
from strandline.engine.storage.lake import Lake
from strandline.engine.storage.read_version import rows_now

EVENTS = 50_000
"""Events of a trial. A job alone takes some 0.1 s of CPU [measured], and a rule at the limit 0.5 s more."""

RUNS = 3
"""Runs of a trial that count; the quickest does, because whatever else the JVM has to do only makes them slower."""

LIMIT = 10.0
"""Microseconds of CPU an event that a rule may cost; a thousand rules together take 70 (tests/benchmarks)."""

GROUP = 32
"""Rules of the first trials."""

Rule = TypeVar("Rule")


def slow_rules(
    spark: SparkSession, lake: Lake, source: AlertSource, rules: Sequence[AlertRule], span: Span
) -> dict[AlertRule, float]:
    """Return the rules about a table that cost more than the limit, with their microseconds of CPU an event."""
    events = rows_now(spark, source.table, lake).where(span.holds(str(source.table.event_at)))
    few = events.limit(EVENTS).persist(StorageLevel.MEMORY_ONLY)
    times = -(-EVENTS // max(few.count(), 1))
    many = few.crossJoin(spark.range(times)).drop("id").limit(EVENTS)
    rows = many.persist(StorageLevel.MEMORY_ONLY)
    try:
        nothing = _micros(spark, rows)
        return dict(
            costly(rules, lambda group: _micros(spark, raised(rows, group)) - nothing, LIMIT)
        )
    finally:
        rows.unpersist()
        few.unpersist()


def costly(
    rules: Sequence[Rule], price: Callable[[Sequence[Rule]], float], limit: float
) -> Iterator[tuple[Rule, float]]:
    """Yield the rules that cost more than a limit alone, with their price, without asking for the price of each.

    >>> prices = {"a": 1, "b": 50, "c": 2}
    >>> dict(costly(list(prices), lambda group: sum(prices[rule] for rule in group), 10))
    {'b': 50}
    """
    open_ = [rules[start : start + GROUP] for start in range(0, len(rules), GROUP)]
    while open_:
        group = open_.pop()
        found = price(group)
        if found <= limit:
            continue
        if len(group) == 1:
            yield group[0], found
            continue
        half = len(group) // 2
        open_ += [group[:half], group[half:]]


def _micros(spark: SparkSession, rows: DataFrame) -> float:
    """Return the microseconds of CPU an event that the quickest run takes, but for the first."""
    spent = []
    for _ in range(1 + RUNS):
        meter = Meter(spark)
        rows.write.format("noop").mode("overwrite").save()
        spent.append(meter.cpu_ms())
    return min(spent[1:]) * 1000 / EVENTS
