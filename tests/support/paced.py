"""Readings at a rate, of which each offset says what it is, so that of every version of bronze the truth is known.

Of a hundred records 95 are readings, one is a copy of the one before it, two lack their value, and two are of a kind that no table
takes. A second of the sender is a minute of events, so windows of a minute close while it sends.
"""

import json
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Self

from confluent_kafka import Producer
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import LongType, StringType, StructType, TimestampType

from strandline.core.kind import Lateness
from strandline.core.parse import parse_json
from strandline.core.routes import field
from strandline.core.stateful import MicroBatch
from strandline.core.table import Ingested, Judged, Table, Windowed
from strandline.core.topic import CARRIED, Topic
from strandline.engine.ask.moments import noted
from strandline.engine.ask.sql_query import ask
from strandline.engine.flow.runner import Site
from strandline.engine.lake.lake import Lake
from strandline.engine.runtime import clock
from strandline.engine.service.moment_maker import MomentMaker
from strandline.engine.service.stream_host import Host
from strandline_quality.rules import required
from tests.engine.records import make

FIELDS = (
    StructType()
    .add("id", StringType())
    .add("device", StringType())
    .add("value", LongType())
    .add("read_at", TimestampType())
)
SOON = Lateness(
    late=timedelta(seconds=30), early=timedelta(seconds=1), disorder=timedelta(seconds=30)
)
BEGIN = datetime(2026, 6, 1, tzinfo=UTC)
OF_HUNDRED = {"copies": 1, "held": 2, "unrouted": 2}


def readings(events: DataFrame) -> DataFrame:
    """Return a record's fields."""
    return parse_json(events, FIELDS).select(*CARRIED, *FIELDS.fieldNames())


def _windows(rows: DataFrame, length: str, at: str, *by: str) -> DataFrame:
    return rows.groupBy(F.window(at, length), *by)


def _shown(windows: DataFrame, *by: str) -> DataFrame:
    begin, end = F.col("window.start"), F.col("window.end")
    return windows.select(begin.alias("since"), end.alias("until"), *by, "readings")


def by_device(rows: DataFrame) -> DataFrame:
    """Count the readings of each device and minute."""
    counted = _windows(rows, "1 minute", "read_at", "device").agg(F.count("*").alias("readings"))
    return _shown(counted, "device")


def by_minute(rows: DataFrame) -> DataFrame:
    """Count the readings of each minute."""
    return _shown(_windows(rows, "1 minute", "read_at").agg(F.count("*").alias("readings")))


def by_ten(rows: DataFrame) -> DataFrame:
    """Add up the readings of devices by ten minutes."""
    summed = _windows(rows, "10 minutes", "since").agg(F.sum("readings").alias("readings"))
    return _shown(summed)


def tables(topic: Topic) -> tuple[Table, ...]:
    """Return bronze, silver, two gold tables over it, and one over one of these."""
    bronze = Ingested(name="paced", reads=(replace(topic, kind=field("kind")),))
    silver = Judged(
        name="paced",
        reads=(bronze,),
        transform=readings,
        key=("id",),
        event_at="read_at",
        lateness=SOON,
        rules=required("id", "value", "read_at"),
        takes="reading",
    )
    device = Windowed(
        name="by_device",
        reads=(silver,),
        transform=by_device,
        key=("device", "since"),
        window="1 minute",
        window_from="since",
        closes_at="until",
        lateness=SOON,
        source_count="readings",
    )
    minute = replace(device, name="by_minute", transform=by_minute, key=("since",))
    ten = Windowed(
        name="by_ten",
        reads=(device,),
        transform=by_ten,
        key=("since",),
        window="10 minutes",
        window_from="since",
        closes_at="until",
    )
    return bronze, silver, device, minute, ten


def record(offset: int) -> tuple[bytes, int]:
    """Return the payload at an offset, and its time in milliseconds."""
    rest = offset % 100
    if rest == 95:  # a copy
        offset -= 1
    at = BEGIN + timedelta(milliseconds=60 * offset)
    event: dict[str, object] = {
        "kind": "ping" if rest >= 98 else "reading",  # as said above
        "id": f"r{offset}",
        "device": f"d{offset % 7}",
        "value": None if rest in {96, 97} else offset,
        "read_at": at.isoformat(),
    }
    return json.dumps(event).encode(), int(at.timestamp() * 1000)


def truth(records: int) -> dict[str, int]:
    """Return what the first records become: rows of silver, copies, held ones, and those of which no table takes the kind."""
    hundreds, rest = divmod(records, 100)
    found = {"silver": 95 * hundreds + min(rest, 95)}
    for name, first in (("copies", 95), ("held", 96), ("unrouted", 98)):
        most = OF_HUNDRED[name]
        found[name] = most * hundreds + min(max(rest - first, 0), most)
    return found


class Sender:
    """Sends records at a rate until it is stopped, each at its time."""

    def __init__(self, address: str, topic: Topic, rate: float) -> None:
        """Prepare; nothing is sent."""
        self.sent = 0
        self._topic, self._rate = topic.name, rate
        self._producer = Producer({"bootstrap.servers": address, "linger.ms": 5, "log_level": 0})
        self.begun = 0.0
        """When it began, in seconds since 1970."""
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._send, daemon=True)

    def __enter__(self) -> Self:
        """Begin."""
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        """End, and wait until all is there."""
        self._stop.set()
        self._thread.join(60)
        assert self._producer.flush(60) == 0

    def _send(self) -> None:
        self.begun, begun = time.time(), time.monotonic()
        while not self._stop.wait(0.02):
            due = int((time.monotonic() - begun) * self._rate)
            for offset in range(self.sent, due):
                payload, at = record(offset)
                self._producer.produce(self._topic, payload, partition=0, timestamp=at)
            self.sent = max(due, self.sent)
            self._producer.poll(0)


QUESTION = """
    SELECT
        (SELECT count(*) FROM bronze.paced) AS bronze,
        (SELECT count(*) FROM silver.paced) AS silver,
        (SELECT count(*) FROM quarantine.paced) AS held,
        (SELECT sum(readings) FROM gold.by_device) AS device,
        (SELECT count(*) FROM silver.paced WHERE read_at < (SELECT max(until) FROM gold.by_device)) AS of_device,
        (SELECT sum(readings) FROM gold.by_minute) AS minute,
        (SELECT count(*) FROM silver.paced WHERE read_at < (SELECT max(until) FROM gold.by_minute)) AS of_minute,
        (SELECT sum(readings) FROM gold.by_ten) AS ten,
        (SELECT sum(readings) FROM gold.by_device WHERE since < (SELECT max(until) FROM gold.by_ten)) AS of_ten
"""
"""How many rows the tables have; and what gold has beside what it has counted."""


def apart(found: Mapping[str, int | None]) -> list[str]:
    """Return in what the answer to the question contradicts itself, or the truth."""
    got = {name: value or 0 for name, value in found.items()}
    known = truth(got["bronze"])
    pairs = {
        "silver": (got["silver"], known["silver"]),
        "held": (got["held"], known["held"]),
        "all": (got["bronze"], got["silver"] + known["copies"] + got["held"] + known["unrouted"]),
        "device": (got["device"], got["of_device"]),
        "minute": (got["minute"], got["of_minute"]),
        "ten": (got["ten"], got["of_ten"]),
    }
    return [
        f"{name}: {one:,} and {other:,}" for name, (one, other) in pairs.items() if one != other
    ]


# A stream of these tables while events come, and what notes moments beside it.


RATE = 1_000
PATIENCE = 180.0


@dataclass
class Beside:
    """A stream that runs, and what notes moments beside it."""

    lake: Lake
    tables: tuple[Table, ...]
    sender: Sender
    thread: threading.Thread

    def answered(self, end: str) -> dict[str, int | None]:
        """Return the answer to the question, as of a moment or not."""
        found = ask(f"{QUESTION} {end}", self.tables, self.lake)
        return dict(zip(found.columns, found.rows[0], strict=True))  # type: ignore[arg-type]  # counts

    def until_gold(self) -> None:
        """Wait until each gold table has a window, in a moment that is noted."""
        due = time.monotonic() + PATIENCE
        while True:
            assert time.monotonic() < due, [each.read() for each in noted(self.lake)]
            assert self.thread.is_alive()
            last = noted(self.lake)[-1:]
            found = last[0].read() if last else None
            if found and not found.behind and {*found.ids} == {each.id for each in self.tables}:
                answer = self.answered(f"AT MOMENT {found.number}")
                if answer["ten"] and answer["minute"]:
                    return
            time.sleep(0.2)


@dataclass(frozen=True)
class World:
    """What a stream needs from outside."""

    spark: SparkSession
    lake: Lake
    topic: Topic
    address: str


@contextmanager
def beside(world: World, every: float, within: float) -> Iterator[Beside]:
    """Stream all tables while events come, and note moments every so many seconds; never with 0."""
    lake, address = world.lake, world.address
    found = tables(replace(world.topic, partitions=1))
    make(address, found[0].topics[0])  # type: ignore[union-attr]  # bronze
    stop, errors = threading.Event(), list[BaseException]()
    maker = MomentMaker(
        lake,
        lambda: found,
        stop,
        every=every,
        within=within,
        says=lambda line: errors.append(AssertionError(line)),
    )
    site = Site(spark=world.spark, clock=clock.now, address=address)
    host = Host(found, MicroBatch(every=1.0), lake, site, stop, holds_back=maker.holds)

    def serve() -> None:
        try:
            host.serve(lambda _: None)
        except BaseException as error:  # noqa: BLE001  # the test raises it
            errors.append(error)

    thread = threading.Thread(target=serve)
    if every:
        maker.start()
    thread.start()
    try:
        with Sender(address, world.topic, RATE) as sender:
            yield Beside(lake, found, sender, thread)
    finally:
        stop.set()
        thread.join(PATIENCE)
    assert not errors, errors
