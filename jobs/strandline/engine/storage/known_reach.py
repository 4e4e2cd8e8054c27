"""How far apart in time the rows lie that a table's stream joins: what the table declares, else what its plan said.

A table is computed from rows that lie further from a range than its windows are long, if it joins them. That length is one,
and all that asks whether a time is over, or whether all rows are there, asks for it here: without Spark, because the plan of
a stream was seen when it started, and what it said is in the stream's record (jobs/strandline/engine/storage/run_record.py).
"""

from datetime import timedelta

from strandline.core.errors import DefinitionError
from strandline.core.table import Ingested, Judged, Recomputed, Table
from strandline.engine.storage.lake import Lake
from strandline.engine.storage.run_record import read_record


def known_reach(table: Table, lake: Lake) -> timedelta | None:
    """Return how far apart the rows lie that a table joins; None where nothing bounds it.

    Nothing was recorded of a table that no stream has made, or one of a version that recorded nothing yet: its next start
    records it, and until then it is as if it joined nothing.
    """
    if isinstance(table, Ingested | Judged):
        return timedelta(0)
    if table.reach or isinstance(table, Recomputed):
        return table.reaches
    record = read_record(lake.checkpoint(table))
    return record.apart if record else timedelta(0)


def refuse_unbounded(table: Table, lake: Lake) -> None:
    """Refuse to compute again a table whose rows may depend on rows of any other time: none of its time is ever over.

    Raises:
        DefinitionError: Its stream joins rows, and nothing says how far these lie apart.
    """
    if known_reach(table, lake) is None:
        raise DefinitionError(
            f"{table.id} joins rows, and nothing says how far apart these may lie, so no time of it is ever over: what is "
            "computed again may still lack partners, and its stream would never see what was repaired",
            hint='declare it, such as reach="4 hours", as far as rows that meet lie apart; or bound the join\'s condition, such '
            f"as `other_time <= time + INTERVAL 4 HOURS`. Where it is bounded, `strandline run {table.id}` records it.",
            table=table.id,
        )
