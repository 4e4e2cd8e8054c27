"""Many tables beside those of the example: topics, each with bronze, silver and a gold table of windows, in a copy of the project."""

import json
from datetime import datetime, timedelta
from pathlib import Path

from confluent_kafka import Producer

from tests.support import project

BRONZE = '''"""Readings of {name}.

Grain: one row a Kafka record.
Reads: topic many-{number}. Read by: silver.{name}.
Late data: bronze knows no time but the arrival.
"""

from strandline.core.table import Ingested
from strandline.core.topic import Topic

TABLE = Ingested(name="{name}", reads=(Topic(name="many-{number}", partitions=1),))
'''

SILVER = '''"""Readings of {name}, judged.

Grain: one row a reading, by its own id.
Reads: bronze.{name}. Read by: gold.{name}_1m.
Late data: up to an hour.
"""

from pyspark.sql import DataFrame
from pyspark.sql.types import LongType, StringType, StructType, TimestampType

from fleet.bronze import {name} as bronze
from strandline.core.topic import CARRIED
from strandline.core.table import Judged
from strandline_quality.rules import required

FIELDS = (
    StructType().add("id", StringType()).add("value", LongType()).add("event_at", TimestampType())
)


def {name}(events: DataFrame) -> DataFrame:
    """Read each event's payload as a reading."""
    (topic,) = bronze.TABLE.topics
    return topic.parse(events, FIELDS).select(*CARRIED, *FIELDS.fieldNames())


TABLE = Judged(
    name="{name}",
    reads=(bronze.TABLE,),
    transform={name},
    key=("id",),
    event_at="event_at",
    owner="a test",
    rules=required("id", "event_at"),
)
'''

GOLD = '''"""Readings of {name} by the minute.

Grain: one row a minute.
Reads: silver.{name}. Read by: nothing.
Late data: none reaches a window that is final.
"""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from strandline.core.table import Windowed
from fleet.silver import {name}


def {name}_1m(readings: DataFrame) -> DataFrame:
    """Count the readings of each minute."""
    minutes = readings.groupBy(F.window("event_at", "1 minute")).agg(
        F.count("*").alias("readings"), F.sum("value").alias("value")
    )
    return minutes.select(
        F.col("window.start").alias("window_from"),
        F.col("window.end").alias("window_until"),
        "readings",
        "value",
    )


TABLE = Windowed(
    name="{name}_1m",
    reads=({name}.TABLE,),
    transform={name}_1m,
    key=("window_from",),
    window="1 minute",
    window_from="window_from",
    closes_at="window_until",
    source_count="readings",
    owner="a test",
)
'''


def generated(folder: Path, topics: int) -> Path:
    """Copy the project and add topics of three tables each."""
    copy = project.copied(folder)
    for number in range(topics):
        values = {"name": f"many_{number}", "number": number}
        for layer, name, text in (
            ("bronze", f"many_{number}", BRONZE),
            ("silver", f"many_{number}", SILVER),
            ("gold", f"many_{number}_1m", GOLD),
        ):
            (copy / "jobs" / "fleet" / layer / f"{name}.py").write_text(text.format(**values))
    return copy


def sent(address: str, topics: int, readings: int, last: datetime) -> None:
    """Send to each topic as many readings, a minute apart."""
    producer = Producer({"bootstrap.servers": address, "log_level": 0, "linger.ms": 50})
    for number in range(topics):
        for n in range(readings):
            at = last - timedelta(minutes=readings - 1 - n)
            event = {"id": f"r{n}", "value": n, "event_at": at.isoformat()}
            producer.produce(
                f"many-{number}", json.dumps(event), timestamp=int(at.timestamp() * 1000)
            )
        producer.poll(0)
    assert producer.flush(60) == 0
