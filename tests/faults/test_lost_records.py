"""Broker retention passes a checkpoint: warned before, stopped with the exact range, accepted, and balanced with its line."""

import time
from collections.abc import Callable
from datetime import datetime, timedelta

import pytest
from confluent_kafka.admin._config import AlterConfigOpType, ConfigEntry, ConfigResource
from confluent_kafka.admin._resource import ResourceType
from pyspark.sql import SparkSession

from fleet.bronze import user_confirmations
from strandline.core.stateful import MicroBatch
from strandline.core.topic import Topic
from strandline.engine.flow.runner import Site, run
from strandline.engine.kafka.topic_log import ExpiredError
from strandline.engine.lake.lake import Lake
from strandline.engine.lake.place import Place
from tests.cli.inside import strandline, succeeded
from tests.engine.records import NOON, admin, expire, put

TABLE = user_confirmations.TABLE
(TOPIC,) = TABLE.topics
MINUTE = 60_000


@pytest.mark.slow
@pytest.mark.kafka
def test_a_loss_is_seen_coming_named_accepted_and_balanced(
    spark: SparkSession, fresh: Place, address: str, clock: Callable[[], datetime]
) -> None:
    """In the order in which it happens; each step by what is typed."""
    _send(address, [3, 3])
    _type(0, "run", TABLE.id, "--lake", fresh)
    assert "nothing that a reader needs expires" in _type(0, "radar", "--lake", fresh)

    # The reader is away; the topic keeps an hour, then less.
    _send(address, [5, 2], minutes_ago=40)
    keep(address, TOPIC, 60 * MINUTE)
    warned = _type(0, "radar", "--lake", fresh)
    assert f"soon: {TABLE.id}, user-confirmations/0: kept for another 19 min" in warned
    keep(address, TOPIC, 45 * MINUTE)
    assert "kept for another 4 min" in _type(4, "radar", TABLE.id, "--lake", fresh)
    assert "kept for another 4 min" in _type(0, "status", "--lake", fresh)
    refused = _type(2, "accept-loss", TABLE.id, "--because", "too early", "--lake", fresh)
    assert "nothing is lost" in refused

    # Retention passes the checkpoint: four of the five are gone, and one of the two.
    expire(address, TOPIC, 0, 3 + 4)
    expire(address, TOPIC, 1, 3 + 1)
    gone = (
        "offsets 3 to 6 of partition 0 of user-confirmations and "
        "offsets 3 to 3 of partition 1 of user-confirmations"
    )
    site = Site(spark=spark, clock=clock, address=address)
    with pytest.raises(ExpiredError, match=gone):
        run(TABLE, MicroBatch(every=0.1), Lake(fresh), site=site)
    assert gone in _type(4, "run", TABLE.id, "--lake", fresh)
    assert "offsets 3 to 6 are gone and were not read" in _type(4, "radar", "--lake", fresh)
    assert "balanced" in _type(0, "ledger", "--lake", fresh), "nothing was skipped so far"

    accepts = ("accept-loss", TABLE.id, "--because", "away for a night", "--lake", fresh)
    assert f"{gone} (5 offsets) are recorded as lost" in _type(0, *accepts)
    assert "was accepted already" in _type(0, *accepts)

    _type(0, "run", TABLE.id, "--lake", fresh)
    for audit in ((), ("--audit",)):
        sheet = _type(0, "ledger", *audit, "--lake", fresh)
        assert (
            f"lost to {TABLE.id}: 5 offsets that expired in Kafka unread "
            "(user-confirmations/0 offsets 3 to 6, user-confirmations/1 offsets 3 to 3)"
        ) in sheet
    (row,) = succeeded("ledger", "--json", "--lake", fresh).json
    assert (row["read"], row["rows"], row["balanced"]) == (8, 8, True)
    assert row["lost"] == {"user-confirmations/0": [[3, 7]], "user-confirmations/1": [[3, 4]]}
    assert "nothing that a reader needs expires" in _type(0, "radar", "--lake", fresh)
    assert "nothing is lost" in _type(2, *accepts)
    why = _type(0, "why", "user-confirmations/0/5", "--lake", fresh)
    assert "the loss of offsets 3 to 6 of user-confirmations/0 was accepted" in why


def _type(code: int, *words: object) -> str:
    answer = strandline(*words)
    assert answer.code == code, answer.printed
    return answer.printed


def _send(address: str, counts: list[int], *, minutes_ago: int = 0) -> None:
    """Send so many records to each partition, which came so many minutes ago."""
    at = datetime.fromtimestamp(time.time(), tz=NOON.tzinfo) - timedelta(minutes=minutes_ago)
    milliseconds = (at - NOON) // timedelta(milliseconds=1)
    put(address, TOPIC, [(part, milliseconds) for part, n in enumerate(counts) for _ in range(n)])


def keep(address: str, topic: Topic, milliseconds: int) -> None:
    """Set for how long a topic keeps its records, and wait until the broker knows."""
    entry = ConfigEntry(
        "retention.ms", str(milliseconds), incremental_operation=AlterConfigOpType.SET
    )
    resource = ConfigResource(ResourceType.TOPIC, topic.name, incremental_configs=[entry])
    client = admin(address)
    client.incremental_alter_configs([resource])[resource].result(20)
    while client.describe_configs([resource])[resource].result(20)["retention.ms"].value != str(
        milliseconds
    ):
        time.sleep(0.05)
