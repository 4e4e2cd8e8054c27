"""A morning of readings that a stream has left behind, and the afternoon that follows."""

from dataclasses import replace

from pyspark.sql import SparkSession

from fleet.gold import device_signal_10m as gold
from fleet.silver import device_telemetry as silver
from strandline.engine.lake.lake import Lake
from strandline_quality.rules import between
from tests.support.events import commits, readings, received
from tests.support.modes import derive

STRICT = replace(silver.TABLE, rules=(*silver.TABLE.rules, between("value", 0, 9)))
"""The same table after the range of possible values is known."""

TABLES = (silver.TABLE, gold.TABLE)

MORNING = """
    batch | partition | id | device | value | event_at | arrived_at | payload
    1     | 0         | a  | d1     | 1     | 08:59:50 | 09:00:01   | -
    1     | 0         | b  | d1     | 2     | 09:00:10 | 09:00:11   | -
    1     | 0         | b  | d1     | 2     | 09:00:10 | 09:00:12   | -
    1     | 1         | c  | d2     | 77    | 09:05:00 | 09:05:21   | -
    1     | 1         | c  | d2     | 77    | 09:05:00 | 09:05:30   | -
    1     | 1         | x  | d2     | 6     | 09:01:00 | 09:06:00   | not json
    2     | 0         | d  | d1     | 4     | 09:10:00 | 09:10:01   | -
    2     | 0         | e  | d1     | 88    | 09:29:59 | 09:40:00   | -
    2     | 1         | f  | d1     | 5     | 09:30:00 | 09:30:01   | -
    2     | 1         | g  | d1     | 6     | 08:00:00 | 09:31:00   | -
    3     | 0         | h  | d1     | 7     | 12:00:00 | 12:00:01   | -
    4     | 0         | i  | d1     | 8     | 12:10:00 | 12:10:01   | -
"""
LATER = """
    batch | id | device | value | event_at | arrived_at
    5     | j  | d1     | 8     | 15:00:00 | 15:00:01
    6     | k  | d1     | 9     | 15:10:00 | 15:10:01
"""


def streamed(spark: SparkSession, lake: Lake, text: str) -> None:
    """Let events come commit by commit, as a stream does."""
    received(lake, readings(text))
    derive(spark, lake, *TABLES)


def step_by_step(spark: SparkSession, lake: Lake) -> None:
    """Let the morning come, each commit read before the next, so that the files of all tables have ages of their own."""
    for batch in commits(readings(MORNING)):
        received(lake, batch)
        derive(spark, lake, *TABLES)
