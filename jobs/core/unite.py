"""One table out of several shapes of the same event.

Why a union of filters: each shape is read by its own function, which knows nothing of the others. A stream has
one source all the same, because both sides of the union begin at the same one; its files are read twice,
which costs little beside parsing them.
"""

from collections.abc import Callable, Mapping
from functools import reduce

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from jobs.core.table import Topic


def united(
    events: DataFrame, shapes: Mapping[Topic, Callable[[DataFrame], DataFrame]]
) -> DataFrame:
    """Read the events of each topic by its own function, and put the rows together.

    The first topic's function also gets what came from none of them, so that no event is without a verdict.
    """
    first, *others = shapes
    names = [topic.name for topic in others]
    parts = [shapes[topic](events.where(F.col("_topic") == topic.name)) for topic in others]
    rest = events.where(~F.col("_topic").isin(names)) if names else events
    return reduce(DataFrame.unionByName, parts, shapes[first](rest))
