"""A decoded value becomes the declared type without loss, or is refused."""

import io
from datetime import UTC, date, datetime
from decimal import Decimal
from math import isnan
from typing import Any

import fastavro
import pytest
from pyspark.sql.types import (
    BinaryType,
    ByteType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    LongType,
    StringType,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from strandline.core.parse_registered import WrongTypeError, evolved

AT = datetime(2026, 11, 20, 8, 15, 30, 123000, tzinfo=UTC)
PROMOTED = [
    ("int", "long", 7, LongType()),
    ("int", "double", 7, DoubleType()),
    ("long", "double", 1 << 40, DoubleType()),
    ("float", "double", 0.5, DoubleType()),
    ("string", "bytes", "ä", BinaryType()),
    ("bytes", "string", "ä".encode(), StringType()),
]
"""The promotions of Avro: the writer's type, the reader's, a value, and the type that is declared."""


def turned(kind: DataType, value: object) -> Any:  # noqa: ANN401  # whatever it becomes
    """Return what a value becomes as a declared field."""
    return evolved(StructType().add("x", kind), {})({"x": value})["x"]


@pytest.mark.parametrize(("writer", "reader", "value", "kind"), PROMOTED)
def test_promotions_are_those_of_avro(
    writer: str, reader: str, value: object, kind: DataType
) -> None:
    """As Avro's own library resolves a writer's schema to a reader's."""

    def schema(of: str) -> Any:  # noqa: ANN401  # the library's own value
        return fastavro.parse_schema(
            {"type": "record", "name": "r", "fields": [{"name": "x", "type": of}]}
        )

    stream = io.BytesIO()
    fastavro.schemaless_writer(stream, schema(writer), {"x": value})
    stream.seek(0)
    expected = fastavro.schemaless_reader(stream, schema(writer), schema(reader))["x"]
    stream.seek(0)
    found = turned(kind, fastavro.schemaless_reader(stream, schema(writer), None)["x"])

    assert (found, type(found)) == (expected, type(expected))


@pytest.mark.parametrize(
    ("kind", "value", "expected"),
    [
        (DecimalType(9, 2), Decimal("12.300"), Decimal("12.30")),
        (DecimalType(9, 2), 12, Decimal("12.00")),
        (DecimalType(9, 2), 12.34, Decimal("12.34")),
        (DoubleType(), 1 << 53, 9007199254740992.0),
        (DoubleType(), -(1 << 1000), -float(1 << 1000)),
        (FloatType(), 1 << 24, 16777216.0),
        (FloatType(), 0.5, 0.5),
        (FloatType(), float("-inf"), float("-inf")),
        (TimestampType(), "2026-11-20T08:15:30.123Z", AT),
        (TimestampType(), "2026-11-20 08:15:30.123", AT),
        (TimestampType(), "2026-11-20T09:15:30.123+01:00", AT),
        (TimestampNTZType(), "2026-11-20T08:15:30.123", AT.replace(tzinfo=None)),
        (DateType(), "2026-11-20", date(2026, 11, 20)),
    ],
)
def test_numbers_and_times_keep_their_value(
    kind: DataType, value: object, expected: object
) -> None:
    assert turned(kind, value) == expected


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        (LongType(), True),
        (LongType(), 7.0),
        (LongType(), "7"),
        (LongType(), 1 << 63),
        (ByteType(), 128),
        (DoubleType(), "0.5"),
        (DoubleType(), True),
        (DoubleType(), (1 << 53) + 1),
        (DoubleType(), 1 << 1024),
        (FloatType(), 1e300),
        (FloatType(), -1e300),
        (FloatType(), 0.1),
        (FloatType(), (1 << 24) + 1),
        (FloatType(), True),
        (FloatType(), "0.5"),
        (StringType(), 7),
        (StringType(), b"\xff"),
        (DecimalType(9, 2), Decimal("12.345")),
        (DecimalType(4, 2), Decimal("123.4")),
        (DecimalType(9, 2), Decimal("NaN")),
        (DecimalType(9, 2), False),
        (DecimalType(20, 2), 0.5),
        (TimestampType(), "2026-11-20"),
        (TimestampType(), "tomorrow, at eight o'clock"),
        (TimestampType(), AT.replace(tzinfo=None)),
        (TimestampNTZType(), AT),
        (DateType(), "2026-W47-5"),
        (DateType(), AT),
        (StructType().add("y", LongType()), 7),
    ],
)
def test_what_would_lose_something_is_refused(kind: DataType, value: object) -> None:
    with pytest.raises(ValueError):  # noqa: PT011  # of Python's own, or ours, which is one
        turned(kind, value)
    assert issubclass(WrongTypeError, ValueError)


def test_a_float_may_be_no_number() -> None:
    assert isnan(turned(FloatType(), float("nan")))


def test_an_absent_field_has_its_default_and_one_that_is_null_has_none() -> None:
    """Also within a record; a record that is absent has no fields."""
    inner = StructType().add("seq", LongType()).add("firmware", StringType())
    fields = StructType().add("id", StringType()).add("meta", inner)
    turn = evolved(fields, {"meta.seq": 9, "id": "none"})

    assert turn({"meta": {}}) == {"id": "none", "meta": {"seq": 9, "firmware": None}}
    assert turn({"id": None, "meta": None}) == {"id": None, "meta": None}
    assert turn({"id": "a", "more": 1}) == {"id": "a", "meta": None}
