"""Kafka to bronze: slice, append, account; the table's own ledger is the checkpoint.

Why there is no Spark checkpoint here: bronze has no state but the offsets that it has read, and those ride in
the same commit as the rows. The next slice begins where the newest entry ends, so whatever is killed whenever,
no offset is read twice or skipped, and there is no second record that could disagree. It also leaves the
choice of each slice to us, which is what keeps arrivals in order (jobs/run/backlog.py), and one path serves
batch, catch-up and stream.
"""

import json
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from jobs.core.errors import DataError
from jobs.core.received import RECEIVED
from jobs.core.table import Table
from jobs.run import delta, kafka
from jobs.run.arrivals import newest_before, newest_with
from jobs.run.backlog import Backlog, Bounds, Part, Positions, name_of, part_of
from jobs.run.lake import Lake
from jobs.run.ledger import Entry, is_table, last_entry
from jobs.run.meter import Meter, code_version

SMALL = 50_000
"""Up to so many records one file is enough; a file a partition would only make small files."""

PROPERTIES = {
    "delta.dataSkippingStatsColumns": "_partition,_offset,_arrived_at,_ingested_at,_batch,_newest_before"
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
        self._log = Backlog(address, options, table.topics)
        self._stream = _identity(self._log.identities())
        self._refuse_another_topic()
        self._make()

    def _make(self) -> None:
        """Make the table, or add what one of an older version lacks: its rows so far know no newest arrival."""
        if is_table(self._path) and (lacking := delta.lacks(self._path, RECEIVED)):
            own = self._spark.read.format("delta").load(str(self._path)).schema
            columns = StructType([*own.fields, *(RECEIVED[name] for name in lacking)])
            commit = delta.Commit(self._spark, self._path)
            commit.bring_in((), columns.json(), ())
            commit.commit("")
        delta.create(self._spark, self._path, RECEIVED, properties=PROPERTIES)

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

    def _positions(self, bounds: Bounds) -> dict[Part, int]:
        """Return the next offset of each partition: where its last slice ended, or the first there is."""
        positions = {part: first for part, (first, _) in bounds.items()}
        newest = last_entry(self._path)
        if newest is not None:
            positions |= {part_of(name): end for name, (_, end) in newest[1].offsets.items()}
        return positions

    def _refuse_another_topic(self) -> None:
        """See that every topic is the one that was read before; a new one may join.

        Raises:
            DataError: A topic was made anew.
        """
        newest = last_entry(self._path)
        if newest is None:
            return
        now = _identities(self._stream)
        for topic, known in _identities(newest[1].stream).items():
            if now.get(topic, known) != known:
                raise DataError(
                    f"{self._table.id} was filled from another topic of the name {topic}: "
                    "the topic was made anew",
                    hint="its offsets mean other records now; use another lake for the new topic.",
                    table=self._table.id,
                    topic=topic,
                )

    def _append(self, start: Positions, stops: Positions) -> Entry:
        meter = Meter(self._spark)
        newest = last_entry(self._path)
        number = newest[1].batch + 1 if newest else 0
        span = sum(stops[p] - start[p] for p in stops)
        commit = delta.Commit(self._spark, self._path)
        seen_at, known = self._clock(), newest_before(newest[1] if newest else None)
        records = self._records(start, stops, span).select(
            "*",
            F.lit(number).cast("bigint").alias("_batch"),
            F.lit(seen_at).cast("timestamp").alias("_ingested_at"),
            F.lit(known).cast("timestamp").alias("_newest_before"),
        )
        written = commit.write(records)
        arrived = newest_with(known, written, seen_at)
        if written.rows != span:
            self._prove_complete(start, stops, written.rows)
        ranges = {part: (offset, stops.get(part, offset)) for part, offset in start.items()}
        entry = Entry(
            table=self._table.id,
            mode=self._mode,
            stream=self._stream,
            batch=number,
            source=", ".join(topic.name for topic in self._table.topics),
            offsets={name_of(part): ranges[part] for part in sorted(ranges)},
            read=written.rows,
            good=written.rows,
            written=written.rows,
            without_record=span - written.rows,
            newest_arrival=arrived.isoformat() if arrived else None,
            duration_ms=meter.wall_ms(),
            cpu_ms=meter.cpu_ms(),
            code=code_version(self._table),
        )
        commit.commit(entry.encoded())
        return entry

    def _records(self, start: Positions, stops: Positions, span: int) -> DataFrame:
        records = (
            self._spark.read.format("kafka")
            .options(**self._java)
            .option("assign", json.dumps({t: sorted(ends) for t, ends in _by_topic(stops).items()}))
            .option("startingOffsets", json.dumps(_by_topic({p: start[p] for p in stops})))
            .option("endingOffsets", json.dumps(_by_topic(stops)))
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
        )

    def _prove_complete(self, start: Positions, stops: Positions, rows: int) -> None:
        """Ask Kafka's other client how many records there are: markers and compaction leave gaps.

        Raises:
            DataError: Spark saw fewer records, or more, than there are.
        """
        there = self._log.count(start, stops)
        if there != rows:
            raise DataError(
                f"{self._table.id}: Spark read {rows} records, "
                f"but Kafka has {there} between the same offsets",
                hint="nothing was written; run it again, and look at the broker if it stays so.",
                table=self._table.id,
                offsets={name_of(part): (start[part], stop) for part, stop in stops.items()},
            )


def _identity(topics: Mapping[str, str]) -> str:
    return ",".join(f"{name}@{topics[name]}" for name in sorted(topics))


def _identities(stream: str) -> dict[str, str]:
    return dict(topic.rsplit("@", 1) for topic in stream.split(",") if "@" in topic)


def _by_topic(positions: Positions) -> dict[str, dict[int, int]]:
    found: dict[str, dict[int, int]] = {}
    for (topic, number), offset in sorted(positions.items()):
        found.setdefault(topic, {})[number] = offset
    return found
