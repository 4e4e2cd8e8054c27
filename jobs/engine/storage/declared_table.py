"""What a Delta table declares of itself: its id, its columns and its folders, without a JVM."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pyspark.sql.types import StructType

from jobs.engine.storage.commit_log import sum_file
from jobs.engine.storage.ledger import is_table, latest_version
from jobs.engine.storage.open_table import opened
from jobs.engine.storage.place import Place


@dataclass(frozen=True, slots=True)
class DeclaredTable:
    """What a table declares.

    Args:
        id: The id that Delta gave to it when it was created.
        columns: The types of its columns, as Spark names them, by their names.
        folders: The columns that it is partitioned by.
    """

    id: str
    columns: dict[str, str]
    folders: tuple[str, ...]


def declared_table(path: Place) -> DeclaredTable | None:
    """Return what a table declares at its latest version; None where there is no table."""
    if not is_table(path):
        return None
    about = _from_checksum(path)
    if about is None:
        table = opened(path)
        found = table.metadata()
        about = {
            "id": found.id,
            "partitionColumns": found.partition_columns,
            "schemaString": table.schema().to_json(),
        }
    schema = StructType.fromJson(json.loads(about["schemaString"]))
    return DeclaredTable(str(about["id"]), types_of(schema), tuple(about["partitionColumns"]))


def _from_checksum(path: Place) -> Mapping[str, Any] | None:
    """Return the metadata in the latest version's checksum, which Delta writes; delta-rs would read every live file's line."""
    text = sum_file(path, latest_version(path)).text()
    try:
        return None if text is None else dict(json.loads(text)["metadata"])
    except (KeyError, TypeError, ValueError):
        return None  # torn, or written by another tool


def types_of(schema: StructType) -> dict[str, str]:
    """Return the types of columns, by their names."""
    return {each.name: each.dataType.simpleString() for each in schema}
