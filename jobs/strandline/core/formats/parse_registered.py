"""Payloads of a schema registry to columns: each is read by the schema that it was written with, whatever version it is.

Confluent's wire format is a zero byte, the id of the writer's schema in four bytes, for Protobuf the place of the message in
its file, and the record. The declared fields are the reader's schema: a payload of any version becomes them by the rules of
evolution (jobs/strandline/core/formats/evolution.py).

Why a Python function and not ``from_avro`` for each id: a stream's plan is fixed when it starts, and the ids of tomorrow are
not known then. The function looks an id up when it first meets it. Its price, over 400,000 readings of seven fields: 6.6 µs of
CPU a record for Avro, 3.7 times ``from_avro`` of one schema, and 5.2 for JSON Schema (tests/benchmarks/registered_payloads.py).

A payload is no row for one of three reasons. ``malformed``: it is not in the wire format, or not exactly one record of its
schema. ``unknown_schema``: no registry knew its id when it came into the lake. ``wrong_type``: a value is not of the declared
type and cannot become it without loss.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, TypeAlias

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.pandas.functions import arrow_udf
from pyspark.sql.pandas.types import to_arrow_type
from pyspark.sql.types import StringType, StructField, StructType

from strandline.core.formats.decode import decoder
from strandline.core.formats.evolution import Turn, WrongTypeError, evolved
from strandline.core.formats.writer_schema import (
    Decode,
    MalformedError,
    Schemas,
    WriterSchema,
    schemas_of_today,
)

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
        return decoded.withColumns(columns).drop(READ)


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
