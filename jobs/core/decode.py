"""Payloads of a writer's schema to values of Python: Avro, Protobuf and JSON, each by the library that its field uses.

A decoder gets what follows the schema's id, and returns a record by field names, in which what a payload does not have is
absent. It accepts a payload only if it is exactly one record of its schema:

* Avro's library leaves all that follows a record unread, so the end is compared.
* Protobuf takes nearly any bytes: a field of another number is kept as unknown, as its evolution demands. So bytes that are
  cut off are refused, and bytes of another schema often are not. A field without presence always has a value.
* JSON is decoded strictly and validated by its schema, where jsonschema-rs needs 3 µs for a record of eight fields and the
  library in Python 260.
"""

import base64
import json
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC
from importlib import import_module
from io import BytesIO
from typing import Any, TypeAlias

import orjson
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message import DecodeError, Message

from jobs.core.writer_schema import Format, WriterSchema

Record: TypeAlias = Mapping[str, Any]
Decode: TypeAlias = Callable[[bytes], Record]

TIMESTAMP = "google.protobuf.Timestamp"
WRAPPERS = frozenset(
    f"google.protobuf.{kind}Value"
    for kind in ("Bool", "Bytes", "Double", "Float", "Int32", "Int64", "String", "UInt32", "UInt64")
)
CONTINUES, LOW = 0x80, 0x7F
MOST_INDEXES = 64
"""Levels of messages within messages; no schema has so many."""


class MalformedError(ValueError):
    """Bytes that are not exactly one record of their schema."""


def decoder(schema: WriterSchema) -> Decode:
    """Return a function that decodes payloads of a schema."""
    match schema.kind:
        case Format.AVRO:
            return _avro(schema)
        case Format.PROTOBUF:
            return _protobuf(schema)
        case Format.JSON:
            return _json(schema)


def _avro(schema: WriterSchema) -> Decode:
    import fastavro  # noqa: PLC0415  # part of an extra

    named: dict[str, Any] = {}
    for each in schema.references:
        fastavro.parse_schema(json.loads(each.text), named_schemas=named)
    writer = fastavro.parse_schema(json.loads(schema.text), named_schemas=named)

    def decode(payload: bytes) -> Record:
        stream = BytesIO(payload)
        try:
            found = fastavro.schemaless_reader(stream, writer, None)
        except Exception as error:  # the library raises whatever its parts raise
            raise MalformedError from error
        if stream.tell() != len(payload) or not isinstance(found, dict):
            raise MalformedError
        return found

    return decode


def _json(schema: WriterSchema) -> Decode:
    import jsonschema_rs  # noqa: PLC0415  # part of an extra

    known = [(each.name, json.loads(each.text)) for each in schema.references]
    registry = jsonschema_rs.Registry(known) if known else None
    validator = jsonschema_rs.validator_for(json.loads(schema.text), registry=registry)

    def decode(payload: bytes) -> Record:
        try:
            found = orjson.loads(payload)
        except orjson.JSONDecodeError as error:
            raise MalformedError from error
        if not isinstance(found, dict) or not validator.is_valid(found):
            raise MalformedError
        return found

    return decode


def _protobuf(schema: WriterSchema) -> Decode:
    pool = descriptor_pool.DescriptorPool()
    for text in (*(each.text for each in schema.references), schema.text):
        file = descriptor_pb2.FileDescriptorProto.FromString(base64.b64decode(text))
        for name in file.dependency:
            _lend(name, pool)
        pool.Add(file)
    messages: dict[tuple[int, ...], Callable[[], Message]] = {}

    def decode(payload: bytes) -> Record:
        indexes, start = _indexes(payload)
        made = messages.get(indexes)
        if made is None:
            kind = pool.FindMessageTypeByName(_full_name(file, indexes))
            made = messages.setdefault(indexes, message_factory.GetMessageClass(kind))
        message = made()
        try:
            message.ParseFromString(payload[start:])
        except DecodeError as error:
            raise MalformedError from error
        return _record(message)

    return decode


def _lend(name: str, pool: descriptor_pool.DescriptorPool) -> None:
    """Give a pool one of Google's own files, which no registry keeps, unless it has the file.

    Raises:
        LookupError: It is no such file, or a package that is not installed has it.
    """
    try:
        pool.FindFileByName(name)
    except KeyError as absent:
        if not name.startswith("google/"):
            raise LookupError(f"the file {name} is not among its references") from absent
        own = import_module(name.removesuffix(".proto").replace("/", ".") + "_pb2").DESCRIPTOR
        for each in own.dependencies:
            _lend(each.name, pool)
        pool.AddSerializedFile(own.serialized_pb)


def _indexes(payload: bytes) -> tuple[tuple[int, ...], int]:
    """Read which message of the schema a payload is: the way to it, level by level, and where the message begins."""
    numbers = _zigzag(payload)
    count, at = next(numbers)
    if count == 0:
        return (0,), at  # short for the first message of the file
    if not 0 < count <= MOST_INDEXES:
        raise MalformedError
    found = []
    for _ in range(count):
        number, at = next(numbers)
        found.append(number)
    return tuple(found), at


def _zigzag(payload: bytes) -> Iterator[tuple[int, int]]:
    """Yield numbers of variable length with a sign, and where each ends."""
    value = shift = 0
    for at, byte in enumerate(payload[: 10 * MOST_INDEXES], start=1):
        value |= (byte & LOW) << shift
        shift += 7
        if not byte & CONTINUES:
            yield (value >> 1) ^ -(value & 1), at
            value = shift = 0
    raise MalformedError


def _full_name(file: descriptor_pb2.FileDescriptorProto, indexes: tuple[int, ...]) -> str:
    names = [file.package] if file.package else []
    messages = file.message_type
    for index in indexes:
        if not 0 <= index < len(messages):
            raise MalformedError
        names.append(messages[index].name)
        messages = messages[index].nested_type
    return ".".join(names)


def _record(message: Message) -> dict[str, Any]:
    found = {}
    for field in message.DESCRIPTOR.fields:
        if field.has_presence and not message.HasField(field.name):
            if field.has_default_value:
                found[field.name] = field.default_value
            continue
        value = getattr(message, field.name)
        if not field.is_repeated:
            found[field.name] = _value(field, value)
        elif _is_map(field.message_type):
            item = field.message_type.fields_by_name["value"]
            found[field.name] = {str(key): _value(item, each) for key, each in value.items()}
        else:
            found[field.name] = [_value(field, each) for each in value]
    return found


def _is_map(kind: Descriptor | None) -> bool:
    return kind is not None and kind.GetOptions().map_entry


def _value(field: FieldDescriptor, value: Any) -> Any:  # noqa: ANN401  # whatever the field holds
    if field.enum_type is not None:
        named = field.enum_type.values_by_number.get(value)
        return named.name if named else str(value)
    kind = field.message_type
    if kind is None:
        return value
    if kind.full_name == TIMESTAMP:
        return _moment(value)
    if kind.full_name in WRAPPERS:
        return value.value
    return _record(value)


def _moment(value: Any) -> Any:  # noqa: ANN401  # a message of Protobuf's own
    try:
        return value.ToDatetime(tzinfo=UTC)
    except (ValueError, OverflowError) as error:
        raise MalformedError from error
