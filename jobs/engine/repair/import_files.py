"""Files to bronze: a file's records become rows beside the stream, a bounded slice a commit, each slice once.

The streams above pass over these commits, because their watermarks have passed (jobs/engine/repair/bring_imported.py
brings the rows to them). So a commit also rewrites the table's smallest file: a stream skips a commit only when it
removes a file. The arrival of a row is a field of it, to the millisecond as in Kafka; a record in which it cannot be
read has that of the record before it.

A file is read whole before its first row is committed: a torn one, and one with a time that a stream still owns, is
refused while nothing has happened yet.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime
from itertools import islice

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from jobs.core.errors import DataError, DefinitionError
from jobs.core.parse import parse_json
from jobs.core.parse_csv import parse_csv
from jobs.core.received import NOTHING_ARRIVED, RECEIVED
from jobs.core.table import Ingested
from jobs.core.topic import Topic
from jobs.engine.repair.closed_range import Span
from jobs.engine.runtime.meter import Meter, code_version
from jobs.engine.storage.history_file import Format, HistoryFile, Record
from jobs.engine.storage.import_marks import BATCH, IMPORT, PARTITION, part_of_imports
from jobs.engine.storage.import_notes import ImportNote, ImportNotes
from jobs.engine.storage.lake import Lake
from jobs.engine.storage.ledger import Entry
from jobs.engine.storage.ledger_snapshot import sums_of
from jobs.engine.storage.place import Place
from jobs.engine.storage.replace_rows import Exchange, swap

SLICE = 200_000
"""Rows of a commit. They are in this process at once: with payloads of 300 bytes about 100 MB."""

NOWHERE = (0, 0)
"""A range of arrivals that no row has: an import removes nothing."""

SCHEMA = pa.schema(
    [("_offset", pa.int64()), ("_arrived_at", pa.int64()), ("_payload", pa.binary())]
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What an import of a file would do, or what there is left to do.

    Args:
        file: The file, to read it.
        note: What is known of it.
        done: How many of its records are committed.
        copy_of: The file with the same bytes that was imported before under another name.
    """

    file: HistoryFile
    note: ImportNote
    done: int
    copy_of: str | None = None

    @property
    def left(self) -> int:
        """Return how many records are to be committed."""
        return 0 if self.copy_of else self.note.rows - self.done

    @property
    def span(self) -> Span:
        """Return the range of the arrivals."""
        return Span.of_micros(self.note.oldest * 1000, self.note.newest * 1000)


def refuse_unlike(file: HistoryFile, topic: Topic) -> None:
    """Refuse a file whose records are no payloads of a topic.

    Raises:
        DefinitionError: The topic's payloads have another format.
    """
    is_csv, is_json = topic.parse is parse_csv, topic.parse is parse_json
    kind = file.format
    fits = is_json if kind is Format.PARQUET else is_csv == (kind is Format.CSV)
    if not fits:
        wanted = "lines of cells" if is_csv else "JSON" if is_json else "of a format of its own"
        raise DefinitionError(
            f"{file.place} is {kind}, and the payloads of topic {topic} are {wanted}",
            hint="write it again in the topic's format, for example with DuckDB: COPY (FROM 'a.csv') TO 'a.parquet'.",
            file=str(file.place),
            topic=topic.name,
        )


def unfinished_file(table: Ingested, lake: Lake) -> ImportNote | None:
    """Return the file whose import was interrupted after some of its rows were committed, if there is one."""
    newest = ImportNotes(table, lake).newest()
    if newest is None or not 0 < newest.done(_reached(table, lake, newest.topic)) < newest.rows:
        return None
    return newest


def planned(table: Ingested, topic: Topic, lake: Lake, file: HistoryFile) -> Plan:
    """Look what there is to import of a file; nothing is written. A file that was never imported is read once.

    Raises:
        DataError: It changed since it was imported, or cannot be read.
        DefinitionError: No record says when it arrived, or its records are no payloads of the topic.
    """
    refuse_unlike(file, topic)
    notes, reached = ImportNotes(table, lake), _reached(table, lake, topic.name)
    known, mark = notes.of(file.place), file.fingerprint()
    done = known.done(reached) if known else 0
    if known and known.fingerprint != mark and done:
        raise DataError(
            f"{file.place} changed since {done:,} of its {known.rows:,} rows were imported",
            hint="imported rows stay as they were received; put new events into a file of another name.",
            file=str(file.place),
        )
    if known and known.fingerprint == mark and done:
        return Plan(file=file, note=known, done=done)
    copy = notes.of_bytes(mark)
    if copy and copy.file != str(file.place) and copy.done(reached):
        return Plan(file=file, note=copy, done=copy.done(reached), copy_of=copy.file)
    return Plan(file=file, note=_surveyed(file, topic, reached, mark), done=0)


def _surveyed(file: HistoryFile, topic: Topic, first: int, mark: str) -> ImportNote:
    rows, begins, oldest, newest = 0, None, 0, 0
    for record in file.records():
        rows += 1
        if record.arrived is not None:
            if begins is None:
                begins = oldest = newest = record.arrived
            oldest, newest = min(oldest, record.arrived), max(newest, record.arrived)
    if rows and begins is None:
        raise DefinitionError(
            f"none of the {rows:,} records of {file.place} has a moment in {file.column}",
            hint="name the field with the arrival: --arrived-at-column; the time of the event itself if there is none.",
            file=str(file.place),
        )
    return ImportNote(
        file=str(file.place),
        topic=topic.name,
        fingerprint=mark,
        first=first,
        rows=rows,
        column=file.column,
        header=file.header,
        begins=begins or 0,
        oldest=oldest,
        newest=newest,
    )


def import_file(  # noqa: PLR0913  # what, where, and by which clock
    spark: SparkSession,
    table: Ingested,
    lake: Lake,
    plan: Plan,
    *,
    clock: Callable[[], datetime],
    slice_rows: int = SLICE,
) -> Iterator[Entry]:
    """Commit the records of a file that are not committed yet, and yield the entry of each commit.

    The caller holds the table's lease in the role of imports.
    """
    note = plan.note
    if not plan.done and plan.left:
        notes = ImportNotes(table, lake)
        before = notes.newest()
        if before and not before.done(
            _reached(table, lake, before.topic)
        ):  # begun and killed before its first commit
            notes.forget(before)
        notes.write(note)
    records = enumerate(_arrived(plan.file.records(), note.begins))
    at, wanted = plan.done, islice(records, plan.done, None)
    while at < note.rows:
        meter = Meter(spark)
        part = list(islice(wanted, slice_rows))
        rows = pa.Table.from_arrays(
            [
                pa.array([note.first + number for number, _ in part], pa.int64()),
                pa.array([each.arrived for _, each in part], pa.int64()),
                pa.array([each.payload for _, each in part], pa.binary()),
            ],
            schema=SCHEMA,
        )
        times = [each.arrived or 0 for _, each in part]
        reach = Span.of_micros(min(times) * 1000, max(times) * 1000)
        ends = {part_of_imports(note.topic): (note.first + at, note.first + at + len(part))}
        entry = Entry(
            table=table.id,
            mode=IMPORT,
            stream=f"{IMPORT} {note.fingerprint}",
            batch=BATCH,
            source=note.file,
            offsets=ends,
            imported=ends,
            since=reach.since.isoformat(),
            until=reach.until.isoformat(),
            read=len(part),
            good=len(part),
            came=len(part),
            code=code_version(table),
        ).closed(written=len(part), wall_ms=meter.wall_ms(), cpu_ms=meter.cpu_ms())
        append(spark, lake.table(table), as_received(spark, rows, note.topic, clock()), entry)
        at += len(part)
        yield entry


def append(spark: SparkSession, path: Place, rows: DataFrame, entry: Entry) -> None:
    """Add imported rows to bronze in one commit that streams pass over."""
    exchange = Exchange(
        at="_arrived_at",
        reach=NOWHERE,
        goes=lambda held: held.where("false"),
        stays=lambda held: held,
        come=rows,
        coming=entry.came,
    )
    swap(spark, path, exchange, entry.encoded())


def as_received(spark: SparkSession, rows: pa.Table, topic: str, seen_at: datetime) -> DataFrame:
    """Return records of a file as rows of bronze."""
    values = {
        "_topic": F.lit(topic),
        "_partition": F.lit(PARTITION),
        "_arrived_at": F.timestamp_millis("_arrived_at"),
        "_batch": F.lit(BATCH),
        "_ingested_at": F.lit(seen_at),
        "_newest_before": F.lit(NOTHING_ARRIVED),
    }
    given = {"_offset": F.col("_offset"), "_payload": F.col("_payload"), **values}
    frame = spark.createDataFrame(rows)
    return frame.select(
        *(
            given.get(each.name, F.lit(None)).cast(each.dataType).alias(each.name)
            for each in RECEIVED
        )
    )


def _arrived(records: Iterator[Record], begins: int) -> Iterator[Record]:
    """Give each record an arrival: its own, or that of the record before it."""
    last = begins
    for record in records:
        last = last if record.arrived is None else record.arrived
        yield Record(record.payload, last)


def _reached(table: Ingested, lake: Lake, topic: str) -> int:
    return sums_of(lake.table(table)).imported.get(part_of_imports(topic), 0)
