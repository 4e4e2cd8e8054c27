"""Write judged rows of closed time into a judged table: those that come, without those in whose place they come."""

from pyspark.sql import SparkSession

from jobs.core.received import PLACE
from jobs.core.table import Judged
from jobs.engine.quarantine.write import append_entry
from jobs.engine.repair.leave_behind import leave_behind
from jobs.engine.repair.replay_plan import Healing
from jobs.engine.storage import delta_commit
from jobs.engine.storage.lake import Lake
from jobs.engine.storage.ledger import Entry
from jobs.engine.storage.open_table import live_rows
from jobs.engine.storage.replace_rows import Exchange, swap


def write_healed(
    spark: SparkSession, table: Judged, lake: Lake, healed: Healing, final: Entry
) -> None:
    """Commit the rows of a plan together with their ledger entry, which counts them in ``came`` and ``gone``."""
    if not final.came and not final.gone:
        append_entry(spark, table, lake, final)
        return
    leave_behind(table, lake)
    if not live_rows(lake.table(table)):  # no stream has read a row of it yet
        commit = delta_commit.Commit(spark, lake.table(table))
        commit.write(healed.rows)
        commit.commit(final.encoded())
    else:
        places = healed.gone
        exchange = Exchange(
            at=table.event_at,
            goes=lambda rows: rows.join(places, [*PLACE], "left_semi"),
            stays=lambda rows: rows.join(places, [*PLACE], "left_anti"),
            come=healed.rows,
            coming=final.came,
            **({"reach": healed.touched.in_micros()} if healed.touched else {}),
        )
        since = healed.version if table.believes_history else None
        swap(spark, lake.table(table), exchange, final.encoded(), alone_since=since)
