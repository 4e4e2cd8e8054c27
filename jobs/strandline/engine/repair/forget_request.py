"""A request to forget: a condition over a table's columns, and the texts in it, which are searched in what cannot be parsed.

Which records are meant:

    a record that its table parses       the condition holds for the columns that its table reads from it
    one that cannot be parsed            its bytes contain one of the texts as a word
    any                                  its Kafka key contains one as a word
    one of a table without the columns   its bytes contain one as a word, as an alert contains the event that raised it

A parsed record that only mentions a text, in a remark about another device, is another device's and stays; it is counted.
The ledger gets a hash of the condition and never the condition, and the hash of each table is another one.
"""

import difflib
import hashlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from py4j.java_gateway import is_instance_of
from py4j.protocol import Py4JJavaError
from pyspark import SparkContext
from pyspark.errors import ParseException, PySparkException
from pyspark.logger import PySparkLogger
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import BooleanType

from strandline.core.errors import DefinitionError
from strandline.core.table import Judged
from strandline.core.topic import RECEIVED
from strandline.core.verdict import computed, list_of
from strandline.engine.lake.forgotten import literal, mark_of, pattern_of
from strandline.engine.lake.log.log_actions import table_id
from strandline.engine.lake.place import Place
from strandline.engine.runtime.jvm import classic, jvm

SHORTEST = 3
"""Characters of the shortest text that is searched in bytes; a shorter one is in every second record."""

COLUMN = "UnresolvedAttribute"
"""What Spark's parser names a column; a query within a condition it refuses by itself."""

UNFIT = ("22", "42")
"""Classes of SQLSTATE: of values that an expression cannot compute, and of expressions that do not fit their columns."""

THROWABLE = "org.apache.spark.SparkThrowable"
FRAGMENTS = "SQLQueryContextLogger"

EXAMPLE = "write it as SQL over a table's columns, such as device_id = 'd-17'."


@dataclass(frozen=True, slots=True)
class Request:
    """A request to forget, as a person typed it.

    Args:
        where: The condition, as SQL.
    """

    where: str

    @classmethod
    def of(cls, where: str) -> "Request":
        """Take a condition.

        Raises:
            DefinitionError: It is empty.
        """
        if not where.strip():
            raise DefinitionError(
                "a request to forget needs a condition",
                hint="such as --where \"device_id = 'd-17'\".",
            )
        return cls(where.strip())

    def mark(self, path: Place) -> str:
        """Return the name of the request in the ledger of a table: a hash, which does not say whom it is about."""
        text = f"{table_id(path)}\n{self.where}"
        return f"forget {hashlib.sha256(text.encode()).hexdigest()[:16]}"


@dataclass(frozen=True, slots=True)
class Condition:
    """A condition as Spark's own parser reads it; which columns a table has is asked of the table.

    Args:
        where: The condition, as SQL.
        columns: Its columns, each with the parts of its name: ``meta.firmware`` has two.
        words: The texts in it that name whom to forget; none where the condition is no comparison with texts.
    """

    where: str
    columns: tuple[tuple[str, ...], ...]
    words: tuple[str, ...]

    @classmethod
    def of(cls, spark: SparkSession, where: str) -> "Condition":
        """Read a condition.

        Raises:
            DefinitionError: Spark cannot parse it, or it names no column.
        """
        tree = _parsed(spark, where)
        nodes = [*_nodes(tree)]
        columns = dict.fromkeys(_parts(node) for node in nodes if _kind(node) == COLUMN)
        if not columns:
            raise DefinitionError(f"--where {where!r} names no column", hint=EXAMPLE)
        texts = dict.fromkeys(text for text in _texts(tree) or () if len(text) >= SHORTEST)
        return cls(where, tuple(columns), tuple(texts))

    def missing(self, rows: DataFrame) -> list[str]:
        """Return the columns of the condition that rows do not have, as Spark finds columns: ``DEVICE_ID`` is ``device_id``."""
        spark = rows.sparkSession
        plan = rows._jdf.queryExecution().analyzed()  # noqa: SLF001  # Python has no door to a plan
        resolver = classic(spark).sessionState().conf().resolver()
        return [
            ".".join(parts)
            for parts in self.columns
            if plan.resolve(_scala(spark, parts), resolver).isEmpty()
        ]

    def fits(self, rows: DataFrame) -> bool:
        """Return whether rows have the columns of the condition."""
        return not self.missing(rows)

    def refuse_unknown(self, tables: Sequence[DataFrame]) -> None:
        """Refuse a condition that no table understands: it would be searched as text alone, or nowhere.

        Raises:
            DefinitionError: No table knows a column, none has all of them, or it is no condition over their types.
        """
        lacking = [{*self.missing(rows)} for rows in tables]
        if not tables:
            return
        nowhere = sorted(set.intersection(*lacking))
        if nowhere:
            known = sorted({name for rows in tables for name in rows.columns if name[0] != "_"})
            near = difflib.get_close_matches(nowhere[0].lower(), known, n=1)
            raise DefinitionError(
                f"--where {self.where!r}: no table knows {' and '.join(nowhere)}",
                hint=f"did you mean {near[0]}?" if near else f"columns are {', '.join(known)}.",
            )
        fitting = [rows for rows, lacks in zip(tables, lacking, strict=True) if not lacks]
        if not fitting:
            raise DefinitionError(
                f"--where {self.where!r}: no table has all of its columns",
                hint="type a request for each of them.",
            )
        for rows in fitting:
            self._refuse_unfit(rows)

    def _refuse_unfit(self, rows: DataFrame) -> None:
        with understood(self.where):
            kind = rows.select(F.expr(self.where)).schema[0].dataType
        if not isinstance(kind, BooleanType):
            raise DefinitionError(
                f"--where {self.where!r} is a {kind.simpleString()}, not a condition", hint=EXAMPLE
            )

    def holds(self) -> Column:
        """Return the condition; a row for which it is unknown is not meant."""
        return F.coalesce(F.expr(self.where), F.lit(False))

    def is_in(self, column: str) -> Column:
        """Return whether bytes contain one of the texts as a word, or after its length, as Avro writes it."""
        text = F.decode(F.col(column), "ISO-8859-1")
        found = F.lit(False)
        for word in self.words:
            plain, escaped = (
                F.contains(F.col(column), F.lit(part.encode())) for part in (word, mark_of(word))
            )
            holds = plain | escaped  # cheap, and rarely true
            found |= F.coalesce(holds & text.rlike(_pattern(word)), F.lit(False))
        return found

    def meant(self, records: DataFrame, table: Judged) -> DataFrame:
        """Return the parsed records that are meant, ``_by_text`` where it is for a text and not for the condition.

        Those that only mention a text have ``_mention``.

        Args:
            records: Records of bronze, or of the table's quarantine.
            table: The table that judges them.
        """
        parsed = computed(as_received(records), table, of_any_kind=True)
        mentioned, holds = self.is_in("_payload"), self._asked_of(parsed, table)
        if holds is None:
            marks = {"_mention": F.lit(False), "_by_text": F.lit(True)}
            return parsed.where(mentioned | self.is_in("_message_key")).withColumns(marks)
        by_text = (F.col("_problem").isNotNull() & mentioned) | self.is_in("_message_key")
        marks = {
            "_mention": ~(holds | by_text),
            "_by_text": by_text & ~holds,
        }
        return parsed.where(holds | by_text | mentioned).withColumns(marks)

    def _asked_of(self, parsed: DataFrame, table: Judged) -> Column | None:
        """Return the condition as it is asked of a record, or of each item of its list; None where neither has the columns."""
        if self.fits(parsed):
            return self.holds()
        its = list_of(parsed, table)
        if its is None or not self.fits(its.rows(parsed, ())):
            return None
        return F.coalesce(F.expr(its.any_of(self.where)), F.lit(False))


@contextmanager
def understood(where: str) -> Iterator[None]:
    """Say what is wrong with a condition where Spark cannot compute it: a text that is no number, an unknown function.

    Spark's Python logs the fragment of SQL that failed; it is whom to forget, so nothing logs it meanwhile.
    """
    logger = PySparkLogger.getLogger(
        FRAGMENTS
    )  # as Spark does: a plain one of that name would break its calls
    before, logger.disabled = logger.disabled, True
    try:
        yield
    except (PySparkException, Py4JJavaError) as error:
        why = _unfit(error)
        if why is None:
            raise
        raise DefinitionError(
            f"--where {where!r} cannot be computed: {why}",
            hint="compare a column with a value of its own type, a text with 'd-17'; try_cast makes one of another.",
        ) from None  # the cause repeats the condition, and a log would keep it
    finally:
        logger.disabled = before


def _unfit(error: PySparkException | Py4JJavaError) -> str | None:
    """Return Spark's sentence about a condition that it cannot compute; None where the error is about something else.

    Where a broadcast failed, it is the cause of an error that Spark's Python does not know.
    """
    if isinstance(error, PySparkException):
        found, state = str(error), error.getSqlState()
    else:
        cause, gateway = error.java_exception, SparkContext._gateway  # noqa: SLF001  # there is no public way
        while cause is not None and not is_instance_of(gateway, cause, THROWABLE):
            cause = cause.getCause()
        found, state = (cause.getMessage(), cause.getSqlState()) if cause is not None else ("", "")
    return _sentence(found) if (state or "")[:2] in UNFIT else None


def _sentence(message: str) -> str:
    return message.partition("\n")[0].partition(" SQLSTATE")[0]


def as_received(records: DataFrame) -> DataFrame:
    """Return records of a quarantine with the columns of bronze, and no others."""
    return records.select(
        *(
            F.col(each.name)
            if each.name in records.columns
            else F.lit(None).cast(each.dataType).alias(each.name)
            for each in RECEIVED
        )
    )


def _parsed(spark: SparkSession, where: str) -> Any:  # noqa: ANN401  # py4j's objects have no types
    try:
        return classic(spark).sessionState().sqlParser().parseExpression(where)
    except (ParseException, Py4JJavaError) as error:
        raise DefinitionError(f"--where {where!r} is no condition", hint=EXAMPLE) from error


def _kind(node: Any) -> str:  # noqa: ANN401  # as above
    return str(node.getClass().getSimpleName())


def _below(node: Any) -> list[Any]:  # noqa: ANN401  # as above
    children = node.children()
    return [children.apply(number) for number in range(children.size())]


def _nodes(node: Any) -> Iterator[Any]:  # noqa: ANN401  # as above
    yield node
    for child in _below(node):
        yield from _nodes(child)


def _parts(node: Any) -> tuple[str, ...]:  # noqa: ANN401  # as above
    parts = node.nameParts()
    return tuple(str(parts.apply(number)) for number in range(parts.size()))


def _texts(node: Any) -> list[str] | None:  # noqa: ANN401  # as above
    """Return the texts that say whom a condition means: ``name = 'a' OR name IN ('b', 'c')``; None where it says more."""
    match _kind(node), _below(node):
        case "Or", [left, right]:
            found = [_texts(left), _texts(right)]
            return None if None in found else [text for texts in found for text in texts or ()]
        case "EqualTo" | "EqualNullSafe", [left, right]:
            column, value = (left, right) if _is_text(right) else (right, left)
            return [_text(value)] if _is_text(value) and _is_column(column) else None
        case "In", [column, *values] if _is_column(column) and all(map(_is_text, values)):
            return [*map(_text, values)]
        case _:
            return None


def _is_column(node: Any) -> bool:  # noqa: ANN401  # as above
    """Return whether a node is a column, or its value as text, which is in the bytes as well."""
    if _kind(node) == "Cast" and node.dataType().simpleString() == "string":
        return _is_column(*_below(node))
    return _kind(node) == COLUMN


def _is_text(node: Any) -> bool:  # noqa: ANN401  # as above
    return _kind(node) == "Literal" and node.dataType().simpleString() == "string"


def _text(node: Any) -> str:  # noqa: ANN401  # as above
    return str(node.value().toString())


def _scala(spark: SparkSession, parts: Sequence[str]) -> Any:  # noqa: ANN401  # as above
    return jvm(spark).PythonUtils.toSeq([*parts])


def _pattern(word: str) -> str:
    """Return the pattern of a text as a word in bytes that were read as Latin 1."""
    length = f"\\x{min(2 * len(word.encode()), 255):02x}"
    return f"(?<![\\w-]){pattern_of(word)}(?![\\w-])|{length}{literal(word)}"
