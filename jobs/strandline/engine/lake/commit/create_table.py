"""The columns of a Delta table: made with its first commit, added and widened, renamed.

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
from datetime import datetime
from enum import IntEnum
from functools import lru_cache
from typing import Any
from urllib.parse import quote, unquote
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

from strandline.core.errors import DefinitionError, TransientError
from strandline.engine.lake.commit.compact import (
    GROUP,
    HIGHEST,
    LOWEST,
    NULLS,
    is_copied,
    open_file,
    refuse_different,
    removal,
    writing,
)
from strandline.engine.lake.files.place import Place, keep_files
from strandline.engine.lake.locks import turn, turn_without_jvm
from strandline.engine.lake.log.commit_log import commit_file, log_of, sum_file
from strandline.engine.lake.log.ledger import is_table, latest_version
from strandline.engine.lake.log.log_actions import LiveFiles, live_files
from strandline.engine.lake.read.open_table import (
    WAS,
    declared_schema,
    first_names,
    kinds,
    nullable,
    opened,
)

ALWAYS = {
    # The log is the ledger, so Delta must not expire its entries.
    "delta.enableExpiredLogCleanup": "false",
    "delta.checkpointInterval": "100",
    "delta.appendOnly": "false",
}
PROTOCOL = {"minReaderVersion": 1, "minWriterVersion": 2}
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
    own = source.schema_arrow.remove_metadata()
    if not set(own.names).intersection(names):
        return None
    schema = pa.schema([each.with_name(names.get(each.name, each.name)) for each in own])
    target = file.parent / f"part-00000-{uuid4()}-c000.zstd.parquet"
    try:
        with writing(target, schema) as writer:
            for batch in source.iter_batches(batch_size=GROUP, use_threads=False):
                writer.write_batch(pa.RecordBatch.from_arrays(batch.columns, schema=schema))
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
