"""From one declaration come the verdict, the counters, the suite and Dagster's checks; all agree on any row."""

import random
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from decimal import Decimal

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import DataType, DecimalType, LongType, StringType, StructType, TimestampType
from strandline import catalog

from strandline.core.table import Table
from strandline.core.topic import CARRIED, RECEIVED
from strandline.core.verdict import WARNED, judged
from strandline.engine.accounting.batch_check import counted
from strandline_dagster import resources
from strandline_dagster.assets import key
from strandline_quality.expectations import Counts, shares
from strandline_quality.rules import Rule, broken
from strandline_quality.suite import Suite
from tests.support.rows import NOON

pytestmark = pytest.mark.whole

TABLES = [table for table in catalog.tables() if table.rules]
ROWS = 400

HOSTILE: dict[type[DataType], list[object]] = {
    StringType: [
        None,
        "",
        " ",
        "a",
        "'; DROP TABLE silver; --",
        "\\'",
        "NaN",
        "1e999",
        "\x00",
        "\u202e right to left",
        "\u2028",
        "é" * 5_000,
        "temperature",
        "pressure",
        "🜁",
    ],
    LongType: [None, 0, -1, 2**63 - 1, -(2**63)],
    TimestampType: [None, NOON, datetime(1, 1, 1, tzinfo=UTC), datetime(9999, 12, 31, tzinfo=UTC)],
}


def hostile(kind: DataType, chance: random.Random) -> object:
    """Return a value at an edge of a type."""
    if isinstance(kind, DecimalType):
        most = Decimal(10 ** (kind.precision - kind.scale)) - Decimal(1).scaleb(-kind.scale)
        return chance.choice([None, Decimal(0), most, -most, Decimal(1).scaleb(-kind.scale)])
    if isinstance(kind, StructType):
        return tuple(hostile(field.dataType, chance) for field in kind.fields)
    return chance.choice(HOSTILE.get(type(kind), [None]))


def shape(spark: SparkSession, table: Table) -> StructType:
    """Return the columns that a table's function makes."""
    assert table.transform is not None
    made = table.transform(spark.createDataFrame([], RECEIVED)).schema
    return StructType([field for field in made.fields if field.name not in CARRIED])


def hostile_rows(spark: SparkSession, table: Table, chance: random.Random) -> DataFrame:
    """Return rows as a table's function could have made them, each value hostile."""
    columns = shape(spark, table)
    data = [
        ("t", 0, number, NOON, None, None, [], 0, NOON, None, None, *_cells(columns, chance))
        for number in range(ROWS)
    ]
    schema = StructType([*RECEIVED.fields]).add("_problem", StringType())
    for field in columns.fields:
        schema = schema.add(field)
    return spark.createDataFrame(data, schema)


def _cells(columns: StructType, chance: random.Random) -> list[object]:
    return [hostile(field.dataType, chance) for field in columns.fields]


@pytest.mark.parametrize("table", TABLES, ids=str)
def test_all_four_agree_on_hostile_values(
    spark: SparkSession, table: Table, chance: random.Random
) -> None:
    """And no predicate throws, whatever the row has."""
    rows = hostile_rows(spark, table, chance).persist()
    handed_on = judged(rows, replace(table, transform=lambda events: events))

    verdicts = handed_on.select(*{"_reasons", WARNED} & {*handed_on.columns}).collect()
    by_verdict: Counter[str] = Counter()
    for row in verdicts:
        for names in row:
            by_verdict.update(names or ())
    by_counters = counted(handed_on, table).broke
    found = Suite(table.id, shares(table.rules)).of_rows(rows)
    by_suite = {each.name: each.failed for each in found}
    asked = Suite(table.id, shares(table.rules)).of_counts(Counts(rows=ROWS, broke=by_counters))
    known = {spec.metadata["expectation"] for spec in resources.specs(table, key(table))}
    rows.unpersist()

    names = [rule.name for rule in table.rules]
    assert {name: by_verdict[name] for name in names} == {n: by_counters[n] for n in names}
    assert {name: by_verdict[name] for name in names} == by_suite
    assert [each.error for each in found] == [None] * len(names)
    assert {each.name: each.holds for each in asked} == {each.name: each.holds for each in found}
    assert set(names) <= known
    assert all(by_verdict[name] for name in names), "a rule that nothing breaks was not tried"


@pytest.mark.parametrize(
    ("table", "rule"),
    [(table, rule) for table in TABLES for rule in table.rules],
    ids=lambda each: str(each) if isinstance(each, Table) else each.name,
)
def test_a_rule_keeps_its_own_examples(spark: SparkSession, table: Table, rule: Rule) -> None:
    """Each rule comes with a row that breaks it and a row that passes, and both are tried."""
    assert rule.bad is not None, f"{rule.name} has no example of a row that breaks it"
    columns = shape(spark, table)

    assert _breaks(spark, columns, rule, rule.bad)
    if rule.ok is not None:
        assert not _breaks(spark, columns, rule, rule.ok)
    else:
        assert rule.name.startswith("missing:"), f"{rule.name} has no example of a row that passes"


def _breaks(
    spark: SparkSession, columns: StructType, rule: Rule, example: Mapping[str, object]
) -> bool:
    unknown = set(example) - set(columns.fieldNames())
    assert not unknown, f"the example of {rule.name} has the unknown columns {unknown}"
    cells = [
        F.lit(example.get(field.name)).try_cast(field.dataType).alias(field.name)
        for field in columns.fields
    ]
    return bool(spark.range(1).select(*cells).select(F.size(broken([rule])) > 0).first()[0])  # type: ignore[index]  # there is one row
