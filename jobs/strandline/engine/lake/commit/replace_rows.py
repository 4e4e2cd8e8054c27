"""Replace rows of a table in one commit that streams skip; and rename columns, by one that changes no row.

Only the files that hold a row to be removed are read and rewritten; of the others only the log's lines are read.
Such a commit always removes a file, because a stream skips a commit only when it removes one. Where no row is to be
removed, the table's smallest file is rewritten unchanged.

A stream that rewrites the same table may remove the same files. Yet the slow part runs outside the turn, because a
stream that waited for it failed after a minute. Measured with ``--every 1s`` beside a backfill whose files took 130 s
to write: inside the turn the stream ended with exit code 3 after 60 s, outside it silver made 41 commits meanwhile.
Inside the turn the commits that the stream made meanwhile are examined:

    one removed a file that was rewritten         the replacement starts again; the successors of that file are
                                                  rewritten inside the turn
    one added files with rows to be removed       they are rewritten inside the turn; each is as large as one batch
    any other commit                              does not concern these rows

So each failed attempt leaves fewer files that can conflict, and the work inside the turn is as long as a batch.

Rewritten files keep their short time ranges. If all of them became one file, every later replacement would touch that
file, and it would grow: with a dimension that changed every ten minutes for three days, each change rewrote half a
megabyte in the end, and every reader of the table read it.
"""

import json
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Any
from urllib.parse import quote, unquote
from uuid import uuid4

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from strandline.core.errors import DefinitionError, TransientError
from strandline.core.table import Computed, Recomputed, Upserted
from strandline.engine.lake.commit import delta_commit
from strandline.engine.lake.commit.compact import (
    GROUP,
    columns_in,
    is_copied,
    open_file,
    refuse_different,
    removal,
    shaped,
    writing,
)
from strandline.engine.lake.commit.delta_commit import OPEN, by_key, rows_at, rows_in, sized
from strandline.engine.lake.commit.file_index import span_of
from strandline.engine.lake.locks import turn, turn_without_jvm
from strandline.engine.lake.log.commit_log import added_file, commit_file, sum_file
from strandline.engine.lake.log.ledger import entry_at, latest_version
from strandline.engine.lake.log.log_actions import (
    HIGHEST,
    LOWEST,
    NULLS,
    LaterCommits,
    LiveFiles,
    changes_rows,
    files_between,
    live_files,
    name,
)
from strandline.engine.lake.open_table import WAS, first_names, opened
from strandline.engine.lake.place import Place, keep_files

Choose = Callable[[DataFrame], DataFrame]
"""Filters rows."""

Among = Callable[[int], list[str]]
"""Returns files of a version, each as its line in the log."""

Add = Mapping[str, Any]
"""An ``add`` action of the log."""


HOUR = 3_600_000_000
"""Files that together cover no longer range than this, in microseconds, become one."""

TRIES = 5
"""Attempts before giving up; two are enough beside a stream that rewrites the same files again and again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Exchange:
    """The rows to remove from a table, and those to add.

    Args:
        at: The column with the time of a row.
        reach: The range that contains all rows to be removed: its first and last microsecond.
        goes: Selects the rows to remove.
        stays: Selects the others.
        come: The rows to add, already computed.
        coming: About how many rows are added.
    """

    at: str
    reach: tuple[int, int] = (-OPEN, OPEN)
    goes: Choose
    stays: Choose
    come: DataFrame
    coming: int


def swap(  # noqa: PLR0913  # the table, the rows, the commit's metadata, and where to search
    spark: SparkSession,
    path: Place,
    exchange: Exchange,
    metadata: str,
    *,
    among: Among | None = None,
    may_fill: bool = False,
    seen: int | None = None,
    alone_since: int | None = None,
) -> bool:
    """Replace rows of a table; return whether it was done.

    Args:
        spark: The session.
        path: The table.
        exchange: Which rows.
        metadata: The metadata of the commit.
        may_fill: Whether rows may be added to an empty table; a stream that reads the table would read them.
        among: Returns the files that can hold the rows to be removed, where the caller knows them; otherwise Delta
            searches all files.
        seen: The version from which the rows were computed, if nothing may be done after a later commit.
        alone_since: The version from which they were computed, if nothing may be done after a row of the range has come.

    Raises:
        DefinitionError: The table is empty.
        TransientError: Other writers rewrote the files of these rows in every attempt, or brought rows of their range.
    """
    meanwhile = LaterCommits(path, latest_version(path) if alone_since is None else alone_since)
    for _ in range(TRIES):
        attempt = _Attempt(spark, path, exchange, meanwhile)
        attempt.write(among)
        with turn(spark, path):
            is_outdated = seen not in {None, latest_version(path)}
            does_fit = not is_outdated and attempt.fits()
            is_disturbed = alone_since is not None and bool(attempt.near())
            if does_fit and not is_disturbed:
                attempt.commit(metadata, may_fill=may_fill)
                return True
        attempt.abandon()
        if is_outdated:
            return False
        if is_disturbed:
            raise TransientError(
                f"rows of the same time came to {path} while it was compared",
                hint="type the same again: it goes on, and finds them.",
                table=str(path),
            )
    raise TransientError(
        f"other writers rewrote files of {path} while its rows were replaced, {TRIES} times",
        hint="nothing was changed; find the writer (`strandline ledger`) and run the same again.",
        table=str(path),
    )


class _Attempt:
    """The files of one attempt; they fit if no other writer removed what they replace."""

    def __init__(
        self, spark: SparkSession, path: Place, exchange: Exchange, meanwhile: LaterCommits
    ) -> None:
        self._spark = spark
        self._path = path
        self._exchange = exchange
        self._meanwhile = meanwhile
        self._commit = delta_commit.Commit(spark, path)
        self._touched: set[str] = set()
        meanwhile.follow(self._commit.read_version)

    def write(self, among: Among | None) -> None:
        """Write the rows to add, and the rows that stay from files that existed when the first attempt began."""
        exchange, version = self._exchange, self._commit.read_version
        if among:
            lines = {name(added_file(file)): file for file in among(version)}
            held = self._holding(delta_commit.rows_of(self._spark, self._path, lines.values()))
            files = [lines[each] for each in held - self._meanwhile.came.keys()]
        else:
            near = rows_at(self._spark, self._path, version).where(self._is_near())
            files = self._commit.named(self._holding(near) - self._meanwhile.came.keys())
        adds = [*map(added_file, files)]
        self._touched = set(map(name, adds))
        rows = exchange.come
        if files:
            rows = exchange.stays(self._commit.take_out(files)).unionByName(rows)
        count = exchange.coming + sum(map(rows_in, files))
        self._commit.write(divided(rows, exchange.at, adds, count))

    def fits(self) -> bool:
        """Return whether every replaced file is still in the table; the caller holds the turn."""
        began_at = self._commit.read_version
        self._meanwhile.follow(latest_version(self._path))
        is_there = self._touched.isdisjoint(self._meanwhile.went)
        return is_there and self._meanwhile.shaped_at <= began_at

    def commit(self, metadata: str, *, may_fill: bool) -> None:
        """Replace the rows that were added meanwhile as well, and commit."""
        self._commit.onto_latest()
        if files := self.near():
            held = self._holding(delta_commit.rows_of(self._spark, self._path, files.values()))
            self._write_again([files[each] for each in held], self._exchange.stays)
        if not self._touched:
            self._take_any(may_fill=may_fill)
        self._commit.commit(metadata)

    def near(self) -> dict[str, str]:
        """Return the files that came meanwhile and may have rows of the range, each as its line in the log."""
        first, last = self._exchange.reach
        files = {}
        for each, line in self._meanwhile.came.items():
            since, until = span_of(added_file(line), self._exchange.at)
            if since <= last and until >= first:
                files[each] = line
        return files

    def abandon(self) -> None:
        """Remove the files of an attempt that does not fit."""
        self._commit.abandon()

    def _take_any(self, *, may_fill: bool) -> None:
        any_file = self._commit.smallest()
        if not any_file and not may_fill:
            self.abandon()
            raise DefinitionError(
                f"{self._path} holds no row yet, so there is no row to replace",
                hint="run its stream first, then the backfill.",
                table=str(self._path),
            )
        self._write_again(any_file, lambda held: held)

    def _write_again(self, files: Sequence[str], stays: Choose) -> None:
        if files:
            self._touched |= {name(added_file(file)) for file in files}
            self._commit.write(sized(stays(self._commit.take_out(files)), sum(map(rows_in, files))))

    def _is_near(self) -> Column:
        moment, (first, last) = F.col(self._exchange.at), self._exchange.reach
        near = F.lit(True)
        if first > -OPEN:
            near &= moment >= F.timestamp_micros(F.lit(first))
        return near if last >= OPEN else near & (moment <= F.timestamp_micros(F.lit(last)))

    def _holding(self, rows: DataFrame) -> set[str]:
        """Return the names of the files that hold a row to be removed."""
        located = rows.select("*", F.col("_metadata.file_name").alias("_file"))
        found = self._exchange.goes(located).select("_file").distinct().collect()
        return {row[0] for row in found}


def divided(rows: DataFrame, at: str, instead_of: Sequence[Add], count: int) -> DataFrame:
    """Return rows in as many Spark partitions as files are to be written, each with its own range of time.

    In a partitioned table the folders separate the times already.
    """
    pieces = 1 if any(add["partitionValues"] for add in instead_of) else _pieces(instead_of, at)
    if pieces > 1:
        return rows.repartitionByRange(pieces, at)
    return sized(rows, count)


def _pieces(files: Sequence[Add], at: str) -> int:
    """Return the number of files after those of an hour became one."""
    pieces, begun = 0, -OPEN
    for first, last in sorted(span_of(file, at) for file in files):
        if not pieces or last - begun > HOUR:
            pieces, begun = pieces + 1, first
    return pieces


def changes(rows: DataFrame, live: DataFrame) -> DataFrame:
    """Return the rows that only one side has; ``_more`` is the change of their number, negative for removed rows.

    One shuffle instead of ``exceptAll`` twice, which took most of a backfill.
    """
    both = rows.withColumn("_more", F.lit(1)).unionByName(live.withColumn("_more", F.lit(-1)))
    return both.groupBy(*rows.columns).agg(F.sum("_more").alias("_more")).where("_more != 0")


def came_and_gone(changed: DataFrame) -> tuple[int, int]:
    """Return the number of rows added and the number removed."""
    more, fewer = F.greatest("_more", F.lit(0)), F.greatest(-F.col("_more"), F.lit(0))
    came, gone = changed.agg(F.sum(more), F.sum(fewer)).collect()[0]
    return came or 0, gone or 0


# Delete rows of a table for good, in one commit that streams pass over.
#
# Files whose rows all go are taken out without being read. Of the others the rows that stay are written again, outside the
# turn, because a stream that waits for its turn fails after a minute; inside it only the commits that came meanwhile are
# read, and if one of them removed a file that is taken out, all begins again.
#
# The number of rows that go is known before the commit and is part of its ledger entry: the rows of the files that are
# taken out, less those that were written again.


Stays = Callable[[DataFrame], DataFrame]
"""Selects the rows that stay."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Files:
    """What to take out of a table.

    Args:
        whole: The names of files whose rows all go.
        partly: The names of files some of whose rows go.
    """

    whole: Collection[str] = ()
    partly: Collection[str] = ()

    @property
    def is_empty(self) -> bool:
        """Return whether there is nothing to do."""
        return not self.whole and not self.partly


@dataclass(frozen=True, slots=True, kw_only=True)
class Removal:
    """Rows to delete.

    Args:
        at: The column with the time of a row, by which files that are written again keep short ranges.
        pick: Returns the files of the latest version; asked again when another writer has removed one of them.
        stays: Selects the rows that stay, of the files that are taken out in part.
        entry: Returns the metadata of the commit, from the number of rows that go.
    """

    at: str
    pick: Callable[[], Files]
    stays: Stays
    entry: Callable[[int], str]


def remove_rows(spark: SparkSession, path: Place, removal: Removal) -> tuple[int, int] | None:
    """Delete rows; return the version and how many they were, or None when there was none.

    Raises:
        TransientError: Other writers rewrote the files of these rows in every attempt.
    """
    for _ in range(TRIES):
        known = latest_version(path)
        files = removal.pick()
        if files.is_empty:
            return None
        done = _attempt(spark, path, removal, files, known)
        if done is not None:
            return done
    raise TransientError(
        f"other writers rewrote files of {path} while rows of them were deleted, {TRIES} times",
        hint="nothing was changed; run the same again.",
        table=str(path),
    )


def _attempt(
    spark: SparkSession, path: Place, removal: Removal, files: Files, known: int
) -> tuple[int, int] | None:
    """Write what stays and commit; None when another writer removed one of the files since a version."""
    touched = {*files.whole, *files.partly}
    meanwhile = LaterCommits(path, known)
    commit = delta_commit.Commit(spark, path)
    meanwhile.follow(commit.read_version)
    if not touched.isdisjoint(meanwhile.went):
        return None
    lines = {name(added_file(line)): line for line in commit.named(touched)}
    gone = sum(map(rows_in, lines.values()))
    parts = [lines[each] for each in files.partly]
    if files.whole:
        commit.take_out([lines[each] for each in files.whole])
    if parts:
        rows = removal.stays(commit.take_out(parts))
        count = sum(map(rows_in, parts))
        gone -= commit.write(divided(rows, removal.at, [*map(added_file, parts)], count)).rows
    with turn(spark, path):
        meanwhile.follow(latest_version(path))
        is_there = touched.isdisjoint(meanwhile.went) and meanwhile.shaped_at <= commit.read_version
        if is_there:
            commit.onto_latest()
            return commit.commit(removal.entry(gone)), gone
    commit.abandon()
    return None


# Find the event-time range in which two versions of a table differ, without a change feed.
#
# A writer that replaces rows records the range in its ledger entry (jobs/strandline/engine/flow/batch/write_rows.py).
# Where a commit lacks it, the rows of the files that were added and removed are compared.


Reach = tuple[int, int]
"""A range of event time: its first and last microsecond, both included."""

NO_TIME = (0, -1)
"""The empty range."""


def changed_span(
    spark: SparkSession, source: Computed, path: Place, before: int, now: int
) -> Reach | None:
    """Return the range in which two versions of a table differ; None when they are equal."""
    ranges = [_range_of(path, version) for version in range(before + 1, now + 1)]
    known = [reach for reach in ranges if reach is not None]
    if len(known) == now - before:
        return hull([reach for reach in known if reach != NO_TIME])
    rows = _changed_rows(spark, path, before, now)
    return None if rows is None else reach_of(rows, source)


def _range_of(path: Place, version: int) -> Reach | None:
    """Return the range that a version changed; None if its entry does not say."""
    entry = entry_at(path, version)
    if entry is not None:
        return entry.changed
    return None if changes_rows(path, version) else NO_TIME


def hull(reaches: Sequence[Reach]) -> Reach | None:
    """Return the shortest range that contains all of the given ones; None when none is given."""
    if not reaches:
        return None
    firsts, lasts = zip(*reaches, strict=True)
    return min(firsts), max(lasts)


def reach_of(rows: DataFrame, source: Computed) -> Reach | None:
    """Return the range that rows cover which only one of two versions has; None when there is no row.

    A row whose validity ended between the versions is unchanged before that end, so it counts from its end on.
    Its start may lie months back.
    """
    begins = F.unix_micros(source.event_at)
    if source.valid_until is None:
        spans = rows.select(begins.alias("first"), begins.alias("last"))
    else:
        end = _end(source)
        same = [name for name in rows.columns if name not in _moving(source)]
        ends = rows.groupBy(*same).agg(F.array_sort(F.collect_list(end)).alias("ends"))
        first = F.when(F.size("ends") > 1, F.get("ends", F.lit(0))).otherwise(begins)
        spans = ends.select(first.alias("first"), F.array_max("ends").alias("last"))
    lowest, highest = spans.agg(F.min("first"), F.max("last")).collect()[0]
    return None if lowest is None else (lowest, highest)


def reach_of_change(rows: DataFrame, held: DataFrame, source: Computed) -> Reach | None:
    """Return the range that changes when rows replace those with the same key.

    The key joins each row to the one that it replaces, so nothing is sorted or shuffled as in ``reach_of``.
    """
    end = _end(source)
    others = [name for name in rows.columns if name not in {*source.row_key, *_moving(source)}]
    begins = F.unix_micros(source.event_at)
    compared = [begins.alias("_begins"), end.alias("_end"), F.struct(*others, begins).alias("_row")]
    new = rows.select(*source.row_key, *compared)
    old = held.select(*source.row_key, *compared).withColumnsRenamed(
        {name: f"{name}_before" for name in ("_begins", "_end", "_row")}
    )
    both = by_key(new, old, source.row_key, "left")
    since = F.least("_begins", F.coalesce("_begins_before", "_begins"))
    until = F.coalesce("_end_before", "_end")
    is_same = F.col("_row").eqNullSafe(F.col("_row_before"))
    first = F.when(is_same, F.least("_end", until)).otherwise(since)
    lowest, highest = both.agg(F.min(first), F.max(F.greatest("_end", until))).collect()[0]
    return None if lowest is None else (lowest, highest)


def _moving(source: Computed) -> set[str | None]:
    """Return the columns that change when a row's validity ends: its end, and the column of its partition."""
    folder = source.window_from if isinstance(source, Upserted | Recomputed) else None
    return {source.valid_until, folder} - {source.event_at}


def _end(source: Computed) -> Column:
    """Return the end of the row's validity, in microseconds."""
    if source.valid_until is None:
        return F.unix_micros(source.event_at)
    return F.coalesce(F.unix_micros(source.valid_until), F.lit(OPEN))


def _changed_rows(spark: SparkSession, path: Place, before: int, now: int) -> DataFrame | None:
    """Return the rows that only one of two versions has; None when no file was added or removed."""
    came, went = files_between(path, before + 1, now)
    # With basePath, Spark reads the partition columns from the names of the folders.
    read = partial(spark.read.option("basePath", str(path)).parquet)
    new = read(*sorted(came)) if came else None
    old = read(*sorted(went)) if went else None
    if new is None or old is None:
        return new if old is None else old
    return changes(new, old).drop("_more")


# Give columns of a table another name: its files are written again with it, in one commit that changes no row.
#
# Why not Delta's column mapping, by which a name is changed in the log alone: the files keep the former names, so each reader of
# files would have to translate them, and a stream over the table ends at the change until its user says by three settings
# that it may go on. The price is the table's bytes once, and nothing is computed.
#
# The commit says ``dataChange: false`` as a compaction does, so streams that have read the table up to it go on after it, and
# it has no ledger entry. A stream that has not, or a new one, cannot read what lies before: the former begins anew, the latter
# with a snapshot (jobs/strandline/engine/lake/log/ledger_sums.py).

SKIPPING = "delta.dataSkippingStatsColumns"


def rename_columns(path: Place, names: Mapping[str, str], now: datetime) -> None:
    """Give columns of a table other names, and their values with them.

    Args:
        path: The table, which no other writes meanwhile.
        names: The new name of each, by its former one.
        now: The present.

    Raises:
        DefinitionError: A column is of a type that is not copied here, or the table's rows are divided by it.
        TransientError: Another process changed the table meanwhile.
    """
    found = live_files(path)
    declared = json.loads(found.metadata["schemaString"])
    divided = set(found.metadata["partitionColumns"]).intersection(names)
    if found.reader > 1 or divided or not is_copied(declared):
        raise DefinitionError(
            f"columns of {path.parent.name}.{path.name} get no other name in place: "
            + ("its rows are divided by it" if divided else "it has types that are not copied"),
            hint="without --rename the table is computed anew.",
        )
    changed: list[tuple[Mapping[str, Any], dict[str, Any]]] = []
    try:
        for file in found.files.values():
            written = _renamed(path / unquote(file["path"]), names)
            changed += [(file, _named_anew(file, written, names))] if written else []
        is_done = _commit_names(path, found, changed, names, now)
    except BaseException:
        _remove_written(path, changed)
        raise
    if not is_done:
        _remove_written(path, changed)
        raise TransientError(
            f"{path.parent.name}.{path.name} was changed by another process while its columns were renamed",
            hint="nothing was changed; type it again.",
        )


def _remove_written(path: Place, changed: Sequence[tuple[object, Mapping[str, Any]]]) -> None:
    for _, added in changed:
        (path / unquote(added["path"])).remove()


def _renamed(file: Place, names: Mapping[str, str]) -> Place | None:
    """Write the rows of a file with other names of columns, and return the new file; None where it has none of them."""
    import pyarrow as pa  # noqa: PLC0415  # its import takes longer than most answers

    source = open_file(file)
    own = columns_in(source)
    if not set(own.names).intersection(names):
        return None
    schema = pa.schema([each.with_name(names.get(each.name, each.name)) for each in own])
    target = file.parent / f"part-00000-{uuid4()}-c000.zstd.parquet"
    try:
        with writing(target, schema) as writer:
            for batch in source.iter_batches(batch_size=GROUP, use_threads=False):
                writer.write_table(
                    shaped(pa.Table.from_batches([batch]), own).rename_columns(schema.names)
                )
        refuse_different([file], target)
    except BaseException:
        target.remove()
        raise
    keep_files([target], within=file.parent)
    return target


def _named_anew(
    file: Mapping[str, Any], written: Place, names: Mapping[str, str]
) -> dict[str, Any]:
    folder, slash, _ = file["path"].rpartition("/")
    stats = json.loads(file["stats"]) if file["stats"] else None
    if stats:
        for side in (LOWEST, HIGHEST, NULLS):
            stats[side] = {names.get(name, name): v for name, v in stats.get(side, {}).items()}
    return {
        "path": f"{folder}{slash}{quote(written.name)}",
        "partitionValues": file["partitionValues"],
        "size": written.size(),
        "modificationTime": file["modificationTime"],
        "dataChange": False,
        **({"stats": json.dumps(stats, separators=(",", ":"))} if stats else {}),
    }


def _metadata(path: Place, names: Mapping[str, str]) -> dict[str, Any]:
    """Return what the log will say of the table."""
    table = opened(path)
    about, schema = table.metadata(), json.loads(table.schema().to_json())
    for each in schema["fields"]:
        each["name"] = names.get(each["name"], each["name"])
    properties = dict(about.configuration)
    known = first_names(path)
    firsts = {old: known.get(old, old) for old in names}
    for old in names:
        properties.pop(f"{WAS}{old}", None)
    properties |= {f"{WAS}{new}": firsts[old] for old, new in names.items()}
    if SKIPPING in properties:
        listed = properties[SKIPPING].split(",")
        properties[SKIPPING] = ",".join(names.get(each, each) for each in listed)
    return {
        "id": about.id,
        "format": {"provider": "parquet", "options": {}},
        "schemaString": json.dumps(schema, separators=(",", ":")),
        "partitionColumns": about.partition_columns,
        "configuration": properties,
        "createdTime": about.created_time,
    }


def _commit_names(
    path: Place,
    found: LiveFiles,
    changed: Sequence[tuple[Mapping[str, Any], dict[str, Any]]],
    names: Mapping[str, str],
    now: datetime,
) -> bool:
    """Commit the exchange of all files, unless anything else was committed meanwhile."""
    with turn_without_jvm(path):
        version = latest_version(path)
        if version != found.version:
            return False
        at, metadata = int(now.timestamp() * 1000), _metadata(path, names)
        info = {
            "timestamp": at,
            "operation": "RENAME COLUMN",
            "operationParameters": {old: json.dumps(new) for old, new in names.items()},
            "readVersion": version,
            "isBlindAppend": False,
            "engineInfo": "Strandline",
            "txnId": str(uuid4()),
        }
        actions: list[Mapping[str, Any]] = [{"commitInfo": info}, {"metaData": metadata}]
        actions += [removal(file, at) for file, _ in changed]
        actions += [{"add": added} for _, added in changed]
        lines = [json.dumps(action, separators=(",", ":")) for action in actions]
        sum_file(path, version + 1).remove_file()
        if not commit_file(path, version + 1).create("\n".join(lines) + "\n"):
            return False
        _sum_up_names(path, version, metadata, changed, str(info["txnId"]))
        return True


def _sum_up_names(
    path: Place,
    version: int,
    metadata: Mapping[str, Any],
    changed: Sequence[tuple[Mapping[str, Any], Mapping[str, Any]]],
    transaction: str,
) -> None:
    before = sum_file(path, version).text()
    if before is None:
        return
    sums = json.loads(before)
    sums.pop("fileSizeHistogram", None)
    instead = {file["path"]: dict(added) for file, added in changed}
    more = sum(added["size"] - file["size"] for file, added in changed)
    sums |= {
        "txnId": transaction,
        "tableSizeBytes": sums["tableSizeBytes"] + more,
        "metadata": metadata,
    }
    if (known := sums.get("allFiles")) is not None:
        sums["allFiles"] = [instead.get(file["path"], file) for file in known]
    sum_file(path, version + 1).put(json.dumps(sums, separators=(",", ":")))
