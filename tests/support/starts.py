"""Starts of programs: in silver by hand, or in bronze, for a stream to read."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta

from pyspark.sql import SparkSession
from pyspark.sql.types import IntegerType, LongType, StringType, StructType, TimestampType

from fleet.bronze import process_events as bronze
from fleet.silver import process_events as silver
from strandline.core.topic import NOTHING_ARRIVED, RECEIVED
from strandline.engine.flow.ingest import PROPERTIES
from strandline.engine.lake.lake import Lake
from strandline.engine.lake.log.ledger import Entry
from tests.support import by_hand
from tests.support.modes import derive
from tests.support.rows import NOON
from tests.support.seeds import copied

Start = Mapping[str, object]
(TOPIC,) = bronze.TABLE.topics
PLACED = (
    StructType()
    .add("_topic", StringType())
    .add("_partition", IntegerType())
    .add("_offset", LongType())
    .add("_arrived_at", TimestampType())
)
SCHEMA = StructType([*PLACED, *silver.FIELDS])

PROGRAMS = (
    (r"C:\Windows\System32\certutil.exe", "certutil -decode SECRET b"),
    (r"C:\Windows\System32\cmd.exe", "cmd /c dir"),
)


def starts(
    number: int, every: timedelta, programs: Sequence[tuple[str, str]], computers: int
) -> list[dict[str, object]]:
    """Return starts of programs (image, command line) by turns, from noon on, on computers by turns."""
    none = dict.fromkeys(silver.FIELDS.fieldNames())
    return [
        none
        | {
            "ProcessGuid": f"p{n}",
            "UtcTime": NOON + n * every,
            "Computer": f"d{n % computers}",
            "Image": programs[n % len(programs)][0],
            "CommandLine": programs[n % len(programs)][1],
        }
        for n in range(number)
    ]


def believed(lake: Lake, rows: Sequence[Start]) -> None:
    """Append starts to silver in one commit, as if a stream had judged them."""
    values = [
        (*_place(n, row), *(row[name] for name in silver.FIELDS.names))
        for n, row in enumerate(rows)
    ]
    by_hand.create(lake.table(silver.TABLE), SCHEMA)
    made = by_hand.table(SCHEMA, values)
    by_hand.commit(
        lake.table(silver.TABLE), [made], _entry(silver.TABLE.id, len(rows), {}).encoded()
    )


def arrived(lake: Lake, rows: Sequence[Start], batch: int = 0, first: int = 0) -> None:
    """Append starts to bronze in one commit, each received when it happened.

    Args:
        lake: Gets them.
        rows: The starts.
        batch: The number of the commit.
        first: The offset of the first one.
    """
    values = [
        (*_place(n, row), b"key", _payload(row), [], batch, row["UtcTime"], NOTHING_ARRIVED)
        for n, row in enumerate(rows, first)
    ]
    by_hand.create(lake.table(bronze.TABLE), RECEIVED, PROPERTIES)
    offsets = {f"{TOPIC.name}/0": (first, first + len(rows))}
    entry = replace(_entry(bronze.TABLE.id, len(rows), offsets), batch=batch)
    by_hand.commit(lake.table(bronze.TABLE), [by_hand.table(RECEIVED, values)], entry.encoded())


def streamed(spark: SparkSession, lake: Lake) -> Lake:
    """Return a lake whose stream has read three days of ``STARTS``, and has left the first of them."""

    def lived(seed: Lake) -> None:
        arrived(seed, STARTS)
        derive(spark, seed, silver.TABLE)

    return copied(lake, "starts of programs", lived)


def _place(offset: int, row: Start) -> tuple[object, ...]:
    return (TOPIC.name, 0, offset, row["UtcTime"])


def _payload(row: Start) -> bytes:
    written = {
        name: value.isoformat() if isinstance(value, datetime) else value
        for name, value in row.items()
        if value is not None
    }
    return json.dumps(written).encode()


def _entry(table: str, rows: int, offsets: dict[str, tuple[int, int]]) -> Entry:
    return Entry(
        table=table,
        mode="available-now",
        stream="literal",
        batch=0,
        source="literal",
        read=rows,
        good=rows,
        written=rows,
        offsets=offsets,
        newest_arrival=NOON.isoformat() if offsets else None,
    )


STARTS = starts(40, timedelta(hours=2), PROGRAMS, computers=7)
