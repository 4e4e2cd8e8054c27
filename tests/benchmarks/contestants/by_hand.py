"""How a job written by hand reads and writes Delta, once however often a batch runs."""

from delta.tables import DeltaTable
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

SILVER_STATS = "event_at,_partition,_offset,_arrived_at"


def read(spark: SparkSession, path: str) -> DataFrame:
    """Follow a table from its beginning."""
    options = {"startingVersion": "0", "maxBytesPerTrigger": "512m"}
    return spark.readStream.format("delta").options(**options).load(path)


def create(spark: SparkSession, path: str, schema: StructType, stats: str | None = None) -> None:
    """Make a table with few statistics and few checkpoints."""
    table = DeltaTable.createIfNotExists(spark).location(path).addColumns(schema)
    table = table.property("delta.checkpointInterval", "100")
    if stats is not None:
        table = table.property("delta.dataSkippingStatsColumns", stats)
    table.execute()


def append_few(path: str, batch: DataFrame, number: int) -> None:
    """Write the rows of closed windows, which are few, as one file."""
    consume(batch)
    append(batch.coalesce(1), path, path, number)
    batch.unpersist()


def consume(batch: DataFrame) -> None:
    """Compute a batch before it is written: after a kill Delta skips what it has, and reads nothing of the batch.

    Its state is then not written, and Spark ends at every start with "Not all StateStores committed for batch".
    """
    batch.persist()
    batch.count()


def append(batch: DataFrame, path: str, application: str, number: int) -> None:
    """Append the rows of a batch, once however often it runs."""
    (
        batch.write.format("delta")
        .mode("append")
        .option("txnAppId", application)
        .option("txnVersion", number)
        .save(path)
    )
