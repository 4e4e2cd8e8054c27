"""A payload of any version of its schema becomes the declared fields, or has a reason."""

import base64
import json
from collections.abc import Mapping
from datetime import UTC, datetime
from decimal import Decimal
from io import BytesIO
from typing import Any

import fastavro
import pytest
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory, timestamp_pb2
from google.protobuf.message import Message
from pyspark.sql import SparkSession
from pyspark.sql.types import (
    ArrayType,
    DecimalType,
    DoubleType,
    LongType,
    MapType,
    StringType,
    StructType,
    TimestampType,
)

from strandline.core.errors import DefinitionError
from strandline.core.parse_registered import registered
from strandline.core.routes import Format, Reference, WriterSchema, schemas_from
from strandline.core.topic import Parse
from tests.support.payloads import parse, problems
from tests.support.shapes import ORDER as FIELDS

AT = datetime(2026, 11, 20, 8, 15, 30, 123000, tzinfo=UTC)
MONEY = {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}
MICROS = {"type": "long", "logicalType": "timestamp-micros"}
AVRO = {
    "type": "record",
    "name": "order",
    "fields": [
        {"name": "id", "type": "string"},
        {"name": "count", "type": ["null", "int"]},
        {"name": "cost", "type": MONEY},
        {"name": "at", "type": MICROS},
        {"name": "note", "type": "string", "default": ""},
    ],
}
JSON = {
    "type": "object",
    "properties": {"id": {"type": "string"}, "count": {"type": ["integer", "null"]}},
    "required": ["id"],
}
ORDER = {"id": "a", "count": 17, "cost": Decimal("12.34"), "at": AT, "note": "x"}


def head(number: int) -> bytes:
    return b"\0" + number.to_bytes(4, "big")


def avro_bytes(schema: Mapping[str, Any], record: Mapping[str, Any], number: int = 1) -> bytes:
    stream = BytesIO()
    fastavro.schemaless_writer(stream, fastavro.parse_schema(dict(schema)), record)
    return head(number) + stream.getvalue()


def as_schema(text: object, number: int = 1, kind: Format = Format.AVRO) -> WriterSchema:
    return WriterSchema(number=number, kind=kind, text=json.dumps(text))


def read(
    spark: SparkSession,
    payloads: list[bytes | None],
    *schemas: WriterSchema,
    fields: StructType = FIELDS,
    with_: Parse | None = None,
) -> list[dict[str, Any]]:
    known = {each.number: each for each in schemas}
    with schemas_from(known.get):
        return parse(spark, payloads, fields, with_ or registered())


@pytest.mark.whole
def test_versions_in_one_batch_become_the_declared_fields(spark: SparkSession) -> None:
    """A field that was added later, one that was removed, and a promoted one: each by its payload's own schema."""
    older = {**AVRO, "fields": AVRO["fields"][:2]}
    newer_fields = [
        {"name": "id", "type": "bytes"},
        {"name": "count", "type": "long"},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "added", "type": {"type": "array", "items": "int"}},
    ]
    newer = {**AVRO, "fields": newer_fields}
    record = {"id": b"c", "count": 1 << 40, "at": AT, "added": [1]}
    payloads = [
        avro_bytes(older, {"id": "b", "count": None}, 2),
        avro_bytes(AVRO, ORDER),
        avro_bytes(newer, record, 3),
    ]

    found = read(
        spark,
        payloads,
        *(as_schema(each, number) for number, each in ((1, AVRO), (2, older), (3, newer))),
        with_=registered(defaults={"cost": Decimal("0.50"), "count": 9}),
    )

    assert problems(found) == [None] * 3
    rows = [tuple(row[name] for name in FIELDS.fieldNames()) for row in found]
    moment = AT.replace(tzinfo=None)
    assert rows == [
        ("b", None, Decimal("0.50"), None),
        ("a", 17, Decimal("12.34"), moment),
        ("c", 1 << 40, Decimal("0.50"), moment),
    ]


@pytest.mark.whole
def test_what_is_no_payload_of_a_known_schema_has_its_reason_and_no_value(
    spark: SparkSession,
) -> None:
    clean = avro_bytes(AVRO, ORDER)
    wrong = {**AVRO, "fields": [{"name": "id", "type": "long"}]}
    long = {**AVRO, "fields": [{"name": "cost", "type": {**MONEY, "scale": 3}}]}
    malformed = [None, b"", b"\0\0\0\0", b'{"id": "a"}', clean + b"\0", b"\1" + clean[1:]]
    malformed += [clean[:length] for length in range(5, len(clean))]
    payloads = [
        *malformed,
        head(77) + clean[5:],
        avro_bytes(wrong, {"id": 5}, 2),
        avro_bytes(long, {"cost": Decimal("0.001")}, 3),
    ]

    found = read(spark, payloads, as_schema(AVRO), as_schema(wrong, 2), as_schema(long, 3))

    assert problems(found) == ["malformed"] * len(malformed) + [
        "unknown_schema",
        "wrong_type",
        "wrong_type",
    ]
    assert all(row[name] is None for row in found for name in FIELDS.fieldNames())


@pytest.mark.whole
def test_json_is_read_strictly_and_by_its_schema(spark: SparkSession) -> None:
    clean = b'{"id": "a", "count": 17, "cost": 12.34, "at": "2026-11-20T08:15:30.123Z", "more": {}}'
    broken = [b"{'id': 'a'}", b'{"id": "a"} x', b'{"count": 1}', b'{"id": 5}', b"[]", b"\xff"]
    wrong = [b'{"id": "a", "at": "2026-11-20"}', b'{"id": "a", "cost": 1.234}']

    found = read(
        spark,
        [head(1) + each for each in (clean, *broken, *wrong)],
        as_schema(JSON, kind=Format.JSON),
    )

    assert problems(found) == [None, *["malformed"] * len(broken), *["wrong_type"] * len(wrong)]
    assert (found[0]["count"], found[0]["cost"]) == (17, Decimal("12.34"))
    assert found[0]["at"] == AT.replace(tzinfo=None)


def file_of(version: int) -> descriptor_pb2.FileDescriptorProto:
    """Return the file of a message; the second version has one more field, and the first one of them is gone."""
    file = descriptor_pb2.FileDescriptorProto(name="order.proto", package="shop", syntax="proto3")
    file.dependency.append("google/protobuf/timestamp.proto")
    other, order = file.message_type.add(name="Other"), file.message_type.add(name="Order")
    other.field.add(name="x", number=1, type=9, label=1)
    order.field.add(name="id", number=1, type=9, label=1)
    if version == 1:
        order.field.add(name="count", number=2, type=5, label=1)
    at = order.field.add(name="at", number=3, type=11, label=1)
    at.type_name = ".google.protobuf.Timestamp"
    if version > 1:
        line = order.nested_type.add(name="Line")
        line.field.add(name="sku", number=1, type=9, label=1)
        lines = order.field.add(name="lines", number=4, type=11, label=3)
        lines.type_name = ".shop.Order.Line"
    return file


def message_of(file: descriptor_pb2.FileDescriptorProto, name: str) -> Message:
    pool = descriptor_pool.DescriptorPool()
    pool.AddSerializedFile(timestamp_pb2.DESCRIPTOR.serialized_pb)
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName(name))()


def protobuf_schema(version: int) -> WriterSchema:
    text = base64.b64encode(file_of(version).SerializeToString()).decode()
    return WriterSchema(number=version, kind=Format.PROTOBUF, text=text)


@pytest.mark.whole
def test_protobuf_is_read_by_the_message_that_the_payload_names(spark: SparkSession) -> None:
    """Its place in the file comes before the message: the second of the file, or one within it."""
    lines = ArrayType(StructType().add("sku", StringType()))
    fields = StructType().add("id", StringType()).add("count", LongType())
    fields = fields.add("at", TimestampType()).add("lines", lines).add("sku", StringType())
    first, second = (message_of(file_of(version), "shop.Order") for version in (1, 2))
    for each in (first, second):
        each.id = "a"
        each.at.FromDatetime(AT)
    first.count = 17
    second.lines.add(sku="s")
    line = message_of(file_of(2), "shop.Order.Line")
    line.sku = "inner"
    order, inner = b"\2\2", b"\4\2\0"  # lengths and places, as numbers with a sign
    payloads = [
        head(1) + order + first.SerializeToString(),
        head(2) + order + second.SerializeToString(),
        head(2) + inner + line.SerializeToString(),
        head(2) + b"\0",
        head(2) + b"\2\x0c" + second.SerializeToString(),
        head(1) + order + first.SerializeToString()[:-1],
        head(1),
    ]

    found = read(spark, payloads, protobuf_schema(1), protobuf_schema(2), fields=fields)

    assert problems(found) == [*[None] * 4, *["malformed"] * 3]
    rows = [tuple(row[name] for name in fields.fieldNames()) for row in found[:4]]
    moment = AT.replace(tzinfo=None)
    assert rows == [
        ("a", 17, moment, None, None),
        ("a", None, moment, [{"sku": "s"}], None),
        (None, None, None, None, "inner"),
        (None, None, None, None, None),
    ]


@pytest.mark.whole
def test_schemas_may_import_others(spark: SparkSession) -> None:
    place = {
        "type": "record",
        "name": "Place",
        "fields": [{"name": "site", "type": "string"}],
    }
    avro = {**AVRO, "fields": [{"name": "at", "type": "Place"}]}
    by_place = {"type": "object", "properties": {"at": {"$ref": "place.json"}}}
    inner = {"type": "object", "required": ["site"]}
    stream = BytesIO()
    named: dict[str, Any] = {}
    fastavro.parse_schema(place, named_schemas=named)
    parsed = fastavro.parse_schema(dict(avro), named_schemas=named)
    fastavro.schemaless_writer(stream, parsed, {"at": {"site": "north"}})
    schemas = (
        WriterSchema(
            number=1,
            kind=Format.AVRO,
            text=json.dumps(avro),
            references=(Reference("Place", json.dumps(place)),),
        ),
        WriterSchema(
            number=2,
            kind=Format.JSON,
            text=json.dumps(by_place),
            references=(Reference("place.json", json.dumps(inner)),),
        ),
    )
    payloads = [head(1) + stream.getvalue(), head(2) + b'{"at": {"site": "north"}}']
    fields = StructType().add("at", StructType().add("site", StringType()))

    found = read(spark, [*payloads, head(2) + b'{"at": {}}'], *schemas, fields=fields)

    assert problems(found) == [None, None, "malformed"]
    assert [row["at"] for row in found[:2]] == [{"site": "north"}] * 2


def test_lists_maps_and_enums_are_read(spark: SparkSession) -> None:
    kind = {"type": "enum", "name": "Kind", "symbols": ["HOT", "COLD"]}
    shape = {
        **AVRO,
        "fields": [
            {"name": "kinds", "type": {"type": "array", "items": kind}},
            {"name": "sums", "type": {"type": "map", "values": "float"}},
        ],
    }
    fields = StructType().add("kinds", ArrayType(StringType()))
    fields = fields.add("sums", MapType(StringType(), DoubleType()))

    (row,) = read(
        spark,
        [avro_bytes(shape, {"kinds": ["HOT", "COLD"], "sums": {"x": 0.5}})],
        as_schema(shape),
        fields=fields,
    )

    assert (row["kinds"], row["sums"]) == (["HOT", "COLD"], {"x": 0.5})


def test_a_default_of_another_type_is_refused_where_it_is_declared(spark: SparkSession) -> None:
    with pytest.raises(DefinitionError, match="the default of count"):
        read(spark, [b""], with_=registered(defaults={"count": "none"}))
    with pytest.raises(DefinitionError, match="which no payload"):
        read(spark, [b""], fields=StructType().add("x", MapType(LongType(), DecimalType(9, 2))))
