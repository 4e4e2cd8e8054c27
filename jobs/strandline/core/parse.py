"""Bytes to columns: a payload is accepted only if it is exactly one record of the declared fields, as JSON, cells or Avro.

**JSON**: one object of the declared types. One expression of ours reads a payload in one pass
(infra/strandline_infra/spark/strict): its columns, and why it is no row. Spark's own
``from_json`` is not strict, and cannot be made so cheaply: it drops all that follows a valid document, takes ``"21.5"`` for a
decimal, 1795150000 for a timestamp, and a number, a boolean and a whole object for a text. Wrapped in an array with an end mark,
parsed a second time where a field was absent or odd, cast and checked, it was strict and took seven times as long
(tests/support/wrapped_json.py: what it made of a payload is what the expression is compared with).

Payloads beyond the limits of the parser are malformed: names of more than 50,000 letters, more than a thousand
levels, numbers of more than a thousand digits, declared texts of more than twenty million letters.

Numbers are read as double, and any decimal of at most 15 digits survives that way unchanged; the bound is enforced when the
fields are declared. A number with more digits behind the point than are declared is refused as ``wrong_type`` and not rounded:
``1.23456`` is no decimal(14,4), nor is ``1E-9``, which would become 0. Digits beyond those of a double are rounded by the parser.
A quoted number is no number, a number no time and no text. Within lists and maps the same holds, element by element, at any depth.

What JSON leaves open, and what is done: if a field occurs twice, the last value counts, because JSON's rules leave it
to the reader; a time is kept to the microsecond, and further digits are cut; a time without a zone is UTC.

**Cells**, separated by commas: every cell is read as text first, because with types in the schema ``from_csv`` makes a cell that
it cannot read and a line of the wrong length look alike. When all cells are text, only the line's shape can be wrong
(``malformed``), and a cell that is no number or moment is ``wrong_type``.

**Avro**: an end mark is decoded with each record, because ``from_avro`` leaves all that follows a record unread, so a record and
half of another would pass as one. A mark drawn when the query is planned is appended to the payload, and the schema is
wrapped in one that requires it: a payload that is too long or too short does not end where the mark begins. There is no
``wrong_type``, because Avro's bytes carry no types: a record read by another schema than its writer's is nearly always
``malformed``; the others cannot be distinguished from records with those values.

The jar of 4.1.1 serves Spark 4.2.0, for which none is published: what it lacks is in Spark itself since 4.2, and
tests/core/test_parse_avro.py runs every part of it that is used.
"""

import json
import re
import secrets
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import reduce
from itertools import chain
from typing import Literal, TypeAlias, get_args

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.avro.functions import from_avro
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    DecimalType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from strandline.core.errors import DefinitionError

# What a payload has beside its declaration: fields that are not declared, and values of another type.
#
# The reader of JSON notes both on its one way through a payload (infra/strandline_infra/spark/strict), in the column ``_drift``: a line
# for each, NULL where there is nothing, so that a payload as declared costs nothing. A function passes the column on with the other columns of
# bronze (``CARRIED``), and the batch counts its lines before they are written, in the entry of its commit. Only JSON says what a value is
# called and of which kind it is: of cells, Avro and Protobuf nothing undeclared can be seen.
#
# A name is foreign text: the reader keeps 32 lines of a payload and a hundred letters of a name, and an entry names a hundred lines.
# A value is in none of them: an example is the place of its record in Kafka, so what is forgotten is forgotten here as well.
#
# What happens to a record that has either is the table's choice, in words that others use too (dlt's schema contracts):
#
# * ``say``: a new field is kept in bronze, and said; ``evolve`` says as well what edit of the module declares it.
# * ``freeze``: the record is held, as ``new_field`` or ``wrong_type``.
# * ``discard_value``: the record is a row without the value; it is counted, and no check warns.
# * ``discard_row``: the record is passed over, and counted under that name.

DRIFT = "_drift"
"""The column with the lines of a record."""

NEW_FIELD, WRONG_TYPE = "new_field", "wrong_type"
"""Under which names records are held or passed over; names of fields are foreign text, and are no reasons."""

OnNewField: TypeAlias = Literal["say", "evolve", "freeze", "discard_value", "discard_row"]
OnWrongType: TypeAlias = Literal["freeze", "evolve", "discard_value", "discard_row"]
ON_NEW_FIELD: tuple[str, ...] = get_args(OnNewField)
ON_WRONG_TYPE: tuple[str, ...] = get_args(OnWrongType)

HAS_NEW_FIELD = f"coalesce(startswith({DRIFT}, '+') OR contains({DRIFT}, '\\n+'), false)"
"""Whether a record has a field that is not declared, as SQL."""

MORE = "~"
"""The begin of the line with the number of those that have no line of their own."""

LINE = re.compile(r"\+(?P<kind>[a-z]+) (?P<new>.+)|!(?P<met>[a-z]+) (?P<declared>\S+) (?P<path>.+)")


@dataclass(frozen=True, slots=True)
class Difference:
    """A line: what a payload has beside its declaration.

    Args:
        path: Where it is: names with points between them, ``[]`` behind a list and ``{}`` behind a map; a name with such a sign is
            between backticks.
        kind: What JSON has there: text, integer, number, boolean, list or object.
        declared: The type that is declared there; empty for a field that is not declared.
    """

    path: str
    kind: str
    declared: str = ""

    @property
    def is_new(self) -> bool:
        """Return whether the field is not declared."""
        return not self.declared

    def __str__(self) -> str:
        """Return it in words."""
        if self.is_new:
            return f"{self.path} ({self.kind})"
        return f"{self.path} ({self.kind}, declared {self.declared})"


def difference(line: str) -> Difference | None:
    """Return what a line says; None where it says nothing of a field."""
    if (found := LINE.fullmatch(line)) is None:
        return None
    if found["new"]:
        return Difference(found["new"], found["kind"])
    return Difference(found["path"], found["met"], found["declared"])


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """How payloads are read for a table.

    Args:
        notes: Whether what they have beside the declaration is noted.
        leaves: The paths of which nothing is noted.
        drops: Whether a value of another type is NULL, and its payload a row.
    """

    notes: bool = True
    leaves: tuple[str, ...] = ()
    drops: bool = False

    @property
    def words(self) -> tuple[str, ...]:
        """Return it as the reader of JSON is given it."""
        return (
            *(() if self.notes else ("unnoted",)),
            *(f"leaves {path}" for path in self.leaves),
            *(("drops",) if self.drops else ()),
        )


_READING: ContextVar[Reading] = ContextVar("reading", default=Reading())  # noqa: B039  # it is frozen


@contextmanager
def reading(how: Reading) -> Iterator[None]:
    """Let the functions of tables that are called in the block read payloads so."""
    token = _READING.set(how)
    try:
        yield
    finally:
        _READING.reset(token)


def reading_now() -> Reading:
    """Return how the function that is called now reads payloads."""
    return _READING.get()


def with_drift(events: DataFrame) -> DataFrame:
    """Return rows of bronze with the column, NULL where a parser does not fill it."""
    if DRIFT in events.columns:
        return events
    return events.withColumn(DRIFT, F.lit(None).cast("string"))


def path_of(names: Sequence[str]) -> str:
    """Return the path of a field, which a list of names leads to, as the reader of JSON writes it."""
    return ".".join(
        name if re.fullmatch(r"[A-Za-z0-9_-]{1,100}", name) else f"`{name.replace('`', '``')}`"
        for name in names
    )


# The leaf fields of a payload: nested fields by their path; lists and maps are leaves.


Path: TypeAlias = tuple[str, ...]


def leaves(fields: StructType, within: Path = ()) -> Iterator[tuple[Path, DataType]]:
    """Yield the path of each leaf, and its type."""
    return chain.from_iterable(
        leaves(f.dataType, (*within, f.name))
        if isinstance(f.dataType, StructType)
        else [((*within, f.name), f.dataType)]
        for f in fields.fields
    )


def texts(fields: StructType) -> Iterator[Path]:
    """Yield the path of each text field."""
    return (path for path, kind in leaves(fields) if isinstance(kind, StringType))


def at(value: Column, path: Path) -> Column:
    """Return the field at a path inside a value."""
    return reduce(lambda inner, name: inner[name], path, value)


DOUBLE_DIGITS = 15
STRICT = {"allowSingleQuotes": "false", "allowNonNumericNumbers": "false"}
HIGH, LOW = r"\\u[dD][89abAB][0-9a-fA-F]{2}", r"\\u[dD][c-fC-F][0-9a-fA-F]{2}"
CORRUPT = "_corrupt"
READ = "_strict"

READER = 1
"""The number of what the reader makes of payloads. It counts up when a row becomes another one, so that certificates lapse: a version
of a table is made of statements of Python, and the reader is none (tests/core/test_strict_json.py)."""


def parse_json(events: DataFrame, fields: StructType) -> DataFrame:
    """Add each declared field as a column, ``_problem``: NULL, ``malformed`` or ``wrong_type``, and ``_drift``.

    Args:
        events: Rows of bronze.
        fields: The declared fields; undeclared ones stay in bronze only, and ``_drift`` names them.

    Raises:
        DefinitionError: A field's type cannot be read exactly.
    """
    declared = StructType([StructField(f.name, _declared(f.dataType, f.name)) for f in fields])
    how = map(F.lit, (declared.json(), *reading_now().words))
    read = F.call_function("strict_json", "_payload", *how)
    added = (*fields.fieldNames(), "_problem", DRIFT)
    columns = {name: F.col(f"{READ}.`{name}`") for name in added}
    return events.withColumn(READ, read).withColumns(columns).drop(READ)


def _declared(kind: DataType, name: str) -> DataType:
    """Return a type as it is read: all of it may be NULL, and no field has more than a name and a type."""
    match kind:
        case DecimalType() if kind.precision > DOUBLE_DIGITS:
            raise DefinitionError(
                f"field {name} is declared decimal({kind.precision},{kind.scale}), "
                f"but JSON numbers are read exactly up to {DOUBLE_DIGITS} digits only",
                hint="declare fewer digits, or send the number as text and cast it in the table.",
                field=name,
            )
        case StructType():
            return StructType(
                [StructField(f.name, _declared(f.dataType, f.name)) for f in kind.fields]
            )
        case ArrayType():
            return ArrayType(_declared(kind.elementType, name))
        case MapType():
            return MapType(kind.keyType, _declared(kind.valueType, name))
        case _:
            return kind


def exactly(value: Column, kind: DecimalType) -> Column:
    """Return a number or a text as a decimal; NULL where its digits would have to be rounded."""
    number = value.try_cast(kind)
    return F.when(number.cast("double") == value.try_cast("double"), number)


def is_moment(text: Column) -> Column:
    """Return whether a text has a date and a time; the cast would fill in an absent part with today's.

    Another expression of the same meaning would be another event time to the state of every table that exists
    (jobs/strandline/engine/flow/compare_plans.py).
    """
    has_date = (F.substring(text, 5, 1) == "-") & (F.substring(text, 8, 1) == "-")
    return has_date & F.substring(text, 11, 1).isin("T", " ") & (F.substring(text, 14, 1) == ":")


# The undeclared fields of a payload, kept beside the row.
#
# A producer adds a field long before it is declared. A table that keeps such fields selects ``rescued(FIELDS)``: the
# unknown fields of each row as one JSON object, as text, because rows with maps can neither be compared nor sorted. A
# rule decides what happens to such rows (``no_unknown_fields``): counted, held back, or anything between. A table that
# does not select it ignores them at no cost; bronze has them as they were sent. Texts, booleans and numbers of up to 17
# digits are rescued unchanged; Spark writes a longer number as the double next to it (``12345678901234567.89`` as
# ``1.2345678901234568E16``) and one that no double holds as ``"Infinity"``. To keep those digits, declare the field as
# text, or read the payload in bronze.
#
# To turn such a field into a column, declare it and run ``strandline rebuild``, which reads all of bronze with today's code.


RESCUED = "_rescued"


def rescued(fields: StructType) -> Column:
    """Return a JSON payload's undeclared top-level fields as text, NULL where there are none.

    Args:
        fields: The declared ones.
    """
    whole = F.from_json(F.col("_payload").cast("string"), "map<string,string>", STRICT)
    more = F.map_filter(whole, lambda name, _: ~name.isin(fields.fieldNames()))
    return F.when(F.size(more) > 0, F.to_json(more)).alias(RESCUED)


OPTIONS = {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": CORRUPT}
MARKS = "[\r\n\x00\ufeff]"
"""Characters that a single line cannot hold: line ends, after which Spark would not read, a zero byte, a byte-order mark."""


def parse_csv(events: DataFrame, fields: StructType) -> DataFrame:
    """Add each declared field as a column, and ``_problem``: NULL, ``malformed`` or ``wrong_type``.

    Args:
        events: Rows of bronze.
        fields: The cells in their order; an empty one is NULL.

    Raises:
        DefinitionError: A field is no single cell.
    """
    for field in fields:
        if isinstance(field.dataType, StructType):
            raise DefinitionError(
                f"field {field.name} is nested, and a line of cells is flat",
                hint="declare one field a cell, and nest them in the table's function.",
                field=field.name,
            )
    texts = StructType([StructField(f.name, StringType()) for f in fields])
    watched = texts.add(CORRUPT, StringType()).simpleString().removeprefix("struct<")[:-1]
    line = F.coalesce(F.col("_payload").cast("string"), F.lit(""))
    cells = events.withColumn("_cells", F.from_csv(line, watched.replace(":", " "), OPTIONS))
    values = {f.name: _typed(F.col(f"_cells.`{f.name}`"), f.dataType) for f in fields}
    parsed = cells.withColumn("_line", line).withColumns(values)
    is_line = (
        F.col(f"_cells.{CORRUPT}").isNull()
        & (F.length("_line") > 0)
        & ~F.col("_line").rlike(MARKS)
        & F.is_valid_utf8("_line")
    )
    has_wrong_type = F.lit(False)
    for f in fields:
        has_wrong_type |= F.col(f"_cells.`{f.name}`").isNotNull() & F.col(f.name).isNull()
    problem = F.when(~F.coalesce(is_line, F.lit(False)), F.lit("malformed")).when(
        has_wrong_type, F.lit("wrong_type")
    )
    return with_drift(parsed.withColumn("_problem", problem).drop("_cells", "_line"))


def parse_raw(events: DataFrame, fields: StructType) -> DataFrame:
    """Add the payload itself under the one declared name.

    Raises:
        DefinitionError: There is not exactly one field, or it is not binary.
    """
    if [f.dataType for f in fields] != [BinaryType()]:
        raise DefinitionError(
            "raw payloads are one binary field",
            hint='declare StructType().add("payload", BinaryType()).',
        )
    (field,) = fields
    raw = events.withColumn(field.name, F.col("_payload")).withColumn(
        "_problem", F.when(F.col("_payload").isNull(), F.lit("malformed"))
    )
    return with_drift(raw)


def _typed(cell: Column, kind: DataType) -> Column:
    match kind:
        case StringType():
            return cell
        case TimestampType():
            return F.when(is_moment(cell), cell.try_cast(kind))
        case DecimalType():
            return exactly(cell, kind)
        case _:
            return cell.try_cast(kind)


MARK_BYTES = 16
AVRO_READ, BODY, END = "_read", "body", "end"


@dataclass(frozen=True, slots=True, kw_only=True)
class Avro:
    """Parses payloads of one schema.

    Args:
        ended: The schema of a record and the mark behind it.
        head: The bytes before a record.
    """

    ended: str
    head: bytes

    def __call__(self, events: DataFrame, fields: StructType) -> DataFrame:
        """Add each declared field as a column, and ``_problem``: NULL or ``malformed``.

        Args:
            events: Rows of bronze.
            fields: The declared fields.

        Raises:
            DefinitionError: The schema has other ones.
        """
        mark = F.lit(secrets.token_bytes(MARK_BYTES))
        body = F.substr("_payload", F.lit(len(self.head) + 1))
        read = from_avro(F.concat(body, mark), self.ended, {"mode": "PERMISSIVE"})
        decoded = events.withColumn(AVRO_READ, read)
        _refuse_others(decoded.select(f"{AVRO_READ}.{BODY}.*").schema, fields)
        is_whole = (F.col(f"{AVRO_READ}.{END}") == mark) & F.startswith(
            "_payload", F.lit(self.head)
        )
        for path in texts(fields):
            text = at(F.col(f"{AVRO_READ}.{BODY}"), path)
            is_whole &= text.isNull() | F.is_valid_utf8(text)
        values = {f.name: _value(F.col(f"{AVRO_READ}.{BODY}.`{f.name}`"), is_whole) for f in fields}
        problem = F.when(~F.coalesce(is_whole, F.lit(False)), F.lit("malformed"))
        return with_drift(decoded.withColumns({**values, "_problem": problem}).drop(AVRO_READ))


def avro(schema: str, *, schema_id: int | None = None) -> Avro:
    """Return a function that parses payloads of one schema.

    Args:
        schema: The writer's schema, a record, as JSON.
        schema_id: Its number in a schema registry, for payloads that begin with a zero byte and that number.

    Raises:
        DefinitionError: The schema is no record.
    """
    record = _record(schema)
    mark_type = {"type": "fixed", "name": "StrandlineEnd", "size": MARK_BYTES}
    ended = json.dumps(
        {
            "type": "record",
            "name": "StrandlineEnded",
            "fields": [{"name": BODY, "type": record}, {"name": END, "type": mark_type}],
        }
    )
    head = b"" if schema_id is None else b"\0" + schema_id.to_bytes(4, "big")
    return Avro(ended=ended, head=head)


def _value(decoded: Column, is_whole: Column) -> Column:
    return F.when(is_whole, decoded)  # values decoded from a broken record mean nothing


def _record(schema: str) -> dict[str, object]:
    try:
        record = json.loads(schema)
    except ValueError as error:
        raise DefinitionError(
            f"an Avro schema is no JSON: {error}",
            hint="give the schema itself, not its file's name.",
        ) from error
    if not isinstance(record, dict) or record.get("type") != "record":
        raise DefinitionError(
            "an Avro schema of a topic is not a record",
            hint='its "type" must be "record"; one value alone has no field names.',
        )
    return record


def _refuse_others(read: StructType, fields: StructType) -> None:
    """Check that each declared field is in the schema, with the declared type.

    Raises:
        DefinitionError: A field is absent or has another type.
    """
    kinds = {field.name: field.dataType.simpleString() for field in read}
    for field in fields:
        declared = field.dataType.simpleString()
        if kinds.get(field.name) != declared:
            raise DefinitionError(
                f"field {field.name} is declared {declared}, but the Avro schema has "
                f"{kinds.get(field.name, 'no such field')}",
                hint=f"its fields are {', '.join(f'{n} {kind}' for n, kind in kinds.items())}.",
                field=field.name,
            )
