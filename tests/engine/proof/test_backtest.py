"""A backtest counts exactly the alerts that the rules raise on the rows of a range, and collects few of them."""

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, replace
from datetime import datetime, timedelta

import pytest
from pyspark.sql import SparkSession

from fleet.silver import process_events as silver
from strandline.alerting.alert_rule import AlertRule, find
from strandline.alerting.backtest import (
    SAMPLES,
    TOP,
    Asked,
    backtest,
    days_of,
    extent,
    figures,
    found,
)
from strandline.alerting.compile import holds
from strandline.alerting.condition import AllOf, AnyOf, Glob, Text
from strandline.alerting.one_plan import alert_id
from strandline.engine.lake.commit.delta_commit import rows_now
from strandline.engine.lake.lake import Lake
from strandline.engine.repair.closed_range import Span
from strandline.engine.runtime.jvm import GROUP
from strandline_quality.findings import Change, RuleFigures
from tests.support.rows import NOON
from tests.support.starts import believed, starts

pytestmark = pytest.mark.whole

SECRET = "certutil -decode SECRET b"  # noqa: S105  # a command line of the test
PROGRAMS = (
    (r"C:\Windows\certutil.exe", SECRET),
    (r"C:\Windows\cmd.exe", "cmd /c dir"),
    (r"C:\Temp\certutil.exe", "certutil -dump"),
)
EVERY = timedelta(minutes=47)
NUMBER, COMPUTERS = 120, 20
SPAN = Span(since=NOON + timedelta(hours=5), until=NOON + timedelta(days=3))
STARTS = starts(NUMBER, EVERY, PROGRAMS, COMPUTERS)


def rule(name: str, *contains: str, image: str = "*certutil.exe") -> AlertRule:
    source = find("process_events")
    assert source is not None
    words = AnyOf(tuple(Text("CommandLine", Glob.around((word,))) for word in contains))
    when = AllOf((Text("Image", Glob.parse(image)), words))
    return AlertRule(id=name, title=f"rule {name}", source=source, when=when)


DECODES = rule("decodes", "-decode")
ANY = rule("any", "-decode", "-dump")
SHELL = rule("shell", "/c", image="*cmd.exe")
NEVER = rule("never", "mimikatz")
RULES = (DECODES, ANY, SHELL, NEVER)


def asked(rules: Sequence[AlertRule], others: Sequence[AlertRule] | None = None) -> Asked:
    return Asked(sources=(DECODES.source,), rules=rules, others=others, span=SPAN)


def raised(each: AlertRule) -> list[dict[str, object]]:
    """Return the starts of the range on which a rule fires, by the evaluator in Python."""
    return [
        start
        for start in STARTS
        if isinstance(start["UtcTime"], datetime)
        and SPAN.since <= start["UtcTime"] < SPAN.until
        and holds(each.when, start)
    ]


@pytest.fixture
def filled(lake: Lake) -> Lake:
    believed(lake, STARTS)
    return lake


def tried(spark: SparkSession, lake: Lake, wanted: Asked) -> dict[str, RuleFigures]:
    cost, found = backtest(spark, lake, wanted, lambda *_: None)
    inside = [s for s in STARTS if SPAN.since <= s["UtcTime"] < SPAN.until]  # type: ignore[operator]  # as above
    assert cost.events == len(inside)
    assert cost.cpu_seconds >= 0
    return {each.rule: each for each in found}


def test_every_figure_is_that_of_the_alerts_that_the_rules_raise(
    spark: SparkSession, filled: Lake
) -> None:
    found = tried(spark, filled, asked(RULES))

    assert set(found) == {each.id for each in RULES}
    for each in RULES:
        alerts, its = raised(each), found[each.id]
        days = Counter(str(start["UtcTime"])[:10] for start in alerts)
        on = Counter(str(start["Computer"]) for start in alerts)
        assert its.alerts == len(alerts)
        assert dict(zip(days_of(SPAN), its.days, strict=True)) == Counter(
            {day: days[day] for day in days_of(SPAN)}
        )
        assert its.entities == len(on)
        assert dict(its.top) == {name: on[name] for name, _ in its.top}
        assert [n for _, n in its.top] == sorted(on.values(), reverse=True)[:TOP]
        ids = [alert_id(each, start) for start in alerts]
        assert {sample.alert_id for sample in its.samples} <= set(ids)
        assert len(its.samples) == min(SAMPLES, len(ids))
    assert found["never"].alerts == 0
    assert min(found[each.id].alerts for each in (DECODES, ANY, SHELL)) > TOP


def test_the_ends_of_a_range_are_exact(spark: SparkSession, filled: Lake) -> None:
    """Its start belongs to it, its end does not."""
    first, last = NOON + 3 * EVERY, NOON + 9 * EVERY
    wanted = replace(asked([DECODES]), span=Span(since=first, until=last))

    (found,) = backtest(spark, filled, wanted, lambda *_: None)[1]

    assert found.alerts == 2


def test_what_a_change_of_rules_adds_loses_and_moves_is_counted(
    spark: SparkSession, filled: Lake
) -> None:
    """By the identity of the event; a rule that is the same in both is not listed as changed."""
    narrower, wider = rule("any", "-dump"), rule("shell", "/c", "-dump", image="*.exe")
    old, new = (DECODES, ANY, SHELL, rule("removed", "-decode")), (DECODES, narrower, wider, NEVER)

    found = tried(spark, filled, asked(new, old))

    by_id = {each.id: each for each in old}
    for each in new:
        former = by_id.get(each.id)
        before = {s["ProcessGuid"] for s in raised(former)} if former else set()
        after = {s["ProcessGuid"] for s in raised(each)}
        its = found[each.id]
        assert its.compared is not None
        is_same = former is not None and former.version == each.version
        moved = 0 if is_same else len(before & after)
        expected = {
            Change.ADDED: len(after - before),
            Change.GONE: len(before - after),
            Change.MOVED: moved,
        }
        assert its.compared.counts == expected, each.id
        assert its.alerts == len(after)
    gone = found["removed"]
    assert (gone.version, gone.alerts) == (None, 0)
    assert gone.compared is not None
    assert gone.compared.counts[Change.GONE] == len(raised(DECODES))
    samples = gone.compared.samples[Change.GONE]
    assert {each.alert_id for each in samples} <= {
        alert_id(by_id["removed"], s) for s in raised(DECODES)
    }
    assert samples


def test_all_rules_are_one_job_and_what_is_collected_does_not_grow_with_the_alerts(
    spark: SparkSession, filled: Lake
) -> None:
    context = spark.sparkContext
    stored = rows_now(spark, silver.TABLE, filled)
    events = spark.createDataFrame(stored.collect(), stored.schema)  # Delta asks its log by a job
    for others in (None, (ANY, rule("shell", "nothing"))):
        wanted = replace(
            asked(RULES, others), span=Span(since=NOON, until=NOON + timedelta(days=9))
        )
        group = f"backtest {others is None}"
        context.setJobGroup(group, group)

        rows = figures(found({DECODES.source: events}, wanted), wanted).collect()
        context.setLocalProperty(GROUP, None)  # type: ignore[arg-type]  # None takes it back

        assert len(context.statusTracker().getJobIdsForGroup(group)) == 1
        days = len({str(start["UtcTime"])[:10] for start in STARTS})
        assert len(rows) <= len(wanted.every) * (days + TOP + len(Change))
        assert len(rows) < sum(len(raised(each)) for each in RULES)


def test_a_backtest_shows_nothing_that_is_masked_elsewhere(
    spark: SparkSession, filled: Lake
) -> None:
    found = tried(spark, filled, asked(RULES))

    shown = json.dumps([asdict(each) for each in found.values()])
    assert "SECRET" not in shown
    assert "text, 17 to 32 long" in shown


def test_the_extent_of_a_table_is_that_of_its_events(spark: SparkSession, filled: Lake) -> None:
    last = NOON + (NUMBER - 1) * EVERY

    assert extent(spark, silver.TABLE, filled) == Span(
        since=NOON, until=last + timedelta(microseconds=1)
    )
