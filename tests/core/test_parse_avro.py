"""A payload is exactly one record of the declared schema, or it is malformed."""

import json
import random
from collections.abc import Sequence
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from pyspark.sql.avro.functions import to_avro
from pyspark.sql.types import (
    StringType,
    StructType,
)

from strandline.core.errors import DefinitionError
from strandline.core.parse import avro
from strandline.core.topic import Parse
from tests.support.events import Event, frame
from tests.support.payloads import parse, problems
from tests.support.shapes import ORDER as FIELDS

SCHEMA = json.dumps(
    {
        "type": "record",
        "name": "order",
        "fields": [
            {"name": "id", "type": "string"},
            {"name": "count", "type": ["null", "long"]},
            {
                "name": "cost",
                "type": {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2},
            },
            {"name": "at", "type": {"type": "long", "logicalType": "timestamp-micros"}},
        ],
    }
)
AT = datetime(2026, 11, 20, 8, 15, 30, 123000, tzinfo=UTC)


def written(spark: SparkSession, *orders: tuple[str, int | None]) -> list[bytes]:
    """Return orders as a producer writes them."""
    rows = spark.createDataFrame([(*order, Decimal("12.34"), AT) for order in orders], FIELDS)
    record = F.struct(*FIELDS.fieldNames())
    return [bytes(row[0]) for row in rows.select(to_avro(record, SCHEMA)).collect()]


def parsed(
    spark: SparkSession, payloads: Sequence[bytes | None], read: Parse | None = None
) -> list[dict[str, Any]]:
    """Parse payloads in one job and keep their order."""
    return parse(spark, payloads, FIELDS, read or avro(SCHEMA))


@pytest.mark.whole
def test_a_record_is_read_field_by_field(spark: SparkSession) -> None:
    full, empty = parsed(spark, written(spark, ("a", 17), ("", None)))

    assert (full["_problem"], full["id"], full["count"]) == (None, "a", 17)
    assert (full["cost"], full["at"].isoformat()) == (
        Decimal("12.34"),
        "2026-11-20T08:15:30.123000",
    )
    assert (empty["_problem"], empty["id"], empty["count"]) == (None, "", None)


def test_what_is_not_exactly_one_record_is_malformed_and_has_no_value(spark: SparkSession) -> None:
    """Avro alone takes the first record and leaves what follows."""
    (clean,) = written(spark, ("a", 17))
    broken = [
        None,
        b"",
        b"junk",
        clean + b"\0",
        clean + clean,
        b"\0" + clean,
        clean.replace(b"\x02a", b"\x02\xff"),
        *(clean[:length] for length in range(len(clean))),
    ]

    found = parsed(spark, [clean, *broken])

    assert problems(found) == [None] + ["malformed"] * len(broken)
    assert {row[name] for row in found[1:] for name in FIELDS.fieldNames()} == {None}


@pytest.mark.whole
def test_no_bytes_end_the_query(spark: SparkSession, chance: random.Random) -> None:
    """Lengths of gigabytes, unions without such a branch and endless numbers are all in there."""
    payloads = [chance.randbytes(chance.randrange(40)) for _ in range(2_000)]

    found = parsed(spark, payloads)

    assert len(found) == len(payloads)
    assert problems(found).count("malformed") > len(payloads) * 0.99


@pytest.mark.whole
def test_a_registrys_head_must_be_the_declared_one(spark: SparkSession) -> None:
    """A payload of another version of the schema would be read as what it is not."""
    (clean,) = written(spark, ("a", 17))

    found = parsed(
        spark,
        [b"\0\0\0\0\x07" + clean, b"\0\0\0\0\x08" + clean, clean, b"\0\0\0"],
        avro(SCHEMA, schema_id=7),
    )

    assert problems(found) == [None, "malformed", "malformed", "malformed"]
    assert found[0]["id"] == "a"


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        (StructType().add("id", StringType()).add("colour", StringType()), "no such field"),
        (StructType().add("count", StringType()), "the Avro schema has bigint"),
    ],
)
def test_a_field_that_the_schema_lacks_is_refused_before_any_row(
    fields: StructType, message: str, spark: SparkSession
) -> None:
    events = frame(spark, [Event(payload=b"")])

    with pytest.raises(DefinitionError, match=message) as caught:
        avro(SCHEMA)(events, fields)

    assert "id string" in str(caught.value)


@pytest.mark.parametrize("schema", ["order.avsc", '"string"', "[]"])
def test_a_schema_that_is_no_record_is_refused_where_it_is_declared(schema: str) -> None:
    with pytest.raises(DefinitionError, match="Avro schema"):
        avro(schema)
