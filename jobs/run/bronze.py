"""Kafka to bronze: slice, append, account; the table's own ledger is the checkpoint.

Why there is no Spark checkpoint here: bronze has no state but the offsets that it has read, and those ride in
the same commit as the rows. The next slice begins where the newest entry ends, so whatever is killed whenever,
no offset is read twice or skipped, and there is no second record that could disagree. It also leaves the
choice of each slice to us, which is what keeps arrivals in order (jobs/run/kafka.py), and one path serves
batch, catch-up and stream.
"""

import json
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from jobs.core.errors import DataError
from jobs.core.received import RECEIVED
from jobs.core.table import Table
from jobs.run import delta, kafka
from jobs.run.lake import Lake
from jobs.run.ledger import Entry, last_entry
from jobs.run.meter import Meter, code_version

SMALL = 50_000
"""Up to so many records one file is enough; a file a partition would only make small files."""

PROPERTIES = {
    "delta.dataSkippingStatsColumns": "_partition,_offset,_arrived_at,_ingested_at,_batch"
}


class Intake:
    """Reads a topic into its bronze table, slice by slice."""

    def __init__(  # noqa: PLR0913  # all of it is the world outside
        self,
        spark: SparkSession,
        table: Table,
        lake: Lake,
        *,
        address: str,
        options: Mapping[str, str],
        mode: str,
        clock: Callable[[], datetime],
    ) -> None:
        """Make the table if need be, and find where the last run ended."""
        self._spark = spark
        self._table = table
        self._path = lake.table(table)
        self._mode = mode
        self._clock = clock
        self._java = {
            "kafka.bootstrap.servers": address,
            "kafka.isolation.level": "read_committed",
            # A read between known offsets has nothing to wait for, yet Spark's consumer asks beyond the end, and
            # the broker holds that question for 500 ms a partition: 2.3 s a batch of 100 rows, not 0.4 s.
            "kafka.fetch.max.wait.ms": "5",
            # Without a group of its own every read would build new consumers.
            "kafka.group.id": f"strandline-{table.name}",
            **kafka.java_options(options),
        }
        self._log = kafka.Log(address, options, table.topic)
        self._log.partitions()
        self._stream = self._log.identity()
        self._refuse_another_topic()
        delta.create(spark, self._path, RECEIVED, properties=PROPERTIES)

    def close(self) -> None:
        """Disconnect from Kafka."""
        self._log.close()

    def lag(self) -> int:
        """Return how many offsets are still to be read."""
        bounds = self._log.bounds()
        start = self._positions(bounds)
        return sum(end - start[p] for p, (_, end) in bounds.items())

    def catch_up(
        self, limit: int | None, stopped: Callable[[], bool] = lambda: False
    ) -> Iterator[Entry]:
        """Read up to where the topic ends now, and yield the entry of each commit."""
        bounds = self._log.bounds()
        target = {p: end for p, (_, end) in bounds.items()}
        while not stopped():
            start = self._positions(bounds)
            kafka.check_positions(self._table.id, start, bounds)
            stops = self._log.slice(start, target, limit)
            if not stops:
                return
            yield self._append(start, stops)

    def _positions(self, bounds: Mapping[int, tuple[int, int]]) -> dict[int, int]:
        """Return the next offset of each partition: where its last slice ended, or the first there is."""
        positions = {p: first for p, (first, _) in bounds.items()}
        newest = last_entry(self._path)
        if newest is not None:
            positions |= {int(p): end for p, (_, end) in newest[1].offsets.items()}
        return positions

    def _refuse_another_topic(self) -> None:
        newest = last_entry(self._path)
        if newest is not None and newest[1].stream != self._stream:
            raise DataError(
                f"{self._table.id} was filled from another topic of the name {self._table.topic.name}: "
                "the topic was made anew",
                hint="its offsets mean other records now; use another lake for the new topic.",
                table=self._table.id,
            )

    def _append(self, start: Mapping[int, int], stops: Mapping[int, int]) -> Entry:
        meter = Meter(self._spark)
        newest = last_entry(self._path)
        number = newest[1].batch + 1 if newest else 0
        span = sum(stops[p] - start[p] for p in stops)
        commit = delta.Commit(self._spark, self._path)
        written = commit.write(self._records(start, stops, number, span))
        if written.rows != span:
            self._prove_complete(start, stops, written.rows)
        unread = {p: (o, o) for p, o in start.items() if p not in stops}
        offsets = {p: (start[p], stop) for p, stop in stops.items()} | unread
        entry = Entry(
            table=self._table.id,
            mode=self._mode,
            stream=self._stream,
            batch=number,
            source=self._table.topic.name,
            offsets={str(p): offsets[p] for p in sorted(offsets)},
            read=written.rows,
            good=written.rows,
            written=written.rows,
            without_record=span - written.rows,
            duration_ms=meter.wall_ms(),
            cpu_ms=meter.cpu_ms(),
            code=code_version(self._table),
        )
        commit.commit(entry.encoded())
        return entry

    def _records(
        self, start: Mapping[int, int], stops: Mapping[int, int], number: int, span: int
    ) -> DataFrame:
        topic = self._table.topic.name
        records = (
            self._spark.read.format("kafka")
            .options(**self._java)
            .option("assign", json.dumps({topic: sorted(stops)}))
            .option("startingOffsets", json.dumps({topic: {p: start[p] for p in stops}}))
            .option("endingOffsets", json.dumps({topic: dict(stops)}))
            .option("includeHeaders", "true")
            .load()
        )
        if span <= SMALL:
            records = records.coalesce(1)
        return records.select(
            F.col("topic").alias("_topic"),
            F.col("partition").alias("_partition"),
            F.col("offset").alias("_offset"),
            F.col("timestamp").alias("_arrived_at"),
            F.col("key").alias("_message_key"),
            F.col("value").alias("_payload"),
            F.col("headers").alias("_headers"),
            F.lit(number).cast("bigint").alias("_batch"),
            F.lit(self._clock()).cast("timestamp").alias("_ingested_at"),
        )

    def _prove_complete(
        self, start: Mapping[int, int], stops: Mapping[int, int], rows: int
    ) -> None:
        """Ask Kafka's other client how many records there are: markers and compaction leave gaps.

        Raises:
            DataError: Spark saw fewer records, or more, than there are.
        """
        there = self._log.count(start, stops)
        if there != rows:
            raise DataError(
                f"{self._table.id}: Spark read {rows} records of {self._table.topic.name}, "
                f"but the topic has {there} between the same offsets",
                hint="nothing was written; run it again, and look at the broker if it stays so.",
                table=self._table.id,
                offsets={str(p): (start[p], stop) for p, stop in stops.items()},
            )
