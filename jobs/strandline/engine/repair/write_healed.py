"""Write judged rows of closed time into a judged table: those that come, without those in whose place they come."""

from pyspark.sql import SparkSession

from strandline.core.received import PLACE
from strandline.core.table import Judged
from strandline.engine.quarantine.write import append_entry
from strandline.engine.repair.leave_behind import leave_behind
from strandline.engine.repair.replay_plan import Healing
from strandline.engine.storage import delta_commit
from strandline.engine.storage.lake import Lake
from strandline.engine.storage.ledger import Entry
from strandline.engine.storage.open_table import live_rows
from strandline.engine.storage.replace_rows import Exchange, swap


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
