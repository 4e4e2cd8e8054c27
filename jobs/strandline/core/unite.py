"""One table from several shapes of the same event.

Why a union of filters: each shape is read by its own function, which does not know the others. The stream still has
one source, because all sides of the union begin at the same one; its files are read once for each shape,
which costs little beside parsing them.
"""

from collections.abc import Callable, Mapping
from functools import reduce

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from strandline.core.topic import Topic


def united(
    events: DataFrame, shapes: Mapping[Topic, Callable[[DataFrame], DataFrame]]
) -> DataFrame:
    """Read the events of each topic by its own function, and return the union of the rows.

    The first topic's function also reads events of any other topic, so that no event is without a verdict.
    """
    first, *others = shapes
    names = [topic.name for topic in others]
    parts = [shapes[topic](events.where(F.col("_topic") == topic.name)) for topic in others]
    rest = events.where(~F.col("_topic").isin(names)) if names else events
    return reduce(DataFrame.unionByName, parts, shapes[first](rest))
