"""What tables and topics are called in Dagster; said in one place, because its own spellings are not uniform."""

import re

from dagster import AssetKey

from jobs.core.table import Table, Topic

TOPICS = "kafka"


def key(table: Table) -> AssetKey:
    """Return the table's one name as Dagster writes it, ``layer/table``."""
    return AssetKey([table.layer.value, table.name])


def topic_key(topic: Topic) -> AssetKey:
    """Return the name of a topic, beside those of the tables that it fills."""
    return AssetKey([TOPICS, topic.name])


def pool(table: Table) -> str:
    """Return the pool of which one slot is a table's writer's.

    It only saves a run the attempt: what keeps two writers apart is the lease in the lake (jobs/run/lease.py).
    """
    return f"writer/{table.id}"


def plain(name: str) -> str:
    """Return a name as Dagster accepts it for ops, jobs and checks."""
    return re.sub(r"\W", "_", name)
