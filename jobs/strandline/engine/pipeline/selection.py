"""Does a table's function only select rows? Then what it left out is known: what it read, less what it wrote.

A filter and a projection make at most one row of one, so both numbers are counted and their difference is exact. A join,
a list that is exploded and a union may do both, and in an aggregation rows wait for each other; of these no such number is
claimed.
"""

from typing import Any

from pyspark.sql import SparkSession

from strandline.core.table import Appended, Derived
from strandline.engine.storage.lake import Lake
from strandline.engine.storage.read_version import rows_now

HARMLESS = frozenset({"Project", "Filter", "SubqueryAlias", "View"})
"""Operators that make at most one row of one, by Spark's names."""


def only_selects(spark: SparkSession, table: Derived, lake: Lake) -> bool:
    """Return whether a table's rows are rows of its one source, some left out."""
    if not isinstance(table, Appended) or table.closes_at or len(table.reads) > 1:
        return False
    (source,) = table.reads
    rows = table.transform(rows_now(spark, source, lake))
    return _selects(rows._jdf.queryExecution().analyzed())  # noqa: SLF001  # there is no public way


def _selects(plan: Any) -> bool:  # noqa: ANN401  # py4j's objects have no types
    children = plan.children()
    if children.isEmpty():
        return True
    below = [children.apply(number) for number in range(children.length())]
    return plan.nodeName() in HARMLESS and all(map(_selects, below))
