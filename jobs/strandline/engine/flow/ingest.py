"""Kafka to bronze: slice, append, account; the table's own ledger is the checkpoint.

Why there is no Spark checkpoint here: bronze has no state but the offsets that it has read, and the commit of the rows
contains them. The next slice begins where the newest entry ends, so a kill at any moment makes no offset read twice or
skipped, and there is no second record that could disagree. It also lets us choose each slice, which keeps arrivals in
order (jobs/strandline/engine/kafka/slices.py), and one code path serves batch, catch-up and stream.
"""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import asdict, replace
from datetime import UTC, datetime
from typing import TypeAlias

import confluent_kafka
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import BinaryType, IntegerType, LongType, StringType, StructType

from strandline.core.errors import DataError, DefinitionError
from strandline.core.kind import SKEW
from strandline.core.parse_registered import HEAD, Registered, decoder
from strandline.core.routes import KIND, KIND_BY, WriterSchema
from strandline.core.table import Ingested, Table
from strandline.core.topic import HEADERS, NOTHING_ARRIVED, Topic
from strandline.engine.accounting.routes import takers_of
from strandline.engine.accounting.table_books import Books
from strandline.engine.flow import new_entry
from strandline.engine.flow.batch.governor import Governor
from strandline.engine.flow.new_entry import kinds_in, with_kinds
from strandline.engine.kafka import topic_log
from strandline.engine.kafka.schema_registry import Registry
from strandline.engine.kafka.send_records import GivenLog, GivenTopics
from strandline.engine.kafka.slices import Backlog, Bounds, Part, Positions, name_of, range_ends
from strandline.engine.kafka.topic_log import RecreatedError, current, deleted, identities_in
from strandline.engine.lake.commit import create_table, delta_commit
from strandline.engine.lake.commit.delta_commit import Written
from strandline.engine.lake.commit.file_index import EPOCH, MICROSECOND
from strandline.engine.lake.duckdb_table import literal, peek_files
from strandline.engine.lake.lake import Lake
from strandline.engine.lake.log.commit_log import added_file
from strandline.engine.lake.log.ledger import Entry, is_table, last_entry
from strandline.engine.lake.log.ledger_sums import Sums, sums_of
from strandline.engine.lake.log.log_actions import file_of
from strandline.engine.lake.place import Place
from strandline.engine.lake.shelves import Shelf
from strandline.engine.runtime.code_files import code_version
from strandline.engine.runtime.jvm import Meter
from strandline.engine.runtime.settings import settings
from strandline_infra import installation

# The newest arrival in bronze before a commit; a row that arrived too far behind it is disordered.
#
# Each entry carries it forward, so a commit reads only the entry before it. An arrival beyond the reader's clock by more
# than ``SKEW`` does not count (jobs/strandline/core/kind.py): one record of the year 9999 would make every later row disordered.
#
# History that was imported before any stream had read a row counts as what came before Kafka's first record: the streams
# begin with it, so it has moved their watermarks. A record that Kafka has of the same time is a copy that state still knows,
# or lies further back than the table admits and is held as disordered, as after any other commit.


def newest_credible(clock: str) -> str:
    """Return the SQL for the newest arrival among rows that a reader believed, in microseconds since 1970.

    An arrival beyond the reader's clock counts as that of its clock, and one beyond it by more than the skew not at all.

    Args:
        clock: The SQL of the reader's clock, in microseconds.
    """
    arrived, skew = "epoch_us(_arrived_at)", SKEW // MICROSECOND
    return f"max(least({arrived}, {clock})) FILTER ({arrived} <= {clock} + {skew})"


def newest_before(newest: Entry | None, history: str | None = None) -> datetime | None:
    """Return the newest arrival up to a commit of bronze; None if its entry is of an older version without it.

    Args:
        newest: The entry of the commit; None before the first.
        history: The newest arrival of history with which the streams began (``Sums.history``), or will begin.
    """
    known = [datetime.fromisoformat(history)] if history else []
    if newest is None:
        return max([NOTHING_ARRIVED, *known])
    if newest.newest_arrival:
        known.append(datetime.fromisoformat(newest.newest_arrival))
    return max(known, default=None)


def newest_with(
    known: datetime | None, path: Place, written: Written, seen_at: datetime
) -> datetime | None:
    """Return the newest arrival including rows that were just written.

    Args:
        known: The newest arrival before them.
        path: The table.
        written: Their files; the statistics of each have its newest arrival.
        seen_at: The reader's clock.
    """
    return max([*_newest(path, written, seen_at), *([known] if known else [])], default=None)


def _newest(path: Place, written: Written, seen_at: datetime) -> Iterator[datetime]:
    """Yield the newest credible arrival of the files; only those with an arrival that is not credible are opened."""
    ahead = []
    for add in map(added_file, written.files):
        newest = _moment(json.loads(add["stats"])["maxValues"]["_arrived_at"])
        if newest is not None and newest <= seen_at + SKEW:
            yield min(newest, seen_at)
        else:
            ahead.append(file_of(path, add))
    if not ahead:
        return
    wanted = newest_credible("getvariable('clock_')")
    ((within,),) = peek_files(ahead, "ahead").ask(
        f"SELECT {wanted} FROM ahead",  # noqa: S608  # our own names
        clock_=(seen_at - EPOCH) // MICROSECOND,
    )
    if isinstance(within, int):
        yield EPOCH + within * MICROSECOND


def _moment(text: str) -> datetime | None:
    try:
        return datetime.fromisoformat(text).astimezone(UTC)
    except (ValueError, OverflowError):  # Kafka has times beyond the year 9999, Python has not
        return None


# New ids of schemas are asked for while bronze takes their payloads in, before the commit.
#
# Why here and not in silver: a record is taken in by one process, once, and that process has the network and the credentials of
# sources anyway. What is derived from bronze then needs only the lake: executors, a backfill, a rebuild of next year.
#
# The ids are read from the files that were just written, which are in the page cache, by DuckDB; only those that the lake does
# not know yet cost a request. To find the ids of 50,000 records takes 27 ms (tests/benchmarks/registered_payloads.py).


AT_ONCE = 1_000
"""Ids that are read at once; a topic full of rubbish may have one in each payload."""

REMEMBERED = 10_000
"""Ids that a stream remembers to have seen, for the same reason; the others are looked up on the shelf."""


class Learner:
    """Learns the schemas of a bronze table's payloads; does nothing for a table whose topics have none."""

    def __init__(self, table: Table, lake: Lake) -> None:
        """Look at the table's topics."""
        self._path = lake.table(table)
        self._shelf = Shelf(lake.schemas)
        self._seen: set[int] = set()
        self._columns: dict[str, list[str]] = {"_payload": [], "_message_key": []}
        for topic in table.topics:
            if isinstance(topic.parse, Registered):
                self._columns["_payload"].append(topic.name)
                if topic.parse.keys:
                    self._columns["_message_key"].append(topic.name)

    def learn(self, written: Written) -> None:
        """Keep the schemas of records that are about to be committed.

        Raises:
            TransientError: The registry does not answer.
            DefinitionError: No registry is known, or a schema cannot be used.
        """
        if written.is_empty:
            return
        files = [file_of(self._path, added_file(each)) for each in written.files]
        for column, topics in self._columns.items():
            after = -1
            while topics and (found := ids_behind(after, files, column, topics)):
                new = [each for each in found if each not in self._seen]
                self._keep([each for each in new if not self._shelf.has(each)])
                self._remember(new)
                after = found[-1]

    def _remember(self, new: Sequence[int]) -> None:
        if len(self._seen) + len(new) > REMEMBERED:
            self._seen.clear()
        self._seen.update(new)

    def _keep(self, numbers: list[int]) -> None:
        if not numbers:
            return
        with closing(_registry(numbers[0])) as registry:
            for number in numbers:
                schema = registry.schema(number)
                if schema is not None:
                    _refuse_unusable(schema)
                self._shelf.keep(number, schema)


def ids_behind(
    after: int, files: Sequence[str], column: str, topics: Sequence[str]
) -> Sequence[int]:
    """Return ids of schemas in files of bronze, in their order, some at a time.

    Args:
        after: The last id of the time before.
        files: The files.
        column: The column with payloads in the wire format.
        topics: The topics whose payloads are.
    """
    of = ", ".join(map(literal, topics))
    rows = peek_files(files, "records").ask(
        f"""
        SELECT DISTINCT ('0x' || hex(array_slice({column}, 2, {HEAD})))::BIGINT AS number
        FROM records
        WHERE _topic IN ({of}) AND octet_length({column}) >= {HEAD}
            AND array_slice({column}, 1, 1) = '\\x00'::BLOB AND number > {after}
        ORDER BY number LIMIT {AT_ONCE}
        """  # noqa: S608  # our own names and numbers
    )
    return [int(str(number)) for (number,) in rows]


def _registry(number: int) -> Registry:
    found = settings()
    if found.schema_registry is None:
        raise DefinitionError(
            f"a record has the schema {number}, which the lake does not know, and no schema registry is named",
            hint="set STRANDLINE_SCHEMA_REGISTRY; nothing was committed.",
            schema=number,
        )
    return Registry(found.schema_registry, found.schema_registry_options)


def _refuse_unusable(schema: WriterSchema) -> None:
    """Refuse a schema from which no decoder can be made; its payloads would end the stream of silver instead.

    Raises:
        DefinitionError: None can be made.
    """
    try:
        decoder(schema)
    except ImportError as error:
        raise DefinitionError(
            f"the library that decodes {schema.kind} is not installed: {error}",
            hint=installation.hint("registry"),
        ) from error
    except Exception as error:  # libraries of three formats raise what they like
        raise DefinitionError(
            f"the registry's schema {schema.number} cannot be used: {error}",
            hint="correct it in the registry, or leave the topic out; nothing was committed.",
            schema=schema.number,
        ) from error


# Records with a time beyond the calendar: a producer sent microseconds or nanoseconds where Kafka has milliseconds.
#
# Microseconds are the year 57,742, which Spark can represent and Python cannot. Nanoseconds are more than Spark can
# represent at all, and one such record makes its Kafka reader fail; then the C client reads a few records at a time.
# In bronze both arrive at the last millisecond of the year 9999: silver quarantines them, and no watermark moves.


LAST = 253_402_300_799_999
"""The last millisecond of the year 9999."""

FEW = 1_000
"""How many records of such a slice are held in Python; each may have a megabyte."""

REFUSAL = ("KafkaIllegalStateException", "overflows")
"""Words in the error of Spark's reader."""

RECORD = (
    StructType()
    .add("topic", StringType())
    .add("partition", IntegerType())
    .add("offset", LongType())
    .add("millisecond", LongType())
    .add("key", BinaryType())
    .add("value", BinaryType())
    .add("headers", HEADERS)
)


def is_beyond(error: Exception) -> bool:
    """Return whether Spark failed because of a record's time."""
    text = str(error)
    return all(word in text for word in REFUSAL)


ARRIVED_AT = f"least(`timestamp`, timestamp_millis({LAST}))"
"""The SQL of a record's time, or of the calendar's last one where the time is beyond it."""


def as_spark_reads(spark: SparkSession, messages: "Iterable[confluent_kafka.Message]") -> DataFrame:
    """Return records of the C client with the columns of Spark's reader."""
    rows = [
        (
            message.topic(),
            message.partition(),
            message.offset(),
            min(message.timestamp()[1], LAST),
            message.key(),
            message.value(),
            message.headers(),
        )
        for message in messages
    ]
    found = spark.createDataFrame(rows, RECORD)
    return found.withColumn("timestamp", F.timestamp_millis("millisecond")).drop("millisecond")


SMALL = 50_000
"""Up to this number of records a slice is written as one file; a file for each partition would be too small."""

Read: TypeAlias = Callable[[Positions, Positions, int], DataFrame]

PROPERTIES = {
    "delta.dataSkippingStatsColumns": "_partition,_offset,_arrived_at,_ingested_at,_batch,_newest_before"
}


def make(spark: SparkSession, table: Ingested, path: Place) -> None:
    """Make the table, or add the columns that one of an older version lacks; they are NULL in its older rows."""
    received = table.received
    if is_table(path) and (lacking := create_table.lacks(path, received)):
        own = spark.read.format("delta").load(str(path)).schema
        columns = StructType([*own.fields, *(received[name] for name in lacking)])
        commit = delta_commit.Commit(spark, path)
        commit.bring_in((), columns.json(), ())
        commit.commit("")
    create_table.create(spark, path, received, properties=PROPERTIES)


class Intake:
    """Reads a topic into its bronze table, slice by slice."""

    def __init__(  # noqa: PLR0913  # Spark, Kafka, the lake and the clock
        self,
        spark: SparkSession,
        table: Ingested,
        lake: Lake,
        *,
        address: str,
        options: Mapping[str, str],
        mode: str,
        clock: Callable[[], datetime],
        given: GivenTopics | None = None,
    ) -> None:
        """Make the table unless it exists, and check that its topics are those of the last run."""
        self._spark = spark
        self._table = table
        self._lake = lake
        self._path = lake.table(table)
        self._mode = mode
        self._clock = clock
        self._java = {
            "kafka.bootstrap.servers": address,
            "kafka.isolation.level": "read_committed",
            # A read between known offsets has nothing to wait for, yet Spark's consumer fetches beyond the end, and
            # the broker delays that fetch by 500 ms a partition: 2.3 s a batch of 100 rows, not 0.4 s.
            "kafka.fetch.max.wait.ms": "5",
            # After each poll Spark asks the broker where the partition begins and ends, and waits for both answers. A poll returns
            # what was fetched (1 MB of a partition), up to so many records: 500 by default.
            "kafka.max.poll.records": "100000",
            # With one group id Spark's consumers are reused; without it every read would make new ones. The address is
            # in it, because Spark refuses to reuse one for a broker that has returned at another port.
            "kafka.group.id": f"strandline-{table.name}@{address}",
            **topic_log.java_options(options),
        }
        # Read once, and then known from each commit, because the table has one writer. A batch looked for it three times, and a
        # stream at each of its triggers; each look is two requests on a store. After a commit that failed, all begins anew.
        newest = last_entry(self._path)
        self._newest = newest[1] if newest else None
        sums = sums_of(self._path) if newest else Sums()
        self._topics = [topic for topic in table.topics if topic.name not in sums.retired]
        refuse_retired(table, self._topics)
        known = range_ends(self._newest.offsets) if self._newest else {}
        # In a test records are given, and there is no broker.
        self._given = None if given is None else given.of(self._topics)
        self._log = self._given or Backlog(address, options, self._topics, known)
        self._stream = identities(table.id, self._log, self._newest)
        self._refuse_another_topic()
        self._refuse_behind()
        make(spark, table, self._path)
        self._history = sums_of(
            self._path
        ).history  # while this runs none comes: it needs the lease
        self._schemas = Learner(table, lake)

    def close(self) -> None:
        """Disconnect from Kafka."""
        self._log.close()

    def lag(self) -> int:
        """Return how many offsets are not read yet."""
        bounds = self._log.bounds()
        start = self._positions(bounds)
        return sum(end - start[p] for p, (_, end) in bounds.items())

    def catch_up(
        self, governor: Governor | None, stopped: Callable[[], bool] = lambda: False
    ) -> Iterator[Entry]:
        """Read up to the current end of the topic, and yield the entry of each commit.

        Args:
            governor: Chooses the size of each slice; without it all is read at once.
            stopped: Asked between slices.
        """
        bounds = self._log.bounds()
        target = {p: end for p, (_, end) in bounds.items()}
        while not stopped():
            start = self._positions(bounds)
            own = own_of(start, (topic.name for topic in self._topics))
            topic_log.check_positions(self._table.id, own, bounds)
            limit = governor.rows if governor else None
            stops = self._log.slice(start, target, limit)
            if not stops:
                return
            try:
                entry = self._governed(governor, start, stops, self._read)
            except Exception as error:
                if not is_beyond(error):
                    raise
                few = self._log.slice(start, target, FEW if limit is None else min(limit, FEW))
                entry = self._governed(governor, start, few, self._read_by_hand)
            yield entry

    def _governed(
        self, governor: Governor | None, start: Positions, stops: Positions, read: Read
    ) -> Entry:
        if governor is None:
            return self._append(start, stops, read, 0)
        governor.begins(self._newest.batch + 1 if self._newest else 0, _span(start, stops))
        try:
            entry = self._append(start, stops, read, governor.rows)
        except Exception as error:
            governor.failed(error)
            raise
        governor.ended(entry)
        return entry

    def _positions(self, bounds: Bounds) -> dict[Part, int]:
        """Return the next offset of each partition: the end of its last slice, or the first in Kafka."""
        positions = {part: first for part, (first, _) in bounds.items()}
        if self._newest is not None:
            positions |= range_ends(self._newest.offsets)
        return positions

    def _refuse_another_topic(self) -> None:
        """Refuse a topic that was recreated since the last read; a new topic may join.

        Raises:
            DataError: A topic was recreated.
        """
        if self._newest is not None:
            read = range_ends(self._newest.offsets)
            refuse_unlike(self._table.id, self._newest.stream, self._stream, read)

    def _refuse_behind(self) -> None:
        """Refuse another declaration of kinds while a table has not read what came by the former one.

        It would judge these by the new one, and a table that has read them has judged them by the former: a record that
        moves between the two would be in both, or in neither.

        Raises:
            DefinitionError: A table has not.
        """
        newest = self._newest
        if newest is None or not newest.routed_by or newest.routed_by == self._table.routed_by:
            return
        sums = {self._table.id: sums_of(self._path)}
        for taker in takers_of(self._table, self._lake):
            begun = is_table(self._lake.table(taker))
            if begun and (rows := Books(taker, self._lake).follow().unread(sums)) > 0:
                raise DefinitionError(
                    f"kinds of {self._table.id} are distinguished by {self._table.routed_by} now, and {taker.id} has not read "
                    f"{rows:,} records that came by {newest.routed_by}",
                    hint=f"run {taker.id} by the former declaration first (`strandline run {taker.id}` before the edit), or "
                    f"compute it anew by this one: `strandline rebuild {taker.id}`, then `strandline promote {taker.id}`.",
                    table=self._table.id,
                    behind=taker.id,
                )

    def _refuse_recreated(self) -> None:
        """Refuse a slice that was read, before its commit, if a topic was recreated since the run began.

        Spark checks the offsets of a topic and not its id, so a topic that was recreated between two slices and has
        more records than the old one by now looks like the old one.

        Raises:
            DataError: A topic was recreated.
        """
        now = identities(self._table.id, self._log, self._newest)
        read = range_ends(self._newest.offsets) if self._newest else {}
        refuse_unlike(self._table.id, self._stream, now, read)

    def _append(self, start: Positions, stops: Positions, read: Read, most: int) -> Entry:
        meter = Meter(self._spark)
        number = self._newest.batch + 1 if self._newest else 0
        span = _span(start, stops)
        commit = delta_commit.Commit(self._spark, self._path)
        seen_at, known = self._clock(), newest_before(self._newest, self._history)
        kept = with_kinds(received(read(start, stops, span)), self._table)
        records = numbered(kept, self._log.numbers).selectExpr(
            *(each for each in kept.columns if each not in {KIND, KIND_BY}),
            # A class of generated code for each batch would be compiled and made quick anew.
            f"batch_value(CAST({number} AS bigint)) AS _batch",
            f"batch_value({_constant(seen_at)}) AS _ingested_at",
            f"batch_value({_constant(known)}) AS _newest_before",
            *((KIND, KIND_BY) if self._table.has_kinds else ()),
        )
        written = commit.write(records)
        arrived = newest_with(known, self._path, written, seen_at)
        if written.rows != span:
            self._prove_complete(start, stops, written.rows)
        self._refuse_recreated()
        self._schemas.learn(written)
        ranges = {part: (offset, stops.get(part, offset)) for part, offset in start.items()}
        begun = new_entry.topics_read(
            self._table,
            self._mode,
            self._stream,
            number,
            topics=self._topics,
            offsets={name_of(part): ranges[part] for part in sorted(ranges)},
        )
        entry = replace(
            begun.as_received(written.rows),
            **asdict(kinds_in(self._table, self._lake, written)),
            routed_by=self._table.routed_by,
            most=most,
            without_record=span - written.rows,
            newest_arrival=arrived.isoformat() if arrived else None,
            code=code_version(self._table),
        ).closed(meter, written=written.rows)
        commit.commit(entry.encoded())
        self._newest = entry
        return entry

    def _read_by_hand(self, start: Positions, stops: Positions, _: int) -> DataFrame:
        return as_spark_reads(self._spark, self._log.records(start, stops)).coalesce(1)

    def _read(self, start: Positions, stops: Positions, span: int) -> DataFrame:
        if self._given is not None:
            return self._given.read(self._spark, start, stops)
        return self._read_kafka(start, stops, span)

    def _read_kafka(self, start: Positions, stops: Positions, span: int) -> DataFrame:
        start, stops = self._log.in_kafka({p: start[p] for p in stops}), self._log.in_kafka(stops)
        records = (
            self._spark.read.format("kafka")
            .options(**self._java)
            .option("assign", json.dumps({t: sorted(ends) for t, ends in by_topic(stops).items()}))
            .option("startingOffsets", json.dumps(by_topic(start)))
            .option("endingOffsets", json.dumps(by_topic(stops)))
            .option("includeHeaders", "true")
            .load()
        )
        if span <= SMALL:
            records = records.coalesce(1)
        return records

    def _prove_complete(self, start: Positions, stops: Positions, rows: int) -> None:
        """Count the records with another Kafka client, because markers and compaction leave gaps.

        Raises:
            DataError: Spark read fewer records, or more, than Kafka has.
        """
        count = self._log.count(start, stops)
        if count != rows:
            raise DataError(
                f"{self._table.id}: Spark read {rows} records, "
                f"but Kafka has {count} between the same offsets",
                hint="nothing was committed; run it again, and check the broker if the error persists.",
                table=self._table.id,
                offsets={name_of(part): (start[part], stop) for part, stop in stops.items()},
            )


def received(records: DataFrame) -> DataFrame:
    """Return records of Spark's reader of Kafka with the names that they have in bronze.

    As SQL, which Spark's JVM parses: each column that Python builds is some five calls of it, and every slice has the same.
    """
    return records.selectExpr(
        "`topic` AS _topic",
        "`partition` AS _partition",
        "`offset` AS _offset",
        f"{ARRIVED_AT} AS _arrived_at",
        "`key` AS _message_key",
        "`value` AS _payload",
        "`headers` AS _headers",
    )


def _constant(moment: datetime | None) -> str:
    """Return the SQL of a moment."""
    if moment is None:
        return "CAST(NULL AS timestamp)"
    return f"timestamp_micros({(moment - EPOCH) // MICROSECOND})"


def numbered(records: DataFrame, numbers: Mapping[str, int]) -> DataFrame:
    """Return records with the numbers that their partitions have in the lake (jobs/strandline/engine/kafka/topic_log.py)."""
    partition = F.col("_partition")
    for topic, first in numbers.items():
        partition = F.when(F.col("_topic") == topic, F.col("_partition") + first).otherwise(
            partition
        )
    return records.withColumn("_partition", partition.cast("int")) if numbers else records


def refuse_retired(table: Table, left: Sequence[Topic]) -> None:
    """Refuse to read a bronze table all of whose topics were retired.

    Raises:
        DefinitionError: They were.
    """
    if not left:
        raise DefinitionError(
            f"all topics of {table.id} are retired, so nothing feeds it",
            hint="its rows stay, and its readers go on. Name the topic that is to feed it in its `reads`, or "
            f'`strandline retire {table.id} --topic NAME --undo --because "…"` reads one again.',
            table=table.id,
        )


def _span(start: Positions, stops: Positions) -> int:
    return sum(stops[part] - start[part] for part in stops)


def identity(topics: Mapping[str, str]) -> str:
    """Return the ids of topics as a ledger entry has them; a recreated topic has another."""
    return ",".join(f"{name}@{topics[name]}" for name in sorted(topics))


def own_of(offsets: Positions, topics: Iterable[str]) -> dict[Part, int]:
    """Return the offsets of some topics where they are now.

    A reader whose topic was renamed, or is on another cluster now, has those of before as well.
    """
    known = {*topics}
    return {part: at for part, at in current(offsets).items() if part[0] in known}


def identities(name: str, log: Backlog | GivenLog, newest: Entry | None) -> str:
    """Return the ids of the topics of a reader.

    Raises:
        DefinitionError: One does not exist. Where it was read before, it must not be made again.
    """
    try:
        return identity(log.identities())
    except DefinitionError as error:
        topic = str(error.fields.get("topic", ""))
        if newest is None or topic not in identities_in(newest.stream):
            raise
        raise deleted(error.message, name, topic, range_ends(newest.offsets)) from error


def refuse_unlike(name: str, before: str, now: str, read: Positions | None = None) -> None:
    """Refuse a topic that was recreated; a new topic may join.

    Args:
        name: The table or the feed that reads it.
        before: The ids of the topics when they were read first.
        now: Their ids today.
        read: The offsets up to which they were read.

    Raises:
        RecreatedError: A topic was recreated.
    """
    found = identities_in(now)
    for topic, known in identities_in(before).items():
        if found.get(topic, known) != known:
            raise RecreatedError(name, topic, read or {})


def by_topic(positions: Positions) -> dict[str, dict[int, int]]:
    """Return offsets by topic and partition, as options of Spark have them."""
    by_topic: dict[str, dict[int, int]] = {}
    for (topic, number), offset in sorted(positions.items()):
        by_topic.setdefault(topic, {})[number] = offset
    return by_topic
