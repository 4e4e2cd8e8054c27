"""Payloads of a schema registry to columns: each is read by the schema that it was written with, whatever version it is.

Confluent's wire format is a zero byte, the id of the writer's schema in four bytes, for Protobuf the place of the message in
its file, and the record.

Why a Python function and not ``from_avro`` for each id: a stream's plan is fixed when it starts, and the ids of tomorrow are
not known then. The function looks an id up when it first meets it. Its price, over 400,000 readings of seven fields: 6.6 µs of
CPU a record for Avro, 3.7 times ``from_avro`` of one schema, and 5.2 for JSON Schema (tests/benchmarks/registered_payloads.py).

A payload is no row for one of three reasons. ``malformed``: it is not in the wire format, or not exactly one record of its
schema. ``unknown_schema``: no registry knew its id when it came into the lake. ``wrong_type``: a value is not of the declared
type and cannot become it without loss.

**Decoded**: each format by the library that its field uses. A decoder gets what follows the schema's id, and returns a record by
field names, in which what a payload does not have is absent. It accepts a payload only if it is exactly one record of its schema:

* Avro's library leaves all that follows a record unread, so the end is compared.
* Protobuf takes nearly any bytes: a field of another number is kept as unknown, as its evolution demands. So bytes that are
  cut off are refused, and bytes of another schema often are not. A field without presence always has a value.
* JSON is decoded strictly and validated by its schema, where jsonschema-rs needs 0.25 µs of CPU for a record of eight fields and
  the library in Python 27.

**Evolved**: the declared fields are the reader's schema, and a payload of any version becomes them: what was added, removed or
promoted since it was written. One set of rules for all formats, those of Avro's schema resolution, because the declared fields
are one thing and must not differ with the format of a payload:

* A field that the writer did not have is the declared default, or NULL.
* A field that is not declared is left out; bronze has it.
* An integer becomes a wider integer, a decimal or a floating-point number; a number that does not fit is no value, and
  neither is one that a floating-point number has only rounded: 2 to the power of 53 and 1 as a double, 0.1 as a float.
* A text becomes bytes, and bytes that are UTF-8 become a text.

Why not the reader's schema of the Avro library: it knows Avro alone, and for it a declared field without a default that the
writer did not have is an error. Here such a field is NULL, and a rule of the table says whether it may be.
tests/core/test_evolution.py compares both on the promotions that both know.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from decimal import Context, Decimal, InvalidOperation
from functools import lru_cache
from io import BytesIO
from math import isnan
from struct import Struct
from typing import Any, TypeAlias
from uuid import UUID

import orjson
import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.pandas.functions import arrow_udf
from pyspark.sql.pandas.types import to_arrow_type
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    ByteType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    MapType,
    ShortType,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from strandline.core.errors import DefinitionError
from strandline.core.parse import with_drift
from strandline.core.routes import (
    Decode,
    Format,
    MalformedError,
    Record,
    Schemas,
    WriterSchema,
    schemas_of_today,
)


def decoder(schema: WriterSchema) -> Decode:
    """Return a function that decodes payloads of a schema."""
    match schema.kind:
        case Format.AVRO:
            return _avro(schema)
        case Format.PROTOBUF:
            from strandline.core.decode_protobuf import protobuf  # noqa: PLC0415  # as it says

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


Value: TypeAlias = Any
Turn: TypeAlias = Callable[[Value], Value]
"""From a decoded value, which is not None, to one of the declared type."""

BITS = {ByteType: 8, ShortType: 16, IntegerType: 32, LongType: 64}
DOUBLE_DIGITS = 15
SINGLE = Struct("f")
DAY, MOMENT = (4, 7), (10, 13)
"""Where an ISO text has the dashes of a date; the letter between date and time, and the colon after the hour."""


class WrongTypeError(ValueError):
    """A value that is not of the declared type, and cannot become it without loss."""


def evolved(fields: StructType, defaults: Mapping[str, Value], within: str = "") -> Turn:
    """Return a function from a decoded record to the declared fields.

    Args:
        fields: The declared fields.
        defaults: By the path of a field, its value where the writer did not have it.
        within: The path of the record.

    Raises:
        DefinitionError: A type cannot be declared, or a default is not of its field's type.
    """
    parts = []
    for each in fields:
        path = f"{within}{each.name}"
        turn = _turn(each.dataType, path, defaults)
        parts.append((each.name, turn, _default(path, turn, defaults)))

    def record(found: Value) -> Value:
        if not isinstance(found, Mapping):
            raise WrongTypeError
        made = {}
        for name, turn, default in parts:
            if name in found:
                value = found[name]
                made[name] = None if value is None else turn(value)
            else:
                made[name] = default
        return made

    return record


def _default(path: str, turn: Turn, defaults: Mapping[str, Value]) -> Value:
    value = defaults.get(path)
    if value is None:
        return None
    try:
        return turn(value)
    except ValueError as error:
        raise DefinitionError(
            f"the default of {path} is {value!r}, which is not of its type",
            hint="declare a default of the field's own type.",
            field=path,
        ) from error


def _turn(kind: DataType, path: str, defaults: Mapping[str, Value]) -> Turn:  # noqa: C901, PLR0911, PLR0912  # one case a type
    match kind:
        case StringType():
            return _text
        case ByteType() | ShortType() | IntegerType() | LongType():
            return _integer(BITS[type(kind)])
        case DoubleType():
            return _double
        case FloatType():
            return _float
        case BooleanType():
            return _boolean
        case BinaryType():
            return _bytes
        case DecimalType():
            return _decimal(kind)
        case TimestampType():
            return _moment
        case TimestampNTZType():
            return _local_moment
        case DateType():
            return _date
        case StructType():
            return evolved(kind, defaults, f"{path}.")
        case ArrayType():
            item = _turn(kind.elementType, f"{path}[]", defaults)
            return lambda found: [_or_none(item, each) for each in _of(list, found)]
        case MapType(keyType=StringType()):
            item = _turn(kind.valueType, f"{path}[]", defaults)
            return lambda found: [(k, _or_none(item, v)) for k, v in _of(dict, found).items()]
        case _:
            raise DefinitionError(
                f"field {path} is declared {kind.simpleString()}, which no payload of a schema registry becomes",
                hint="declare a text, a number, a boolean, bytes, a date, a time, or records, lists and maps of these.",
                field=path,
            )


def _or_none(turn: Turn, value: Value) -> Value:
    return None if value is None else turn(value)


def _of(kind: type, value: Value) -> Value:
    if not isinstance(value, kind):
        raise WrongTypeError
    return value


def _text(value: Value) -> str:
    if type(value) is str:
        return value
    match value:
        case bytes():
            return value.decode("utf-8")
        case UUID():
            return str(value)
        case _:
            raise WrongTypeError


def _bytes(value: Value) -> bytes:
    match value:
        case bytes():
            return value
        case str():
            return value.encode("utf-8")
        case _:
            raise WrongTypeError


def _boolean(value: Value) -> bool:
    return bool(_of(bool, value))


def _integer(bits: int) -> Turn:
    lowest, highest = -(1 << (bits - 1)), (1 << (bits - 1)) - 1

    def turn(value: Value) -> int:
        if type(value) is not int or not lowest <= value <= highest:
            raise WrongTypeError
        return value

    return turn


def _double(value: Value) -> float:
    if type(value) is float:
        return value
    if type(value) is int:
        try:
            double = float(value)
        except OverflowError as error:
            raise WrongTypeError from error
        if double == value:  # Python compares the two exactly
            return double
    raise WrongTypeError


def _float(value: Value) -> float:
    """Return a number that four bytes hold; Arrow would round others, and make infinity of one beyond their range."""
    double = _double(value)
    try:
        (single,) = SINGLE.unpack(SINGLE.pack(double))
    except OverflowError as error:
        raise WrongTypeError from error
    if single != double and not isnan(double):
        raise WrongTypeError
    return double


def _decimal(kind: DecimalType) -> Turn:
    """Return a function to a decimal; what would have to be rounded is refused, as in JSON (jobs/strandline/core/parse.py)."""
    step, digits = Decimal(1).scaleb(-kind.scale), kind.precision
    context = Context(prec=digits)

    def turn(value: Value) -> Decimal:
        match value:
            case bool():
                raise WrongTypeError
            case Decimal() | int():
                number = Decimal(value)
            case float() if digits <= DOUBLE_DIGITS:
                number = Decimal(repr(value))
            case _:
                raise WrongTypeError
        try:
            exact = number.quantize(step, context=context)
        except InvalidOperation as error:  # more digits than are declared, or no number
            raise WrongTypeError from error
        if exact != number:
            raise WrongTypeError
        return exact

    return turn


def _moment(value: Value) -> datetime:
    if type(value) is datetime and value.tzinfo is not None:
        return value
    if isinstance(value, str):
        value = _iso(value)
        value = value if value.tzinfo else value.replace(tzinfo=UTC)
    if not isinstance(value, datetime) or value.tzinfo is None:
        raise WrongTypeError
    return value


def _local_moment(value: Value) -> datetime:
    value = _iso(value) if isinstance(value, str) else value
    if not isinstance(value, datetime) or value.tzinfo is not None:
        raise WrongTypeError
    return value


def _iso(text: str) -> datetime:
    """Read a time; the library would also take a date alone, and a day of a week's number."""
    at, colon = MOMENT
    if len(text) <= colon or text[at] not in "T " or text[colon] != ":" or not _has_day(text):
        raise WrongTypeError
    return datetime.fromisoformat(text)


def _has_day(text: str) -> bool:
    return all(text[each] == "-" for each in DAY)


def _date(value: Value) -> date:
    if isinstance(value, str) and len(value) == len("2026-01-01") and _has_day(value):
        return date.fromisoformat(value)
    if isinstance(value, date) and not isinstance(value, datetime):
        return value
    raise WrongTypeError


MAGIC, HEAD = 0, 5
READER = "registered_payload"
"""The name of the function in Spark's plans, in which it has the type of all declared fields."""

READ, PROBLEM = "_read", "_problem"
MALFORMED, UNKNOWN_SCHEMA, WRONG_TYPE = "malformed", "unknown_schema", "wrong_type"

Verdict: TypeAlias = dict[str, Any]
"""The declared fields, and the problem."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Registered:
    """Parses payloads whose schemas are in a schema registry.

    Args:
        defaults: By the path of a declared field, its value where the writer did not have the field.
        keys: Whether the records' keys are in the wire format too, and are read.
    """

    defaults: Mapping[str, Any] = field(default_factory=dict, hash=False)
    keys: bool = False

    def __call__(self, events: DataFrame, fields: StructType) -> DataFrame:
        """Add each declared field as a column, and ``_problem``: NULL or the reason why a payload is no row.

        Args:
            events: Rows of bronze.
            fields: The declared fields.

        Raises:
            DefinitionError: A type cannot be declared, or a default is not of its field's type.
        """
        turn = evolved(fields, self.defaults)
        verdicts = StructType([*fields.fields, StructField(PROBLEM, StringType())])
        read = _reader(schemas_of_today(), verdicts, turn)
        decoded = events.withColumn(READ, read(F.col("_payload")))
        columns = {name: F.col(f"{READ}.`{name}`") for name in verdicts.fieldNames()}
        return with_drift(decoded.withColumns(columns).drop(READ))


def registered(*, defaults: Mapping[str, Any] | None = None) -> Registered:
    """Return a function that parses payloads in Confluent's wire format, of any version of their schema.

    Args:
        defaults: By the path of a declared field, such as ``meta.seq``, its value where the writer did not have the field;
            without one it is NULL.
    """
    return Registered(defaults=dict(defaults or {}))


def _reader(schemas: Schemas, verdicts: StructType, turn: Turn) -> Callable[[Column], Column]:
    """Return the function that Spark sends to its Python workers."""
    nothing = dict.fromkeys(verdicts.fieldNames())
    kind = to_arrow_type(verdicts, timezone="UTC")

    def registered_payload(payloads: pa.Array) -> pa.Array:
        found: dict[
            int, Decode | None
        ] = {}  # an id that is unknown now may be known in the next batch
        rows = []
        for payload in payloads.to_pylist():
            try:
                rows.append({**turn(_decoded(payload, schemas, found)), PROBLEM: None})
            except MalformedError:
                rows.append({**nothing, PROBLEM: MALFORMED})
            except _UnknownError:
                rows.append({**nothing, PROBLEM: UNKNOWN_SCHEMA})
            except (WrongTypeError, ValueError):  # a text that is no UTF-8, a time that is none
                rows.append({**nothing, PROBLEM: WRONG_TYPE})
        return pa.array(rows, type=kind)

    # PySpark reads hints of types to choose a kind of function.
    registered_payload.__annotations__ = {"payloads": pa.Array, "return": pa.Array}
    return arrow_udf(registered_payload, returnType=verdicts)  # type: ignore[no-any-return, call-overload]  # its stubs know no struct


class _UnknownError(ValueError):
    """No registry knew the id."""


def _decoded(payload: bytes | None, schemas: Schemas, found: dict[int, Decode | None]) -> Any:  # noqa: ANN401  # a record
    if payload is None or len(payload) < HEAD or payload[0] != MAGIC:
        raise MalformedError
    number = int.from_bytes(payload[1:HEAD], "big")
    if number not in found:
        schema = schemas(number)
        found[number] = None if schema is None else _decoder(schema)
    decode = found[number]
    if decode is None:
        raise _UnknownError
    return decode(payload[HEAD:])


@lru_cache(maxsize=256)
def _decoder(schema: WriterSchema) -> Decode:
    """Return the decoder of a schema; a worker makes it once."""
    return decoder(schema)
