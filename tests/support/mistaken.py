"""A morning that was judged by a rule that believed too little, and the lakes that computing it anew would give."""

from pyspark.sql import SparkSession

from fleet.gold import device_signal_10m as gold
from fleet.silver import device_telemetry as silver
from strandline.core.stateful import Batch
from strandline.core.table import Table
from strandline.engine.lake.lake import Lake
from strandline.engine.lake.open_table import opened
from strandline.engine.proof.compare import compare
from tests.support import lakes
from tests.support.events import TABLE, readings, received
from tests.support.modes import derive
from tests.support.morning import STRICT
from tests.support.seeds import copied

TABLES = (silver.TABLE, gold.TABLE)

EVENTS = """
    batch | partition | id | device | signal | value | event_at | arrived_at | payload
    1     | 0         | a  | d1     | t      | 1     | 08:59:50 | 09:00:01   | -
    1     | 0         | b  | d1     | t      | 2     | 09:00:10 | 09:00:11   | -
    1     | 0         | b  | d1     | t      | 2     | 09:00:10 | 09:00:12   | -
    1     | 1         | c  | d2     | t      | 77    | 09:05:00 | 09:05:21   | -
    1     | 1         | c  | d2     | t      | 77    | 09:05:00 | 09:05:30   | -
    1     | 1         | x  | d2     | t      | 6     | 09:01:00 | 09:06:00   | not json
    1     | 1         | m  | d2     | -      | 66    | 09:06:00 | 09:06:01   | -
    2     | 0         | r  | d1     | t      | 55    | 09:20:00 | 09:20:10   | -
    2     | 0         | e  | d1     | t      | 88    | 09:29:59 | 09:40:00   | -
    2     | 1         | g  | d1     | t      | 6     | 08:00:00 | 09:31:00   | -
    3     | 1         | r  | d1     | t      | 5     | 09:20:00 | 09:45:00   | -
    3     | 0         | h  | d1     | t      | 7     | 12:00:00 | 12:00:01   | -
    4     | 0         | i  | d1     | t      | 8     | 12:10:00 | 12:10:01   | -
"""
"""The mistaken rule holds both copies of c, e, m for one reason too many, and the first copy of r."""


def mistaken(spark: SparkSession, lake: Lake, text: str = EVENTS) -> Lake:
    """Let streams judge events by the mistaken rule."""

    def judged(seed: Lake) -> None:
        received(seed, readings(text))
        derive(spark, seed, STRICT, gold.TABLE)

    return copied(lake, f"mistaken {text}", judged)


def computed_anew(spark: SparkSession, lake: Lake) -> Lake:
    """Return a lake in which a batch has computed the same events by the rules of the catalog."""
    events = opened(lake.table(TABLE)).to_pyarrow_table().to_pylist()
    other = Lake(lake.root.parent / "anew").open_for_writing()

    def computed(seed: Lake) -> None:
        lakes.copy(lake.table(TABLE), seed.table(TABLE))
        derive(spark, seed, *TABLES, mode=Batch())

    return copied(other, f"anew {sorted(map(str, events))}", computed)


def is_same(left: Lake, right: Lake, *tables: Table) -> bool:
    """Assert that two lakes hold the same rows, in the quarantine too."""
    for table in tables or TABLES:
        for one in compare(table, left, right):
            assert one.equal, (one.table, one.samples)
    return True
