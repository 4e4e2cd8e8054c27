"""What a payload has beside its declaration is noted on the way, in bounded lines, and a payload as declared has none."""

import json
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql.types import (
    ArrayType,
    DateType,
    DecimalType,
    LongType,
    MapType,
    StringType,
    StructType,
    TimestampType,
)

from strandline.core.errors import DefinitionError
from strandline.core.parse import (
    DRIFT,
    Difference,
    Reading,
    difference,
    parse_csv,
    parse_raw,
    reading,
)
from strandline.core.table import Judged
from tests.support.events import frame
from tests.support.payloads import CLEAN, parse

ITEM = StructType().add("sku", StringType()).add("price", DecimalType(8, 2))
FIELDS = (
    StructType()
    .add("id", StringType())
    .add("amount", LongType())
    .add("at", TimestampType())
    .add("day", DateType())
    .add("meta", StructType().add("app", StructType().add("name", StringType())))
    .add("items", ArrayType(ITEM))
    .add("labels", MapType(StringType(), StructType().add("x", LongType())))
)
MEGABYTE = 1_000_000


def lines(spark: SparkSession, *payloads: object, how: Reading | None = None) -> list[list[str]]:
    """Return the lines of payloads."""
    sent = [each if isinstance(each, bytes) else json.dumps(each).encode() for each in payloads]
    with reading(how or Reading()):
        found = parse(spark, sent, FIELDS)
    return [(row[DRIFT] or "").split("\n") if row[DRIFT] is not None else [] for row in found]


def test_a_payload_as_declared_has_no_line(spark: SparkSession) -> None:
    """Nor has one that lacks fields, has NULL in one that is unknown, or is no JSON."""
    whole = {"id": "1", "amount": 3, "meta": {"app": {"name": "a"}}, "items": [{"sku": "s"}]}
    assert lines(spark, whole, {}, {"new": None}, b"{", b"", CLEAN[:-1]) == [[]] * 6


def test_undeclared_fields_are_named_by_their_paths(spark: SparkSession) -> None:
    """At any depth, with the kind of their values; in lists and maps once, however many have them."""
    payload = {
        "id": "1",
        "text": "x",
        "whole": 1,
        "part": 1.5,
        "yes": True,
        "list": [1],
        "object": {"inside": {"is": "not named"}},
        "meta": {"app": {"version": "7"}, "host": "h"},
        "items": [{"sku": "s", "gift": True}, {"gift": False}, {"gift": "no"}],
        "labels": {"a": {"y": 1}, "b": {"y": 2}},
    }
    (found,) = lines(spark, payload)
    assert found == [
        "+text text",
        "+integer whole",
        "+number part",
        "+boolean yes",
        "+list list",
        "+object object",
        "+text meta.app.version",
        "+text meta.host",
        "+boolean items[].gift",
        "+text items[].gift",
        "+integer labels{}.y",
    ]


@pytest.mark.parametrize(
    ("field", "value", "line"),
    [
        ("amount", "7", "!text bigint amount"),
        ("amount", 1.5, "!number bigint amount"),
        ("amount", 2**70, "!integer bigint amount"),
        ("id", 7, "!integer string id"),
        ("id", {"a": 1}, "!object string id"),
        ("at", "soon", "!text timestamp at"),
        ("at", 1795150000, "!integer timestamp at"),
        ("day", "soon", "!text date day"),
        ("meta", {"app": "x"}, "!text struct meta.app"),
        ("items", {"sku": "s"}, "!object array items"),
        ("items", [{"price": "1.50"}], "!text decimal(8,2) items[].price"),
        ("items", [{"price": 1.555}], "!number decimal(8,2) items[].price"),
        ("labels", [1], "!list map labels"),
    ],
)
def test_a_value_of_another_type_is_named_with_both(
    spark: SparkSession, field: str, value: object, line: str
) -> None:
    """What was declared, and what came; its record is no row, unless such values are dropped."""
    sent = {"id": "1", "amount": 3, "at": "2026-11-20T08:15:30Z", field: value, "new": 1}
    payload = json.dumps(sent).encode()
    (held,) = parse(spark, [payload], FIELDS)
    with reading(Reading(drops=True)):
        (kept,) = parse(spark, [payload], FIELDS)

    assert held["_problem"] == "wrong_type"
    assert held[DRIFT].split("\n") == [line, "+integer new"]
    assert kept["_problem"] is None
    assert kept[DRIFT].split("\n") == [line, "+integer new"]
    lacking = kept["items"][0]["price"] if isinstance(value, list) and field == "items" else None
    if field not in {"meta", "items"}:
        lacking = kept[field]
    assert lacking is None
    others = {"id": "1", "amount": 3}
    others.pop(field, None)
    assert {name: kept[name] for name in others} == others


def test_lines_are_bounded_in_number_and_in_letters(spark: SparkSession) -> None:
    """A hundred thousand names, and a name of a megabyte, which is none that JSON's reader takes."""
    many = {f"n{number}": number for number in range(100_000)}
    long, longest = {"n" * 49_000: 1}, {"n" * MEGABYTE: 1}
    found = lines(spark, many, long, longest)
    assert len(found[0]) == 33
    assert found[0][-1] == f"~{100_000 - 32}"
    assert found[1] == ["+integer `" + "n" * 100 + "…`"]
    assert found[2] == []


def test_a_name_breaks_no_line_and_moves_no_cursor(spark: SparkSession) -> None:
    """What ends a line, turns text around or is a sign of a path is between backticks."""
    odd = {
        "a\nb": 1,
        "\x1b[2J": 1,
        "a.b": 1,
        "": 1,
        "\u202egnp": 1,
        "`": 1,
        "größe": 1,
        "+text x": 1,
    }
    (found,) = lines(spark, odd)
    assert found == [
        "+integer `a\ufffdb`",
        "+integer `\ufffd[2J`",
        "+integer `a.b`",
        "+integer ``",
        "+integer `\ufffdgnp`",
        "+integer ````",
        "+integer `größe`",
        "+integer `+text x`",
    ]


def test_what_is_left_on_purpose_is_not_noted(spark: SparkSession) -> None:
    """A field with all below it, in a list and in an object."""
    payload = {
        "debug": {"x": 1},
        "debugger": 1,
        "meta": {"host": "h", "more": 1},
        "items": [{"n": 1}],
    }
    how = Reading(leaves=("debug", "meta", "items[].n"))
    assert lines(spark, payload, how=how) == [["+integer debugger"]]
    assert lines(spark, payload, how=Reading(notes=False)) == [[]]


@pytest.mark.parametrize("leaf", ["items", "labels", "$schema", "`a.b`", "meta.`$x`"])
def test_all_below_what_is_left_is_left(spark: SparkSession, leaf: str) -> None:
    """Within a list and a map as well, and whether a name is between backticks or not."""
    fields = StructType.fromDDL(
        "items array<struct<sku:string>>, labels map<string,struct<unit:string>>, meta struct<host:string>"
    )
    payload = json.dumps(
        {
            "items": [{"note": 1}],
            "labels": {"x": {"unit": "u", "more": 1}},
            "$schema": "s",
            "a.b": {"c": 1},
            "meta": {"$x": 1},
        }
    ).encode()
    (whole,) = parse(spark, [payload], fields)
    with reading(Reading(leaves=(leaf,))):
        (row,) = parse(spark, [payload], fields)

    gone = {*whole[DRIFT].split("\n")} - {*row[DRIFT].split("\n")}
    assert len(whole[DRIFT].split("\n")) == 5
    assert len(gone) == 1
    assert leaf.strip("`").split("`")[-1].split(".")[-1] in gone.pop()


def test_an_undeclared_field_is_noted_behind_any_number_of_wrong_types(
    spark: SparkSession,
) -> None:
    """By it a record is held or passed over, whatever else its producer sends before it."""
    fields = StructType()
    for number in range(40):
        fields = fields.add(f"n{number}", LongType())
    payload = json.dumps(
        {f"n{number}": "x" for number in range(40)} | {"new": 1, "more": 2}
    ).encode()
    with reading(Reading(drops=True)):
        (row,) = parse(spark, [payload], fields)

    found = row[DRIFT].split("\n")
    assert (row["_problem"], len(found)) == (None, 34)
    assert found[-2:] == ["+integer new", "~9"]


@pytest.mark.parametrize(
    "kind", ["boolean", "date", "int", "smallint", "float", "binary", "bigint", "string"]
)
def test_an_object_in_place_of_a_value_is_dropped_as_one(spark: SparkSession, kind: str) -> None:
    """Of each type: the record is a row all the same."""
    fields = StructType.fromDDL(f"id string, x {kind}, last string")
    sent = [
        json.dumps({"id": "1", "x": each, "last": "l"}).encode() for each in ({"a": [1]}, [1, {}])
    ]
    with reading(Reading(drops=True)):
        rows = parse(spark, sent, fields)
    held = parse(spark, sent, fields)

    assert [(row["_problem"], row["x"], row["last"]) for row in rows] == [(None, None, "l")] * 2
    assert [row[DRIFT] for row in rows] == [f"!object {kind} x", f"!list {kind} x"]
    assert {row["_problem"] for row in held} == {"wrong_type"}


def test_a_line_is_read_back() -> None:
    """Both kinds, and a path with spaces."""
    assert difference("+text meta.app") == Difference("meta.app", "text")
    assert difference("!text decimal(8,2) `a b`") == Difference("`a b`", "text", "decimal(8,2)")
    assert difference("~7") is None
    assert str(difference("!text bigint amount")) == "amount (text, declared bigint)"


def test_other_formats_say_nothing_of_it(spark: SparkSession) -> None:
    """The column is there, because a function passes it on."""
    from pyspark.sql.types import BinaryType  # noqa: PLC0415

    rows = frame(spark, [])
    assert DRIFT in parse_csv(rows, StructType().add("id", StringType())).columns
    assert DRIFT in parse_raw(rows, StructType().add("payload", BinaryType())).columns


@pytest.mark.parametrize(
    ("declared", "says"),
    [
        ({"on_new_field": "evolv"}, "on_new_field='evolv'"),
        ({"on_wrong_type": "say"}, "on_wrong_type='say'"),
        ({"leaves": ("a", "")}, "leaves="),
        ({"leaves": 7}, "leaves=7"),
    ],
)
def test_a_choice_that_is_none_is_refused_when_the_module_is_read(
    declared: dict[str, Any], says: str
) -> None:
    """With what it may be."""
    from fleet.silver import dhcp_events  # noqa: PLC0415

    known = dhcp_events.TABLE
    with pytest.raises(DefinitionError, match="declares") as error:
        Judged(
            name=known.name,
            reads=known.reads,
            transform=known.transform,
            key=known.key,
            event_at="event_at",
            **declared,
        )
    assert says in str(error.value)
