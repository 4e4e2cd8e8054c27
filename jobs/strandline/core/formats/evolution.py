"""A decoded payload of any version becomes the declared fields: what was added, removed or promoted since it was written.

One set of rules for Avro, Protobuf and JSON, those of Avro's schema resolution, because the declared fields are one thing and
must not differ with the format of a payload:

* A field that the writer did not have is the declared default, or NULL.
* A field that is not declared is left out; bronze has it.
* An integer becomes a wider integer, a decimal or a floating-point number; a number that does not fit is no value, and
  neither is one that a floating-point number has only rounded: 2 to the power of 53 and 1 as a double, 0.1 as a float.
* A text becomes bytes, and bytes that are UTF-8 become a text.

Why not the reader's schema of the Avro library: it knows Avro alone, and for it a declared field without a default that the
writer did not have is an error. Here such a field is NULL, and a rule of the table says whether it may be.
tests/core/test_evolution.py compares both on the promotions that both know.
"""

from collections.abc import Callable, Mapping
from datetime import UTC, date, datetime
from decimal import Context, Decimal, InvalidOperation
from math import isnan
from struct import Struct
from typing import Any, TypeAlias
from uuid import UUID

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
    StructType,
    TimestampNTZType,
    TimestampType,
)

from strandline.core.errors import DefinitionError

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
    for field in fields:
        path = f"{within}{field.name}"
        turn = _turn(field.dataType, path, defaults)
        parts.append((field.name, turn, _default(path, turn, defaults)))

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
    """Return a function to a decimal; what would have to be rounded is refused, as in JSON (jobs/strandline/core/formats/parse.py)."""
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
