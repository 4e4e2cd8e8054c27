"""Starts of programs, as payloads, and a feed of alerts over topics of a test's own."""

import json
from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import datetime
from functools import partial

from confluent_kafka import Message, Producer
from pyspark.sql.types import IntegerType, LongType, StringType, StructType

from fleet.bronze import process_events as bronze
from fleet.silver import process_events as silver
from strandline.alerting.alert_rule import AlertRule, rules_folder
from strandline.alerting.live import fingerprint
from strandline.alerting.one_plan import raised
from strandline.alerting.sigma import read_folder
from strandline.core.table import EventFeed
from strandline.core.topic import Topic
from strandline.engine.kafka.topic_log import Log
from tests.support.rows import NOON

DECODES = next(
    rule
    for rule in read_folder(rules_folder()).rules
    if rule.origin == "process_certutil_decodes_a_file.yml"
)
"""A rule, and below a start on which it fires and one on which it is quiet."""


PLACED = (
    StructType()
    .add("_topic", StringType())
    .add("_partition", IntegerType())
    .add("_offset", LongType())
)
"""The place of an event, as rows of silver have it."""


def start(guid: str, *, fires: bool, at: datetime = NOON) -> bytes:
    """Return the payload of a start."""
    event = (DECODES.fires_on if fires else DECODES.quiet_on)[0]
    own = {"ProcessGuid": guid, "UtcTime": at.isoformat(), "Computer": "ws-1", "User": "u"}
    return json.dumps({**{name: value for name, value in event.items() if value}, **own}).encode()


def feed(source: Topic, sink: Topic, rules: Sequence[AlertRule] = (DECODES,)) -> EventFeed:
    """Return the feed of alerts on starts of programs, over other topics."""
    table = replace(silver.TABLE, reads=(replace(bronze.TABLE, reads=(source,)),))
    return EventFeed(
        name=source.name,
        of=table,
        transform=partial(raised, rules=rules),
        key="alert_id",
        to=sink,
        version=fingerprint(rules),
    )


def send(
    address: str,
    topic: Topic,
    payloads: Iterable[bytes],
    *,
    at: datetime = NOON,
    partition: int = 0,
) -> None:
    """Send payloads that arrive at one time."""
    producer = Producer({"bootstrap.servers": address, "log_level": 0, "linger.ms": 0})
    for payload in payloads:
        moment = int(at.timestamp() * 1000)
        producer.produce(topic.name, payload, partition=partition, timestamp=moment)
    producer.flush(20)


def records(address: str, topic: Topic) -> list[Message]:
    """Return what a topic holds."""
    log = Log(address, {}, topic)
    try:
        ends = log.bounds()
        return list(
            log.records({p: a for p, (a, _) in ends.items()}, {p: b for p, (_, b) in ends.items()})
        )
    finally:
        log.close()
