"""A record of Debezium becomes the row as it is after the change, in whichever form a connector writes it."""

import io
import json
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import fastavro
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import LongType, StringType, StructType

from strandline.core.changed_rows import changes_of, debezium
from strandline.core.errors import DefinitionError
from strandline.core.parse_registered import registered
from strandline.core.routes import Format, WriterSchema, schemas_from
from tests.support.debezium import MOMENT, mysql, postgres
from tests.support.events import Event, frame
from tests.support.rows import NOON

CUSTOMER = (
    StructType().add("id", LongType()).add("email", StringType()).add("first_name", StringType())
)
FIELDS = changes_of(CUSTOMER)
ANNE = {"id": 1004, "first_name": "Anne", "last_name": "Kretchmar", "email": "annek@noanswer.org"}
AT = datetime(2026, 11, 20, 8, 0, 0)  # noqa: DTZ001  # as Spark hands times over
PLACE = "offset/00000000000000000000/0000000000000000000"


def read(
    spark: SparkSession, *records: str | None, keys: tuple[str, ...] = ()
) -> list[dict[str, Any]]:
    """Parse records in one job, and keep their order."""
    events = frame(
        spark, [Event(payload=None if each is None else each.encode()) for each in records]
    )
    if keys:
        named = F.array(*map(F.lit, keys))
        events = events.withColumn("_message_key", F.get(named, F.col("_offset").cast("int")))
        events = events.withColumn("_message_key", F.col("_message_key").cast("binary"))
    found = debezium()(events, FIELDS).orderBy("_offset").collect()
    payloads = [None if row["_payload"] is None else row["_payload"].decode() for row in found]
    assert payloads == list(records), "the quarantine needs the payload as it came"
    return [row.asDict() for row in found]


def registered_bytes(number: int, schema: Any, record: Any) -> bytes:  # noqa: ANN401  # Avro's own values
    """Return a record in the wire format of a registry."""
    stream = io.BytesIO()
    fastavro.schemaless_writer(stream, fastavro.parse_schema(schema), record)
    return b"\0" + number.to_bytes(4, "big") + stream.getvalue()


def changes(found: list[dict[str, Any]], *names: str) -> list[tuple[Any, ...]]:
    """Return some columns of rows that have no problem."""
    assert [row["_problem"] for row in found] == [None] * len(found)
    return [tuple(row[name] for name in names) for row in found]


@pytest.mark.whole
def test_an_envelope_is_read_alone_and_within_a_payload(spark: SparkSession) -> None:
    """The row after an insert, an update and in a snapshot; the row before a delete."""
    moved = {**ANNE, "email": "anne@new.org"}
    key_only = {
        **dict.fromkeys(ANNE),
        "id": 1004,
    }  # what Postgres knows by default of a row that is gone
    records = [
        postgres(op, before=before, after=after, lsn=lsn, within=within)
        for op, before, after, lsn, within in (
            ("r", None, ANNE, 900, True),
            ("c", None, ANNE, 1000, False),
            ("u", ANNE, moved, 1008, True),
            ("d", key_only, None, 1016, False),
        )
    ]

    found = changes(read(spark, *records), "change_op", "id", "email", "change_position")

    assert found == [
        ("r", 1004, "annek@noanswer.org", f"{900:020}"),
        ("c", 1004, "annek@noanswer.org", f"{1000:020}"),
        ("u", 1004, "anne@new.org", f"{1008:020}"),
        ("d", 1004, None, f"{1016:020}"),
    ]


@pytest.mark.whole
def test_times_are_those_of_the_database_as_exactly_as_it_gives_them(spark: SparkSession) -> None:
    records = [postgres("c", after=ANNE), mysql("c", after=ANNE, second=3)]

    (micros,), (seconds,) = changes(read(spark, *records), "changed_at")

    assert micros == AT + timedelta(microseconds=125)
    assert seconds == AT + timedelta(seconds=3)


@pytest.mark.whole
def test_positions_sort_as_the_database_wrote(spark: SparkSession) -> None:
    """Files of MySQL are numbered beyond the digits that their names began with; a statement has several rows."""
    records = [
        mysql("c", after=ANNE, file=file, pos=pos, row=row)
        for file, pos, row in (
            ("mysql-bin.000003", 4696, 0),
            ("mysql-bin.000003", 4696, 1),
            ("mysql-bin.000003", 15000, 0),
            ("mysql-bin.000004", 4, 0),
            ("mysql-bin.1000000", 4, 0),
        )
    ]
    server = json.loads(postgres("c", after=ANNE))
    place = {"commit_lsn": "00000027:00000ac0:0002", "change_lsn": "00000027:00000ab8:0003"}
    server["source"] = {"ts_ms": MOMENT, **place, "event_serial_no": 2}

    found = [each for (each,) in changes(read(spark, *records), "change_position")]
    ((sql_server,),) = changes(read(spark, json.dumps(server)), "change_position")

    assert found == sorted(found)
    assert len({*found}) == len(found)
    assert sql_server == f"{place['commit_lsn']}/{place['change_lsn']}/{2:020}"


def test_a_flat_row_is_read_with_what_was_added_to_it(spark: SparkSession) -> None:
    added = {"__deleted": "false", "__op": "u", "__lsn": 1008, "__source_ts_ms": MOMENT}
    records = [
        json.dumps({**ANNE, **added}),
        json.dumps({"schema": {}, "payload": {**ANNE, "__deleted": "true", "__source_lsn": 9}}),
        json.dumps(ANNE),
    ]

    found = changes(read(spark, *records), "change_op", "id", "email", "change_position")

    assert found == [
        ("u", 1004, "annek@noanswer.org", f"{1008:020}"),
        ("d", 1004, "annek@noanswer.org", f"{9:020}"),
        ("u", 1004, "annek@noanswer.org", f"{PLACE}2"),
    ]


@pytest.mark.whole
def test_a_tombstone_is_a_row_by_its_key(spark: SparkSession) -> None:
    keys = ('{"id": 1004}', '{"schema": {}, "payload": {"id": 1005}}')

    found = changes(read(spark, None, None, keys=keys), "change_op", "id", "email")

    assert found == [("tombstone", 1004, None), ("tombstone", 1005, None)]


@pytest.mark.whole
def test_a_converter_with_a_registry_writes_the_same_changes(spark: SparkSession) -> None:
    """As Avro, whose records have no wrapper, and whose keys have a schema of their own."""
    row = {
        "type": "record",
        "name": "Value",
        "fields": [{"name": "id", "type": "int"}, {"name": "email", "type": ["null", "string"]}],
    }
    source = {
        "type": "record",
        "name": "Source",
        "fields": [{"name": "ts_ms", "type": "long"}, {"name": "lsn", "type": ["null", "long"]}],
    }
    envelope = {
        "type": "record",
        "name": "Envelope",
        "fields": [
            {"name": "before", "type": ["null", row]},
            {"name": "after", "type": ["null", "Value"]},
            {"name": "source", "type": source},
            {"name": "op", "type": "string"},
        ],
    }
    key = {"type": "record", "name": "Key", "fields": row["fields"][:1]}
    schemas = {
        number: WriterSchema(number=number, kind=Format.AVRO, text=json.dumps(text))
        for number, text in ((1, envelope), (2, key))
    }
    change = {
        "before": {"id": 1004, "email": None},
        "after": None,
        "source": {"ts_ms": MOMENT, "lsn": 1016},
        "op": "d",
    }
    events = frame(
        spark, [Event(payload=registered_bytes(1, envelope, change)), Event(payload=None)]
    )
    events = events.withColumn("_message_key", F.lit(registered_bytes(2, key, {"id": 1004})))

    with schemas_from(schemas.get):
        found = debezium(parse=registered())(events, FIELDS).orderBy("_offset").collect()

    assert changes([each.asDict() for each in found], "change_op", "id", "changed_at") == [
        ("d", 1004, AT),
        ("tombstone", 1004, NOON.replace(tzinfo=None)),
    ]


@pytest.mark.whole
def test_what_changes_no_row_has_its_reason(spark: SparkSession) -> None:
    message = json.loads(postgres("m"))
    wrong = postgres("c", after={**ANNE, "id": "1004"})
    records = [postgres("t"), json.dumps(message), wrong, "junk", postgres("c", after=ANNE)[:-1]]

    found = read(spark, *records)

    expected = ["truncate", "no_change", "wrong_type", "malformed", "malformed"]
    assert [row["_problem"] for row in found] == expected


@pytest.mark.whole
def test_columns_of_the_database_come_and_go(spark: SparkSession) -> None:
    """One that is not declared is left out, one that is gone is NULL."""
    newer = {"id": 1004, "first_name": "Anne", "phone": "+49"}

    ((id_, email, name),) = changes(
        read(spark, postgres("c", after=newer)), "id", "email", "first_name"
    )

    assert (id_, email, name) == (1004, None, "Anne")


def test_a_column_with_the_name_of_a_part_of_the_envelope_is_refused(spark: SparkSession) -> None:
    with pytest.raises(DefinitionError, match="the column source"):
        debezium()(frame(spark, [Event(payload=b"")]), StructType().add("source", StringType()))


def test_both_forms_of_a_converter_are_declared_alike() -> None:
    """A topic is a value: two of the same declaration are one."""
    assert debezium() == debezium()
    assert replace(debezium()) == debezium()
