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
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any
from uuid import uuid4

from delta.tables import DeltaTable
from pyspark.sql import SparkSession
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    DataType,
    DateType,
    DecimalType,
    MapType,
    NumericType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from strandline.core.errors import DefinitionError
from strandline.engine.lake.files.place import Place
from strandline.engine.lake.locks import turn
from strandline.engine.lake.log.commit_log import commit_file, log_of, sum_file
from strandline.engine.lake.log.ledger import is_table
from strandline.engine.lake.read.open_table import kinds

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


def add_columns(spark: SparkSession, path: Place, schema: StructType) -> None:
    """Add to a table the columns of a schema that it lacks, NULL in its rows so far."""
    known = set(lacks(path, schema))
    coming = [each for each in schema if each.name in known]
    if not coming:
        return
    named = ", ".join(f"`{each.name}` {each.dataType.simpleString()}" for each in coming)
    with turn(spark, path):
        spark.sql(f"ALTER TABLE delta.`{path}` ADD COLUMNS ({named})")


def let_be_null(spark: SparkSession, path: Place, columns: Sequence[str]) -> None:
    """Let columns of a table be NULL that it says never are.

    Args:
        spark: The session.
        path: The table.
        columns: Each as a path, where it is in a struct.
    """
    with turn(spark, path):
        for each in columns:
            named = ".".join(f"`{part}`" for part in each.split("."))
            spark.sql(f"ALTER TABLE delta.`{path}` ALTER COLUMN {named} DROP NOT NULL")


def _refuse_lack(path: Place, schema: StructType) -> None:
    if lacking := lacks(path, schema):
        table = f"{path.parent.name}.{path.name}"
        raise DefinitionError(
            f"{table} was created without the column {' and '.join(lacking)}, which its function returns now",
            hint=f"rebuild it beside the live one and look at the difference: `strandline rebuild {table}`.",
            table=table,
            columns=lacking,
        )
