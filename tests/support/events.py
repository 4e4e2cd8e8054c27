"""Events of device telemetry as literals, and the bronze table that they would have become without Kafka."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from itertools import groupby

import orjson
from pyspark.sql import DataFrame, SparkSession

from fleet.bronze import device_telemetry as bronze
from fleet.silver import device_telemetry as silver
from strandline.core.kind import SKEW
from strandline.core.table import Table
from strandline.core.topic import NOTHING_ARRIVED, RECEIVED
from strandline.core.verdict import good_rows, judged
from strandline.engine.flow.ingest import PROPERTIES, newest_before
from strandline.engine.flow.plan import make
from strandline.engine.lake.commit import delta_commit
from strandline.engine.lake.lake import Lake
from strandline.engine.lake.log.ledger import Entry, last_entry
from strandline.engine.lake.log.ledger_sums import sums_of
from tests.support import by_hand
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
    return spark.createDataFrame(_records(_numbered(events, {}), 0, NOTHING_ARRIVED), RECEIVED)


def received(
    lake: Lake, events: Iterable[Event], *, files: int = 1, marked: bool = True
) -> list[Entry]:
    """Append events to the lake's bronze table, one commit a batch number, each with its ledger entry.

    Args:
        lake: Gets them.
        events: In the order of their offsets within a partition.
        files: How many files a commit has at most; records of one partition stay together.
        marked: Whether each row has the newest arrival before its commit; rows of an older lake do not.
    """
    by_hand.create(lake.table(TABLE), RECEIVED, PROPERTIES)
    return [_append(lake, batch, files, marked=marked) for batch in commits(events)]


def sent(lake: Lake, number: int, count: int = 4) -> None:
    """Write a commit of bronze with some readings, each of a device of its own, two hours after the commit before."""
    moment = NOON + timedelta(hours=2 * number)
    payloads = [
        reading(event_id=f"e{number}-{n}", device_id=f"d{n}", event_at=moment.isoformat())
        for n in range(count)
    ]
    received(
        lake,
        [
            Event(batch=number, payload=each, arrived_at=moment, ingested_at=moment)
            for each in payloads
        ],
    )


def believed(spark: SparkSession, lake: Lake, events: Iterable[Event]) -> list[Entry]:
    """Append events to the lake's silver table as they are, one commit a batch number.

    Silver as it runs would drop or refuse some of them; a test of gold may want to know what then.
    """
    made = []
    for batch in commits(events):
        good = good_rows(judged(frame(spark, batch), silver.TABLE), silver.TABLE)
        make(spark, silver.TABLE, lake, judged(frame(spark, batch), silver.TABLE))
        commit = delta_commit.Commit(spark, lake.table(silver.TABLE))
        entry = _entry(lake, silver.TABLE, commit.write(good.coalesce(1)).rows)
        commit.commit(entry.encoded())
        made.append(entry)
    return made


def commits(events: Iterable[Event]) -> list[list[Event]]:
    """Deal events to the commits that their batch numbers name."""
    ranked = sorted(events, key=lambda event: event.batch)
    return [list(batch) for _, batch in groupby(ranked, key=lambda event: event.batch)]


def _append(lake: Lake, events: Sequence[Event], files: int, *, marked: bool) -> Entry:
    newest = last_entry(lake.table(TABLE))
    known = newest[1].offsets if newest else {}
    start = {int(name.rpartition("/")[2]): end for name, (_, end) in known.items()}
    numbered = _numbered(events, start)
    history = sums_of(lake.table(TABLE)).history
    before = newest_before(newest[1] if newest else None, history) if marked else None
    spread = [
        by_hand.table(
            RECEIVED,
            _records(
                [each for each in numbered if each[0] % files == file],
                newest[1].batch + 1 if newest else 0,
                before,
            ),
        )
        for file in range(files)
    ]
    ends = start | {p: offset + 1 for p, offset, _ in numbered}
    offsets = {f"{TOPIC}/{p}": (start.get(p, 0), end) for p, end in sorted(ends.items())}
    arrivals = [
        min(event.arrived_at, event.ingested_at)
        for event in events
        if event.arrived_at <= event.ingested_at + SKEW
    ]
    arrived = max([*arrivals, *([before] if before else [])], default=None)
    entry = replace(
        _entry(lake, TABLE, len(events)),
        offsets=offsets,
        newest_arrival=arrived.isoformat() if arrived else None,
    )
    by_hand.commit(lake.table(TABLE), spread, entry.encoded())
    return entry


def _entry(lake: Lake, table: Table, rows: int) -> Entry:
    newest = last_entry(lake.table(table))
    return Entry(
        table=table.id,
        mode="available-now",
        stream="literal",
        batch=newest[1].batch + 1 if newest else 0,
        source=str(table.reads[0]),
        read=rows,
        good=rows,
        written=rows,
    )


def _numbered(events: Sequence[Event], start: dict[int, int]) -> list[tuple[int, int, Event]]:
    following = dict(start)
    numbered = []
    for event in events:
        offset = following.get(event.partition, 0)
        following[event.partition] = offset + 1
        numbered.append((event.partition, offset, event))
    return numbered


def _records(
    numbered: Sequence[tuple[int, int, Event]], number: int, newest_before: datetime | None
) -> list[tuple[object, ...]]:
    return [
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
