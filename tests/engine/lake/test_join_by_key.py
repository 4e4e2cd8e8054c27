"""Rows of one key are joined, whichever parts of it are NULL."""

from typing import Literal

import pytest
from pyspark.sql import SparkSession

from strandline.engine.lake.commit.delta_commit import by_key

pytestmark = pytest.mark.whole

KINDS = "a string, b string, n int"


@pytest.mark.parametrize(
    ("how", "expected"),
    [("left_semi", [1, 2]), ("left_anti", [3]), ("left", [1, 2, 3])],
)
def test_null_equals_null(
    spark: SparkSession, how: Literal["left", "left_semi", "left_anti"], expected: list[int]
) -> None:
    """And to nothing else."""
    rows = spark.createDataFrame([("x", None, 1), (None, None, 2), (None, "y", 3)], KINDS)
    others = spark.createDataFrame([("x", None), (None, None), ("x", "y")], "a string, b string")

    found = by_key(rows, others, ["a", "b"], how)

    assert found.columns == ["a", "b", "n"]
    assert sorted(row["n"] for row in found.collect()) == expected
