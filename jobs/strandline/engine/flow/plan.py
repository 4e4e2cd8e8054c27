"""The rows of a table from those of its sources: one plan for a batch, a stream and a recomputation."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import assert_never

from pyspark.sql import DataFrame, SparkSession

from strandline.core.errors import DefinitionError
from strandline.core.kind import Emit
from strandline.core.stateful import (
    Seen,
    explained,
    fence,
    filters_below_time,
    final,
    first_copies,
    watermarked,
)
from strandline.core.table import (
    Appended,
    Computed,
    Derived,
    Ingested,
    Judged,
    Recomputed,
    Streamed,
    Table,
    Upserted,
    Windowed,
)
from strandline.core.topic import ORDER, QUARANTINE
from strandline.core.verdict import DUPLICATE_OF, good_rows, judged, without_skipped
from strandline.engine.accounting.held_records import let_have_items
from strandline.engine.flow.batch.batch_accounting import watched
from strandline.engine.flow.batch.event_joins import joining
from strandline.engine.flow.batch.governor import EVERYTHING
from strandline.engine.lake.commit import create_table
from strandline.engine.lake.import_notes import begun_import, unfinished_file
from strandline.engine.lake.lake import Lake
from strandline.engine.lake.log.ledger_sums import sums_of
from strandline.engine.lake.log.log_actions import table_id
from strandline.engine.lake.log.vacuum import begins_at, bring_back, swept
from strandline.engine.lake.open_table import nullable
from strandline.engine.lake.place import Place
from strandline.engine.lake.spark_checkpoint import (
    NOWHERE,
    begin_whole,
    begins_whole,
    is_new,
    unread_from,
)
from strandline.engine.runtime.spark_session import for_rows_alone, for_sorted_state


def shaped(sources: Sequence[DataFrame], table: Computed, *, fenced: bool = False) -> DataFrame:
    """Return the table's rows from those of its sources, whichever mode reads them.

    Args:
        sources: The rows of each source.
        table: Silver or gold.
        fenced: Whether every row of a source must move its watermark, also one that the table leaves out.
    """
    match table:
        case Judged():
            (events,) = sources
            own = judged(events, table, keeps_skipped=True)
            passed = watched(watermarked(own, "_time", table.lateness), table)
            verdicts = without_skipped(passed, table)
            # The watermark stays where no state waits for it: repairs know by it what the stream has left.
            return verdicts if table.keeps_copies else first_copies(verdicts, DUPLICATE_OF, ORDER)
        case Windowed() | Appended():
            seen = _seen(sources, table)
            return final(_computed(seen, table, fenced=fenced), table.closes_at, seen)
        case Upserted() | Recomputed():
            return _computed(_seen(sources, table), table, fenced=fenced)
        case _:
            assert_never(table)


def emits_over_time(table: Table) -> bool:
    """Return whether a table emits rows because time has passed, and not only because rows came."""
    match table:
        case Windowed():
            return True
        case Appended():
            return (
                table.closes_at is not None
            )  # else no row waits, and Spark runs no batch without rows
        case Upserted():
            return table.emits is Emit.ON_WATERMARK
        case Ingested() | Judged() | Recomputed():
            return False
        case _:
            assert_never(table)


def _seen(sources: Sequence[DataFrame], table: Derived) -> list[Seen]:
    """Return the rows of each source with their time and lateness."""
    return [
        (rows, source.event_at, source.lateness)
        for rows, source in zip(sources, table.reads, strict=True)
    ]


def _computed(seen: Sequence[Seen], table: Derived, *, fenced: bool) -> DataFrame:
    timed = [watermarked(*each) for each in seen]
    if fenced:
        timed = [fence(rows, f"seen {number}") for number, rows in enumerate(timed)]
    return table.computed(*timed)


# The streaming frames of a table: those of its sources, and that of its rows, before any query is started.
#
# Every source is read from ``startingVersion=0``: the initial snapshot of a Delta source comes in the order of
# files, not of commits, and with a watermark that loses rows. Only a new stream over a source whose past was computed
# again (a backfill, a promotion), or whose first files are gone (jobs/strandline/engine/lake/log/vacuum.py), begins with the snapshot,
# all of it in one batch, in which no watermark has moved yet.


@dataclass(frozen=True, slots=True)
class Frames:
    """The frames of a table's stream.

    Args:
        sources: The rows of each source.
        result: The table's rows.
    """

    sources: tuple[DataFrame, ...]
    result: DataFrame


def framed(
    spark: SparkSession, table: Streamed, lake: Lake, most: Mapping[str, int] | None = None
) -> Frames:
    """Return the frames that a table's stream would run; nothing is started.

    Args:
        spark: The session.
        table: The table.
        lake: Where.
        most: The most files of each source that a batch reads; all where it is not said.
    """
    session = _session(spark, table)
    whole = _begins_whole(table, lake)
    sources = [
        _followed(session, lake.table(source), (most or {}).get(source.id, EVERYTHING), whole=whole)
        for source in table.upstream
    ]
    with joining(table, lake):
        result = shaped(sources, table)
        if not isinstance(table, Judged) and filters_below_time(result):
            result = shaped(sources, table, fenced=True)
    return Frames(tuple(sources), result)


DICTIONARY = "parquet.enable.dictionary"


def _session(spark: SparkSession, table: Table) -> SparkSession:
    if isinstance(table, Judged) and not table.keeps_copies:
        session = for_sorted_state(spark)
        # No value of a key is there twice, so a dictionary of them is made for nothing.
        if len(table.key) == 1:
            session.conf.set(f"{DICTIONARY}#{table.key[0]}", "false")
        return session
    return spark if emits_over_time(table) else for_rows_alone(spark)


def bring_back_unread(table: Table, lake: Lake) -> None:
    """Bring commits back into the logs of sources, which a stream has not read and which were moved out of them.

    Maintenance leaves those that a stream of the lake needs; this one is of a rebuild, or was brought back by an undo.
    """
    checkpoint = lake.checkpoint(table)
    unread = unread_from(checkpoint) or {}
    begun = (
        None if is_new(checkpoint) or begins_whole(checkpoint) else NOWHERE
    )  # batch 0 is played again
    for source in table.upstream:
        path = lake.table(source)
        if (position := unread.get(table_id(path), begun)) is not None:
            bring_back(path, position.version)


def _begins_whole(table: Table, lake: Lake) -> bool:
    """Return whether a stream begins with a snapshot of its sources, because their past cannot be read as it was."""
    checkpoint = lake.checkpoint(table)
    if is_new(checkpoint):
        _refuse_half_imported(table, lake)
    if is_new(checkpoint) and any(map(_lacks_past, map(lake.table, table.upstream))):
        begin_whole(checkpoint)
    return begins_whole(checkpoint)


def _refuse_half_imported(table: Table, lake: Lake) -> None:
    """Refuse to begin with a half of the history that was to come before the stream.

    It would leave the time of the other half, which could not come any more before Kafka has later records.

    Raises:
        DefinitionError: An import of history into the lake, before any stream had read a row, was interrupted.
    """
    for source in table.upstream:
        if not sums_of(lake.table(source)).history:
            continue
        half = unfinished_file(source, lake)
        if (begun := half.file if half else begun_import(source, lake)) is not None:
            raise DefinitionError(
                f"the import of {begun} into {source.id} was interrupted, and {table.id} would begin with the half of it",
                hint="type the import again, with --give-up if what is left of it is gone; then run the table.",
                table=table.id,
                file=begun,
            )


def _lacks_past(path: Place) -> bool:
    return sums_of(path).was_rewritten or swept(path).deletes or begins_at(path) > 0


def _followed(spark: SparkSession, path: Place, files: int, *, whole: bool) -> DataFrame:
    reader = spark.readStream.format("delta")
    return (
        (reader if whole else reader.option("startingVersion", 0))
        .option("maxFilesPerTrigger", files)
        .option("skipChangeCommits", "true")  # a backfill's rows were read before, as they were
        .load(str(path))
    )


# Making a table of silver or gold, and the quarantine of one that judges, before the first rows.
#
# Its columns may be NULL, whatever the function returns. Spark calls a struct that a function builds, or a constant, free of
# NULL; a table that declares so cannot be read from its beginning once it is promoted over one that did not: each reader ends
# with DELTA_SCHEMA_CHANGED_WITH_STARTING_OPTIONS. What must not be NULL is a rule's matter, which holds the row.


OF_SESSIONS = ("SessionWindowStateStoreSave", "MergingSessions", "UpdatingSessions")
"""What a plan has where windows are sessions: one of a stream, and one of a batch."""


def _refuse_counted_sessions(table: Windowed, rows: DataFrame) -> None:
    """Refuse to compare the rows that sessions count with those of the source.

    Raises:
        DefinitionError: The table declares it, and its windows are sessions.
    """
    plan = explained(rows) if table.source_count else ""
    if any(each in plan for each in OF_SESSIONS):
        raise DefinitionError(
            f"{table.id} declares source_count={table.source_count!r}, and its windows are sessions: when the newest of them "
            "ends, others are open, so their sum is never that of the source",
            hint="leave `source_count` out; the ledger counts what the stream reads and drops without it.",
            table=table.id,
        )


HANDLES = "_partition,_offset,_arrived_at"


def make(spark: SparkSession, table: Computed, lake: Lake, result: DataFrame) -> None:
    """Make the table and its quarantine unless they are there."""
    match table:
        case Judged():
            create_table.create(
                spark,
                lake.quarantine(table),
                QUARANTINE,
                properties={"delta.dataSkippingStatsColumns": f"{HANDLES},event_at"},
            )
            if table.holds_items:
                let_have_items(spark, lake.quarantine(table))
            create_table.create(
                spark,
                lake.table(table),
                nullable(good_rows(result, table).schema),
                properties={"delta.dataSkippingStatsColumns": f"{table.event_at},{HANDLES}"},
            )
        case Windowed() | Appended():
            if isinstance(table, Windowed) and not lake.exists(table):
                _refuse_counted_sessions(table, result)
            create_table.create(spark, lake.table(table), nullable(result.schema))
        case Upserted() | Recomputed():
            folders = [table.window_from]
            schema = nullable(result.schema)
            create_table.create(spark, lake.table(table), schema, partition_by=folders)
        case _:
            assert_never(table)
