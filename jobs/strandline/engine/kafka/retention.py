"""For how long a topic keeps its records, as its cluster's configuration has it.

Kafka removes whole segments, and a segment once its newest record is older than ``retention.ms``, or the partition is larger
than ``retention.bytes``. So a record is gone at the earliest when it is older than that itself; how much later depends on
segments, which no client can see. How large a partition is cannot be asked with this client either (confluent-kafka 2.16
has no ``DescribeLogDirs``), so by size nothing is known.
"""

from collections.abc import Iterable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass

from confluent_kafka import KafkaException
from confluent_kafka.admin._config import ConfigEntry, ConfigResource
from confluent_kafka.admin._resource import ResourceType

from strandline.engine.kafka.admin import PATIENCE, Cluster

FOR_GOOD = -1
"""What Kafka writes for no limit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Retention:
    """What a topic keeps.

    Args:
        ms: The age at which a record may go; None for no such age.
        size: The bytes of a partition beyond which its oldest records go; None for no such limit.
        by_key: Whether it is compacted: of each key the newest record is kept, older ones may go unread.
        unknown: Why nothing is known.
    """

    ms: int | None = None
    size: int | None = None
    by_key: bool = False
    unknown: str = ""


def retentions(
    address: str, options: Mapping[str, str], topics: Iterable[str]
) -> dict[str, Retention]:
    """Return what each of some topics keeps; a topic that may not be described keeps something unknown."""
    client = Cluster(address, options).admin
    asked = {ConfigResource(ResourceType.TOPIC, name): name for name in sorted(set(topics))}
    if not asked:
        return {}
    found = client.describe_configs(list(asked), request_timeout=PATIENCE)
    return {name: _retention(found[resource]) for resource, name in asked.items()}


def _retention(answer: Future[dict[str, ConfigEntry]]) -> Retention:
    try:
        values = {name: entry.value for name, entry in answer.result(2 * PATIENCE).items()}
    except (KafkaException, TimeoutError) as error:
        why = error.args[0].str() if isinstance(error, KafkaException) else "no answer"
        return Retention(unknown=f"its configuration cannot be read: {why}")
    policies = {each.strip() for each in (values.get("cleanup.policy") or "delete").split(",")}
    deletes = "delete" in policies
    return Retention(
        ms=_limit(values.get("retention.ms")) if deletes else None,
        size=_limit(values.get("retention.bytes")) if deletes else None,
        by_key="compact" in policies,
    )


def _limit(text: str | None) -> int | None:
    value = FOR_GOOD if text is None else int(text)
    return None if value == FOR_GOOD else value
