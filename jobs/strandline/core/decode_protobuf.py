"""Messages of Protobuf to values of Python, by the description of their file that the registry serializes.

Apart from the other formats, because the library takes a while to import, and most programs decode nothing.
"""

import base64
from collections.abc import Callable, Iterator
from datetime import UTC
from importlib import import_module
from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message import DecodeError, Message

from strandline.core.routes import Decode, MalformedError, Record, WriterSchema

TIMESTAMP = "google.protobuf.Timestamp"
WRAPPERS = frozenset(
    f"google.protobuf.{kind}Value"
    for kind in ("Bool", "Bytes", "Double", "Float", "Int32", "Int64", "String", "UInt32", "UInt64")
)
CONTINUES, LOW = 0x80, 0x7F
MOST_INDEXES = 64
"""Levels of messages within messages; no schema has so many."""


def protobuf(schema: WriterSchema) -> Decode:
    """Return a function that decodes messages of a schema."""
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
