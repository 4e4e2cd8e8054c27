"""What the bytes of a record say of it: the kind of event by which silver tables take it, and the schema with which it was written.

A topic with several kinds declares how they differ (``kind=field("type")``), and a table which of them it takes
(``takes="order_created"``). Bronze keeps the kind beside the record, and the declaration by which it was found; never the taker,
because a table that is added later takes what came before it. Where a record was kept without a kind, or by another
declaration than today's, its bytes are asked again, so one declaration decides for a reader of all of them.

A kind is foreign text. Longer ones than 200 letters, empty ones and those with signs that no terminal shows are none, and a record
without a kind is taken by no table.
"""

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import asdict, dataclass
from dataclasses import field as declared
from enum import StrEnum
from functools import reduce
from typing import Any, TypeAlias

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import StringType, StructType

from strandline.core.errors import DefinitionError

KIND, KIND_BY = "_kind", "_kind_by"
"""The columns of bronze with a record's kind, and with the declaration by which it was found."""

LONGEST = 200
"""Letters of a kind."""

ODD = r"[\p{Cntrl}\p{Zl}\p{Zp}\x{FFFD}]"
"""Signs that would break a line or move the cursor of a terminal, and the one that Spark reads where bytes are no text."""

REST = ""
"""In a count by kind, all that a table takes which declares ``all_but``; no kind is an empty text."""

NEVER = re.compile("[\\x00-\\x1f\\x7f-\\x9f\\u2028\\u2029\\ufffd]")
"""The same signs, in a kind that a table declares to take."""

NO_KIND = "no_kind"
"""The reason of a record that has no kind."""


@dataclass(frozen=True, slots=True)
class KindBy:
    """How the kinds of a topic's records differ.

    Args:
        text: A text that says it.
        of: The expression over rows of bronze, which may be any text.
        at_once: One that finds most kinds sooner, and says NULL for each record that ``of`` is to be asked of.
        path: The field of the payload that says it, where one does.
    """

    text: str
    of: Callable[[], Column] = declared(compare=False, repr=False)
    at_once: Callable[[], Column] | None = declared(default=None, compare=False, repr=False)
    path: tuple[str, ...] = declared(default=(), compare=False, repr=False)

    def __str__(self) -> str:
        """Return how it is declared."""
        return self.text


def field(*path: str) -> KindBy:
    """Distinguish kinds by a field of the JSON payload; of a field within another, name each on the way to it.

    A payload that is no JSON has no kind; of a field that occurs twice the last value counts, as for every other field.

    Raises:
        DefinitionError: It names no field.
    """
    _refuse_empty("field", path)

    def of() -> Column:
        kind = StructType().add(path[-1], StringType())
        for name in reversed(path[:-1]):
            kind = StructType().add(name, kind)
        parsed = F.from_json(F.col("_payload").cast("string"), kind, {"allowSingleQuotes": "false"})
        return reduce(lambda inner, name: inner[name], path, parsed)

    def at_once() -> Column:
        return F.call_function("json_kind", "_payload", *map(F.lit, path))

    return KindBy(f"field({', '.join(map(repr, path))})", of, at_once, path)


def header(name: str) -> KindBy:
    """Distinguish kinds by a header of the record; of several of that name the last counts, as for Kafka's clients.

    Raises:
        DefinitionError: It names no header.
    """
    _refuse_empty("header", (name,))

    def of() -> Column:
        named = F.filter("_headers", lambda each: each["key"] == F.lit(name))
        return F.try_element_at(named, F.lit(-1))["value"].cast("string")

    return KindBy(f"header({name!r})", of)


def key_prefix(until: str) -> KindBy:
    """Distinguish kinds by the begin of the record's key, up to the first occurrence of a text such as ``:``.

    A key without that text has no kind.

    Raises:
        DefinitionError: The text is empty.
    """
    _refuse_empty("key_prefix", (until,))

    def of() -> Column:
        key = F.col("_message_key").cast("string")
        return F.when(F.contains(key, F.lit(until)), F.substring_index(key, until, 1))

    return KindBy(f"key_prefix({until!r})", of)


def schema_id() -> KindBy:
    """Distinguish kinds by the number of the schema before the payload, as a schema registry's clients write it."""

    def of() -> Column:
        has_number = (F.octet_length("_payload") >= F.lit(5)) & (
            F.substring("_payload", 1, 1) == F.lit(b"\0")
        )
        number = F.conv(F.hex(F.substring("_payload", 2, 4)), 16, 10)
        return F.when(has_number, number)

    return KindBy("schema_id()", of)


@dataclass(frozen=True, slots=True)
class AllBut:
    """All kinds but those that other tables take."""

    others: tuple[str, ...] = ()


def all_but(*others: str) -> AllBut:
    """Take every kind but these, which other tables take; a record without a kind is taken by none."""
    return AllBut(others)


Takes: TypeAlias = tuple[str, ...] | AllBut


def tuple_of(takes: str | Takes) -> Takes:
    """Return declared kinds in one form: a text is one kind."""
    return ((takes,) if takes else ()) if isinstance(takes, str) else takes


def in_words(takes: Takes) -> str:
    """Return the kinds of a declaration as a ledger has them."""
    if isinstance(takes, AllBut):
        return f"all but {_listed(takes.others)}" if takes.others else "all"
    return _listed(takes)


def _listed(kinds: Sequence[str]) -> str:
    """Return kinds so that no two lists have one text."""
    return ", ".join(map(repr, sorted(kinds)))


def kinds_named(takes: str | Takes) -> tuple[str, ...]:
    """Return the kinds that a table names to take."""
    found = tuple_of(takes)
    return () if isinstance(found, AllBut) else found


def odd_kinds(name: str, takes: object) -> str | None:
    """Return what is wrong with the kinds that a table declares to take; None where nothing is."""
    kinds = takes.others if isinstance(takes, AllBut) else takes
    if not isinstance(kinds, tuple) or not all(isinstance(each, str) for each in kinds):
        return f"declares {name}={takes!r}, which is no kind"
    odd = [each for each in kinds if not each or len(each) > LONGEST or NEVER.search(each)]
    if odd:
        return f"declares {name}={odd[0][:40]!r}, which no kind can be"
    twice = sorted({each for each in kinds if kinds.count(each) > 1})
    if twice:
        return f"names {twice[0]!r} twice in {name}"
    return None


def shared(first: Takes, second: Takes) -> str | None:
    """Return a kind that both take; an empty text where it has no name, None where there is none."""
    if isinstance(first, AllBut) and isinstance(second, AllBut):
        return ""
    named = second if isinstance(first, AllBut) else first
    other = first if isinstance(first, AllBut) else second
    return next((each for each in kinds_named(named) if takes_kind(other, each)), None)


def takes_kind(takes: Takes, kind: str) -> bool:
    """Return whether a kind is among those that a table takes."""
    return kind not in takes.others if isinstance(takes, AllBut) else kind in takes


def is_taken(kind: Column, *taken: Takes) -> Column:
    """Return whether a record of a kind is of those that a table takes; never NULL."""
    found = F.lit(False)
    for each in taken:
        if isinstance(each, AllBut):
            found |= (
                kind.isNotNull() & ~kind.isin(*each.others) if each.others else kind.isNotNull()
            )
        elif each:
            found |= kind.isin(*each)
    return F.coalesce(found, F.lit(False))


def found_now(by: Mapping[str, KindBy | None]) -> Column:
    """Return the kind of a row of bronze by today's declarations, from its bytes.

    Args:
        by: The declaration of each topic; a topic without one is a kind by itself, by its name. The first one's also reads records
            of a topic that is read no more.
    """
    return _of_topic({name: _bounded(each, name) for name, each in by.items()})


def declared_now(by: Mapping[str, KindBy | None]) -> Column:
    """Return the declaration by which that is found."""
    return _of_topic({name: F.lit(text_of(each)) for name, each in by.items()})


def text_of(by: KindBy | None) -> str:
    """Return a declaration as bronze keeps it."""
    return str(by) if by else "topic"


def with_kind(events: DataFrame, by: Mapping[str, KindBy | None]) -> DataFrame:
    """Give rows of bronze their kind: the one that is kept, where it was found as today, and else the one that their bytes say."""
    if KIND_BY not in events.columns:
        # None was kept, or this was done before.
        return events if KIND in events.columns else events.withColumn(KIND, found_now(by))
    # Of a topic that is read no more, nothing says today how its kinds differ.
    is_known = (F.col(KIND_BY) == declared_now(by)) | (
        F.col(KIND_BY).isNotNull() & ~F.col("_topic").isin(*by)
    )
    known = F.when(is_known, F.col(KIND)).otherwise(found_now(by))
    return events.withColumn(KIND, known).drop(KIND_BY)


def _of_topic(values: Mapping[str, Column]) -> Column:
    (_, first), *others = values.items()
    found = first
    for name, value in others:
        found = F.when(F.col("_topic") == name, value).otherwise(found)
    return found


def _bounded(by: KindBy | None, topic: str) -> Column:
    if by is None:
        return F.lit(topic)
    kind: Any = F.try_validate_utf8(by.of())
    fits = F.length(kind).between(1, LONGEST) & ~kind.rlike(ODD)
    bounded = F.when(fits, kind)
    return F.coalesce(by.at_once(), bounded) if by.at_once else bounded


def _refuse_empty(name: str, words: Sequence[object]) -> None:
    if not words or not all(isinstance(each, str) and each for each in words):
        raise DefinitionError(
            f"{name}({', '.join(map(repr, words))}) says nothing by which kinds differ",
            hint='write field("type"), header("type"), key_prefix(":") or schema_id().',
        )


# The schema with which a payload was written, by its id in a schema registry; and where a function finds schemas.
#
# A payload in Confluent's wire format has no field names, only the id of its writer's schema. A table's function is pure: it
# has rows and no lake. So what plans a table names the schemas of its lake for the length of the planning
# (``schemas_from``), and what is planned keeps them: a stream that runs for a year asks the same shelf for each new id.


class Format(StrEnum):
    """How payloads of a schema are encoded, by the registry's own names."""

    AVRO = "AVRO"
    PROTOBUF = "PROTOBUF"
    JSON = "JSON"


@dataclass(frozen=True, slots=True)
class Reference:
    """A schema that another one imports.

    Args:
        name: How it is imported: a name, a file or an address.
        text: The schema.
    """

    name: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class WriterSchema:
    """A schema of an id of a registry; it never changes.

    Args:
        number: The id.
        kind: How payloads are encoded.
        text: The schema; for Protobuf a serialized ``FileDescriptorProto`` as base64.
        references: All schemas that it imports, each after those that it imports itself.
    """

    number: int
    kind: Format
    text: str
    references: tuple[Reference, ...] = ()

    def as_json(self) -> str:
        """Return it as text."""
        return json.dumps(asdict(self), indent=1)

    @classmethod
    def of_json(cls, text: str) -> "WriterSchema":
        """Read it from text."""
        found = json.loads(text)
        references = tuple(Reference(**each) for each in found["references"])
        return cls(**{**found, "kind": Format(found["kind"]), "references": references})


class MalformedError(ValueError):
    """Bytes that are not exactly one record of their schema."""


Record: TypeAlias = Mapping[str, Any]
"""A decoded record, by the names of its fields."""

Decode: TypeAlias = Callable[[bytes], Record]
"""Returns the record that bytes are; what follows the id of their schema.

Raises ``MalformedError`` where they are none.
"""

Schemas: TypeAlias = Callable[[int], WriterSchema | None]
"""Returns the schema of an id; None where no registry knows the id. Spark sends it to its Python workers."""


def no_schemas(number: int) -> WriterSchema | None:
    """Refuse to look up a schema, because no place was named.

    Raises:
        DefinitionError: Always.
    """
    raise DefinitionError(
        f"the schema {number} was asked for outside of a lake",
        hint="a test gives them to `judge(…, schemas=…)`; the engine names them with `schemas_from`.",
        schema=number,
    )


_SCHEMAS: ContextVar[Schemas] = ContextVar("schemas", default=no_schemas)


@contextmanager
def schemas_from(schemas: Schemas) -> Iterator[None]:
    """Let the functions of tables that are called in the block find schemas there."""
    token = _SCHEMAS.set(schemas)
    try:
        yield
    finally:
        _SCHEMAS.reset(token)


def schemas_of_today() -> Schemas:
    """Return where the function that is called now finds schemas."""
    return _SCHEMAS.get()
