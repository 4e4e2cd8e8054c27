"""Delta commits of our own making: the rows, and the ledger entry that counts them, in one.

Why not ``df.write``: a ledger entry needs the number of rows written, and with ``df.write`` it must be given
before the rows are. Here files are written first, their statistics read, and then one commit adds the
files and the entry together. The same commit may take files away, which makes a replacement of whole windows
as cheap as an append. And the look-up of transaction ids, with which Delta recomputes the snapshot by a
Spark job at every commit, is not needed: the last entry says whether a batch was written (jobs/run/ledger.py).
Measured, warm, 100 rows: 0.18 s against 0.65 s for ``df.write`` with ``txnAppId``.

The price is that ``OptimisticTransaction`` is Delta's own interface and may change with a version; the
version is pinned, and tests/run/test_delta.py holds every call that is used.
"""

import json
import shutil
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import deltalake
from delta.tables import DeltaTable
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from jobs.core.errors import DataError, DefinitionError
from jobs.run.jvm import classic, jvm
from jobs.run.lease import turn
from jobs.run.ledger import is_table, latest_version

ALWAYS = {
    # The log is the ledger: what it says of a batch is not for Delta to expire.
    "delta.enableExpiredLogCleanup": "false",
    "delta.checkpointInterval": "100",
    "delta.appendOnly": "false",
}


@dataclass(frozen=True, slots=True)
class Written:
    """Files that were written and not yet committed, each as the log will say it."""

    files: tuple[str, ...]
    rows: int

    @property
    def is_empty(self) -> bool:
        """Tell whether there is no row in them."""
        return self.rows == 0


NOTHING = Written((), 0)
SUMS_KEPT = 20
"""Of how many last versions Delta's checksum file stays."""


def create(
    spark: SparkSession,
    path: Path,
    schema: StructType,
    *,
    partition_by: Sequence[str] = (),
    properties: Mapping[str, str] | None = None,
) -> None:
    """Make an empty table unless there is one.

    Raises:
        DefinitionError: There is one, which lacks columns.
    """
    if is_table(path):
        _refuse_lack(path, schema)
        return
    _clear(path / "_delta_log")
    table = DeltaTable.createIfNotExists(spark).location(str(path)).addColumns(schema)
    if partition_by:
        table = table.partitionedBy(*partition_by)
    for name, value in {**ALWAYS, **(properties or {})}.items():
        table = table.property(name, value)
    table.execute()


def _clear(log: Path) -> None:
    """Take away the log of a table that was killed before its first commit: Delta takes it for a table and misses it."""
    if log.is_dir() and not any(log.glob("[0-9]*")):
        shutil.rmtree(log)


def lacks(path: Path, schema: StructType) -> list[str]:
    """Return the columns that a table was made without."""
    known = {field.name for field in deltalake.DeltaTable(path).schema().fields}
    return [name for name in schema.fieldNames() if name not in known]


def _refuse_lack(path: Path, schema: StructType) -> None:
    if lacking := lacks(path, schema):
        table = f"{path.parent.name}.{path.name}"
        raise DefinitionError(
            f"{table} was made without the column {' and '.join(lacking)}, which its function makes by now",
            hint=f"make it anew beside itself and look at the difference: `strandline rebuild {table}`.",
            table=table,
            columns=lacking,
        )


def rows_of(
    spark: SparkSession, path: Path, files: Iterable[str], *, is_other: bool = False
) -> DataFrame:
    """Return what some files of a table hold, without looking at the others.

    Args:
        spark: The session.
        path: The table.
        files: As its log says them.
        is_other: Whether its columns may have changed since this process looked at it last.
    """
    machine = jvm(spark)
    log = machine.org.apache.spark.sql.delta.DeltaLog.forTable(classic(spark), str(path))
    none = machine.scala.Option.empty()
    snapshot = log.update(False, none, none) if is_other else log.unsafeVolatileSnapshot()
    return _frame(spark, snapshot, _actions(spark, files))


def _actions(spark: SparkSession, files: Iterable[str]) -> Any:  # noqa: ANN401
    """Return files as Delta's own actions."""
    machine = jvm(spark)
    found = machine.java.util.ArrayList()
    for file in files:
        found.add(machine.org.apache.spark.sql.delta.actions.Action.fromJson(file))
    return found


def _frame(spark: SparkSession, snapshot: Any, files: Any) -> DataFrame:  # noqa: ANN401
    none = jvm(spark).scala.Option.empty()
    rows = snapshot.deltaLog().createDataFrame(
        snapshot, _scala(spark, files), False, none
    )  # no stream
    return DataFrame(rows, spark)


def _scala(spark: SparkSession, collection: Any) -> Any:  # noqa: ANN401
    return jvm(spark).scala.jdk.javaapi.CollectionConverters.asScala(collection).toSeq()


def forget_sum(path: Path, version: int) -> None:
    """Remove the checksum file of an old version.

    Delta needs that of the newest, or a Spark job has to find out what it says; to an old version that is asked for
    by its number it does without. A log is listed three times by each batch that reads it, 36 µs a file, and half
    of its files were these.
    """
    (path / "_delta_log" / f"{version:020d}.crc").unlink(missing_ok=True)


class Commit:
    """One transaction on one table: write, perhaps replace, commit once."""

    def __init__(self, spark: SparkSession, path: Path) -> None:
        """Begin at the table's latest version."""
        self._spark = spark
        self._path = path
        self._jvm = jvm(spark)
        self._transaction = self._begun()
        self._actions = self._jvm.java.util.ArrayList()
        self._written: list[str] = []

    def _begun(self) -> Any:  # noqa: ANN401
        """Begin at what this process knows, if that is the latest: Delta would list the whole log to find out."""
        log = self._jvm.org.apache.spark.sql.delta.DeltaLog.forTable(
            classic(self._spark), str(self._path)
        )
        known = log.unsafeVolatileSnapshot()
        if known.version() != latest_version(self._path):
            return log.startTransaction()
        option = self._jvm.scala.Option
        return log.startTransaction(option.empty(), option.apply(known))

    @property
    def read_version(self) -> int:
        """Return the version that the transaction began at."""
        return int(self._transaction.snapshot().version())

    def write(self, rows: DataFrame) -> Written:
        """Write rows to files that nobody sees before the commit."""
        files = self._java(self._transaction.writeFiles(rows._jdf))  # noqa: SLF001
        added, told = 0, []
        for file in files:
            count = int(json.loads(file.stats())["numRecords"])
            added += count
            if count:  # a task without rows writes an empty file all the same
                self._actions.add(file)
                told.append(str(file.json()))
        self._written += told
        return Written(tuple(told), added)

    def files(self) -> list[str]:
        """Return every file of the table, each as the log says it; a Spark job over the whole log."""
        return self._told(self._transaction.snapshot().allFiles())

    def named(self, names: Collection[str]) -> list[str]:
        """Return the files with some names, each as the log says it.

        Raises:
            DataError: There are not as many of them as names.
        """
        if not names:
            return []
        name = F.substring_index("path", "/", -1)
        found = self._told(self._all_files().where(name.isin(*names))._jdf)  # noqa: SLF001
        if len(found) != len(names):
            raise DataError(
                f"of {len(names):,} files of {self._path} its log names {len(found):,} by their last part",
                hint="a tool of another kind has written them; nothing was changed. Make the table anew beside itself: "
                "`strandline rebuild`.",
                table=str(self._path),
            )
        return found

    def smallest(self) -> list[str]:
        """Return the file with the fewest bytes; none of an empty table."""
        return self._told(self._all_files().orderBy("size", "path").limit(1)._jdf)  # noqa: SLF001

    def _all_files(self) -> DataFrame:
        return DataFrame(self._transaction.snapshot().allFiles().toDF(), self._spark)

    def _told(self, files: Any) -> list[str]:  # noqa: ANN401
        told = files.toJSON().collectAsList()
        lines = str(self._jvm.java.lang.String.join("\n", told)).split("\n")
        # Not splitlines: a text in the statistics may hold what Unicode calls a line's end.
        return [f'{{"add":{line}}}' for line in lines if line]

    def onto_latest(self) -> None:
        """Go on at the table's latest version with what was written and taken out so far.

        Whoever does so in their turn has seen to it that what others committed does not concern those files.
        """
        if self.read_version != latest_version(self._path):
            self._transaction = self._begun()

    def abandon(self) -> None:
        """Remove the files that were written; nobody has seen them."""
        for file in self._written:
            (self._path / unquote(json.loads(file)["add"]["path"])).unlink(missing_ok=True)

    def take_out(self, files: Sequence[str]) -> DataFrame:
        """Take files away, and return what they held, for the caller to write back what must stay.

        Args:
            files: As ``files`` and ``write`` tell them.
        """
        found = _actions(self._spark, files)
        for file in found:
            self._actions.add(file.remove())
        return _frame(self._spark, self._transaction.snapshot(), found)

    def bring_in(self, files: Iterable[str], columns: str, folders: Sequence[str]) -> None:
        """Add files that lie in the table's folder already, and see that the table has their columns.

        Args:
            files: As the log says them.
            columns: As Delta's metadata has them.
            folders: The columns by which they are divided into folders; all older ones must go in the same commit.
        """
        action = self._jvm.org.apache.spark.sql.delta.actions.Action
        for file in files:
            self._actions.add(action.fromJson(file))
        metadata = self._transaction.snapshot().metadata()
        told = json.loads(metadata.json())
        if told["metaData"]["schemaString"] != columns or told["metaData"]["partitionColumns"] != [
            *folders
        ]:
            told["metaData"] |= {"schemaString": columns, "partitionColumns": [*folders]}
            self._transaction.updateMetadata(
                action.fromJson(json.dumps(told)), False
            )  # not a new table

    def take_out_all(self) -> None:
        """Take away every file."""
        for file in self._java(self._transaction.filterFiles()):
            self._actions.add(file.remove())

    def commit(self, metadata: str) -> int:
        """Make files and metadata visible together; return the new version."""
        none = self._jvm.scala.Option.empty()
        operation = self._jvm.org.apache.spark.sql.delta.DeltaOperations.Write(
            self._jvm.org.apache.spark.sql.SaveMode.Append,
            none,
            none,
            self._jvm.scala.Option.apply(metadata),
            *[none] * 5,
        )
        with turn(self._spark, self._path):
            version = int(self._transaction.commit(_scala(self._spark, self._actions), operation))
        forget_sum(self._path, version - SUMS_KEPT)
        return version

    def _java(self, sequence: Any) -> Any:  # noqa: ANN401
        return self._jvm.scala.jdk.javaapi.CollectionConverters.asJava(sequence)
