"""Score a table's rows by the versions of its model that hold at their event time.

The terms are read again for every batch, so a promotion changes a running stream at its next batch, without a restart.
Every batch that has an event of a new term reads that term: a term begins later than any event that a batch which
began before its promotion can have (jobs/strandline/engine/learning/promote_model.py).
"""

from pyspark.sql import DataFrame

from strandline.core.scored_rows import steps
from strandline.core.table import Computed
from strandline.engine.storage import model_shelf
from strandline.engine.storage.lake import Lake


def scored(table: Computed, lake: Lake, rows: DataFrame) -> DataFrame:
    """Add the columns of the model that scores a table; as they are, the rows of a table that none scores."""
    if table.scored_by is None:
        return rows
    return _added(rows, steps(model_shelf.in_force(lake, table.scored_by), table.event_at))


def unscored(table: Computed, rows: DataFrame) -> DataFrame:
    """Add the same columns without a value."""
    return rows if table.scored_by is None else _added(rows, steps((), table.event_at))


def _added(rows: DataFrame, columns: list[list[str]]) -> DataFrame:
    for step in columns:
        rows = rows.selectExpr("*", *step)
    return rows
