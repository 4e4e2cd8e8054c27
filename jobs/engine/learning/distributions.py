"""How the features and the score of a version were distributed where it learnt: the bounds of ten parts, and their shares.

A feature with few values has fewer parts: equal bounds are one.
"""

from collections.abc import Sequence
from typing import Any

from pyspark.sql import DataFrame

from jobs.core.model import FEATURES

TENTHS = [f"0.{n}" for n in range(1, 10)]


def distributions(rows: DataFrame, names: Sequence[str], score: str) -> dict[str, Any]:
    """Return bounds and shares of each feature and of the score.

    Args:
        rows: The rows that were learnt from, with their features and scores.
        names: The names of the features, in their order.
        score: The column with the score.
    """
    columns = {name: f"get({FEATURES}, {at})" for at, name in enumerate(names)} | {score: score}
    tenths = [
        f"percentile_disc({tenth}) WITHIN GROUP (ORDER BY {sql})"
        for sql in columns.values()
        for tenth in TENTHS
    ]
    (row,) = rows.selectExpr(*tenths).collect()
    found = {
        name: sorted(set(row[at * len(TENTHS) : (at + 1) * len(TENTHS)]))
        for at, name in enumerate(columns)
    }
    counts = [
        f"count_if({columns[name]} <= CAST('{bound}' AS DECIMAL(18,6)))"
        for name, bounds in found.items()
        for bound in bounds
    ]
    total, *up_to = rows.selectExpr("count(*)", *counts).collect()[0]
    made: dict[str, Any] = {}
    for name, bounds in found.items():
        reached = [up_to.pop(0) for _ in bounds]
        parts = [
            after - before for before, after in zip([0, *reached], [*reached, total], strict=True)
        ]
        made[name] = {
            "bounds": [format(bound, "f") for bound in bounds],
            "shares": [round(part / total, 6) for part in parts],
        }
    return made
