"""Spark raises alerts as the specification says: every case of tests/rules/cases.py in one query a table."""

from collections import defaultdict

import pytest
from pyspark.sql import SparkSession
from pyspark.sql.types import IntegerType, StructField, StructType

from strandline.alerting.compile import compiled, prepared
from tests.rules.case import Case
from tests.rules.cases import CASES

Answers = dict[str, list[tuple[dict[str, object], bool]]]


@pytest.fixture(scope="module")
def answers(spark: SparkSession) -> Answers:
    """Ask every case about its own events; return each event and whether its rule fires."""
    found: Answers = {}
    by_source = defaultdict(list)
    for case in CASES:
        by_source[case.rule().source].append(case)
    for source, cases in by_source.items():
        events = [
            (number, event)
            for number, case in enumerate(cases)
            for event in (*case.rule().fires_on, *case.rule().quiet_on)
        ]
        schema = StructType([*source.fields, StructField("_case", IntegerType())])
        rows = [(*event.values(), number) for number, event in events]
        frame = spark.createDataFrame(rows, schema)
        for step in prepared(case.rule().when for case in cases).steps():
            frame = frame.selectExpr("*", *step)
        branches = (
            f"WHEN _case = {number} THEN {compiled(case.rule().when, source)}"
            for number, case in enumerate(cases)
        )
        said = [
            row["said"]
            for row in frame.selectExpr(f"CASE {' '.join(branches)} END AS said").collect()
        ]
        for (number, event), fires_here in zip(events, said, strict=True):
            found.setdefault(cases[number].name, []).append((event, fires_here))
    return found


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_modifier_does_what_the_specification_says(case: Case, answers: Answers) -> None:
    """Never NULL: a third truth value would lose alerts."""
    rule = case.rule()
    expected = [True] * len(rule.fires_on) + [False] * len(rule.quiet_on)

    wrong = [
        (event, said)
        for (event, said), fires in zip(answers[rule.title], expected, strict=True)
        if said is not fires
    ]

    assert wrong == []
