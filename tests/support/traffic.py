"""Connections of the playground as rows of silver, some of which carry data off."""

import json
from collections.abc import Iterator
from datetime import datetime, timedelta

from confluent_kafka import Producer
from pyspark.sql import SparkSession

from fleet.play.network import Connections, Dhcp
from fleet.play.plan import Plan
from fleet.silver import network_connections as silver
from strandline.core.topic import Topic
from strandline.engine.lake.lake import Lake
from tests.support import by_hand
from tests.support.literal import written
from tests.support.rows import NOON
from tests.support.shapes import arrived

DAY = timedelta(days=1)
CLEAN = (
    "malformed",
    "duplicate",
    "late_share",
    "early_share",
    "unknown_field",
    "wrong_type",
    "missing",
)


def plan(
    events: int, since: datetime = NOON - DAY, *, planted: float = 0.03, seed: int = 4
) -> Plan:
    """Return the plan of a day of connections, all of them good."""
    clean = dict.fromkeys(CLEAN, 0.0)
    return Plan(since=since, until=since + DAY, events=events, seed=seed, planted=planted, **clean)


def payloads(plan: Plan) -> Iterator[tuple[bytes, int]]:
    """Yield each connection with the time of its arrival."""
    for chunk in Connections(plan, Dhcp(plan).schedule).chunks():
        yield from zip(chunk.values, chunk.arrived_at, strict=True)


def commits_of(plan: Plan, count: int) -> Iterator[range]:
    """Yield the numbers of the connections of each of some commits."""
    for part in range(count):
        yield range(plan.events * part // count, plan.events * (part + 1) // count)


def connected(spark: SparkSession, lake: Lake, plan: Plan, among: range | None = None) -> None:
    """Append the connections of a plan to silver, all or those of some numbers, in one commit."""
    schema = arrived(silver.FIELDS).add("_topic", "string")
    rows = []
    for number, (payload, ms) in enumerate(payloads(plan)):
        if among is not None and number not in among:
            continue
        fields = json.loads(payload)
        fields["event_at"] = datetime.fromisoformat(fields["event_at"])
        placed = {"_partition": 0, "_offset": number, "_topic": "network-connections"}
        moment = datetime.fromtimestamp(ms / 1000, tz=NOON.tzinfo)
        row = {**fields, **placed, "_arrived_at": moment}
        rows.append(tuple(row[name] for name in schema.fieldNames()))
    by_hand.create(lake.table(silver.TABLE), schema)
    written(spark, lake, silver.TABLE, schema, spark.createDataFrame(rows, schema))


def sent(address: str, topic: Topic, plan: Plan) -> None:
    """Send the connections of a plan to a topic, each with the time of its arrival."""
    producer = Producer({"bootstrap.servers": address, "log_level": 0, "linger.ms": 5})
    for payload, ms in payloads(plan):
        producer.produce(topic.name, payload, partition=0, timestamp=ms)
    producer.flush(20)
