"""A table's function that is a SELECT: ``transform=sql("SELECT … FROM {readings} …")``, or the body of a ``.sql`` file.

The rows of what a table reads become views of Spark's session for as long as Spark's own parser and analyser take, under the names
that the text has in braces; what comes out is a plan like any other, so watermarks, state, lineage and pre-flight know it as they
know a function in Python, in every mode.

Which of the tables is which, a function in Python knows by its arguments. A text knows it by their names: it is bound to the tables
when the table that has it is declared (jobs/strandline/core/declared.py).

A table of silver selects from the payload's fields, and its WHERE passes records over: each of its conditions is one of the table's
``skips``, under its own text. The conditions may name fields that are no columns of the table, so they are asked beside the columns,
in ``_skipped``, which a verdict overwrites.
"""

import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from difflib import get_close_matches
from pathlib import Path
from threading import Lock
from typing import Any

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T  # as the field calls it
from pyspark.sql.types import DataType, StructField, StructType

from strandline.core.errors import DefinitionError
from strandline.core.table import Computed, Judged, Table
from strandline.core.topic import CARRIED, OWN, ROUTED, SKIPPED, Skip, Topic, skips_of, united
from strandline.project import project
from strandline.sql_text import Parts, Statement, taken_apart, understood, with_columns
from strandline.sql_words import SqlError, bare_words, day_words, line_of, may_be_time
from strandline_infra import installation
from strandline_quality.rules import hazards

# Columns with their types, as a text: ``device_id string, value decimal(14,4), tags array<string>``.
#
# Spark would read the same, but only where it runs, and the catalog is read without it.

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


ASKED = f"{SKIPPED} = "
"""How a skip begins that is a condition of a WHERE; the number of the condition follows."""

VIEW = "strandline_read_"
_ANALYSED = Lock()
"""Views have the same names in each call, because names are seen in plans that are compared with those of the last start."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Written:
    """Where a text is written.

    Args:
        file: Its file.
        line: The line of the file where the text begins, or of the call that has it.
        is_own: Whether the file is of SQL alone, so that lines of the text are lines of the file.
    """

    file: str
    line: int = 1
    is_own: bool = False

    def of(self, line: int) -> str:
        """Return a line of the text in words."""
        if self.is_own:
            return f"{self.file}:{self.line + line - 1}"
        return f"{self.file}:{self.line}, line {line} of its SQL"


@dataclass(frozen=True, slots=True)
class Binding:
    """What the names of a text mean.

    Args:
        order: For each table in braces its place among those that the table reads; empty until it is known.
        topics: The topics whose records a table of silver reads.
        asked: Those of its rules and skips of which Spark may make another time each day.
    """

    order: tuple[int, ...] = ()
    topics: tuple[Topic, ...] = ()
    asked: tuple[str, ...] = ()


UNBOUND = Binding()


class Sql:
    """The function of a table, as SQL.

    Two of the same text that read the same tables are equal, as two tables are that have them.
    """

    def __init__(
        self,
        statement: Statement,
        written: Written,
        module: str,
        fields: StructType | None = None,
        binding: Binding = UNBOUND,
    ) -> None:
        """Keep the text, and what it is bound to.

        Args:
            statement: The text.
            written: Where it is.
            module: The module of the table, whose docstring says what it holds.
            fields: The fields of a payload, for a table of silver.
            binding: What the table reads, once that is known.
        """
        self.statement, self.written, self.fields = statement, written, fields
        self.topics, self.order, self.asked = binding.topics, binding.order, binding.asked
        self.__module__ = module
        self.__qualname__ = self.__name__ = "sql"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sql) and self._said == other._said

    def __hash__(self) -> int:
        return hash(self._said)

    def __repr__(self) -> str:
        return f"sql({self.statement.text!r})"

    @property
    def _said(self) -> tuple[object, ...]:
        return (self.statement.text, str(self.fields), self.topics, self.order)

    def bound(self, table: Computed) -> Mapping[str, object]:
        """Return what a declaration gets for this function: itself, knowing what the table reads, and the skips of its WHERE.

        Raises:
            DefinitionError: It reads what the table does not, or does not select a column that the table names.
        """
        try:
            return dict(self._bound(table))
        except SqlError as error:
            raise self.refused(error, table) from error

    def _bound(self, table: Computed) -> Iterator[tuple[str, object]]:
        order = tuple(_order(self.statement, table.reads))
        _refuse_unread(table, order)
        if not isinstance(table, Judged):
            if self.fields is not None:
                raise SqlError(
                    f"{table.id} has fields, and reads no payloads",
                    hint="leave `fields` out; a table of silver that reads bronze has them.",
                )
            _refuse_missing_columns(self.statement, table)
            yield "transform", self._with(Binding(order), self.statement)
            return
        if self.fields is None:
            raise SqlError(
                f"{table.id} reads payloads, and says no fields",
                hint='name them: fields: event_id string, value decimal(14,4), event_at timestamp — or sql("…", fields="…").',
            )
        statement = with_columns(self.statement, tuple(self.fields.fieldNames()))
        parts = taken_apart(statement)
        _refuse_names_of_records(statement, self.fields)
        _refuse_hazards(statement, parts)
        _refuse_missing_columns(statement, table)
        asked = [
            *(each.holds for each in table.rules),
            *(each.where for each in skips_of(table.skips)),
        ]
        changing = tuple(each for each in asked if may_be_time(each))
        yield "transform", self._with(Binding(order, table.reads[0].topics, changing), statement)
        own = tuple(
            Skip(f"{ASKED}{number}", name=f"WHERE {each}")
            for number, each in enumerate(parts.conditions)
        )
        # What a copy of a declaration has of its WHERE from before is asked anew.
        others = (each for each in skips_of(table.skips) if not each.where.startswith(ASKED))
        yield "skips", (*own, *others)

    def _with(self, binding: Binding, statement: Statement) -> "Sql":
        return Sql(statement, self.written, self.__module__, self.fields, binding)

    def refused(self, error: SqlError, table: Table | None = None) -> DefinitionError:
        """Return what is wrong with it as the error that a user sees."""
        more = {"table": table.id} if table else {}
        if not error.line:  # its head is wrong, or its declaration
            return DefinitionError(error.message, hint=error.hint, **more)
        if self.written.is_own:
            at = {"file": self.written.file, "line": self.written.line + error.line - 1}
            return DefinitionError(error.message, hint=error.hint, **at, **more)
        return DefinitionError(
            f"line {error.line} of its SQL: {error.message}", hint=error.hint, **more
        )

    def __call__(self, *sources: DataFrame) -> DataFrame:
        """Return the rows that it selects of those of its sources.

        Raises:
            DefinitionError: Spark's analyser cannot make a plan of it.
        """
        if not self.order:
            raise DefinitionError(
                f"{self.written.of(1)}: it is the function of no table yet",
                hint="declare a table with transform=sql(…), and call the function of that: TABLE.transform(rows).",
            )
        if self.fields is None:
            return self._selected([sources[number] for number in self.order], self.statement)
        (events,) = sources
        fields = self.fields
        shapes = {each: lambda rows, topic=each: topic.parse(rows, fields) for each in self.topics}
        parsed = united(events, shapes) if len(shapes) > 1 else self.topics[0].parse(events, fields)
        rows = self._selected([parsed], self._of_records())
        for each in self.asked:
            with suppress(PySparkException):  # what a rule cannot name is said where it is asked
                self._refuse_changing(rows.select(F.expr(each)), each)
        return rows

    def _of_records(self) -> Statement:
        """Return the text for the records of silver: what is carried along comes first, the conditions come last."""
        parts, text = taken_apart(self.statement), self.statement.text
        head = text[: parts.first] + " " + ", ".join(CARRIED) + ","
        lines = text.count("\n", parts.first + len(parts.columns), parts.where)
        asked = " ".join(
            f"WHEN NOT coalesce(({each}), false) THEN {number}"
            for number, each in enumerate(parts.conditions)
        )
        skipped = f", {chr(10) * max(lines, 0)}CASE {asked} END AS {SKIPPED}" if asked else ""
        (read,) = self.statement.reads
        named = text[read.end : parts.where or len(text)]
        named = re.sub(r"(?is)\bwhere\s*$|;\s*$", "", named)
        asks = f"{head}{parts.columns}{skipped} FROM "
        made = replace(read, start=len(asks), end=len(asks))
        return replace(self.statement, text=asks + named, reads=(made,))

    def _selected(self, sources: Sequence[DataFrame], statement: Statement) -> DataFrame:
        spark = sources[0].sparkSession
        names = tuple(f"{VIEW}{number}" for number in range(len(sources)))
        with _ANALYSED:
            try:
                for name, rows in zip(names, sources, strict=True):
                    rows.createOrReplaceTempView(name)
                # Spark knows of a text that is only parsed not that it streams, and explains it as a batch.
                rows = spark.sql(statement.asked(names))
                self._refuse_changing(rows)
                return rows.select("*")
            except PySparkException as error:
                raise self._unresolved(error) from error
            finally:
                # Not by Spark's own verb: it throws rows out of the cache that a batch has kept for itself.
                session: Any = spark._jsparkSession.sessionState().catalog()  # noqa: SLF001
                for name in names:
                    session.dropTempView(name)

    def _refuse_changing(self, rows: DataFrame, text: str = "") -> None:
        """Refuse a plan that reads the clock, or for whom it runs, in a way that words do not show.

        Spark makes a function of a name that is no column, and a time of a text that is compared with one. Both are asked of the
        rules by which Spark itself replaces them: three calls, a hundredth of a second.

        Raises:
            DefinitionError: It does.
        """
        rules: Any = rows.sparkSession._jvm.org.apache.spark.sql.catalyst  # type: ignore[union-attr]  # noqa: SLF001
        plan = rows._jdf.queryExecution().analyzed()  # noqa: SLF001  # there is no public way
        inner = plan.subqueriesAll()
        said = text or self.statement.text
        for each in (plan, *map(inner.apply, range(inner.size()))):
            whole = rules.optimizer.ReplaceExpressions.apply(each)
            if whole.containsPattern(rules.trees.TreePattern.CURRENT_LIKE()):
                raise self._changes(
                    said, bare_words(said), "is a function of Spark's where no column has the name"
                )
            is_time = not rules.optimizer.SpecialDatetimeValues.apply(whole).fastEquals(whole)
            if is_time and (day_words(said) or "epoch" not in said.lower()):
                raise self._changes(
                    said, day_words(said), "is another time each day, for it is compared with one"
                )

    def _changes(self, text: str, found: Sequence[str], what: str) -> DefinitionError:
        named = found[0] if found else "a text or a name in it"
        line = text.count("\n", 0, max(text.find(named), 0)) + 1
        where = self.written.of(line if text == self.statement.text else 1)
        return DefinitionError(
            f"{where}: {named} {what}, so a backfill would give other rows than the stream gave",
            hint="time is given: use a column such as event_at, or the end of the window; a column that has such a name is written "
            "with its table, as orders.user.",
        )

    def _unresolved(self, error: PySparkException) -> Exception:
        """Return what Spark's analyser says as a sentence with the line; what is no mistake of the text as it is."""
        said = str(error)
        if not (error.getCondition() or error.getSqlState()):
            return error
        line = re.search(r"[(;,]?\s*line (\d+)[, ]+pos \d+", said)
        return DefinitionError(
            f"{self.written.of(int(line[1]) if line else 1)}: {_sentence(said, self.statement)}",
            hint=_hint(error, said),
        )


def is_in_sql(table: Table) -> bool:
    """Return whether a table's function is SQL, of which only Spark knows whether its columns are there."""
    return isinstance(getattr(table, "transform", None), Sql)


def _order(statement: Statement, reads: Sequence[Topic | Table]) -> Iterator[int]:
    """Yield for each table in braces its place among those that a table reads."""
    tables = [each for each in reads if not isinstance(each, Topic)]
    ids, names = [each.id for each in tables], [each.name for each in tables]
    for read in statement.reads:
        of = ids if "." in read.name else names
        if of.count(read.name) == 1:
            yield of.index(read.name)
            continue
        line = statement.text.count("\n", 0, read.start) + 1
        if of.count(read.name) > 1:
            both = " and ".join(f"{{{each}}}" for each in ids if each.endswith(f".{read.name}"))
            raise SqlError(
                f"{{{read.name}}} may be several of the tables that it reads",
                hint=f"write which: {both}.",
                line=line,
            )
        near = get_close_matches(read.name, [*names, *ids], n=1, cutoff=0.6)
        meant = f"does it mean {{{near[0]}}}? " if near else ""
        raise SqlError(
            f"{{{read.name}}} is none of the tables that it reads",
            hint=f"{meant}It reads {', '.join(ids) or 'nothing'}: add the table to `reads`, or correct the name in braces.",
            line=line,
        )


def _refuse_unread(table: Computed, order: Sequence[int]) -> None:
    left = [each.id for number, each in enumerate(table.reads) if number not in order]
    if left:
        raise SqlError(
            f"{table.id} reads {' and '.join(left)}, and its SQL does not",
            hint=f"write FROM or JOIN {{{left[0]}}}, or take it out of `reads`.",
            line=0,
        )


OF_RECORDS = frozenset(
    {*CARRIED, *OWN, *ROUTED.fieldNames(), "_corrupt", "_strict", "_cells", "_line", "_read"}
)
"""Columns that a record of silver carries along, or gets while it is read and judged."""


def _refuse_names_of_records(statement: Statement, fields: StructType) -> None:
    """Refuse a column or a field that a record has as well, which Spark would take for the same."""
    for what, names in (("column", statement.columns or ()), ("field", fields.fieldNames())):
        for name in names:
            if name.lower() in OF_RECORDS:
                raise SqlError(
                    f"the {what} {name} has a name that the engine gives to each record's own",
                    hint="leave it out, for the engine carries its columns along; or give it another name by AS."
                    if what == "column"
                    else "read it under another name: such a field of a payload is not read in SQL.",
                    line=0 if what == "field" else 1,
                )


def _refuse_hazards(statement: Statement, parts: Parts) -> None:
    """Refuse a condition of silver that may throw on a record, as the same is refused among skips: a stream would end at it."""
    for condition in parts.conditions:
        for hazard in hazards(condition):
            raise SqlError(
                f"its WHERE says {condition!r}: {hazard}",
                hint="it is asked of records that are not checked yet: it must answer for every one, and always the same.",
                line=line_of(statement.text, parts.where),
            )


COLUMNS = ("key", "event_at", "window_from", "closes_at", "valid_until", "source_count")
"""The fields of a table that name columns of its own rows."""


def _refuse_missing_columns(statement: Statement, table: Computed) -> None:
    """Refuse a text that does not select what its table names; of one with a star Spark knows."""
    if statement.columns is None:
        return
    of_dimension = table.dimension.columns if table.dimension else ()
    of_list = ("_item",) if getattr(table, "rows", None) and not isinstance(table, Judged) else ()
    known = {*statement.columns, *of_dimension, *of_list, *CARRIED}
    for field in (*COLUMNS, *(["rows"] if isinstance(table, Judged) else [])):
        value = getattr(table, field, None) or ()
        for column in (value,) if isinstance(value, str) else value:
            if column not in known:
                near = _near(column, statement.columns)
                meant = f"does {field} mean {near[0]}? " if near else ""
                raise SqlError(
                    f"{table.id} declares {field}: {column}, which its SELECT does not have",
                    hint=f"{meant}It has {', '.join(statement.columns)}.",
                    line=0,
                )


def _near(column: str, columns: Sequence[str]) -> list[str]:
    """Return the column that a name may mean: the same in other letters, which is another one to all that reads rows by name."""
    same = [each for each in columns if each.lower() == column.lower()]
    return same or get_close_matches(column, columns, n=1, cutoff=0.6)


def _sentence(said: str, statement: Statement) -> str:
    """Return Spark's first sentence without its code, with the names that the text has."""
    first = next((each for each in said.splitlines() if each.strip()), said)
    first = re.sub(r"^\[[A-Z0-9_.]+\]\s*", "", first.strip())
    first = re.split(r"\s*SQLSTATE:|\s*Did you mean one of|\s*;?\s*line \d+ pos", first)[0]
    for number, read in reversed([*enumerate(statement.reads)]):
        first = first.replace(f"{VIEW}{number}", f"{{{read.name}}}")
    return first.rstrip(" .;:")


def _hint(error: PySparkException, said: str) -> str:
    found = re.search(r"following\? \[(.*?)\]", said)
    if found:
        return f"did you mean {found[1].split(', ')[0]}? Its columns are {found[1]}, and others may be."
    if (error.getCondition() or "").startswith("UNRESOLVED_ROUTINE"):
        return (
            "Spark has no function of this name; correct it, or write it by those that Spark has."
        )
    return "correct the SQL there; `strandline try` shows what it gives."


def sql(text: str, *, fields: StructType | str | None = None) -> Sql:
    """Return the function of a table as SQL: one SELECT of the tables that it reads, each named in braces.

    Args:
        text: Such as ``SELECT … FROM {device_telemetry}``; ``{silver.device_telemetry}`` where two layers share a name.
        fields: The fields of a payload, for a table of silver; as a type, or as a text such as ``event_id string, at timestamp``.

    Raises:
        DefinitionError: It is anything else.
    """
    frame = sys._getframe(1)  # noqa: SLF001  # the module that declares the table, as a function knows its own
    written = Written(file=short(frame.f_code.co_filename), line=frame.f_lineno)
    return made(text, written, str(frame.f_globals.get("__name__", "")), fields)


def short(file: str) -> str:
    """Return the path of a file within the project, or within the clone."""
    path, found = Path(file), project()
    roots = (installation.top(), *((found.root,) if found else ()))
    return next((str(path.relative_to(root)) for root in roots if path.is_relative_to(root)), file)


def made(text: str, written: Written, module: str, fields: StructType | str | None = None) -> Sql:
    """Return the function of a text that is written somewhere; see ``sql``."""
    given = columns_of(fields) if isinstance(fields, str) else fields
    try:
        return Sql(understood(text), written, module, given)
    except SqlError as error:
        if written.is_own:
            line = written.line + error.line - 1
            raise DefinitionError(
                error.message, hint=error.hint, file=written.file, line=line
            ) from error
        raise DefinitionError(
            f"line {error.line} of its SQL: {error.message}", hint=error.hint
        ) from error
