"""Payloads of a writer's schema to values of Python: Avro, Protobuf and JSON, each by the library that its field uses.

A decoder gets what follows the schema's id, and returns a record by field names, in which what a payload does not have is
absent. It accepts a payload only if it is exactly one record of its schema:

* Avro's library leaves all that follows a record unread, so the end is compared.
* Protobuf takes nearly any bytes: a field of another number is kept as unknown, as its evolution demands. So bytes that are
  cut off are refused, and bytes of another schema often are not. A field without presence always has a value.
* JSON is decoded strictly and validated by its schema, where jsonschema-rs needs 0.25 µs of CPU for a record of eight fields and
  the library in Python 27.
"""

import json
from io import BytesIO
from typing import Any

import orjson

from strandline.core.formats.writer_schema import (
    Decode,
    Format,
    MalformedError,
    Record,
    WriterSchema,
)


def decoder(schema: WriterSchema) -> Decode:
    """Return a function that decodes payloads of a schema."""
    match schema.kind:
        case Format.AVRO:
            return _avro(schema)
        case Format.PROTOBUF:
            from strandline.core.formats.decode_protobuf import protobuf  # noqa: PLC0415  # as it says

            return protobuf(schema)
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
