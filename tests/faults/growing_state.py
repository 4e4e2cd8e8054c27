"""A stream that keeps the first of each key, in a process that is killed: ``python -m tests.faults.growing_state FOLDER KEYS FILES LIMIT``.

It reads a number of files, each of which is a batch, and writes a file of rows for each batch; a batch that is done again replaces
what its first try wrote.
"""

import sys
from pathlib import Path

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from strandline.engine.runtime.settings import settings
from strandline.engine.runtime.spark_session import for_sorted_state, start

STEP = 7_919
"""A prime, so that the first so many numbers give all keys in another order."""


def main(folder: Path, keys: int, files: int, limit: str) -> None:
    """Write the files once, and read them to their end."""
    spark = start(settings(lake=folder), folder / "spark.log")
    source = folder / "in"
    if not source.exists():
        numbers = spark.range(0, keys * 11 // 10, numPartitions=files)
        rows = numbers.select((F.col("id") * STEP % keys).alias("key"))
        rows.write.parquet(str(folder / "draft"))
        (folder / "draft").rename(source)
    session = for_sorted_state(spark)
    session.conf.set("spark.sql.shuffle.partitions", "2")
    if limit != "0":
        session.conf.set("spark.sql.streaming.stateStore.memoryLimit", limit)

    def keep(rows: DataFrame, number: int) -> None:
        rows.write.mode("overwrite").parquet(str(folder / "out" / f"batch={number}"))

    read = session.readStream.schema("key bigint").option("maxFilesPerTrigger", 1)
    firsts = read.parquet(str(source)).dropDuplicates(["key"])
    query = firsts.writeStream.foreachBatch(keep)
    query = query.option("checkpointLocation", str(folder / "checkpoint"))
    query.trigger(availableNow=True).start().awaitTermination()


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), sys.argv[4])
