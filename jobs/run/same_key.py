"""Joining rows by a table's key, in which a NULL equals a NULL.

A derived table may have NULL in a part of its key: no confirmation came, no site is known. To SQL's ``=`` such a row has
no equal, so a new version of it would be put beside the old one instead of in its place.
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
    """Join rows with others of the same key; of the key the columns of ``rows`` are kept."""
    theirs = {name: f"_their_{name}" for name in key}
    is_same = reduce(and_, (F.col(own).eqNullSafe(F.col(their)) for own, their in theirs.items()))
    joined = rows.join(others.withColumnsRenamed(theirs), is_same, how)
    return joined.drop(*theirs.values())
