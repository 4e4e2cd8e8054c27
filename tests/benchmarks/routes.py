"""What several kinds in a topic cost, and a static table that is joined: ``python -m tests.benchmarks.routes``.

The same records in bronze, read by one table of all of them, by three tables of a kind each, by one table that looks for no
copies, and by one that joins each record with its price among 300 products. The tables are made and have read some records before; then a backlog comes, and after it a small batch, whose cost is that
of a start and of a commit. CPU seconds of this process and all that it started; ways take turns, and the least of each counts. What
each has read is compared with what was written.
"""

import sys
import tempfile
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import LongType, StringType, StructType, TimestampType

from strandline.core.parse import parse_json
from strandline.core.routes import field
from strandline.core.stateful import AvailableNow
from strandline.core.static import Static
from strandline.core.table import Ingested, Judged
from strandline.core.topic import CARRIED, NOTHING_ARRIVED, PLACE, Topic
from strandline.engine.flow.ingest import make
from strandline.engine.flow.new_entry import with_kinds
from strandline.engine.flow.runner import Site, run
from strandline.engine.lake.commit import delta_commit
from strandline.engine.lake.lake import Lake
from strandline.engine.lake.log.ledger import Entry
from strandline.engine.runtime import spark_session
from strandline.engine.runtime.settings import settings
from strandline_quality.rules import required
from tests.benchmarks import machine
from tests.engine.records import NOON

ROWS, COMMITS, ROUNDS = 600_000, 3, 2
FEW = 3_000
"""Records of a small batch."""
KINDS = ("order_created", "order_paid", "click")
FIELDS = (
    StructType()
    .add("id", StringType())
    .add("customer", StringType())
    .add("product", StringType())
    .add("amount", LongType())
    .add("at", TimestampType())
    .add("note", StringType())
)
PLAIN = Ingested(name="shop", reads=(Topic(name="shop", partitions=1),))
ROUTED = Ingested(name="shop", reads=(Topic(name="shop", partitions=1, kind=field("type")),))


def shaped(events: DataFrame) -> DataFrame:
    """Return a record's fields."""
    return parse_json(events, FIELDS).select(*CARRIED, *FIELDS.fieldNames())


ALL = Judged(
    name="all",
    reads=(PLAIN,),
    transform=shaped,
    key=("id",),
    event_at="at",
    rules=required("id", "customer", "amount", "at"),
)
PRICES = Static(
    name="prices",
    columns="product string, price bigint",
    key=("product",),
    rows=tuple((f"product-{number}", number) for number in range(300)),
)


def priced(events: DataFrame) -> DataFrame:
    """Return a record's fields and its price."""
    return PRICES.joined(shaped(events), at="at")


WAYS: dict[str, tuple[Judged, ...]] = {
    "one table": (ALL,),
    "three kinds": tuple(replace(ALL, name=each, reads=(ROUTED,), takes=each) for each in KINDS),
    "no copies looked for": (replace(ALL, key=PLACE),),
    "a static table joined": (replace(ALL, transform=priced, static=(PRICES,)),),
}


def main() -> None:
    """Measure, and print a line for each."""
    with tempfile.TemporaryDirectory() as folder:
        spark = spark_session.start(settings(lake=folder), Path(folder) / "spark.log")
        took: dict[str, list[tuple[float, ...]]] = {name: [] for name in WAYS}
        for number in range(ROUNDS + 1):
            for name, tables in WAYS.items():
                lake = Lake(Path(folder) / f"{number}-{name}").open_for_writing()
                seconds = measured(spark, tables, lake)
                if number:  # the first warms up
                    took[name].append(seconds)
        least = {
            name: [min(each) for each in zip(*found, strict=True)] for name, found in took.items()
        }
        one = least["one table"]
        for name, seconds in least.items():
            bronze, backlog, small = (each / own for each, own in zip(seconds, one, strict=True))
            print(  # noqa: T201  # its answer
                f"{name}: {seconds[1] / ROWS * 1e6:.2f} µs a record, {backlog:.2f} of one table; a batch of {FEW:,} "
                f"{seconds[2]:.2f} s, {small:.2f}; bronze {seconds[0] / ROWS * 1e6:.2f} µs, {bronze:.2f}"
            )
        spark.stop()


def measured(spark: SparkSession, tables: tuple[Judged, ...], lake: Lake) -> tuple[float, ...]:
    """Return the CPU of bronze, of a backlog and of a small batch, of tables that were made before."""
    bronze = tables[0].bronze
    make(spark, bronze, lake.table(bronze))
    commit(spark, bronze, lake, 0, FEW, 0)
    follow(spark, tables, lake, FEW)
    each = ROWS // COMMITS

    def fill() -> None:
        for number in range(COMMITS):
            commit(spark, bronze, lake, FEW + number * each, each, number + 1)

    written = machine.cpu(fill)
    backlog = machine.cpu(lambda: follow(spark, tables, lake, ROWS))
    commit(spark, bronze, lake, FEW + ROWS, FEW, COMMITS + 1)
    small = machine.cpu(lambda: follow(spark, tables, lake, FEW))
    return written, backlog, small


def commit(  # noqa: PLR0913, PLR0917  # what, where, which records
    spark: SparkSession, bronze: Ingested, lake: Lake, first: int, count: int, batch: int
) -> None:
    """Write some records to bronze in a commit."""
    making = delta_commit.Commit(spark, lake.table(bronze))
    rows = making.write(with_kinds(received(spark, first, count, batch), bronze)).rows
    entry = Entry(
        table=bronze.id,
        mode="available-now",
        stream="benchmark",
        batch=batch,
        source="shop",
        offsets={"shop/0": (first, first + count)},
        newest_arrival=(NOON + timedelta(hours=1)).isoformat(),
    )
    making.commit(entry.as_received(rows).encoded())


def received(spark: SparkSession, first: int, count: int, batch: int) -> DataFrame:
    """Return records as bronze has them: of three kinds in turn, each of about 190 bytes."""
    number = F.col("id")
    at = F.timestamp_millis(F.lit(int(NOON.timestamp() * 1000)) + number)
    payload = F.to_json(
        F.struct(
            F.element_at(F.array(*map(F.lit, KINDS)), (number % 3 + 1).cast("int")).alias("type"),
            F.concat(F.lit("e"), number.cast("string")).alias("id"),
            F.concat(F.lit("customer-"), (number % 5000).cast("string")).alias("customer"),
            F.concat(F.lit("product-"), (number % 300).cast("string")).alias("product"),
            (number % 4000).alias("amount"),
            at.alias("at"),
            F.lit("sent by the shop, in a benchmark").alias("note"),
        )
    )
    return spark.range(first, first + count, 1, 2).select(
        F.lit("shop").alias("_topic"),
        F.lit(0).alias("_partition"),
        number.alias("_offset"),
        at.alias("_arrived_at"),
        F.lit(b"k").alias("_message_key"),
        payload.cast("binary").alias("_payload"),
        F.lit(None).cast("array<struct<key:string,value:binary>>").alias("_headers"),
        F.lit(batch).cast("bigint").alias("_batch"),
        at.alias("_ingested_at"),
        F.lit(NOTHING_ARRIVED).alias("_newest_before"),
    )


def follow(spark: SparkSession, tables: tuple[Judged, ...], lake: Lake, count: int) -> None:
    """Run the tables, and see that each record is in one of them."""
    site = Site(spark=spark, clock=lambda: NOON + timedelta(hours=2))
    good = sum(run(table, AvailableNow(), lake, site=site).good for table in tables)
    if good != count:
        message = f"{good} rows of {count}"
        raise AssertionError(message)


if __name__ == "__main__":
    sys.exit(main())
