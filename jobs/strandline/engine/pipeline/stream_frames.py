"""The streaming frames of a table: those of its sources, and that of its rows, before any query is started.

Every source is read from ``startingVersion=0``: the initial snapshot of a Delta source comes in the order of
files, not of commits, and with a watermark that loses rows. Only a new stream over a source whose past was computed
again (a backfill, a promotion), or whose first files are gone (jobs/strandline/engine/storage/dead_files.py), begins with the snapshot,
all of it in one batch, in which no watermark has moved yet.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from pyspark.sql import DataFrame, SparkSession

from strandline.core.errors import DefinitionError
from strandline.core.stateful import filters_below_time
from strandline.core.table import Judged, Streamed, Table
from strandline.engine.pipeline.plan import emits_over_time, shaped
from strandline.engine.pipeline.trigger_limit import EVERYTHING
from strandline.engine.runtime.spark_session import for_rows_alone, for_sorted_state
from strandline.engine.storage.cut_log import begins_at, bring_back
from strandline.engine.storage.dead_files import swept
from strandline.engine.storage.files_at_version import table_id
from strandline.engine.storage.import_notes import begun_import, unfinished_file
from strandline.engine.storage.lake import Lake
from strandline.engine.storage.ledger_snapshot import sums_of
from strandline.engine.storage.place import Place
from strandline.engine.storage.spark_checkpoint import (
    NOWHERE,
    begin_whole,
    begins_whole,
    is_new,
    unread_from,
)


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
    result = shaped(sources, table)
    if not isinstance(table, Judged) and filters_below_time(result):
        result = shaped(sources, table, fenced=True)
    return Frames(tuple(sources), result)


def _session(spark: SparkSession, table: Table) -> SparkSession:
    if isinstance(table, Judged):
        return for_sorted_state(spark)
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
