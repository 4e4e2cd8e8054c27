"""An event of a megabyte meets every rule in one plan, and no letter of it costs more than another."""

import time
from collections.abc import Iterator, Sequence
from itertools import groupby

import pytest
from pyspark.sql import SparkSession
from pyspark.sql.types import IntegerType, StringType, StructType

from strandline.alerting.alert_rule import AlertRule, rules_folder
from strandline.alerting.compile import holds
from strandline.alerting.one_plan import alerts
from strandline.alerting.sigma import read_folder
from tests.rules.cases import CASES
from tests.support.proofs import Times

pytestmark = pytest.mark.whole

RULES = [*(case.rule() for case in CASES), *read_folder(rules_folder()).rules]
LETTERS = 1_000_000
PIECES = (
    "ab",
    "a",
    "powershell.exe -enc JAB ",
    "certutil -urlcache http",
    "-",
    " ",
    "\\",
    "0",
    "1.",
    ":",
    "é",
    "\n",
    "mimikat",
    "net user /add ",
)
"""What a text is made of: what patterns repeat, and what rules look for but for its end."""

LONGEST = 120.0
"""Seconds in which a text is surely read: each engine that tries would take days."""


def judged_in(
    spark: SparkSession, rules: Sequence[AlertRule], texts: Sequence[str]
) -> Iterator[tuple[str, int, float]]:
    """Yield for each table its name, the number of its rules, and the seconds in which Spark and Python judged the texts.

    Every text of an event is the same one.
    """
    for _, of in groupby(
        sorted(rules, key=lambda r: r.source.table.id), key=lambda r: r.source.table.id
    ):
        own = list(of)
        source = own[0].source
        events = [
            {
                field.name: text if isinstance(field.dataType, StringType) else None
                for field in source.fields
            }
            for text in texts
        ]
        rows = [(*event.values(), number) for number, event in enumerate(events)]
        schema = StructType(list(source.fields)).add("number", IntegerType())
        began = time.monotonic()

        found = alerts(spark.createDataFrame(rows, schema), own).select("number", "rule_id")
        fired = {(row["number"], row["rule_id"]) for row in found.collect()}
        took = time.monotonic() - began

        assert fired == {
            (number, rule.id)
            for number, event in enumerate(events)
            for rule in own
            if holds(rule.when, event)
        }
        yield source.table.id, len(own), took


@pytest.mark.prove
def test_an_event_of_a_megabyte_is_judged_by_every_rule(spark: SparkSession, times: Times) -> None:
    """Java's engine ended the process at 8,007 letters; a rule of chained optionals took 42 s at 28."""
    pieces = PIECES[: times(1, len(PIECES))]
    texts = [(piece * LETTERS)[:LETTERS] + "!" for piece in pieces]

    for table, rules, took in judged_in(spark, RULES, texts):
        print(f"{table}: {rules} rules, {len(texts)} events of a megabyte in {took:.1f} s")  # noqa: T201  # for the proof
        assert took < LONGEST * len(texts)
