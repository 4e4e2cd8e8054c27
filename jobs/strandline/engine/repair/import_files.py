"""Files to bronze: a file's records become rows beside the stream, a bounded slice a commit, each slice once.

The streams above pass over these commits, because their watermarks have passed (jobs/strandline/engine/repair/bring_imported.py
brings the rows to them). So a commit also rewrites the table's smallest file: a stream skips a commit only when it
removes a file. History that comes before any stream has read a row needs no passing over: the streams begin with all that
is there, and its entries say up to when it reaches (jobs/strandline/engine/pipeline/newest_arrival.py). The arrival of a row is a field of it, to the millisecond as in Kafka; a record in which it cannot be
read, or that says it came before 1970 or after the first look at its file, has that of the record before it.

A file is read whole before its first row is committed: a torn one, and one with a time that a stream still owns, is
refused while nothing has happened yet.
"""

from collections.abc import Callable, Iterator
from datetime import datetime
from itertools import islice

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from strandline.core.errors import DataError
from strandline.core.received import NOTHING_ARRIVED, RECEIVED
from strandline.core.table import Ingested
from strandline.engine.repair.closed_range import Span
from strandline.engine.repair.plan_import import Plan
from strandline.engine.runtime.meter import Meter, code_version
from strandline.engine.storage.history_file import Record
from strandline.engine.storage.import_marks import BATCH, IMPORT, PARTITION, part_of_imports
from strandline.engine.storage.import_notes import ImportNotes, committed
from strandline.engine.storage.import_slices import ImportSlices
from strandline.engine.storage.lake import Lake
from strandline.engine.storage.ledger import Entry, latest_version
from strandline.engine.storage.place import Place
from strandline.engine.storage.replace_rows import Exchange, swap
from strandline.engine.storage.window_index import MICROSECOND

SLICE = 200_000
"""Rows of a commit. They are in this process at once: with payloads of 300 bytes about 100 MB."""

SLICE_BYTES = 64_000_000
"""Bytes of the payloads of a commit, and one record more: a line may have 32 MB, and 200,000 of them were in memory at once."""

NOWHERE = (0, 0)
"""A range of arrivals that no row has: an import removes nothing."""

SCHEMA = pa.schema(
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
            newest_arrival=_last(reach) if is_first else None,
            code=code_version(table),
        ).closed(written=len(part), wall_ms=meter.wall_ms(), cpu_ms=meter.cpu_ms())
        ImportSlices(path, part_of_imports(note.topic)).note(note.first + at, latest_version(path))
        received = as_received(spark, rows, note.topic, clock())
        append(spark, path, received, entry, may_fill=is_first)
        at += len(part)
        yield entry


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
