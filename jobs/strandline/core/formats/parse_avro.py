"""Avro records to columns: a payload is accepted only if it is exactly one record of the declared schema.

Why an end mark is decoded with each record: ``from_avro`` leaves all that follows a record unread, so a record and
half of another would pass as one. A mark drawn when the query is planned is appended to the payload, and the schema is
wrapped in one that requires it: a payload that is too long or too short does not end where the mark begins.

Why there is no ``wrong_type``: Avro's bytes carry no types. A record read by another schema than its writer's is
nearly always ``malformed``; the others cannot be distinguished from records with those values.

The jar of 4.1.1 serves Spark 4.2.0, for which none is published: what it lacks is in Spark itself since 4.2, and
tests/core/test_parse_avro.py runs every part of it that is used.
"""

import json
import secrets
from dataclasses import dataclass

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.avro.functions import from_avro
from pyspark.sql.types import StructType

from strandline.core.errors import DefinitionError
from strandline.core.formats.parse import at, texts

MARK_BYTES = 16
READ, BODY, END = "_read", "body", "end"


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
        decoded = events.withColumn(READ, read)
        _refuse_others(decoded.select(f"{READ}.{BODY}.*").schema, fields)
        is_whole = (F.col(f"{READ}.{END}") == mark) & F.startswith("_payload", F.lit(self.head))
        for path in texts(fields):
            text = at(F.col(f"{READ}.{BODY}"), path)
            is_whole &= text.isNull() | F.is_valid_utf8(text)
        values = {f.name: _value(F.col(f"{READ}.{BODY}.`{f.name}`"), is_whole) for f in fields}
        problem = F.when(~F.coalesce(is_whole, F.lit(False)), F.lit("malformed"))
        return decoded.withColumns({**values, "_problem": problem}).drop(READ)


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
