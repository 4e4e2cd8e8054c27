"""What rules would have raised on history: one Spark job for all rules about a table, and one for all threshold rules.

It is the plan that raises alerts live (jobs/strandline/alerting/one_plan.py), over the closed rows of silver, so an alert has the id that
it had or would have had when its event arrived.

The driver gets what does not grow with the number of alerts: for each rule its alerts a day with the first and the last
of them, and the few entities that have the most. All of it is one aggregation: each alert is counted for its day and
for its entity, and compared with another version of the rules also for what became of it.
"""

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import TypeVar

from pyspark import StorageLevel
from pyspark.sql import Column, DataFrame, Observation, Row, SparkSession, Window
from pyspark.sql import functions as F

from strandline.alerting.alert_rule import AlertRule, AlertSource, Rule, ThresholdRule
from strandline.alerting.one_plan import raised
from strandline.alerting.tables import gold
from strandline.alerting.windows import correlated
from strandline.core.table import Table
from strandline.engine.lake.commit.delta_commit import rows_now
from strandline.engine.lake.lake import Lake
from strandline.engine.repair.closed_range import Span
from strandline.engine.runtime.jvm import Meter, Show, watched
from strandline_quality.findings import AlertSample, Change, Compared, RuleFigures, TableCost

WAS_RAISED = "_was_raised"


def beside_raised(
    spark: SparkSession,
    lake: Lake,
    tried: DataFrame,
    rules: Sequence[AlertRule | ThresholdRule],
    span: Span,
) -> DataFrame:
    """Add to the alerts of a backtest those that its rules, in any version, have raised live in its range.

    An alert has one id wherever it comes from, so a backtest over a range says alert for alert what the live path said, unless
    something is wrong, or the two saw different events: a rule that was not live at the time, and an event that a quarantine
    holds, of which the live path has raised an alert and silver has no row.
    """
    named = F.col("rule_id").isin([rule.id for rule in rules])
    raised = rows_now(spark, gold.TABLE, lake).where(named & span.holds(gold.TABLE.event_at))
    marked = raised.select(*tried.columns, F.lit(True).alias(WAS_RAISED))
    return tried.withColumn(WAS_RAISED, F.lit(False)).unionByName(marked)


TOP = 5
"""Entities of a rule that are shown."""

SAMPLES = 3
"""Alerts of a rule that are shown."""

DAY, ENTITY, CHANGE, UNCHANGED = "day", "entity", "change", "unchanged"
NOWHERE = "-"
"""The entity of an event that names none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """Which rules are tried, on which time, and which other versions of them are compared.

    Args:
        sources: The tables: one for pattern rules, and those whose events they count for threshold rules.
        rules: The rules about them, all of one kind.
        others: Rules to compare with; None for no comparison.
        span: The range of event time.
        live: Whether the alerts are compared with those that were raised live, instead of with other rules.
    """

    sources: Sequence[AlertSource]
    rules: Sequence[Rule]
    others: Sequence[Rule] | None
    span: Span
    live: bool = False

    @property
    def is_compared(self) -> bool:
        """Return whether there is something to compare with."""
        return self.live or self.others is not None

    @property
    def every(self) -> list[Rule]:
        """Return all rules that the plan has; one that did not change is there once."""
        own = {(rule.id, rule.version) for rule in self.rules}
        changed = [each for each in self.others or () if (each.id, each.version) not in own]
        return [*self.rules, *changed]


def days_of(span: Span) -> list[str]:
    """Return the days of a range."""
    first, last = span.since.date(), (span.until - timedelta(microseconds=1)).date()
    return [str(first + timedelta(days=n)) for n in range((last - first).days + 1)]


def extent(spark: SparkSession, table: Table, lake: Lake) -> Span | None:
    """Return the range of event time in which a table has rows; None if it has none."""
    at = F.unix_micros(str(table.event_at))
    (row,) = rows_now(spark, table, lake).agg(F.min(at).alias("a"), F.max(at).alias("z")).collect()
    return None if row["a"] is None else Span.of_micros(row["a"], row["z"])


def backtest(
    spark: SparkSession, lake: Lake, asked: Asked, show: Show
) -> tuple[TableCost, list[RuleFigures]]:
    """Return what rules would have raised, and what it cost to find out."""
    seen = [Observation() for _ in asked.sources]
    number = F.count(F.lit(1)).alias("events")
    tables = {
        source: _rows(spark, lake, source, asked).observe(each, number)
        for source, each in zip(asked.sources, seen, strict=True)
    }
    meter = Meter(spark)
    alerts = found(tables, asked)
    if asked.live:
        alerts = beside_raised(spark, lake, alerts, asked.rules, asked.span)
    counted = watched(spark, lambda: figures(alerts, asked).collect(), show)
    cost = TableCost(
        table=", ".join(source.table.id for source in asked.sources),
        rules=len(asked.every),
        events=sum(each.get["events"] for each in seen),
        seconds=meter.wall_ms() / 1000,
        cpu_seconds=meter.cpu_ms() / 1000,
    )
    return cost, findings(counted, asked)


def found(tables: Mapping[AlertSource, DataFrame], asked: Asked) -> DataFrame:
    """Return the alerts that rules raise."""
    patterns = [rule for rule in asked.every if isinstance(rule, AlertRule)]
    if patterns:
        return raised(tables[patterns[0].source], patterns)
    thresholds = [rule for rule in asked.every if isinstance(rule, ThresholdRule)]
    _, last = asked.span.in_micros()
    alerts = correlated(tables, thresholds, last + 1)
    return alerts.where(F.col("event_at") >= F.lit(asked.span.since))


def _about(asked: Asked) -> Column:
    """Return the entity that an alert is about."""
    if not isinstance(asked.every[0], AlertRule):
        return F.col("event_key").alias(ENTITY)
    named = F.get_json_object("event", f"$.{asked.sources[0].entity}")
    return F.coalesce(named, F.lit(NOWHERE)).alias(ENTITY)


def _rows(spark: SparkSession, lake: Lake, source: AlertSource, asked: Asked) -> DataFrame:
    """Return the rows of a range, and for threshold rules those of the longest window before it."""
    lengths = [rule.within for rule in asked.every if isinstance(rule, ThresholdRule)]
    span = asked.span.wider(before=max(lengths, default=timedelta(0)), after=timedelta(0))
    return rows_now(spark, source.table, lake).where(span.holds(str(source.table.event_at)))


def figures(alerts: DataFrame, asked: Asked) -> DataFrame:
    """Return rows of figures: for a rule, a kind and a value, how many alerts, with the first and the last of them."""
    sampled = alerts.select("*", _sample(), _about(asked), *_counted_for(asked))
    each = _compared(sampled, asked) if asked.is_compared else _alone(sampled)
    of_rule = Window.partitionBy("rule_id", "kind")
    most = of_rule.orderBy(F.desc("alerts"), "value")
    counted = each.groupBy("rule_id", "kind", "value").agg(
        F.count(F.lit(1)).alias("alerts"),
        F.min("sample").alias("first"),
        F.max("sample").alias("last"),
    )
    ranked = counted.select(
        "*",
        F.row_number().over(most).alias("rank"),
        F.count(F.lit(1)).over(of_rule).alias("values"),
    )
    return ranked.where((F.col("kind") != ENTITY) | (F.col("rank") <= TOP))


def findings(counted: Sequence[Row], asked: Asked) -> list[RuleFigures]:
    """Return the figures rule by rule; a rule that is gone, and one that raised nothing, has its place as well."""
    by_rule: dict[str, list[Row]] = defaultdict(list)
    for row in counted:
        by_rule[row["rule_id"]].append(row)
    former = {rule.id: rule for rule in (asked.rules if asked.live else asked.others or ())}
    new = {rule.id: rule for rule in asked.rules}
    return [
        _finding(rule, new.get(name), former.get(name), by_rule[name], asked)
        for name, rule in (former | new).items()
    ]


def _finding(
    rule: Rule,
    new: Rule | None,
    old: Rule | None,
    counted: Sequence[Row],
    asked: Asked,
) -> RuleFigures:
    kinds: dict[str, list[Row]] = defaultdict(list)
    for row in counted:
        kinds[row["kind"]].append(row)
    by_day = {row["value"]: row for row in sorted(kinds[DAY], key=lambda row: row["value"])}
    entities = sorted(kinds[ENTITY], key=lambda row: row["rank"])
    return RuleFigures(
        rule=rule.id,
        title=rule.title,
        version=new.version if new else None,
        severity=str(rule.severity),
        table=", ".join(source.table.id for source in _sources(rule)),
        owner=rule.owner,
        file=rule.origin,
        alerts=sum(row["alerts"] for row in by_day.values()),
        days=tuple(by_day[day]["alerts"] if day in by_day else 0 for day in days_of(asked.span)),
        entity=_entity(rule),
        entities=entities[0]["values"] if entities else 0,
        top=tuple((row["value"], row["alerts"]) for row in entities),
        samples=_samples(list(by_day.values())),
        compared=_change(old, kinds[CHANGE]) if asked.is_compared else None,
    )


def _sources(rule: Rule) -> Sequence[AlertSource]:
    return (rule.source,) if isinstance(rule, AlertRule) else rule.sources


def _entity(rule: Rule) -> str:
    if isinstance(rule, AlertRule):
        return rule.source.entity
    return " and ".join(rule.keys) or "everything"


def _change(old: Rule | None, rows: Sequence[Row]) -> Compared:
    found = {row["value"]: row for row in rows}
    return Compared(
        old_version=old.version if old else None,
        counts={each: found[each]["alerts"] if each in found else 0 for each in Change},
        samples={each: _samples([found[each]] if each in found else []) for each in Change},
    )


def _samples(rows: Sequence[Row]) -> tuple[AlertSample, ...]:
    """Return the first alerts of the first days, and the last alert of the last one."""
    chosen = {row["first"]["alert_id"]: row["first"] for row in rows[: SAMPLES - 1]}
    for row in rows[-1:]:
        chosen[row["last"]["alert_id"]] = row["last"]
    return tuple(
        AlertSample(
            alert_id=each["alert_id"],
            at=each["event_at"].isoformat(),
            place=each["place"],
            key=each["event_key"],
            event=each["event"],
        )
        for each in chosen.values()
    )


def _sample() -> Column:
    place = F.concat_ws("/", "event_topic", "event_partition", "event_offset").alias("place")
    return F.struct("event_at", "alert_id", place, "event_key", "event").alias("sample")


def _counted_for(asked: Asked) -> list[Column]:
    """Return what an alert is counted for, and whose alert it is."""
    day = F.to_date("event_at").cast("string").alias(DAY)
    if asked.live:
        return [day, (~F.col(WAS_RAISED)).alias("is_new"), F.col(WAS_RAISED).alias("is_old")]
    new, old = _is_of(asked.rules), _is_of(asked.others or ())
    return [day, new.alias("is_new"), old.alias("is_old")]


def _is_of(rules: Sequence[Rule]) -> Column:
    """Return whether an alert is of one of these rules, in their versions."""
    label = F.concat_ws(" ", "rule_version", "rule_id")
    return label.isin([f"{rule.version} {rule.id}" for rule in rules])


def _alone(alerts: DataFrame) -> DataFrame:
    return _exploded(alerts, [(DAY, F.col(DAY), None), (ENTITY, F.col(ENTITY), None)])


def _compared(alerts: DataFrame, asked: Asked) -> DataFrame:
    """Bring both versions' alerts about one event together, and say what became of them."""
    place = [] if asked.live else ["sample.place"]  # of an event that came twice, live may differ
    by_event = alerts.groupBy("rule_id", "event_table", "event_key", "event_at", *place).agg(
        F.coalesce(F.min(F.when(F.col("is_new"), F.col("sample"))), F.min("sample")).alias(
            "sample"
        ),
        F.min(DAY).alias(DAY),
        F.min(ENTITY).alias(ENTITY),
        F.bool_or("is_new").alias("is_new"),
        F.bool_or("is_old").alias("is_old"),
        (F.min("alert_id") == F.max("alert_id")).alias("has_one_id"),
    )
    same = F.col("is_new") & F.col("is_old") & F.col("has_one_id")
    change = (
        F.when(same, UNCHANGED)
        .when(F.col("is_new") & F.col("is_old"), Change.MOVED)
        .when(F.col("is_new"), Change.ADDED)
        .otherwise(Change.GONE)
    )
    is_new = F.col("is_new")
    return _exploded(
        by_event,
        [(DAY, F.col(DAY), is_new), (ENTITY, F.col(ENTITY), is_new), (CHANGE, change, ~same)],
    )


def _exploded(alerts: DataFrame, counted: Sequence[tuple[str, Column, Column | None]]) -> DataFrame:
    """Return a row for each alert and each of what it is counted for."""
    parts = [
        (F.when(only, made) if only is not None else made)
        for kind, value, only in counted
        for made in [F.struct(F.lit(kind).alias("kind"), value.alias("value"))]
    ]
    each = alerts.select("rule_id", "sample", F.explode(F.array(*parts)).alias("counted"))
    return each.where(F.col("counted").isNotNull()).select("rule_id", "sample", "counted.*")


# Find the rules that are slow: what a rule costs alone, in CPU of Spark for each event of history.
#
# A backtest runs all rules about a table in one plan, in which the cost of one is not seen. So rules are tried in groups, and
# a group that costs more than one rule may is halved until the rules are found that cause it. Most rules are quick, so a
# thousand of them are some dozens of trials.
#
# A trial runs the plan that raises alerts over the same few events several times: the first time Spark compiles it. What
# the same events cost without a rule is taken off. Where a table has fewer events they are repeated, because a job has a price of
# its own.


EVENTS = 50_000
"""Events of a trial. A job alone takes some 0.1 s of CPU [measured], and a rule at the limit 0.5 s more."""

RUNS = 3
"""Runs of a trial that count; the quickest does, because whatever else the JVM has to do only makes them slower."""

LIMIT = 10.0
"""Microseconds of CPU an event that a rule may cost; a thousand rules together take 70 (tests/benchmarks)."""

GROUP = 32
"""Rules of the first trials."""

AnyRule = TypeVar("AnyRule")


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
    rules: Sequence[AnyRule], price: Callable[[Sequence[AnyRule]], float], limit: float
) -> Iterator[tuple[AnyRule, float]]:
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
