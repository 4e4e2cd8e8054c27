"""How many records of a quarantine that are deleted had been released before, so that the books know how many it still holds."""

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from strandline.core.table import Judged
from strandline.engine.quarantine.resolutions import RECORD, RELEASED, generation
from strandline.engine.storage.lake import Lake
from strandline.engine.storage.ledger import is_table


def released_among(spark: SparkSession, table: Judged, lake: Lake, records: DataFrame) -> int:
    """Count the released ones among records that are deleted.

    Equal records are counted, as many of them are released as were resolved (jobs/strandline/engine/quarantine/resolutions.py).

    Args:
        spark: The session.
        table: A judged table.
        lake: Its lake.
        records: Records with the columns that identify one, and ``_goes``: whether it is deleted. All records that equal
            a deleted one are among them.
    """
    path = lake.resolutions(table)
    if not is_table(path):
        return 0
    decided = spark.read.format("delta").load(str(path))
    now = F.col("generation") == generation(lake.quarantine(table))
    is_release = F.col("status").isin([str(each) for each in RELEASED])
    done = decided.where(now & is_release).groupBy(*RECORD).agg(F.count("*").alias("_done"))
    known = records.groupBy(*RECORD).agg(
        F.count("*").alias("_all"), F.sum(F.col("_goes").cast("bigint")).alias("_going")
    )
    same = [known[each].eqNullSafe(done[each]) for each in RECORD]
    both = known.where("_going > 0").join(done, same)
    before = F.least("_all", "_done")
    after = F.least(F.col("_all") - F.col("_going"), F.col("_done"))
    (count,) = both.agg(F.sum(before - after)).collect()[0]
    return int(count or 0)
