"""A fold whose answers are of any type, over rows whose event time has any name."""

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import (
    DataType,
    DecimalType,
    DoubleType,
    LongType,
    StringType,
    StructType,
    TimestampType,
)

from strandline.core.errors import DefinitionError
from strandline.core.fold import Event, Fold, Folded, Memory
from strandline.core.stateful import folded
from strandline.core.table import Upserted
from tests.support.edits import FIELDS, source
from tests.support.literal import TWO, Log, in_every_way

ROWS = source("rows")
LOG: Log = {
    ROWS: (
        FIELDS,
        """
    batch | k | v  | at
    1     | a | 10 | 08:11:00
    1     | b | 30 | 08:45:00
    2     | a | 99 | 09:51:00
""",
    )
}


def most(kind: DataType, of: Callable[[int], Any] = int) -> Fold:
    """Return a fold with the largest value of each key, as a value of a type."""

    def step(memory: Memory, rows: list[Event], watermark: int) -> Folded:  # noqa: ARG001  # the shape of a step
        largest = max([memory.head.get("v", 0), *(row["v"] for row in rows)])
        memory.head = {"v": largest}
        return Folded(
            [{"k": row["k"], "v": of(largest), "us": row["at"]} for row in rows[-1:]], None
        )

    output = StructType().add("k", StringType()).add("v", kind).add("us", LongType())
    return Fold(
        by=("k",),
        reads=("v",),
        output=output,
        key=("k",),
        step=step,
        form=1,
        migrate=lambda _: None,
    )


def table(fold: Fold, time: str = "at") -> Upserted:
    def folding(rows: DataFrame) -> DataFrame:
        found = folded(rows.withColumnRenamed("at", time), fold, time=time)
        last = F.timestamp_micros("us").alias("last_at")
        return found.select("k", "v", last, F.lit(0).cast("timestamp").alias("shelf"))

    return Upserted(
        name="most",
        reads=(ROWS,),
        transform=folding,
        key=("k",),
        event_at="last_at",
        window_from="shelf",
    )


@pytest.mark.whole
@pytest.mark.slow
@pytest.mark.parametrize("time", ["at", "happened_at"])
def test_the_event_time_may_be_called_as_its_microseconds(
    spark: SparkSession, tmp_path: Path, time: str
) -> None:
    """Spark had two columns of that name, and called them ambiguous."""
    found = in_every_way(spark, tmp_path, table(most(LongType()), time), LOG, ways=TWO)

    assert [(row["k"], row["v"], row["last_at"]) for row in found] == [
        ("a", "99", "09:51:00"),
        ("b", "30", "08:45:00"),
    ]


@pytest.mark.whole("decimal", "double")
@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "of", "shown"),
    [
        (DecimalType(12, 2), lambda value: Decimal(value) / 4, "24.75"),
        (DoubleType(), lambda value: value / 4, "24.75"),
        (TimestampType(), lambda value: datetime(2026, 1, 1, 0, value % 60, tzinfo=UTC), None),
    ],
    ids=["decimal", "double", "timestamp"],
)
def test_an_answer_has_any_type_of_sparks(
    spark: SparkSession, tmp_path: Path, kind: DataType, of: Callable[[int], Any], shown: str | None
) -> None:
    """A batch knew texts, whole numbers and truth alone, and ended with KeyError: 'decimal'; a stream knew all."""
    found = in_every_way(spark, tmp_path, table(most(kind, of)), LOG, ways=TWO)

    assert shown is None or found[0]["v"] == shown


def test_a_column_that_is_called_as_the_microseconds_is_refused(
    spark: SparkSession,
) -> None:
    """The step would be given one of the two."""
    rows = spark.createDataFrame([], FIELDS).withColumn("happened_at", F.col("at"))
    fold = replace(most(LongType()), reads=("v", "at"))

    with pytest.raises(DefinitionError, match="reads a column at") as refused:
        folded(rows, fold, time="happened_at")

    assert "another name" in refused.value.hint
