"""How far from a range of event time the rows lie from which a table's rows of that range are computed.

A window is computed from its own rows, and from those that these are joined with: bids of an auction that lasts four hours
come long after the hour in which it opened. A computation that read only the rows within a window of the range would give
fewer rows than the stream had, and replace right ones by them.
"""

from datetime import timedelta

from pyspark.sql import SparkSession

from strandline.core.table import Derived, Recomputed
from strandline.engine.pipeline.joined_streams import joined
from strandline.engine.pipeline.stream_frames import framed
from strandline.engine.storage.lake import Lake


def reach_of(spark: SparkSession, table: Derived, lake: Lake) -> timedelta | None:
    """Return how far from a range rows must be read; None where all must be.

    What the table declares counts. Without it the plan of its stream is asked: it says how far apart rows lie that are
    joined, if a condition bounds that and nothing else in the plan looks at rows of another time.
    """
    if not table.window_length:
        return None
    if table.reach or isinstance(table, Recomputed):
        return table.window_length + table.reaches
    run = framed(spark, table, lake)
    found = joined(table, run.sources, run.result).reach
    return None if found is None else table.window_length + found
