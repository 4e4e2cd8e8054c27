"""Columns with their types, as a text: ``device_id string, value decimal(14,4), tags array<string>``.

Spark would read the same, but only where it runs, and the catalog is read without it.
"""

from collections.abc import Iterator
from difflib import get_close_matches

from pyspark.sql import types as T  # as the field calls it
from pyspark.sql.types import DataType, StructField, StructType

from strandline.core.errors import DefinitionError

PLAIN: dict[str, DataType] = {
    "string": T.StringType(),
    "boolean": T.BooleanType(),
    "tinyint": T.ByteType(),
    "smallint": T.ShortType(),
    "int": T.IntegerType(),
    "bigint": T.LongType(),
    "float": T.FloatType(),
    "double": T.DoubleType(),
    "date": T.DateType(),
    "timestamp": T.TimestampType(),
    "binary": T.BinaryType(),
}
ALSO = {
    "text": "string",
    "varchar": "string",
    "bool": "boolean",
    "byte": "tinyint",
    "short": "smallint",
    "integer": "int",
    "long": "bigint",
    "real": "float",
    "bytes": "binary",
    "timestamp_ltz": "timestamp",
    "datetime": "timestamp",
    "numeric": "decimal",
    "dec": "decimal",
}
"""Other names of the same, as other engines have them."""
NESTED = ("array", "map", "struct", "decimal")


def columns_of(text: str) -> StructType:
    """Return columns from a text.

    >>> columns_of("a string, b array<struct<c: decimal(9,2)>>").simpleString()
    'struct<a:string,b:array<struct<c:decimal(9,2)>>>'

    Raises:
        DefinitionError: It cannot be read.
    """
    return _struct([_column(each) for each in _split(text)])


def _struct(columns: list[StructField]) -> StructType:
    """Return columns as a type; Spark knows a name in small letters and in capitals as one."""
    for number, each in enumerate(columns):
        if each.name.lower() in {other.name.lower() for other in columns[:number]}:
            raise DefinitionError(
                f"two fields are named {each.name}",
                hint="leave one of them out: a name in small letters and in capitals is one to Spark.",
                field=each.name,
            )
    return StructType(columns)


def _column(text: str) -> StructField:
    name, kind = _named(text)
    return StructField(name.strip("`"), type_of(kind, name))


def _named(text: str) -> tuple[str, str]:
    """Return the name and the type of a column; a colon may be between them."""
    head, _, rest = text.strip().partition(" ")
    if ":" in head:
        head, _, more = text.strip().partition(":")
        return head.strip(), more.strip()
    if not rest.strip():
        raise DefinitionError(
            f"the field {head or text!r} has no type",
            hint="write each with its type: event_id string, value decimal(14,4), event_at timestamp.",
        )
    return head, rest.strip().removeprefix(":").strip()


def type_of(text: str, name: str) -> DataType:
    """Return a type from its text; the name is of the column that has it."""
    head, inner = _opened(text.strip())
    known = ALSO.get(head.lower(), head.lower())
    parts = list(_split(inner)) if inner is not None else []
    if known in PLAIN and inner is None:
        return PLAIN[known]
    if known == "string":
        return T.StringType()  # varchar(20)
    made = _nested(known, parts, name)
    if made is not None:
        return made
    near = get_close_matches(known, [*PLAIN, *ALSO, *NESTED], n=1, cutoff=0.6)
    meant = f"does it mean {near[0]}? " if near and near[0] != known else ""
    raise DefinitionError(
        f"the field {name} has the type {text}, which is none",
        hint=f"{meant}The types are {', '.join(PLAIN)}, decimal(14,4), array<…>, map<string, …> and struct<name: type, …>.",
        field=name,
    )


def _nested(head: str, parts: list[str], name: str) -> DataType | None:
    match head, parts:
        case "decimal", []:
            return T.DecimalType(10, 0)
        case "decimal", [digits, *scale] if all(each.isdigit() for each in (digits, *scale[:1])):
            return T.DecimalType(int(digits), int(scale[0]) if scale else 0)
        case "array", [item]:
            return T.ArrayType(type_of(item, name))
        case "map", [key, value]:
            return T.MapType(type_of(key, name), type_of(value, name))
        case "struct", [_, *_]:
            return _struct([_column(each) for each in parts])
    return None


def _opened(text: str) -> tuple[str, str | None]:
    """Return the word of a type, and what is within its brackets; None where it has none."""
    for opened, closed in ("<>", "()"):
        head, found, inner = text.partition(opened)
        if found and inner.rstrip().endswith(closed):
            return head.strip(), inner.rstrip()[:-1]
    return text, None


def _split(text: str) -> Iterator[str]:
    """Yield the parts of a text between commas that are in no brackets."""
    depth, part = 0, ""
    for letter in text:
        depth += (letter in "<(") - (letter in ">)")
        if letter == "," and not depth:
            yield part.strip()
            part = ""
        else:
            part += letter
    if part.strip():
        yield part.strip()
