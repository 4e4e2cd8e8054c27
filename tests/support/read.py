"""Payloads through the function of a silver table, whichever the domain."""

from datetime import datetime

from pyspark.sql import SparkSession

from strandline.core.parse import DRIFT
from strandline.core.table import Table
from strandline.core.topic import RECEIVED
from tests.support.rows import NOON, Row, shown


def read(
    spark: SparkSession, table: Table, *payloads: bytes, topic: str | None = None
) -> list[Row]:
    """Return the columns that a silver table's function makes of payloads, without what it notes of drift; one that is no row has its problem."""
    name = topic or table.upstream[0].topics[0].name
    rows = [arrived(name, number, NOON, b"key", payload) for number, payload in enumerate(payloads)]
    assert table.transform is not None
    found = table.transform(spark.createDataFrame(rows, RECEIVED)).orderBy("_offset")
    kept = [name for name in found.columns if name not in {*RECEIVED.fieldNames(), DRIFT}]
    return [shown([row.asDict(recursive=True)])[0] for row in found.select(*kept).collect()]


def arrived(
    topic: str, offset: int, at: datetime, key: bytes, payload: bytes
) -> tuple[object, ...]:
    """Return a row of bronze."""
    return (topic, 0, offset, at, key, payload, [], 0, at, None)
