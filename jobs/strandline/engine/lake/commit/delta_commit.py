"""Commit rows and the ledger entry that counts them in one Delta commit; and frames of Spark over a table.

Why not ``df.write``: a ledger entry needs the number of rows written, and ``df.write`` takes the entry before it
writes the rows. Here the files are written first, their statistics are read, and one commit adds the files and the
entry together. The same commit may remove files, so replacing whole windows is as cheap as an append. Delta's look-up
of transaction ids, which recomputes the snapshot by a Spark job at every commit, is not needed: the last entry shows
whether a batch was written (jobs/strandline/engine/lake/log/ledger.py). Warm, 100 rows: 0.18 s against 0.65 s of ``df.write`` [measured].

``OptimisticTransaction`` is Delta's internal interface and may change with a version; the version is pinned, and
tests/engine/lake/test_delta_commit.py covers every call that is used.
"""

import json
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from operator import and_
from typing import Any, Literal
from urllib.parse import unquote

import deltalake
import deltalake.exceptions
import pyarrow as pa
from pyspark import StorageLevel
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from strandline.core.errors import DataError, DefinitionError
from strandline.core.table import Table
from strandline.engine.lake.commit.create_table import altered, replaced_by, unfit
from strandline.engine.lake.duckdb_table import peek_files
from strandline.engine.lake.lake import Lake
from strandline.engine.lake.locks import leases, turn
from strandline.engine.lake.log.commit_log import PACKED, added_file, log_files, log_of, sum_file
from strandline.engine.lake.log.ledger import latest_version, newest_checkpoint
from strandline.engine.lake.log.log_actions import added, file_of
from strandline.engine.lake.open_table import WAS, delta_options, opened
from strandline.engine.lake.place import Place, keep_files
from strandline.engine.runtime.jvm import classic, jvm
from strandline.engine.runtime.processes import BEGUN, COMMITTED, reached


@dataclass(frozen=True, slots=True)
class Written:
    """Files that were written and not yet committed.

    Args:
        files: Each as its line in the log.
        rows: Their rows.
        counted: The sum of a column that counts the rows which a row was made of, where one was named.
    """

    files: tuple[str, ...]
    rows: int
    counted: int = 0

    @property
    def is_empty(self) -> bool:
        """Return whether they hold no row."""
        return self.rows == 0


NOTHING = Written((), 0)
SUMS_KEPT = 20
"""For how many of the newest versions Delta's checksum file is kept."""


def _log_of(spark: SparkSession, path: Place) -> Any:  # noqa: ANN401  # py4j's objects have no types
    """Return Delta's own log of a table."""
    forms = jvm(spark).org.apache.spark.sql.delta.DeltaLog
    return forms.forTable(classic(spark), str(path))


def rows_of(
    spark: SparkSession, path: Place, files: Iterable[str], *, is_other: bool = False
) -> DataFrame:
    """Return the rows of some files of a table, which are lines of its log; the other files are not opened.

    Its columns may have changed since this process last read it, where it ``is_other``.
    """
    machine = jvm(spark)
    log, none = _log_of(spark, path), machine.scala.Option.empty()
    snapshot = log.update(False, none, none) if is_other else log.unsafeVolatileSnapshot()
    return _frame(spark, snapshot, _actions(spark, files))


def files_at(spark: SparkSession, path: Place, version: int) -> Iterator[str]:
    """Yield every file of a version as its line in the log, a part at a time; a Spark job over the whole log."""
    machine = jvm(spark)
    log, none = _log_of(spark, path), machine.scala.Option.empty()
    snapshot = log.update(False, none, none)
    if snapshot.version() != version:
        snapshot = log.getSnapshotAt(version, none, none, False)
    yield from _lines(spark, snapshot)


def _lines(spark: SparkSession, snapshot: Any) -> Iterator[str]:  # noqa: ANN401  # py4j's objects have no types
    """Yield the files of a snapshot; Python never has all of them."""
    files = DataFrame(snapshot.allFiles().toDF(), spark)
    for row in files.select(F.to_json(F.struct("*"))).toLocalIterator():
        yield f'{{"add":{row[0]}}}'


def _listed(snapshot: Any) -> Any:  # noqa: ANN401  # py4j's objects have no types
    """Return the files that the checksum of a version lists; None where it has not all of them, or is not there.

    Not ``numOfFilesIfKnown``: to answer it this Delta computes the state of the table, by a job of Spark [0.3 s].
    """
    checksum = snapshot.checksumOpt()
    if checksum.isEmpty() or checksum.get().allFiles().isEmpty():
        return None
    files = checksum.get().allFiles().get()
    return files if files.size() == checksum.get().numFiles() else None


def _actions(spark: SparkSession, files: Iterable[str]) -> Any:  # noqa: ANN401  # py4j's objects have no types
    """Return files as Delta's own actions."""
    machine = jvm(spark)
    found = machine.java.util.ArrayList()
    for file in files:
        found.add(machine.org.apache.spark.sql.delta.actions.Action.fromJson(file))
    return found


def _frame(spark: SparkSession, snapshot: Any, files: Any) -> DataFrame:  # noqa: ANN401  # py4j's objects have no types
    none = jvm(spark).scala.Option.empty()
    rows = snapshot.deltaLog().createDataFrame(
        snapshot, _scala(spark, files), False, none
    )  # no stream
    return DataFrame(rows, spark)


def _scala(spark: SparkSession, collection: Any) -> Any:  # noqa: ANN401  # py4j's objects have no types
    return jvm(spark).scala.jdk.javaapi.CollectionConverters.asScala(collection).toSeq()


def _any(machine: Any) -> Any:  # noqa: ANN401  # as above
    """Return what Scala wants to know of the type of a thing: nothing."""
    return machine.scala.reflect.ManifestFactory.Any()


def forget_sum(path: Place, version: int) -> None:
    """Remove the checksum file of an old version; Delta needs the newest one, or a Spark job computes it again.

    Each batch that reads a log lists it three times, at 36 µs a file, and half of its files were checksums.
    """
    sum_file(path, version).remove_file()


class Commit:
    """One transaction on one table: write, perhaps replace, commit once."""

    def __init__(self, spark: SparkSession, path: Place) -> None:
        """Begin at the table's latest version."""
        self._spark = spark
        self._path = path
        self._jvm = jvm(spark)
        self._transaction = self._begun()
        self._actions = self._jvm.java.util.ArrayList()
        self._written: list[str] = []

    def _begun(self) -> Any:  # noqa: ANN401  # py4j's objects have no types
        """Begin a transaction that a fence of this process's leases refuses (jobs/strandline/engine/lake/store_lease.py)."""
        transaction = self._begun_at_latest()
        for held in leases(self._path):
            transaction.readTxn().addOne(held.name)
        return transaction

    def _begun_at_latest(self) -> Any:  # noqa: ANN401  # py4j's objects have no types
        """Begin at the snapshot of this process if it is the latest: Delta would list the whole log to check it.

        Not if there is a newer checkpoint than the one that the snapshot is based on. It would stay based on that for the
        life of the process, read more commits at every checkpoint that it writes, and need those that maintenance moves
        out of the log (jobs/strandline/engine/lake/log/vacuum.py).
        """
        log = _log_of(self._spark, self._path)
        known = log.unsafeVolatileSnapshot()
        latest, based_on = (
            latest_version(self._path),
            known.logSegment().checkpointProvider().version(),
        )
        # Each look is a request on a store, so it is left out where the log can lack nothing: it is cut at whole packs.
        is_uncut = based_on >= latest - latest % PACKED - 1
        is_based = is_uncut or based_on >= (newest_checkpoint(self._path) or -1)
        if known.version() != latest or not is_based:
            return log.startTransaction()
        option = self._jvm.scala.Option
        return log.startTransaction(option.empty(), option.apply(known))

    @property
    def path(self) -> Place:
        """Return the table's folder."""
        return self._path

    @property
    def read_version(self) -> int:
        """Return the version that the transaction began at."""
        return int(self._transaction.snapshot().version())

    def write(self, rows: DataFrame) -> Written:
        """Write rows to files that no reader sees before the commit.

        Raises:
            DefinitionError: A column has a type that the table's cannot hold, and its files could not be read.
        """
        self.refuse_unfit(rows)
        files = self._transaction.writeFiles(rows._jdf)  # noqa: SLF001  # there is no public way
        # In one text: each question about a file is a call of the JVM, and there are six for each.
        adds = json.loads(
            self._jvm.org.apache.spark.sql.delta.util.JsonUtils.toJson(files, _any(self._jvm))
        )
        counts = [int(json.loads(add["stats"])["numRecords"]) for add in adds]
        if all(counts):
            self._actions.addAll(self._java(files))
        else:  # a task without rows writes an empty file all the same
            for file, count in zip(self._java(files), counts, strict=True):
                if count:
                    self._actions.add(file)
        lines = [
            json.dumps({"add": add}, separators=(",", ":"), ensure_ascii=False)
            for add, count in zip(adds, counts, strict=True)
            if count
        ]
        self._written += lines
        return Written(tuple(lines), sum(counts))

    def refuse_unfit(self, rows: DataFrame) -> None:
        """Refuse rows whose columns the table cannot hold.

        Raises:
            DefinitionError: A column has a type that the table's cannot hold, and its files could not be read.
        """
        own = str(self._transaction.metadata().schemaString())
        found = unfit(own, str(rows._jdf.schema().json()))  # noqa: SLF001  # as above
        if found:
            name = f"{self._path.parent.name}.{self._path.name}"
            raise DefinitionError(
                f"{name} cannot hold these rows: {'; '.join(found)}",
                hint=f"`strandline migrate {name}` shows what follows from the edit, and with --go does it.",
                table=name,
            )

    def reshape(self, columns: StructType) -> None:
        """Give a table of which all rows are replaced the columns of those that come; call it before they are written."""
        metadata = json.loads(self._transaction.metadata().json())
        own = StructType.fromJson(json.loads(metadata["metaData"]["schemaString"]))
        if not [*altered(own, columns)]:
            return
        metadata["metaData"]["schemaString"] = replaced_by(own, columns).json()
        action = self._jvm.org.apache.spark.sql.delta.actions.Action
        is_new = False
        self._transaction.updateMetadata(action.fromJson(json.dumps(metadata)), is_new)

    def files(self) -> Iterator[str]:
        """Yield every file of the table as its line in the log; a Spark job over the whole log."""
        return _lines(self._spark, self._transaction.snapshot())

    def named(self, names: Collection[str]) -> list[str]:
        """Return the files with the given names, each as its line in the log.

        Raises:
            DataError: The log has more or fewer files with these names.
        """
        if not names:
            return []
        name = F.substring_index("path", "/", -1)
        found = self._lines(self._all_files().where(name.isin(*names))._jdf)  # noqa: SLF001  # there is no public way
        if len(found) != len(names):
            raise DataError(
                f"{len(names):,} files of {self._path} were looked up in its log by name, and {len(found):,} were found",
                hint="another tool has written them; nothing was changed. Rebuild the table beside the live one: "
                "`strandline rebuild`.",
                table=str(self._path),
            )
        return found

    def smallest(self) -> list[str]:
        """Return the file with the fewest bytes; none for an empty table."""
        return self._lines(self._all_files().orderBy("size", "path").limit(1)._jdf)  # noqa: SLF001  # there is no public way

    def _all_files(self) -> DataFrame:
        return DataFrame(self._transaction.snapshot().allFiles().toDF(), self._spark)

    def _lines(self, files: Any) -> list[str]:  # noqa: ANN401  # py4j's objects have no types
        collected = files.toJSON().collectAsList()
        lines = str(self._jvm.java.lang.String.join("\n", collected)).split("\n")
        # Not splitlines: a text in the statistics may contain one of Unicode's other line ends.
        return [f'{{"add":{line}}}' for line in lines if line]

    def onto_latest(self) -> None:
        """Move the transaction to the table's latest version, with the files written and taken out so far.

        The caller holds the turn and has checked that the commits of others do not concern those files.
        """
        if self.read_version != latest_version(self._path):
            self._transaction = self._begun()

    def abandon(self) -> None:
        """Remove the files that were written; no reader has seen them."""
        for file in self._written:
            (self._path / unquote(added_file(file)["path"])).remove()

    def take_out(self, files: Sequence[str]) -> DataFrame:
        """Remove files, and return their rows, from which the caller writes back those that stay.

        Args:
            files: Lines of the log, as ``files`` and ``write`` return them.
        """
        found = _actions(self._spark, files)
        for file in found:
            self._actions.add(file.remove())
        return _frame(self._spark, self._transaction.snapshot(), found)

    def bring_in(
        self,
        files: Iterable[str],
        columns: str,
        folders: Sequence[str],
        were: Mapping[str, str] | None = None,
    ) -> None:
        """Add files that lie in the table's folder already, and give the table their columns.

        Args:
            files: Lines of the log.
            columns: The schema, as in Delta's metadata.
            folders: The partition columns; the same commit must remove all older files.
            were: The properties with the first names of these columns; those that the table has when None.
        """
        action = self._jvm.org.apache.spark.sql.delta.actions.Action
        for file in files:
            self._actions.add(action.fromJson(file))
        metadata = self._transaction.snapshot().metadata()
        changed = json.loads(metadata.json())
        shape: dict[str, Any] = {"schemaString": columns, "partitionColumns": [*folders]}
        if were is not None:
            known = changed["metaData"]["configuration"]
            stay = {name: value for name, value in known.items() if not name.startswith(WAS)}
            shape["configuration"] = {**stay, **were}
        if any(changed["metaData"][name] != value for name, value in shape.items()):
            changed["metaData"] |= shape
            is_new = False
            self._transaction.updateMetadata(action.fromJson(json.dumps(changed)), is_new)

    def take_out_all(self) -> None:
        """Remove every file.

        The checksum of a version lists the files of a table that has few; without it Spark plans a job for the list.
        """
        listed = _listed(self._transaction.snapshot())
        if listed is None:
            listed = self._transaction.filterFiles()
        else:
            self._transaction.readWholeTable()  # so that a file of another writer is a conflict all the same
        for file in self._java(listed):
            self._actions.add(file.remove())

    def commit(self, metadata: str) -> int:
        """Make files and metadata visible together, and lasting; return the new version."""
        reached(BEGUN, self._path)
        none = self._jvm.scala.Option.empty()
        if held := leases(self._path):
            metadata = json.dumps({**json.loads(metadata), "epoch": held[0].epoch})
        operation = self._jvm.org.apache.spark.sql.delta.DeltaOperations.Write(
            self._jvm.org.apache.spark.sql.SaveMode.Append,
            none,
            none,
            self._jvm.scala.Option.apply(metadata),
            *[none] * 5,
        )
        keep_files(self._new_files(), within=self._path)
        with turn(self._spark, self._path):
            version = self._committed(operation)
        keep_files(log_files(self._path, version), within=log_of(self._path))
        forget_sum(self._path, version - SUMS_KEPT)
        reached(COMMITTED, self._path)
        return version

    def _committed(self, operation: Any) -> int:  # noqa: ANN401  # of the JVM
        """Commit, unless another process has taken over a lease by which this one writes.

        Raises:
            FencedError: It has.
        """
        held = leases(self._path)
        for each in held:
            each.refuse_lost()
        try:
            return int(self._transaction.commit(_scala(self._spark, self._actions), operation))
        except Exception as error:
            if held and "ConcurrentTransaction" in f"{type(error).__name__} {error}":
                raise held[0].lost() from error
            raise

    def _new_files(self) -> Iterator[Place]:
        return (self._path / unquote(added_file(file)["path"]) for file in self._written)

    def _java(self, sequence: Any) -> Any:  # noqa: ANN401  # py4j's objects have no types
        return self._jvm.scala.jdk.javaapi.CollectionConverters.asJava(sequence)


# Frames of Spark over a table: its rows at a version, joined by its key, written in as few files as they need.
#
# A table's rows at a version, or at its latest.


OPEN = 1 << 62
"""The end of an open range, in microseconds since 1970; larger than every date."""


def rows_at(spark: SparkSession, path: Place, version: int) -> DataFrame:
    """Return the rows of a table at a version.

    Delta asks its log for the files by two jobs of Spark, at each reader of a version: half of the jobs of a small batch. Of the
    latest version of a table that has few, its checksum lists them. Which that is Delta is asked anew, because another table may be
    in the folder by now, with as many versions.
    """
    log, none = _log_of(spark, path), jvm(spark).scala.Option.empty()
    latest = log.update(False, none, none)
    files = _listed(latest) if latest.version() == version else None
    if files is not None:
        made = log.createDataFrame(latest, files, False, none)
        # It is of the session that was used last in this thread, which may be that of a stream.
        return _planned(spark, made.queryExecution().logical())
    return spark.read.format("delta").option("versionAsOf", version).load(str(path))


def overwrite(path: Place, rows: DataFrame) -> None:
    """Replace all rows and columns of a table that is in no book; what is in one is written by ``Commit`` alone.

    Its log is short by Delta's own means: no stream reads it, and no version of it is asked for.
    """
    hour = {
        f"delta.{each}": "interval 1 hour"
        for each in ("deletedFileRetentionDuration", "logRetentionDuration")
    }
    short = {**hour, "delta.checkpointInterval": "20"}
    written = rows.write.format("delta").mode("overwrite").option("overwriteSchema", "true")
    written.options(**short).save(str(path))


def rows_now(spark: SparkSession, table: Table, lake: Lake) -> DataFrame:
    """Return a table's rows at its latest version."""
    path = lake.table(table)
    return rows_at(spark, path, latest_version(path))


# Join rows by a table's key; a NULL equals a NULL.
#
# A derived table may have NULL in a part of its key: no confirmation came, no site is known. SQL's ``=`` matches such a
# row with none, so an upsert would insert the new version beside the old one.


def by_key(
    rows: DataFrame,
    others: DataFrame,
    key: Sequence[str],
    how: Literal["left", "left_semi", "left_anti"],
) -> DataFrame:
    """Join rows with others of the same key; the result has the key columns of ``rows`` once."""
    theirs = {name: f"_their_{name}" for name in key}
    is_same = reduce(and_, (F.col(own).eqNullSafe(F.col(their)) for own, their in theirs.items()))
    joined = rows.join(others.withColumnsRenamed(theirs), is_same, how)
    return joined.drop(*theirs.values())


# The number of files that rows are written to: one for few rows, otherwise one per task that computed them.
#
# Why the rows are counted first: ``coalesce(1)`` on a plan lets one task compute all of it, state and shuffle included,
# however many rows there are. So all tasks compute the rows once, the rows are cached and counted, and only then
# coalesced. That also reads the batch of a stateful query exactly once.


SMALL = 50_000
"""Up to this number of rows one file is enough."""


def sized(rows: DataFrame, count: int, *, folder: str = "", folders: int = 1) -> DataFrame:
    """Return computed rows in as many Spark partitions as files are to be written.

    Every task writes a file into each folder for which it has a row, so rows of a partitioned table are first
    repartitioned by folder, into as many pieces per folder as it needs.

    Args:
        rows: The rows, already computed.
        count: The number of rows.
        folder: The table's partition column, if it has one.
        folders: The number of its values among the rows.
    """
    if count <= SMALL:
        return rows.coalesce(1)
    if not folder:
        return rows
    pieces = -(-count // (SMALL * max(folders, 1)))
    others: Sequence[str] = [name for name in rows.columns if name != folder]
    return rows.repartition(folder, F.pmod(F.xxhash64(*others), F.lit(pieces)))


def cut(kept: DataFrame) -> DataFrame:
    """Return rows that are persisted under a plan of their own, which begins where they are kept.

    By the plan that computes them, each step that is added analyses all of it anew, and each query of them looks for it among all
    that is kept: for the verdicts of a judged table that was more than to compute a small batch. Not to be used once they are dropped.
    """
    spark = kept.sparkSession
    # Anew, as a plan that was made before they are kept would not begin there.
    plan = kept.select("*")._jdf.queryExecution().withCachedData()  # noqa: SLF001  # there is no public way
    return _planned(spark, plan)


def _planned(spark: SparkSession, plan: Any) -> DataFrame:  # noqa: ANN401  # py4j's objects have no types
    """Return the rows of a plan in a session."""
    frames = jvm(spark).org.apache.spark.sql.classic.Dataset
    return DataFrame(frames.ofRows(classic(spark), plan), spark)


FEW = 10_000
"""Up to this number of rows one task is as quick as two with a shuffle between them."""


def together(rows: DataFrame, count: int) -> DataFrame:
    """Return rows that are about to be counted in one Spark partition, where there are few: then no shuffle brings them together.

    Not on a cluster: state would be brought to the executor of that task, and back for the next batch.

    Args:
        rows: The rows; cached, or computed by this.
        count: The most rows that they and what they are made of can have.
    """
    is_here = str(rows.sparkSession.sparkContext.master).startswith("local")
    return rows.coalesce(1) if is_here and count <= FEW else rows


def rows_in(file: str) -> int:
    """Return the number of rows in a file, given its line in the log."""
    return int(json.loads(added_file(file)["stats"])["numRecords"])


def write(
    commit: Commit, rows: DataFrame, *, folder: str = "", counts: str | None = None
) -> Written:
    """Write rows that are not computed yet; they are computed once.

    Where there is none, as in most small batches of a table of windows, no job writes a file without rows, which would lie there.

    Args:
        commit: Gets them.
        rows: The rows.
        folder: The table's partition column, if it has one.
        counts: The column whose sum is wanted, if any.
    """
    kept = rows.persist(StorageLevel.MEMORY_AND_DISK)
    try:
        if folder:
            count, folders = kept.agg(F.count("*"), F.count_distinct(folder)).collect()[0]
        else:
            count, folders = _count(kept), 1
        if not count:
            commit.refuse_unfit(kept)
            return NOTHING
        written = commit.write(sized(kept, count, folder=folder, folders=folders))
        return replace(written, counted=summed(commit.path, written, counts)) if counts else written
    finally:
        kept.unpersist()


def _count(rows: DataFrame) -> int:
    """Return the number of rows that are computed for it; no plan of an aggregation, and no stage that adds its parts up."""
    # Anew, because a plan that was made before they are kept would compute them a second time.
    anew: Any = rows.select("*")._jdf.queryExecution()  # noqa: SLF001  # there is no public way
    return int(anew.toRdd().count())


def summed(path: Place, written: Written, column: str) -> int:
    """Return the sum of a column of whole numbers in files that were just written, of a table without partitions.

    DuckDB reads that one column in milliseconds, where Spark plans a job.
    """
    if written.is_empty:
        return 0
    named = column.replace('"', '""')
    files = [file_of(path, added_file(each)) for each in written.files]
    with peek_files(files, "written") as found:
        ((total,),) = found.ask(f'SELECT sum("{named}")::HUGEINT FROM written')  # noqa: S608  # quoted
    return int(str(total or 0))


# Append rows to a Delta table that several processes write, each row once, without a JVM.
#
# Each append claims an application transaction per subject, up to a version. Of two processes that claim the same one
# Delta lets one commit, so the other must look again at what is missing.

ALWAYS: dict[str, str | None] = {
    "delta.enableExpiredLogCleanup": "false",
    "delta.appendOnly": "true",
}


class ClaimedRows:
    """A version of such a table, created if it is missing."""

    def __init__(self, path: Place, schema: Callable[[], Any]) -> None:
        """Open the latest version; two processes may create the table at the same time.

        Args:
            path: Where it is.
            schema: Returns its columns as Arrow has them, which is loaded where there is something to write.
        """
        self._schema, self._place = schema, path
        self._table = _made(path, schema)

    def claimed(self, subject: str) -> int:
        """Return up to which version a subject's rows are there; -1 for none."""
        known = self._table.transaction_version(subject)
        return -1 if known is None else known

    def append(self, rows: Sequence[Mapping[str, object]], claims: Mapping[str, int]) -> bool:
        """Append rows up to a version of each subject; return whether no other process was faster."""
        transactions = [
            deltalake.Transaction(app_id=name, version=last) for name, last in claims.items()
        ]
        try:
            deltalake.write_deltalake(
                self._table,
                pa.Table.from_pylist(list(rows), schema=self._schema()),
                mode="append",
                commit_properties=deltalake.CommitProperties(app_transactions=transactions),
            )
        except deltalake.exceptions.CommitFailedError:
            return False
        self._keep()
        return True

    def _keep(self) -> None:
        """Bring the rows and their commit to the disk: what is written after them says that they are there."""
        path, version = self._place, self._table.version()
        keep_files(map(Place.of, added(path, version).files), within=path)
        keep_files(log_files(path, version), within=log_of(path))


def compact(path: Place, many: int) -> None:
    """Compact a table of many files; another process that does so at the same time is enough."""
    table = opened(path)
    if len(table.file_uris()) < many:
        return
    try:
        table.optimize.compact()
    except deltalake.exceptions.CommitFailedError:
        return


def _made(path: Place, schema: Callable[[], Any]) -> "deltalake.DeltaTable":
    try:
        return opened(path)
    except deltalake.exceptions.TableNotFoundError:
        path.make()
    try:
        made = deltalake.DeltaTable.create(
            str(path),
            schema=schema(),
            mode="ignore",
            configuration=ALWAYS,
            storage_options=delta_options(path),
        )
    except deltalake.exceptions.CommitFailedError:  # another process was faster
        return opened(path)
    keep_files(log_files(path, 0), within=path)
    return made
