"""Within lists and maps a value is of its declared type to the last digit as well, or the payload is refused."""

import json
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql.types import (
    ArrayType,
    DataType,
    DecimalType,
    DoubleType,
    LongType,
    MapType,
    StringType,
    StructType,
    TimestampType,
    VariantType,
)

from strandline.core.errors import DefinitionError
from strandline.core.parse import parse_json
from tests.support.events import frame
from tests.support.payloads import Found, parse, problems

ITEM = StructType().add("unit_price", DecimalType(12, 2)).add("sku", StringType())
FIELDS = (
    StructType()
    .add("order_id", StringType())
    .add("items", ArrayType(ITEM))
    .add("tags", ArrayType(StringType()))
    .add("counts", ArrayType(LongType()))
    .add("prices", MapType(StringType(), DecimalType(12, 2)))
    .add("labels", MapType(StringType(), StringType()))
    .add("moments", ArrayType(TimestampType()))
    .add("grid", ArrayType(ArrayType(DecimalType(6, 1))))
    .add("by_day", MapType(StringType(), ArrayType(ITEM)))
    .add("anything", ArrayType(StructType().add("value", VariantType())))
)
ORDER: dict[str, Any] = {
    "order_id": "o-1",
    "items": [{"unit_price": 9.99, "sku": "17"}, {"unit_price": 1, "sku": "true"}],
    "tags": ["a", "17", "true", "{}", "[1]", ""],
    "counts": [1, 2],
    "prices": {"eur": 1.5, "usd": 2},
    "labels": {"a": "x", "b": "1.0"},
    "moments": ["2026-11-20T08:15:30.123Z"],
    "grid": [[1.5, 2], [0.1]],
    "by_day": {"monday": [{"unit_price": 3.25, "sku": "s"}]},
    "anything": [{"value": 1.23456}, {"value": "9.99"}, {"value": {"a": [1]}}],
}

WRONG: list[tuple[str, str]] = [
    ("items", '[{"unit_price": 1.23456, "sku": "s"}]'),
    ("items", '[{"unit_price": 9.99, "sku": "s"}, {"unit_price": "9.99", "sku": "s"}]'),
    ("items", '[{"unit_price": 9.99, "sku": {"a": 1}}]'),
    ("items", '[{"unit_price": 9.99, "sku": 17}]'),
    ("items", '[{"unit_price": 9.99, "sku": "s"}, {"unit_price": 9.99, "sku": true}]'),
    ("items", '[{"unit_price": 99999999999.99, "sku": "s"}]'),
    ("items", '[{"unit_price": true, "sku": "s"}]'),
    ("items", '[{"unit_price": [1], "sku": "s"}]'),
    ("items", '["s"]'),
    ("items", "[17]"),
    ("items", '{"unit_price": 1, "sku": "s"}'),
    ("items", '"s"'),
    ("tags", "[17]"),
    ("tags", '["a", {"b": 1}]'),
    ("tags", '["a", ["b"]]'),
    ("tags", '["a", null, false]'),
    ("counts", "[1.5]"),
    ("counts", '["1"]'),
    ("counts", "[9223372036854775808]"),
    ("prices", '{"eur": 1.234}'),
    ("prices", '{"eur": 1.5, "usd": "2"}'),
    ("labels", '{"a": 1}'),
    ("labels", '{"a": "x", "b": {"c": 1}}'),
    ("moments", '["2026-11-20"]'),
    ("moments", "[1795150000]"),
    ("moments", '["2026-11-20T08:15:30Z", "no time"]'),
    ("grid", "[[1.55]]"),
    ("grid", '[[1.5], ["2"]]'),
    ("by_day", '{"monday": [{"unit_price": 1, "sku": "s"}], "friday": [{"unit_price": 1.234}]}'),
    ("by_day", '{"monday": [{"sku": 17}]}'),
]
RIGHT: list[tuple[str, str]] = [
    ("items", "null"),
    ("items", "[]"),
    ("items", "[null]"),
    ("items", "[{}]"),
    ("items", '[{"unit_price": 9.990, "sku": null}, null]'),
    ("items", '[{"unit_price": 999e-2, "sku": "s", "more": {"a": 1}}]'),
    ("tags", '["17", null, "-", "{", "null"]'),
    ("counts", "[null, 1]"),
    ("prices", "{}"),
    ("prices", '{"eur": null}'),
    ("labels", '{"a": null, "b": "{}"}'),
    ("moments", '[null, "2026-11-20 08:15:30"]'),
    ("grid", "[[], null, [null]]"),
    ("by_day", '{"monday": [], "friday": null}'),
    ("anything", '[{"value": null}, {}, null]'),
]


def _with(spark: SparkSession, cases: list[tuple[str, str]]) -> Found:
    """Parse the order with each of the values in the place of its own, and each of them in an order without the rest."""
    whole = {name: json.dumps(value) for name, value in ORDER.items()}
    payloads = [_text({**whole, name: value}) for name, value in cases]
    payloads += [_text({name: value}) for name, value in cases]
    return parse(spark, payloads, FIELDS)


def _text(values: dict[str, str]) -> bytes:
    return ("{" + ", ".join(f'"{name}": {value}' for name, value in values.items()) + "}").encode()


@pytest.mark.whole
def test_a_value_within_a_list_or_a_map_is_of_its_type_or_the_payload_is_refused(
    spark: SparkSession,
) -> None:
    """Neither rounded, nor a text for a number, nor the text of an object: at every depth, with the other fields and without."""
    found = problems(_with(spark, WRONG))

    seen = dict(zip([*WRONG, *[(*each, "alone") for each in WRONG]], found, strict=True))
    assert {case: problem for case, problem in seen.items() if problem != "wrong_type"} == {}


@pytest.mark.whole
def test_what_is_absent_or_null_within_a_list_or_a_map_is_no_problem_of_the_payload(
    spark: SparkSession,
) -> None:
    """A rule decides what may be missing; a text that looks like something else is a text."""
    found = _with(spark, RIGHT)

    assert dict(zip([*RIGHT, *RIGHT], problems(found), strict=False)) == dict.fromkeys(RIGHT)
    assert problems(found) == [None] * 2 * len(RIGHT)


@pytest.mark.slow
def test_what_is_right_is_read_as_it_was_sent(spark: SparkSession) -> None:
    """To the last digit, in its order, under its name."""
    (row,) = parse(spark, [json.dumps(ORDER).encode()], FIELDS)

    assert row["_problem"] is None
    assert row["items"] == [
        {"unit_price": Decimal("9.99"), "sku": "17"},
        {"unit_price": Decimal("1.00"), "sku": "true"},
    ]
    assert row["tags"] == ORDER["tags"]
    assert row["prices"] == {"eur": Decimal("1.50"), "usd": Decimal("2.00")}
    assert row["labels"] == ORDER["labels"]
    assert row["grid"] == [[Decimal("1.5"), Decimal("2.0")], [Decimal("0.1")]]
    assert row["by_day"] == {"monday": [{"unit_price": Decimal("3.25"), "sku": "s"}]}
    (moment,) = row["moments"]
    assert moment.astimezone(UTC) == datetime(2026, 11, 20, 8, 15, 30, 123_000, tzinfo=UTC)


@pytest.mark.whole
@pytest.mark.parametrize(
    "kind",
    [
        ArrayType(DecimalType(16, 2)),
        MapType(StringType(), DecimalType(16, 2)),
        ArrayType(StructType().add("x", DecimalType(38, 2))),
    ],
)
def test_a_decimal_that_a_double_cannot_hold_is_refused_within_a_list_too(
    spark: SparkSession, kind: DataType
) -> None:
    """It would be right up to a length, and wrong without a word beyond."""
    with pytest.raises(DefinitionError, match="up to 15 digits"):
        parse_json(frame(spark, []), StructType().add("values", kind))


@pytest.mark.whole
def test_a_list_that_needs_no_second_look_is_read_by_the_first_parse_alone(
    spark: SparkSession,
) -> None:
    """Numbers of a list are of their type by the parser's own word."""
    fields = StructType().add("counts", ArrayType(LongType())).add("x", ArrayType(DoubleType()))

    found = parse(spark, [b'{"counts": [1, null], "x": [1.5, 2]}', b'{"counts": ["1"]}'], fields)

    assert problems(found) == [None, "wrong_type"]
    assert (found[0]["counts"], found[0]["x"]) == ([1, None], [1.5, 2.0])
