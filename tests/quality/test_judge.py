"""Without Great Expectations the same is found: of rows and counters at random, and of what cannot be asked."""

import json
import sys
from dataclasses import asdict
from pathlib import Path
from random import Random, randrange

import pytest
from pyspark.sql import DataFrame, SparkSession

from strandline_quality.expectations import (
    Counts,
    Expectation,
    Share,
    Within,
    of_counters,
    shares,
)
from strandline_quality.judge import Judge, Plain, judge
from strandline_quality.rules import OnFail, Rule, Severity, between, one_of, required
from tests.architecture.tree import ROOT
from tests.cli.typed import strandline
from tests.support.absent import without
from tests.support.executions import executions

RULES = (
    *required("name"),
    between("value", 0, 10, max_failed=0.2),
    one_of("kind", ["a", "b"], on_fail=OnFail.WARN, max_failed=0.5),
    Rule(name="short", holds="length(name) < 4", on_fail=OnFail.FAIL, null_ok=True),
)
FIGURES = (
    Within(name="rows", low=5, high=50),
    Within(name="usual", from_history=True),
    Within(name="absent", high=0, severity=Severity.CRITICAL),
)
SCHEMA = "name string, value double, kind string"
GONE = Share(name="gone", predicate="no_such_column > 1", allowed=0, few=0, severity=Severity.INFO)


def library(expectations: tuple[Expectation, ...]) -> Judge:
    """Return the library's suite; this module is imported where that is not installed, too."""
    from strandline_quality.suite import Suite  # noqa: PLC0415  # see above

    return Suite("silver.things", expectations)


def chance() -> tuple[int, Random]:
    """Return a seed, which a failure shows, and what it gives."""
    seed = randrange(10**6)  # noqa: S311  # no secret
    return seed, Random(seed)  # noqa: S311  # as above


def counters(random: Random) -> tuple[Counts, dict[str, tuple[float | None, float | None]]]:
    rows = random.choice([0, 1, 10, 40, 60])
    broke = {rule.name: random.randint(0, rows) for rule in RULES if random.random() < 0.7}
    figures = {"rows": float(random.randrange(60)), "usual": random.random()}
    bounds = random.choice([(0.2, 0.8), (None, 0.5), (0.5, None), (None, None)])
    return Counts(rows=rows, broke=broke, figures=figures), {"usual": bounds}


def rows_of(spark: SparkSession, random: Random) -> DataFrame:
    """Return rows of which each rule holds for some."""
    data = [
        (
            random.choice([None, "n", "name", "long name"]),
            random.choice([None, -1.0, 1.0, 99.0]),
            random.choice([None, "a", "b", "c"]),
        )
        for _ in range(random.randrange(40))
    ]
    return spark.createDataFrame(data, SCHEMA)


def expected() -> tuple[Expectation, ...]:
    return (
        *shares(RULES),
        Within(name="count", aggregate="count(*)", low=5, high=30),
        Within(name="largest", aggregate="max(value)", high=50, severity=Severity.CRITICAL),
        Within(name="usual", aggregate="avg(value)", from_history=True),
        Within(name="unmeasured", high=1),
    )


@pytest.mark.whole
def test_counters_are_judged_as_by_the_library() -> None:
    """To the word: verdict, counts, figures and text."""
    seed, random = chance()
    table = of_counters(RULES, FIGURES)
    theirs, ours = library(table), Plain(table)
    for _ in range(60):
        counts, bounds = counters(random)
        assert ours.of_counts(counts, bounds) == theirs.of_counts(counts, bounds), (seed, counts)


@pytest.mark.whole
def test_rows_are_judged_as_by_the_library(spark: SparkSession) -> None:
    """Each table of random rows has the same findings, in the same order."""
    seed, random = chance()
    theirs, ours = library(expected()), Plain(expected())
    for _ in range(6):
        frame, bounds = rows_of(spark, random), {"usual": (random.uniform(0, 60), None)}
        assert ours.of_rows(frame, bounds) == theirs.of_rows(frame, bounds), seed


@pytest.mark.whole
def test_what_cannot_be_asked_is_critical_and_the_others_are_judged(spark: SparkSession) -> None:
    """A rule over a column that went away, and one that fails in a row: as the library has them, by the same reason."""
    # One row alone cannot be cast: of two, Spark names the one whose task ended first.
    frame = spark.createDataFrame([("n", 99.0, "7"), ("m", 1.0, "x")], SCHEMA)
    fails = Share(
        name="fails", predicate="CAST(kind AS INT) > 0", allowed=0, few=0, severity=Severity.INFO
    )
    for odd in (GONE, fails):
        asked = (*expected(), odd)
        ours, theirs = Plain(asked).of_rows(frame), library(asked).of_rows(frame)
        assert ours == theirs
        assert [each.name for each in ours if each.error] == [odd.name]
        assert ours[0].is_critical

    both = {each.name: each for each in Plain((*expected(), GONE, fails)).of_rows(frame)}
    assert "no_such_column" in str(both["gone"].error)
    assert "CAST_INVALID_INPUT" in str(both["fails"].error)
    assert not both["largest"].holds


def test_one_execution_for_any_number_of_rules(spark: SparkSession) -> None:
    """As many as the library takes."""
    frame = spark.createDataFrame([("n", 1.0, "a")] * 20, SCHEMA)
    many = tuple(
        Rule(name=f"r{n}", holds=f"value < {n}", max_failed=0.5, null_ok=True) for n in range(50)
    )

    taken = [
        executions(spark, lambda each=each: Plain(shares(each)).of_rows(frame))
        for each in (many[:1], many)
    ]

    assert taken == [1, 1]


def judged(seed: int) -> list[dict[str, object]]:
    """Return the findings about counters of a seed, by what judges in this Python."""
    random = Random(seed)  # noqa: S311  # no secret
    found = []
    for at in range(30):
        counts, bounds = counters(random)
        table = judge(f"silver.things_{at}", of_counters(RULES, FIGURES))
        found += [asdict(each) for each in table.of_counts(counts, bounds)]
    return found


@pytest.mark.whole
def test_where_the_library_is_not_installed_ours_judges_and_finds_the_same(tmp_path: Path) -> None:
    """In a Python that has no package of the extra, by the same entrance as the gates."""
    seed, _ = chance()
    script = (
        "import json, sys; from tests.quality.test_judge import judged;"
        f"print(json.dumps([judged({seed}), 'great_expectations' in sys.modules]))"
    )

    answer = strandline(
        "-c", script, env=without(tmp_path, ["quality"]), program=sys.executable
    ).succeeded()

    found, is_imported = json.loads(answer.out.splitlines()[-1])
    assert not is_imported
    assert found == json.loads(json.dumps(judged(seed))), seed


@pytest.mark.slow
@pytest.mark.prove(
    alone="the tests of the gates and audits once more, in a process with a Spark of its own"
)
def test_the_gates_shut_without_the_library(tmp_path: Path) -> None:
    """Those who know what a gate must do ask it where the library is not installed."""
    words = ["-q", "-p", "no:randomly", "-p", "no:xdist", "-o", f"cache_dir={tmp_path}"]
    files = [
        "engine/accounting/test_batch_check.py",
        "engine/accounting/test_gate_files.py",
        "engine/proof/test_row_audit.py",
    ]

    answer = strandline(
        *("-m", "pytest", *words, *(f"tests/{name}" for name in files)),
        env=without(tmp_path, ["quality"]),
        cwd=ROOT,
        timeout=560,
        program=sys.executable,
    ).succeeded()

    assert " passed" in answer.out
