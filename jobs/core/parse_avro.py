"""Avro records to columns, without believing anything that is not exactly one record of the declared schema.

Why an end mark is decoded with each record: ``from_avro`` leaves whatever follows a record unread, so a record and
half of another would pass as one. Behind the payload stands a mark drawn when the query is made, and the schema is
wrapped in one that asks for it: a payload that is too long or too short does not end where the mark begins.

Why there is no ``wrong_type``: Avro's bytes carry no types. What is read by another schema than it was written by is
nearly always ``malformed``, and what is not cannot be told from a record that says so.

The jar of 4.1.1 serves Spark 4.2.0, for which none can be had: what it lacks is in Spark itself since 4.2, and
tests/core/test_parse_avro.py runs all that is used of it.
"""

import json
import secrets

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.avro.functions import from_avro
from pyspark.sql.types import StructType

from jobs.core.errors import DefinitionError
from jobs.core.leaves import at, texts
from jobs.core.table import Parse

MARK_BYTES = 16
READ, BODY, END = "_read", "body", "end"


def avro(schema: str, *, schema_id: int | None = None) -> Parse:
    """Return the function that reads payloads of one schema.

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

    def parse(events: DataFrame, fields: StructType) -> DataFrame:
        mark = F.lit(secrets.token_bytes(MARK_BYTES))
        body = F.substr("_payload", F.lit(len(head) + 1))
        read = from_avro(F.concat(body, mark), ended, {"mode": "PERMISSIVE"})
        decoded = events.withColumn(READ, read)
        _refuse_others(decoded.select(f"{READ}.{BODY}.*").schema, fields)
        is_whole = (F.col(f"{READ}.{END}") == mark) & F.startswith("_payload", F.lit(head))
        for path in texts(fields):
            text = at(F.col(f"{READ}.{BODY}"), path)
            is_whole &= text.isNull() | F.is_valid_utf8(text)
        values = {f.name: _value(F.col(f"{READ}.{BODY}.`{f.name}`"), is_whole) for f in fields}
        problem = F.when(~F.coalesce(is_whole, F.lit(False)), F.lit("malformed"))
        return decoded.withColumns({**values, "_problem": problem}).drop(READ)

    return parse


def _value(found: Column, is_whole: Column) -> Column:
    return F.when(is_whole, found)  # what was decoded of a broken record is nobody's word


def _record(schema: str) -> dict[str, object]:
    try:
        found = json.loads(schema)
    except ValueError as error:
        raise DefinitionError(
            f"an Avro schema is no JSON: {error}",
            hint="give the schema itself, not its file's name.",
        ) from error
    if not isinstance(found, dict) or found.get("type") != "record":
        raise DefinitionError(
            "an Avro schema of a topic is not a record",
            hint='its "type" must be "record"; one value alone has no field names.',
        )
    return found


def _refuse_others(read: StructType, fields: StructType) -> None:
    """See that each declared field is in the schema, with the declared type.

    Raises:
        DefinitionError: One is not.
    """
    kinds = {field.name: field.dataType.simpleString() for field in read}
    for field in fields:
        declared = field.dataType.simpleString()
        if kinds.get(field.name) != declared:
            raise DefinitionError(
                f"field {field.name} is declared {declared}, but the Avro schema says "
                f"{kinds.get(field.name, 'nothing of it')}",
                hint=f"its fields are {', '.join(f'{n} {kind}' for n, kind in kinds.items())}.",
                field=field.name,
            )
