"""What a Delta table declares of itself: its id, its columns and its folders, without a JVM."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pyspark.sql.types import ArrayType, DataType, MapType, StructField, StructType

from strandline.engine.storage.commit_log import Kind, actions, sum_file
from strandline.engine.storage.ledger import is_table, latest_version
from strandline.engine.storage.open_table import opened
from strandline.engine.storage.place import Place


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
    about = _about(path)
    return DeclaredTable(
        str(about["id"]), types_of(_schema(about)), tuple(about["partitionColumns"])
    )


def never_null_now(path: Place) -> list[str]:
    """Return the columns of a table that it says are never NULL, and that it made as others."""
    try:
        first = next(actions(path, 0, Kind.METADATA)).body
    except FileNotFoundError:  # the log was cut: no stream reads its beginning
        return []
    return tightened(_schema(_about(path)), _schema(first))


def _about(path: Place) -> Mapping[str, Any]:
    about = _from_checksum(path)
    if about is not None:
        return about
    table = opened(path)
    found = table.metadata()
    return {
        "id": found.id,
        "partitionColumns": found.partition_columns,
        "schemaString": table.schema().to_json(),
    }


def _schema(about: Mapping[str, Any]) -> StructType:
    return StructType.fromJson(json.loads(about["schemaString"]))


def _from_checksum(path: Place) -> Mapping[str, Any] | None:
    """Return the metadata in the latest version's checksum, which Delta writes; delta-rs would read every live file's line."""
    text = sum_file(path, latest_version(path)).text()
    try:
        return None if text is None else dict(json.loads(text)["metadata"])
    except (KeyError, TypeError, ValueError):
        return None  # torn, or written by another tool


def nullable(schema: StructType) -> StructType:
    """Return the same columns, each of which may be NULL, as may what is in them."""
    return StructType([_loosened(each) for each in schema])


def tightened(now: StructType, then: StructType) -> list[str]:
    """Return the columns that may not be NULL, and once could be; a struct's by a path.

    Args:
        now: The columns of a table.
        then: Those that it had before.
    """
    found = []
    for each in now:
        if each.name not in then.names:
            continue
        former = then[each.name]
        if former.nullable and not each.nullable:
            found.append(each.name)
        if isinstance(each.dataType, StructType) and isinstance(former.dataType, StructType):
            found += [f"{each.name}.{n}" for n in tightened(each.dataType, former.dataType)]
    return found


def _loosened(field: StructField) -> StructField:
    return StructField(field.name, _loose(field.dataType), nullable=True, metadata=field.metadata)


def _loose(kind: DataType) -> DataType:
    match kind:
        case StructType():
            return nullable(kind)
        case ArrayType():
            return ArrayType(_loose(kind.elementType), containsNull=True)
        case MapType():
            return MapType(_loose(kind.keyType), _loose(kind.valueType), valueContainsNull=True)
        case _:
            return kind


def types_of(schema: StructType) -> dict[str, str]:
    """Return the types of columns, by their names."""
    return {each.name: each.dataType.simpleString() for each in schema}
