"""Join rows by a table's key; a NULL equals a NULL.

A derived table may have NULL in a part of its key: no confirmation came, no site is known. SQL's ``=`` matches such a
row with none, so an upsert would insert the new version beside the old one.
"""

from collections.abc import Sequence
from functools import reduce
from operator import and_
from typing import Literal

from pyspark.sql import DataFrame
from pyspark.sql import functions as F


def by_key(
    rows: DataFrame,
    others: DataFrame,
    key: Sequence[str],
    how: Literal["left", "left_semi", "left_anti"],
) -> DataFrame:
    """Join rows with others of the same key; the result has the key columns of ``rows`` once."""
    theirs = {name: f"_their_{name}" for name in key}
    is_same = reduce(and_, (F.col(own).eqNullSafe(F.col(their)) for own, their in theirs.items()))
    joined = rows.join(others.withColumnsRenamed(theirs), is_same, how)
    return joined.drop(*theirs.values())
