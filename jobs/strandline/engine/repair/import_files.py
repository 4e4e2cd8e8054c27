"""Files to bronze: a file's records become rows beside the stream, a bounded slice a commit, each slice once.

The streams above pass over these commits, because their watermarks have passed (jobs/strandline/engine/repair/bring_imported.py
brings the rows to them). So a commit also rewrites the table's smallest file: a stream skips a commit only when it
removes a file. History that comes before any stream has read a row needs no passing over: the streams begin with all that
is there, and its entries say up to when it reaches (jobs/strandline/engine/flow/ingest.py). The arrival of a row is a field of it, to the millisecond as in Kafka; a record in which it cannot be
read, or that says it came before 1970 or after the first look at its file, has that of the record before it.

A file is read whole before its first row is committed: a torn one, and one with a time that a stream still owns, is
refused while nothing has happened yet.
"""

import hashlib
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, replace
from datetime import datetime
from itertools import islice

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from strandline.core.changed_rows import Debezium
from strandline.core.errors import DataError, DefinitionError
from strandline.core.parse import Avro, parse_csv, parse_json
from strandline.core.parse_registered import Registered
from strandline.core.routes import KIND
from strandline.core.table import Ingested
from strandline.core.topic import NOTHING_ARRIVED, RECEIVED, Parse, Topic
from strandline.engine.accounting.routes import takers_of
from strandline.engine.flow import new_entry
from strandline.engine.flow.ingest import make
from strandline.engine.flow.new_entry import Kinds, shared_out, with_kinds
from strandline.engine.lake.commit.file_index import MICROSECOND
from strandline.engine.lake.commit.replace_rows import Exchange, swap
from strandline.engine.lake.import_notes import (
    ImportNote,
    ImportNotes,
    ImportSlices,
    committed,
    reached,
)
from strandline.engine.lake.lake import Lake
from strandline.engine.lake.log.ledger import (
    BATCH,
    IMPORT,
    PARTITION,
    Entry,
    latest_version,
    part_of_imports,
)
from strandline.engine.lake.place import Place
from strandline.engine.lake.plain_files import Format, HistoryFile, Record
from strandline.engine.repair.closed_range import Span
from strandline.engine.runtime.code_files import code_version
from strandline.engine.runtime.jvm import Meter

# Plan the import of a file: how many records it has, when they arrived, and how many of them came before.
#
# A file is known by its name or by its bytes, and its records are those of one topic: imported as records of a second one,
# each event would count twice.


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

    A line is a payload as it is, so a function of a project's own may read the lines of any text. A record of Avro, or of
    a schema registry, is no line.

    Raises:
        DefinitionError: The topic's payloads have another format.
    """
    fitting = _formats(topic.parse)
    if file.format in fitting:
        return
    kinds = " or ".join(fitting)
    hint = "write it again in the topic's format, for example with DuckDB: COPY (FROM 'a.csv') TO 'a.parquet'."
    if not fitting:
        hint = "send its records to the topic, encoded by the topic's schema."
    raise DefinitionError(
        f"{file.place} is {file.format}, and the payloads of topic {topic} "
        + (
            f"come from {kinds}"
            if kinds
            else "are encoded by a schema, which no file of history is"
        ),
        hint=hint,
        file=str(file.place),
        topic=topic.name,
    )


def _formats(parse: Parse) -> tuple[Format, ...]:
    """Return the formats whose records are payloads that a function reads."""
    match parse:
        case Debezium():
            return _formats(parse.parse)
        case Avro() | Registered():
            return ()
    if parse is parse_json:
        return Format.JSON, Format.PARQUET
    return (Format.CSV,) if parse is parse_csv else (Format.JSON, Format.CSV)


def planned(
    table: Ingested, topic: Topic, lake: Lake, file: HistoryFile, *, keep: bool = False
) -> Plan:
    """Look what there is to import of a file. One that was never looked at is read once, any other is not.

    Args:
        table: The bronze table.
        topic: Whose records they are.
        lake: The lake.
        file: The file.
        keep: Whether to write down what was found; without it nothing is written.

    Raises:
        DataError: It changed since it was imported, or cannot be read.
        DefinitionError: It is gone, no record says when it arrived, its records are no payloads of the topic, or they
            were imported as those of another one.
    """
    refuse_unlike(file, topic)
    notes, stamp = ImportNotes(table, lake), file.stamp()
    known = notes.of(file.place)
    if known and (done := committed(table, lake, known)):
        is_same = known.stamp == stamp
        if not is_same and known.fingerprint == file.fingerprint():
            is_same, known = True, replace(known, stamp=stamp)
            if keep:
                notes.know(file.place, known)
        if is_same:
            return _plan(file, topic, known, done)
        if known.file == str(file.place):
            raise _changed(file, known, done)
    draft = notes.draft_of(file.place)
    if draft is None or not _is_of(draft, file, topic, stamp):
        draft = _surveyed(file, topic, stamp)
        if keep:
            notes.keep_draft(draft)
    copy = notes.of_bytes(draft.fingerprint)
    if copy and (done := committed(table, lake, copy)):
        if keep:
            notes.know(file.place, replace(copy, stamp=stamp))
        return _plan(file, topic, copy, done)
    draft = replace(draft, first=reached(table, lake, topic.name))
    return Plan(file=replace(file, until=draft.until), note=draft, done=0)


def _is_of(draft: ImportNote, file: HistoryFile, topic: Topic, stamp: str) -> bool:
    asked = (stamp, topic.name, file.column, file.header)
    return (draft.stamp, draft.topic, draft.column, draft.header) == asked


def _plan(file: HistoryFile, topic: Topic, note: ImportNote, done: int) -> Plan:
    """Return the plan for a file whose bytes are known.

    Raises:
        DefinitionError: They came as records of another topic: as those of a second one each event would count twice.
    """
    is_copy = note.file != str(file.place)
    if note.topic != topic.name:
        same = f"{note.file} has the same bytes and" if is_copy else "its records"
        raise DefinitionError(
            f"{file.place} is not imported as records of {topic}: {same} came as those of {note.topic}",
            hint=f"a file has the records of one topic; --topic {note.topic} goes on with it.",
            file=str(file.place),
            topic=note.topic,
        )
    copy_of = note.file if is_copy else None
    return Plan(file=replace(file, until=note.until), note=note, done=done, copy_of=copy_of)


def _changed(file: HistoryFile, note: ImportNote, done: int) -> DataError:
    hint = "imported rows stay as they were received; put new events into a file of another name."
    if done < note.rows:
        hint = "bring back the file as it was, or leave the rest of it out with --give-up."
    return DataError(
        f"{file.place} changed since {done:,} of its {note.rows:,} rows were imported",
        hint=hint,
        file=str(file.place),
    )


def give_up(table: Ingested, lake: Lake, note: ImportNote) -> ImportNote:
    """Write down that the rest of an interrupted file does not come; what is committed stays, and is all there is."""
    done = committed(table, lake, note)
    kept = replace(note, rows=done, given_up=note.rows - done)
    ImportNotes(table, lake).write(kept)
    return kept


def _surveyed(file: HistoryFile, topic: Topic, stamp: str) -> ImportNote:
    """Read a file once, whole; a text is hashed on the way."""
    digest = hashlib.sha256()
    rows, begins, oldest, newest = 0, None, 0, 0
    for record in file.records(digest):
        rows += 1
        if record.arrived is not None:
            if begins is None:
                begins = oldest = newest = record.arrived
            oldest, newest = min(oldest, record.arrived), max(newest, record.arrived)
    if rows and begins is None:
        raise DefinitionError(
            f"none of the {rows:,} records of {file.place} has a moment in {file.column} at which it can have arrived",
            hint="name the field with the arrival: --arrived-at-column; the time of the event itself if there is none.",
            file=str(file.place),
        )
    return ImportNote(
        file=str(file.place),
        topic=topic.name,
        fingerprint=file.fingerprint() if file.format is Format.PARQUET else digest.hexdigest(),
        first=0,
        rows=rows,
        column=file.column,
        header=file.header,
        begins=begins or 0,
        oldest=oldest,
        newest=newest,
        stamp=stamp,
        until=file.until,
    )


SLICE = 200_000
"""Rows of a commit. They are in this process at once: with payloads of 300 bytes about 100 MB."""

SLICE_BYTES = 64_000_000
"""Bytes of the payloads of a commit, and one record more: a line may have 32 MB, and 200,000 of them were in memory at once."""

NOWHERE = (0, 0)
"""A range of arrivals that no row has: an import removes nothing."""


def _columns() -> "pa.Schema":
    return pa.schema(
        [("_offset", pa.int64()), ("_arrived_at", pa.int64()), ("_payload", pa.binary())]
    )


def import_file(  # noqa: PLR0913  # what, where, and by which clock
    spark: SparkSession,
    table: Ingested,
    lake: Lake,
    plan: Plan,
    *,
    clock: Callable[[], datetime],
    slice_rows: int = SLICE,
    is_first: bool = False,
) -> Iterator[Entry]:
    """Commit the records of a file that are not committed yet, and yield the entry of each commit.

    The caller holds the table's lease in the role of imports; where no stream above has read a row (``is_first``), also
    those of the streams, which will begin with these records.
    """
    note, path = plan.note, lake.table(table)
    if table.has_kinds:
        make(spark, table, path)
    if not plan.done and plan.left:
        notes = ImportNotes(table, lake)
        before = notes.newest()
        if before and not committed(table, lake, before):  # killed before its first commit
            notes.forget(before)
        notes.write(note)
    records = enumerate(_arrived(plan.file.records(), note.begins))
    at, wanted = plan.done, islice(records, plan.done, None)
    while at < note.rows:
        meter = Meter(spark)
        part = list(_slice(wanted, slice_rows))
        if not part:
            raise DataError(
                f"{note.file} had {note.rows:,} records when it was looked at, and has {at:,} now",
                hint="what is committed stays; bring back the file as it was, and type the import again.",
                file=note.file,
            )
        rows = pa.Table.from_arrays(
            [
                pa.array([note.first + number for number, _ in part], pa.int64()),
                pa.array([each.arrived for _, each in part], pa.int64()),
                pa.array([each.payload for _, each in part], pa.binary()),
            ],
            schema=_columns(),
        )
        times = [each.arrived or 0 for _, each in part]
        reach = Span.of_micros(min(times) * 1000, max(times) * 1000)
        ends = {part_of_imports(note.topic): (note.first + at, note.first + at + len(part))}
        stream = f"{IMPORT} {note.fingerprint}"
        entry = replace(
            new_entry.imported(
                table, stream, note.file, offsets=ends, span=reach.in_text(), rows=len(part)
            ),
            newest_arrival=_last(reach) if is_first else None,
            code=code_version(table),
            routed_by=table.routed_by,
        )
        ImportSlices(path, part_of_imports(note.topic)).note(note.first + at, latest_version(path))
        received = with_kinds(as_received(spark, rows, note.topic, clock()), table)
        entry = replace(entry, **asdict(_kinds(received, table, lake))).closed(meter)
        append(spark, path, received, entry, may_fill=is_first)
        at += len(part)
        yield entry


def _kinds(received: DataFrame, table: Ingested, lake: Lake) -> Kinds:
    """Count the records of each kind in a slice, which is in memory."""
    if not table.has_kinds:
        return Kinds()
    found = {row[0]: row[1] for row in received.groupBy(KIND).count().collect()}
    kindless = found.pop(None, 0)
    return shared_out(
        takers_of(table, lake), found, kindless=kindless, all_kinds=sum(found.values())
    )


def append(
    spark: SparkSession, path: Place, rows: DataFrame, entry: Entry, *, may_fill: bool = False
) -> None:
    """Add imported rows to bronze in one commit that streams pass over; into an empty table only where none reads it."""
    exchange = Exchange(
        at="_arrived_at",
        reach=NOWHERE,
        goes=lambda held: held.where("false"),
        stays=lambda held: held,
        come=rows,
        coming=entry.came,
    )
    swap(spark, path, exchange, entry.encoded(), may_fill=may_fill)


def as_received(spark: SparkSession, rows: "pa.Table", topic: str, seen_at: datetime) -> DataFrame:
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


def _last(reach: Span) -> str:
    return (reach.until - MICROSECOND).isoformat()


def _slice(
    records: Iterator[tuple[int, Record]], most: int, most_bytes: int = SLICE_BYTES
) -> Iterator[tuple[int, Record]]:
    """Yield the next records, as many as a commit may have; the record that reaches its bytes is its last."""
    held = 0
    for number, record in islice(records, most):
        yield number, record
        held += len(record.payload or b"")
        if held >= most_bytes:
            return


def _arrived(records: Iterator[Record], begins: int) -> Iterator[Record]:
    """Give each record an arrival: its own, or that of the record before it."""
    last = begins
    for record in records:
        last = last if record.arrived is None else record.arrived
        yield Record(record.payload, last)
