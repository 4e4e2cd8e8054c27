"""One suite, asked of counters and of rows: the same findings, one execution, and each thread its own verdict."""

from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from random import Random, randrange

import pytest
from pyspark.sql import DataFrame, SparkSession

from strandline_quality.expectations import Counts, Finding, Within, fails, shares
from strandline_quality.rules import OnFail, Rule, Severity, between, broken, one_of, required
from strandline_quality.suite import Suite
from tests.support.executions import executions

RULES = (
    *required("name"),
    between("value", 0, 10, max_failed=0.2),
    one_of("kind", ["a", "b"], on_fail=OnFail.WARN, max_failed=0.5),
    Rule(name="short", holds="length(name) < 4", on_fail=OnFail.FAIL, null_ok=True),
)
SCHEMA = "name string, value double, kind string"


def rows(spark: SparkSession, *, bad: int, of: int) -> DataFrame:
    """Return rows of which some have a value out of range."""
    data = [(f"n{n % 100}", 99.0 if n < bad else 1.0, "a") for n in range(of)]
    return spark.createDataFrame(data, SCHEMA)


def counts(frame: DataFrame) -> Counts:
    """Count as a verdict column does."""
    found: Counter[str] = Counter()
    verdicts = frame.select(broken(RULES).alias("broken")).collect()
    for verdict in verdicts:
        found.update(verdict["broken"])
    return Counts(rows=len(verdicts), broke=found, figures={"rows": float(len(verdicts))})


def compared(findings: tuple[Finding, ...]) -> list[tuple[str, bool, bool, int, int]]:
    return sorted(
        (each.name, each.holds, each.is_critical, each.failed, each.rows) for each in findings
    )


@pytest.mark.whole
@pytest.mark.parametrize(
    ("bad", "of", "holds"), [(0, 50, True), (10, 40, True), (11, 54, False), (11, 55, True)]
)
def test_counters_and_rows_give_the_same_findings(
    spark: SparkSession, bad: int, of: int, *, holds: bool
) -> None:
    """More than a fifth of the rows and more than a few of them: both, or the batch is believed."""
    suite = Suite("silver.things", shares(RULES))
    frame = rows(spark, bad=bad, of=of)

    by_counters = suite.of_counts(counts(frame))
    by_rows = suite.of_rows(frame)

    assert compared(by_counters) == compared(by_rows)
    (value,) = [each for each in by_rows if each.name == "out_of_range:value"]
    assert (value.holds, value.failed, value.rows) == (holds, bad, of)


@pytest.mark.whole
def test_what_becomes_of_a_batch_is_what_its_rule_declares(spark: SparkSession) -> None:
    """One row is enough for a rule that fails, a warning lets pass, and without a share nothing shuts."""
    data = [("long name", 1.0, "z"), (None, 2.0, "z"), ("n", 3.0, "a")]
    frame = spark.createDataFrame(data, SCHEMA)

    found = {each.name: each for each in Suite("silver.things", shares(RULES)).of_rows(frame)}

    assert (found["short"].holds, found["short"].is_critical) == (False, True)
    assert (found["not_listed:kind"].holds, found["not_listed:kind"].is_critical) == (False, False)
    assert found["not_listed:kind"].severity is Severity.WARNING
    assert found["missing:name"].holds


@pytest.mark.whole
def test_a_figure_is_held_against_its_bounds(spark: SparkSession) -> None:
    """Bounds from history come with the question; without them nothing is expected."""
    suite = Suite(
        "gold.things",
        (
            Within(name="rows", aggregate="count(*)", from_history=True),
            Within(name="largest", aggregate="max(value)", high=50, severity=Severity.CRITICAL),
        ),
    )
    frame = rows(spark, bad=1, of=30)

    silent = suite.of_rows(frame)
    asked = suite.of_rows(frame, {"rows": (40, 60)})

    assert [each.holds for each in silent] == [True, False]
    assert [each.holds for each in asked] == [False, False]
    assert [each.is_critical for each in asked] == [False, True]
    assert asked[0].says == "30; expected 40 to 60"
    by_counters = suite.of_counts(
        Counts(rows=30, figures={"rows": 30, "largest": 99}), {"rows": (40, 60)}
    )
    assert compared(by_counters) == compared(asked)


@pytest.mark.whole
def test_what_cannot_be_asked_is_critical_and_leaves_the_others_right(spark: SparkSession) -> None:
    """A rule over a column that went away judges no row, so the rows must not be believed."""
    gone = Rule(name="gone", holds="no_such_column > 1", severity=Severity.INFO)

    suite = Suite("silver.things", shares((*RULES, gone)))
    found = {each.name: each for each in suite.of_rows(rows(spark, bad=30, of=40))}

    assert found["gone"].is_critical
    assert "no_such_column" in str(found["gone"].error)
    assert not found["out_of_range:value"].holds
    assert found["out_of_range:value"].failed == 30
    assert found["missing:name"].holds


def test_a_batch_without_rows_is_as_expected(spark: SparkSession) -> None:
    """Without rows no rule is broken."""
    suite = Suite(
        "silver.things", (*shares(RULES), Within(name="newest", aggregate="max(value)", low=1))
    )

    assert all(each.holds for each in suite.of_rows(rows(spark, bad=0, of=0)))
    assert all(each.holds for each in suite.of_counts(Counts(rows=0)))


@pytest.mark.whole
def test_no_execution_more_for_fifty_rules_than_for_one(spark: SparkSession) -> None:
    """All are one aggregate over one scan, and counters need Spark not at all."""
    frame = rows(spark, bad=5, of=100)
    many = tuple(replace(between("value", 0, n), name=f"r{n}") for n in range(50))
    one, fifty = (Suite("silver.things", shares(rules)) for rules in (many[:1], many))

    taken = [executions(spark, lambda suite=suite: suite.of_rows(frame)) for suite in (one, fifty)]
    by_counters = executions(spark, lambda: fifty.of_counts(Counts(rows=100)))

    print(f"executions: {taken[0]} for 1 rule, {taken[1]} for 50, {by_counters} on counters")  # noqa: T201  # the figure is for who reads the run
    assert taken == [1, 1]
    assert by_counters == 0


@pytest.mark.whole
def test_sixteen_gates_at_the_same_time_do_not_mix_their_verdicts(spark: SparkSession) -> None:
    """The library keeps one batch for an asset's name; two threads on one asset get each other's."""
    suites = [Suite("silver.things", shares(RULES)) for _ in range(16)]
    frames = [rows(spark, bad=15 * (n % 2), of=20 + n) for n in range(16)]

    def ask(n: int) -> list[tuple[bool, int]]:
        by_rows = suites[n].of_rows(frames[n])
        broke = {"out_of_range:value": 15 * (n % 2)}
        by_counters = suites[n].of_counts(Counts(rows=20 + n, broke=broke))
        return [(f[1].holds, f[1].rows) for f in (by_rows, by_counters)]

    with ThreadPoolExecutor(16) as pool:
        found = list(pool.map(ask, range(16)))

    assert found == [[(n % 2 == 0, 20 + n)] * 2 for n in range(16)]


@pytest.mark.whole
def test_two_threads_may_ask_one_suite(spark: SparkSession) -> None:
    """They take turns."""
    suite = Suite("silver.things", shares(RULES))
    frames = [rows(spark, bad=15 * (n % 2), of=20 + n) for n in range(8)]

    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(suite.of_rows, frames))

    assert [(f[1].holds, f[1].rows) for f in found] == [(n % 2 == 0, 20 + n) for n in range(8)]


@pytest.mark.whole
def test_a_glance_at_counters_sees_what_the_suite_finds() -> None:
    """Otherwise the suite would not be asked."""
    seed = randrange(10**6)  # noqa: S311  # no secret
    chance = Random(seed)  # noqa: S311  # as above
    figures = (
        Within(name="rows", low=5, high=50),
        Within(name="usual", from_history=True),
        Within(name="absent", high=0),
    )
    expected = (*shares(RULES), *figures)
    suite = Suite("silver.glance", expected)
    for _ in range(60):
        rows_ = chance.choice([0, 1, 10, 40, 60])
        found = Counts(
            rows=rows_,
            broke={rule.name: chance.randint(0, rows_) for rule in RULES if chance.random() < 0.7},
            figures={"rows": chance.randrange(60), "usual": chance.random()},
        )
        bounds = {"usual": chance.choice([(0.2, 0.8), (None, 0.5), (0.5, None), (None, None)])}
        failing = [each.name for each in suite.of_counts(found, bounds) if not each.holds]
        seen = [each.name for each in expected if fails(each, found, bounds)]
        assert sorted(seen) == sorted(failing), (seed, found, bounds)
