"""Names of tables and topics in Dagster, in one place, because Dagster's spellings differ."""

import re

from dagster import AssetKey

from strandline.core.table import Table
from strandline.core.topic import Topic

TOPICS = "kafka"
MODELS = "models"


def key(table: Table) -> AssetKey:
    """Return a table's one name as Dagster writes it, ``layer/table``."""
    return AssetKey([table.layer.value, table.name])


def source_key(name: str) -> AssetKey:
    """Return the same of a name alone, which may be that of a static table."""
    return AssetKey(name.split(".", 1))


def topic_key(topic: Topic) -> AssetKey:
    """Return the name of a topic as Dagster writes it."""
    return AssetKey([TOPICS, topic.name])


def model_key(name: str) -> AssetKey:
    """Return the name of a model as Dagster writes it."""
    return AssetKey([MODELS, name])


def pool(table: Table) -> str:
    """Return the pool with one slot, for the writer of a table.

    It only saves a run the attempt: the lease in the lake excludes a second writer (jobs/strandline/engine/lake/locks.py).
    """
    return f"writer/{table.id}"


def plain(name: str) -> str:
    """Return a name as Dagster accepts it for ops, jobs and checks."""
    return re.sub(r"\W", "_", name)
