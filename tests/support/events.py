"""Events of device telemetry as literals, and the bronze table that they would have become without Kafka."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import groupby

import orjson
from pyspark.sql import DataFrame, SparkSession

from jobs.bronze import device_telemetry as bronze
from jobs.core.lateness import SKEW
from jobs.core.received import NOTHING_ARRIVED, RECEIVED
from jobs.core.table import Table
from jobs.core.verdict import good_rows, judged
from jobs.engine.pipeline.ingest import PROPERTIES
from jobs.engine.pipeline.make_table import make
from jobs.engine.pipeline.newest_arrival import newest_before
from jobs.engine.storage import delta_commit
from jobs.engine.storage.lake import Lake
from jobs.engine.storage.ledger import Entry, Offsets, last_entry
from jobs.silver import device_telemetry as silver
from tests.support.rows import NOON, NULL, Row, at, lines

TABLE = bronze.TABLE
TOPIC = TABLE.topics[0].name


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """A Kafka record, and the bronze commit that takes it in.

    Args:
        batch: Events of one number share a commit.
        partition: Of the topic; offsets follow from the order of the events.
        payload: The record's bytes; None is a tombstone.
        arrived_at: The record's timestamp.
        ingested_at: The reader's clock.
    """

    payload: bytes | None
    batch: int = 0
    partition: int = 0
    arrived_at: datetime = NOON
    ingested_at: datetime = NOON


def readings(table: str) -> list[Event]:
    """Read events from a table; a column that is absent is as in any good reading.

    ``id``, ``device``, ``signal``, ``value``, ``event_at`` and ``firmware`` make the payload, unless
    ``payload`` gives it whole. Without ``arrived_at`` an event arrived when it happened;
    without ``ingested_at`` it was read when it arrived.
    """
    return [_event(row) for row in lines(table)]


def reading(**fields: object) -> bytes:
    """Return the payload of a good reading, with other values where they are given; None leaves a field out."""
    payload = {
        "event_id": "e1",
        "device_id": "d1",
        "signal": "temperature",
        "value": 21.5,
        "event_at": NOON.isoformat(),
        "meta": {"firmware": "1.4.2", "seq": 17},
    } | fields
    return orjson.dumps({name: value for name, value in payload.items() if value is not None})


def frame(spark: SparkSession, events: Sequence[Event]) -> DataFrame:
    """Return events as rows of bronze, with offsets from 0."""
    return _frame(spark, _numbered(events, {}), number=0, newest_before=NOTHING_ARRIVED)


def received(
    spark: SparkSession,
    lake: Lake,
    events: Iterable[Event],
    *,
    files: int = 1,
    marked: bool = True,
) -> list[Entry]:
    """Append events to the lake's bronze table, one commit a batch number, each with its ledger entry.

    Args:
        spark: Writes the rows.
        lake: Gets them.
        events: In the order of their offsets within a partition.
        files: How many files a commit has at most; records of one partition stay together.
        marked: Whether each row has the newest arrival before its commit; rows of an older lake do not.
    """
    path = lake.table(TABLE)
    delta_commit.create(spark, path, RECEIVED, properties=PROPERTIES)
    return [_append(spark, lake, batch, files, marked=marked) for batch in commits(events)]


def believed(spark: SparkSession, lake: Lake, events: Iterable[Event]) -> list[Entry]:
    """Append events to the lake's silver table as they are, one commit a batch number.

    Silver as it runs would drop or refuse some of them; a test of gold may want to know what then.
    """
    made = []
    for batch in commits(events):
        good = good_rows(judged(frame(spark, batch), silver.TABLE))
        make(spark, silver.TABLE, lake, judged(frame(spark, batch), silver.TABLE))
        made.append(_commit(spark, lake, silver.TABLE, good.coalesce(1), {}))
    return made


def commits(events: Iterable[Event]) -> list[list[Event]]:
    """Deal events to the commits that their batch numbers name."""
    ranked = sorted(events, key=lambda event: event.batch)
    return [list(batch) for _, batch in groupby(ranked, key=lambda event: event.batch)]


def _append(
    spark: SparkSession, lake: Lake, events: Sequence[Event], files: int, *, marked: bool
) -> Entry:
    newest = last_entry(lake.table(TABLE))
    known = newest[1].offsets if newest else {}
    start = {int(name.rpartition("/")[2]): end for name, (_, end) in known.items()}
    numbered = _numbered(events, start)
    known = newest_before(newest[1] if newest else None) if marked else None
    records = _frame(spark, numbered, newest[1].batch + 1 if newest else 0, known)
    spread = records.repartition(files, "_partition") if files > 1 else records.coalesce(1)
    ends = start | {p: offset + 1 for p, offset, _ in numbered}
    offsets = {f"{TOPIC}/{p}": (start.get(p, 0), end) for p, end in sorted(ends.items())}
    arrivals = [
        min(event.arrived_at, event.ingested_at)
        for event in events
        if event.arrived_at <= event.ingested_at + SKEW
    ]
    arrived = max([*arrivals, *([known] if known else [])], default=None)
    return _commit(spark, lake, TABLE, spread, offsets, arrived)


def _commit(  # noqa: PLR0913, PLR0917  # what a commit has
    spark: SparkSession,
    lake: Lake,
    table: Table,
    rows: DataFrame,
    offsets: Offsets,
    newest_arrival: datetime | None = None,
) -> Entry:
    newest = last_entry(lake.table(table))
    commit = delta_commit.Commit(spark, lake.table(table))
    written = commit.write(rows).rows
    entry = Entry(
        table=table.id,
        mode="available-now",
        stream="literal",
        batch=newest[1].batch + 1 if newest else 0,
        source=str(table.reads[0]),
        offsets=offsets,
        newest_arrival=newest_arrival.isoformat() if newest_arrival else None,
        read=written,
        good=written,
        written=written,
    )
    commit.commit(entry.encoded())
    return entry


def _numbered(events: Sequence[Event], start: dict[int, int]) -> list[tuple[int, int, Event]]:
    following = dict(start)
    numbered = []
    for event in events:
        offset = following.get(event.partition, 0)
        following[event.partition] = offset + 1
        numbered.append((event.partition, offset, event))
    return numbered


def _frame(
    spark: SparkSession,
    numbered: Sequence[tuple[int, int, Event]],
    number: int,
    newest_before: datetime | None,
) -> DataFrame:
    records: list[tuple[object, ...]] = [
        (
            TOPIC,
            p,
            offset,
            e.arrived_at,
            b"key",
            e.payload,
            [],
            number,
            e.ingested_at,
            newest_before,
        )
        for p, offset, e in numbered
    ]
    return spark.createDataFrame(records, RECEIVED)


def _event(row: Row) -> Event:
    happened_at = row.get("event_at", NULL)
    arrived_at = row.get("arrived_at", happened_at)
    return Event(
        batch=int(row.get("batch", 0)),
        partition=int(row.get("partition", 0)),
        payload=_payload(row),
        arrived_at=at(arrived_at) if arrived_at != NULL else NOON,
        ingested_at=at(row.get("ingested_at", arrived_at)) if arrived_at != NULL else NOON,
    )


def _payload(row: Row) -> bytes:
    if row.get("payload", NULL) != NULL:
        return row["payload"].encode()
    known = {"id": "event_id", "device": "device_id", "signal": "signal"}
    fields: dict[str, object] = {
        field: None if row[name] == NULL else row[name]
        for name, field in known.items()
        if name in row
    }
    if "value" in row:
        fields["value"] = None if row["value"] == NULL else orjson.Fragment(row["value"])
    if "event_at" in row:
        absent = row["event_at"] == NULL
        fields["event_at"] = None if absent else at(row["event_at"]).isoformat()
    if "firmware" in row:
        fields["meta"] = {"firmware": row["firmware"]}
    return reading(**fields)
