"""Create an empty Delta table by writing its first commit.

Why not Delta's own ``createIfNotExists``: it plans a command of Spark for a file of two kilobytes. Side by side on two busy
cores it took 0.5 to 2.4 s a table in a warm JVM and 9 s in a cold one, against 1 ms; a first run makes over thirty tables,
and their creation was a third of a small one [py-spy]. What is written is the same to the action and the checksum
(tests/engine/lake/test_create_table.py). Without the checksum Delta
computes the state of the table by a job when it reads it first.

Columns that need more of a reader than the first version of Delta (a timestamp without zone, a variant), and names that it
refuses, are left to Delta, which knows what to ask for and what to say.
"""

import json
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from enum import IntEnum
from functools import lru_cache
from typing import Any
from uuid import uuid4

from delta.tables import DeltaTable
from pyspark.sql import SparkSession
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    ByteType,
    DataType,
    DateType,
    DecimalType,
    IntegerType,
    LongType,
    MapType,
    NullType,
    NumericType,
    ShortType,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from strandline.core.errors import DefinitionError
from strandline.engine.lake.locks import turn
from strandline.engine.lake.log.commit_log import commit_file, log_of, sum_file
from strandline.engine.lake.log.ledger import is_table
from strandline.engine.lake.open_table import declared_schema, kinds, nullable
from strandline.engine.lake.place import Place

ALWAYS = {
    # The log is the ledger, so Delta must not expire its entries.
    "delta.enableExpiredLogCleanup": "false",
    "delta.checkpointInterval": "100",
    "delta.appendOnly": "false",
}
PROTOCOL = {"minReaderVersion": 1, "minWriterVersion": 2}
"""The first version of Delta, which every reader has. What newer features would mean for commits of our own:

* Catalog-managed commits (``catalogManaged``): a version is what a catalog has ratified, staged files wait in
  ``_delta_log/_staged_commits``, and no file of the log may be written by put-if-absent. All that is built on the log alone would
  depend on that catalog: the lease and its fence, the ledger in the commit, merges and renames without a JVM, readers by path. So
  tables of ours never get the feature, and catalogs follow the commit (jobs/strandline/engine/publish/catalogs.py). A table
  that another tool gave it is refused by readers (READABLE in jobs/strandline/engine/lake/open_table.py) and left alone by
  maintenance. Should it be wanted one day, four places create a version: this module, ``compact``, ``replace_rows`` and ``fence``
  of the store's leases; Delta's own transaction knows it already.
* New checkpoints (``v2Checkpoint``, the metadata tree of Iceberg's next version): ``live_files`` and the cut of a log read the classic
  ones, by the name that ``_last_checkpoint`` has. Delta writes others only for a table with the feature, which none of ours has;
  one that has is refused in the same way. They would spare writing the lines of all files again at each hundredth commit.
"""
REFUSED = frozenset(" ,;{}()\n\t=")
"""Characters that Delta refuses in the name of a column."""

PLAIN = (BinaryType, BooleanType, DateType, DecimalType, NumericType, TimestampType)
"""Types of the first version of Delta, beside texts and what is made of others."""

INTEGERS = (ByteType(), ShortType(), IntegerType(), LongType())
"""From short to long."""


def create(
    spark: SparkSession,
    path: Place,
    schema: StructType,
    *,
    partition_by: Sequence[str] = (),
    properties: Mapping[str, str] | None = None,
) -> None:
    """Create an empty table unless it exists.

    Raises:
        DefinitionError: It exists and lacks columns.
    """
    if is_table(path):
        _refuse_lack(path, schema)
        return
    _clear(log_of(path))
    values = {**ALWAYS, **(properties or {})}
    if is_plain(schema):
        write_first_commit(path, schema, partition_by, values)
    else:
        _create_by_delta(spark, path, schema, partition_by, values)


def write_first_commit(
    path: Place, schema: StructType, partition_by: Sequence[str], properties: Mapping[str, str]
) -> None:
    """Write the first commit of a table, and its checksum; nothing where another process was faster."""
    now, transaction = time.time_ns() // 1_000_000, str(uuid4())
    metadata = {
        "id": str(uuid4()),
        "format": {"provider": "parquet", "options": {}},
        "schemaString": schema.json(),
        "partitionColumns": [*partition_by],
        "configuration": {**properties},
        "createdTime": now,
    }
    info = {
        "timestamp": now,
        "operation": "CREATE TABLE",
        "operationParameters": {
            "partitionBy": json.dumps([*partition_by], separators=(",", ":")),
            "clusterBy": "[]",
            "description": None,
            "isManaged": "false",
            "properties": json.dumps({**properties}, separators=(",", ":")),
        },
        "isolationLevel": "Serializable",
        "isBlindAppend": True,
        "operationMetrics": {},
        "engineInfo": "Strandline",
        "txnId": transaction,
    }
    actions: Sequence[Mapping[str, Any]] = (
        {"commitInfo": info},
        {"metaData": metadata},
        {"protocol": PROTOCOL},
    )
    lines = [json.dumps(action, separators=(",", ":")) for action in actions]
    if commit_file(path, 0).create("\n".join(lines) + "\n"):
        sum_file(path, 0).put(json.dumps(_checksum(transaction, metadata)))


def is_plain(kind: DataType) -> bool:
    """Return whether a type asks nothing of a reader that the first version of Delta does not have."""
    match kind:
        case StructType():
            are_distinct = len({name.lower() for name in kind.names}) == len(kind.names)
            return are_distinct and all(_is_plain_field(field) for field in kind)
        case ArrayType():
            return is_plain(kind.elementType)
        case MapType():
            return is_plain(kind.keyType) and is_plain(kind.valueType)
        case StringType():
            return kind == StringType()  # one of another collation is not equal
        case _:
            return isinstance(kind, PLAIN)


def _is_plain_field(field: StructField) -> bool:
    # Other metadata may ask for a feature, such as a generated column; Spark's own is a watermark's delay.
    is_spark = all(name.startswith("spark.") for name in field.metadata)
    return is_spark and REFUSED.isdisjoint(field.name) and is_plain(field.dataType)


def _checksum(transaction: str, metadata: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "txnId": transaction,
        "tableSizeBytes": 0,
        "numFiles": 0,
        "numMetadata": 1,
        "numProtocol": 1,
        "setTransactions": [],
        "domainMetadata": [],
        "metadata": metadata,
        "protocol": PROTOCOL,
        "allFiles": [],
    }


def _create_by_delta(
    spark: SparkSession,
    path: Place,
    schema: StructType,
    partition_by: Sequence[str],
    properties: Mapping[str, str],
) -> None:
    table = DeltaTable.createIfNotExists(spark).location(str(path)).addColumns(schema)
    if partition_by:
        table = table.partitionedBy(*partition_by)
    for name, value in properties.items():
        table = table.property(name, value)
    table.execute()


def _clear(log: Place) -> None:
    """Remove the log of a table that was killed before its first commit: Delta takes it for a table and fails.

    File by file, and the folder only when it is empty: another process may write the first commit meanwhile.
    """
    names = [*log.names()]
    if any(name[0].isdigit() for name in names):
        return
    for name in names:
        (log / name).remove()
    if log.is_local:
        with suppress(OSError):  # not there, or no longer empty
            log.local.rmdir()


def lacks(path: Place, schema: StructType) -> list[str]:
    """Return the columns of a schema that a table lacks."""
    known = kinds(path)
    return [name for name in schema.fieldNames() if name not in known]


def let_be_null(spark: SparkSession, path: Place, columns: Sequence[str]) -> None:
    """Let columns of a table be NULL that it says never are.

    Args:
        spark: The session.
        path: The table.
        columns: Each as a path, where it is in a struct.
    """
    with turn(spark, path):
        for each in columns:
            named = _quoted(each.split("."))
            spark.sql(f"ALTER TABLE delta.`{path}` ALTER COLUMN {named} DROP NOT NULL")


# Columns that become others without a row computed again.
#
# A column or a field of a struct that is new is NULL in the rows so far. A wider type is Delta's type widening: the files stay as
# they are, and each reader widens what it reads. Why the feature and not the metadata alone: Spark, DuckDB and Arrow would read
# the files either way, but a stream that begins before the change ends with DELTA_SCHEMA_CHANGED_WITH_STARTING_OPTIONS unless the
# table's protocol says that types were widened [measured: Delta 4.4.0].


class Change(IntEnum):
    """What lies between two types, from least to most."""

    NEW = 0
    """There was none: a column, or a field of a struct."""
    WIDER = 1
    """Each value of the former type is one of the new type, and readers of the files widen it."""
    OTHER = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Altered:
    """A column that is to be another, or a part of one.

    Args:
        at: Its name; of a part the names down to it, as Delta writes them: a field's, ``element``, ``key`` or ``value``.
        had: The type that it has; None where it is new.
        wanted: The type that it is to have.
        change: What lies between the two.
    """

    at: tuple[str, ...]
    had: DataType | None
    wanted: DataType
    change: Change

    @property
    def name(self) -> str:
        """Return its names, as a person writes them."""
        return ".".join(self.at)


def altered(had: DataType, wanted: DataType, at: tuple[str, ...] = ()) -> Iterator[Altered]:
    """Yield what a type lacks to hold the values of another; what the other has no more is no lack."""
    match had, wanted:
        case StructType(), StructType():
            for each in wanted:
                path = (*at, each.name)
                if each.name in had.names:
                    yield from altered(had[each.name].dataType, each.dataType, path)
                else:
                    yield Altered(at=path, had=None, wanted=each.dataType, change=Change.NEW)
        case ArrayType(), ArrayType():
            yield from altered(had.elementType, wanted.elementType, (*at, "element"))
        case MapType(), MapType():
            yield from altered(had.keyType, wanted.keyType, (*at, "key"))
            yield from altered(had.valueType, wanted.valueType, (*at, "value"))
        case _ if not _holds(had, wanted):
            found = Change.WIDER if is_wider(had, wanted) else Change.OTHER
            yield Altered(at=at, had=had, wanted=wanted, change=found)


def _holds(had: DataType, wanted: DataType) -> bool:
    """Return whether files of a type can be read as another: Parquet's short integers and decimals are read as long ones."""
    if had == wanted or isinstance(wanted, NullType):
        return True
    if isinstance(had, DecimalType) and isinstance(wanted, DecimalType):
        return is_wider(wanted, had)
    return had in INTEGERS and wanted in INTEGERS[: INTEGERS.index(had)]


def is_wider(had: DataType, wanted: DataType) -> bool:
    """Return whether each value of a type is one of another, which readers of its files widen.

    A float is none: Delta keeps 0.1 as its smallest value in the log, and as a double the value is 0.10000000149011612, so readers
    would pass over the file [measured].
    """
    match had, wanted:
        case DateType(), TimestampNTZType():
            return True
        case DecimalType(), DecimalType():
            more = wanted.scale - had.scale
            return more >= 0 and wanted.precision - had.precision >= more and had != wanted
        case _:
            return had in INTEGERS and wanted in INTEGERS[INTEGERS.index(had) + 1 :]


@lru_cache(maxsize=512)
def unfit(own: str, coming: str) -> tuple[str, ...]:
    """Return in words which columns of rows have types that a table cannot hold; asked at each commit of the same two schemas.

    Args:
        own: The columns of the table, as JSON.
        coming: Those of the rows.
    """
    had, wanted = (StructType.fromJson(json.loads(each)) for each in (own, coming))
    return tuple(
        f"its column {each.name} is {each.had.simpleString()}, and would be {each.wanted.simpleString()}"
        for each in altered(had, wanted)
        if each.had is not None
    )


def replaced_by(own: StructType, rows: StructType) -> StructType:
    """Return the columns of a table of which all rows are replaced: those of the new ones, and those that are no more, as NULL."""
    left = [each for each in own if each.name not in rows.names]
    return nullable(StructType([*rows, *left]))


WIDENS = "delta.enableTypeWidening"
"""The property by which Delta lets a column have a wider type, and says so to readers."""


def alter(spark: SparkSession, path: Place, schema: StructType) -> None:
    """Give a table the columns, the fields of structs and the wider types of a schema; no file of it is written.

    Each is a commit of its own, and done again after a kill.
    """
    found = [*altered(declared_schema(path), schema)]
    table = f"delta.`{path}`"
    wider = [each for each in found if each.change is Change.WIDER]
    new = [each for each in found if each.change is Change.NEW]
    with turn(spark, path):
        if wider:
            asked = {WIDENS: "true", **_asked_for(wider)}
            listed = ", ".join(f"'{name}' = '{value}'" for name, value in asked.items())
            spark.sql(f"ALTER TABLE {table} SET TBLPROPERTIES ({listed})")
        for each in wider:
            kind = each.wanted.simpleString()
            spark.sql(f"ALTER TABLE {table} ALTER COLUMN {_quoted(each.at)} TYPE {kind}")
        if new:
            named = ", ".join(f"{_quoted(each.at)} {ddl(each.wanted)}" for each in new)
            spark.sql(f"ALTER TABLE {table} ADD COLUMNS ({named})")


def _asked_for(wider: Sequence[Altered]) -> dict[str, str]:
    """Return what a type asks of a table's protocol."""
    is_local = any(isinstance(each.wanted, TimestampNTZType) for each in wider)
    return {"delta.feature.timestampNtz": "supported"} if is_local else {}


def add_columns(spark: SparkSession, path: Place, schema: StructType) -> None:
    """Add to a table the columns of a schema that it lacks, NULL in its rows so far."""
    known = set(lacks(path, schema))
    if known:
        alter(spark, path, StructType([each for each in schema if each.name in known]))


def _quoted(at: Sequence[str]) -> str:
    return ".".join(f"`{part}`" for part in at)


def ddl(kind: DataType) -> str:
    """Return a type as SQL has it, each name in quotes, because names of fields may be of any letters.

    >>> ddl(StructType().add("from", ArrayType(LongType())))
    'struct<`from`:array<bigint>>'
    """
    match kind:
        case StructType():
            inner = ",".join(f"`{each.name}`:{ddl(each.dataType)}" for each in kind)
            return f"struct<{inner}>"
        case ArrayType():
            return f"array<{ddl(kind.elementType)}>"
        case MapType():
            return f"map<{ddl(kind.keyType)},{ddl(kind.valueType)}>"
        case _:
            return kind.simpleString()


def _refuse_lack(path: Place, schema: StructType) -> None:
    if lacking := lacks(path, schema):
        table = f"{path.parent.name}.{path.name}"
        raise DefinitionError(
            f"{table} was created without the column {' and '.join(lacking)}, which its function returns now",
            hint=f"rebuild it beside the live one and look at the difference: `strandline rebuild {table}`.",
            table=table,
            columns=lacking,
        )
