"""Tables of literal rows for tests of gold, and gold computed from them in every way there is."""

from collections.abc import Mapping, Sequence
from decimal import Decimal
from pathlib import Path

from deltalake import DeltaTable
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import DecimalType, IntegerType, LongType, StructType, TimestampType

from strandline.core.stateful import Batch
from strandline.core.table import Table
from strandline.engine.accounting.balance_sheet import balance
from strandline.engine.lake.commit import delta_commit
from strandline.engine.lake.lake import Lake
from strandline.engine.lake.log.ledger import Entry, last_entry
from tests.support import by_hand
from tests.support.modes import derive, stream
from tests.support.rows import NULL, Row, at, lines, shown

Log = Mapping[Table, tuple[StructType, str]]
"""For each source its columns, and its rows as text; ``batch`` is the commit of a row."""

WAYS = ("batch", "at once", "step by step", "always on")
TWO = ("batch", "step by step")
"""The two that differ most, where another test of the same kind of table tries all."""


def in_every_way(  # noqa: PLR0913, PLR0917  # the world, the question, and how
    spark: SparkSession,
    root: Path,
    table: Table,
    log: Log,
    through: Sequence[Table] = (),
    ways: Sequence[str] = WAYS,
) -> list[Row]:
    """Compute a table in every mode and return the one answer.

    Args:
        spark: The session.
        root: A folder for the lakes.
        table: What to compute.
        log: The rows of its sources, or of theirs.
        through: The tables between the log and the table, computed whenever rows were put.
        ways: The modes.

    Raises:
        AssertionError: Two modes disagree, or a ledger does not balance.
    """
    batches = sorted({row["batch"] for _, text in log.values() for row in lines(text)})
    answers = {}
    for way in ways:
        lake = Lake(root / way).open_for_writing()
        for number in batches[:1] if way == "always on" else batches:
            put(lake, log, number)
            if way == "step by step":
                derive(spark, lake, *through, table)
        if way == "batch":
            derive(spark, lake, *through, table, mode=Batch())
        elif way == "at once":
            derive(spark, lake, *through, table)
        elif way == "always on":
            derive(spark, lake, *through)

            def take_in(number: str, lake: Lake = lake) -> None:
                put(lake, log, number)
                derive(spark, lake, *through)

            stream(spark, lake, table, list(batches[1:]), take_in)
        for each in (*through, table):
            assert balance(each, lake).faults == [], f"{each.id} {way}"
        answers[way] = shown(DeltaTable(lake.table(table)).to_pyarrow_table().to_pylist())
    expected = answers[ways[0]]
    for way, answer in answers.items():
        assert answer == expected, f"{way} is not {ways[0]}"
    return expected


def put(lake: Lake, log: Log, batch: str) -> None:
    """Append the rows of one batch number to each source; a source without any is made all the same."""
    for table, (schema, text) in log.items():
        chosen = [row for row in lines(text) if row["batch"] == batch]
        appended(lake, table, schema, chosen)


def appended(lake: Lake, table: Table, schema: StructType, rows: Sequence[Row]) -> None:
    """Append rows to a table in one commit, with a ledger entry."""
    by_hand.create(lake.table(table), schema)
    if rows:
        values = [[_value(row.get(f.name, NULL), f.dataType) for f in schema] for row in rows]
        entry = _entry(lake, table, len(rows))
        by_hand.commit(lake.table(table), [by_hand.table(schema, values)], entry.encoded())


def written(
    spark: SparkSession, lake: Lake, table: Table, schema: StructType, rows: DataFrame
) -> None:
    """Append rows to a table in one commit, with a ledger entry; a column that they lack is NULL."""
    commit = delta_commit.Commit(spark, lake.table(table))
    whole = spark.createDataFrame([], schema).unionByName(rows, allowMissingColumns=True)
    commit.commit(_entry(lake, table, commit.write(whole.coalesce(1)).rows).encoded())


def _entry(lake: Lake, table: Table, rows: int) -> Entry:
    newest = last_entry(lake.table(table))
    return Entry(
        table=table.id,
        mode="available-now",
        stream="literal",
        batch=newest[1].batch + 1 if newest else 0,
        source="literal",
        read=rows,
        good=rows,
        written=rows,
    )


def _value(text: str, kind: object) -> object:
    if text == NULL:
        return None
    match kind:
        case TimestampType():
            return at(text)
        case LongType() | IntegerType():
            return int(text)
        case DecimalType():
            return Decimal(text)
        case _:
            return text
