"""The topics as external assets: observed, never materialised.

A sensor reports once a minute the end offsets of each topic and the lag of bronze. That needs no run, and Dagster's own
decorator for observed assets is still in beta.
"""

from collections.abc import Mapping, Sequence

from dagster import (
    AssetKey,
    AssetObservation,
    AssetSpec,
    DefaultSensorStatus,
    MetadataValue,
    SensorResult,
    sensor,
)
from strandline import catalog

from strandline.core.table import Table
from strandline.core.topic import Topic
from strandline.engine.kafka.lag import Ends
from strandline.engine.kafka.slices import Part
from strandline_dagster.keys import TOPICS, topic_key
from strandline_dagster.resources import LakeResource
from strandline_dagster.store_away import unless_away

EVERY = 60


def topics(sources: Mapping[str, Sequence[AssetKey]]) -> list[AssetSpec]:
    """Make the assets of all topics.

    Args:
        sources: The assets from which records come to a topic, by its name; where nothing is known of them, none.
    """
    return [
        _spec(topic, table, sources.get(topic.name, ()))
        for table in catalog.tables()
        for topic in table.topics
    ]


@sensor(minimum_interval_seconds=EVERY, default_status=DefaultSensorStatus.RUNNING)
@unless_away
def look_at_topics(lake: LakeResource) -> SensorResult:
    """Observe all topics: records, offsets, lag."""
    found = [_observed(topic, ends) for table, ends in lake.ends() for topic in table.topics]
    return SensorResult(asset_events=found)


def _spec(topic: Topic, table: Table, sources: Sequence[AssetKey]) -> AssetSpec:
    return AssetSpec(
        topic_key(topic),
        deps=sources,
        group_name=TOPICS,
        kinds={"kafka"},
        description=f"The Kafka topic {topic}, which fills {table.id}.",
    )


def _observed(topic: Topic, ends: Mapping[Part, Ends]) -> AssetObservation:
    own = {str(number): part for (name, number), part in sorted(ends.items()) if name == topic.name}
    return AssetObservation(
        topic_key(topic),
        metadata={
            "records": sum(part.end - part.first for part in own.values()),
            "lag": sum(part.lag for part in own.values()),
            "offsets": MetadataValue.json({number: part.end for number, part in own.items()}),
        },
    )
