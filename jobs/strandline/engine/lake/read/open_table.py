"""A Delta table as delta-rs sees it, without a JVM: its columns, its files and their statistics."""

import json
import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from urllib.parse import unquote, urlsplit

from deltalake import DeltaTable
from deltalake.exceptions import DeltaError, TableNotFoundError
from deltalake.table import SUPPORTED_READER_FEATURES
from pyspark.sql.types import ArrayType, DataType, MapType, StructField, StructType

from strandline.core.errors import DamagedError
from strandline.core.table import Table
from strandline.engine.lake.files.damage import is_outage, mended, remedy
from strandline.engine.lake.files.place import Place
from strandline.engine.lake.lake import Lake
from strandline.engine.lake.log.commit_log import Kind, actions, owner, sum_file
from strandline.engine.lake.log.ledger import Entry, entries, is_table, latest_version
from strandline.engine.lake.log.log_actions import WIDENED, added
from strandline.engine.runtime.settings import S3A, store_options

GONE = re.compile(
    r"(?:FAILED_READ_FILE\.FILE_NOT_EXIST|PATH_NOT_FOUND).*?(?P<name>[^/\s]+\.parquet)", re.DOTALL
)
"""What Spark says of a file that is in a table's log and not there: as it reads it, or where it was named."""

# deltalake 1.6 refuses its data set of Arrow for that feature, which Arrow needs not: a scan casts each file to the table's columns.
SUPPORTED_READER_FEATURES.add(WIDENED)


def opened(path: Place, version: int | None = None) -> DeltaTable:
    """Open a version of a table, the latest by default.

    Raises:
        DamagedError: A file of its log is torn, or closed to this user.
    """
    try:
        return DeltaTable(str(path), version=version, storage_options=delta_options(path))
    except TableNotFoundError:
        raise
    except (DeltaError, OSError) as error:
        if is_outage(error):
            raise
        table, lines = owner(path), str(error).splitlines()
        raise DamagedError(
            f"{table} is damaged: the log of {path} cannot be read ({(lines or ['no reason'])[0].strip()})",
            hint=f"`ls -l {path}/_delta_log` shows files of another user; {mended(table, 'what is torn')} "
            "All other tables go on meanwhile.",
            table=table,
            file=str(path),
        ) from error


def delta_options(path: Place) -> dict[str, str] | None:
    """Return what delta-rs must know of an object store beside the environment; None for a folder of this machine."""
    if path.is_local:
        return None
    is_plain = str(store_options().is_plain).lower()
    return {"aws_allow_http": is_plain, "aws_conditional_put": "etag"}


def kinds(path: Place) -> dict[str, str]:
    """Return a table's columns and Delta's names of their types; none when it does not exist."""
    if not is_table(path):
        return {}
    fields = opened(path).schema().fields
    return {each.name: str(getattr(each.type, "type", each.type)) for each in fields}


def live_rows(path: Place, version: int | None = None) -> int:
    """Return the number of rows in a table's files, from their statistics, at a version or at the latest."""
    if not is_table(path):
        return 0
    return sum(int(count.as_py()) for count in statistics(opened(path, version))["num_records"])


def earliest(path: Place, column: str) -> datetime | None:
    """Return the earliest time in a column, from the statistics of a table's files; None without rows."""
    if not is_table(path):
        return None
    found, name = statistics(opened(path)), f"min.{column}"
    if name not in found.schema.names:
        return None
    return min((value for each in found[name] if (value := each.as_py()) is not None), default=None)


def missing_files(path: Place) -> Iterator[tuple[int, Entry, str]]:
    """Yield the files of a table that are gone from the disk or were cut, each with the version and the entry that added it.

    Which these are is seen from the files of the latest version; the log is read only to name their batches.
    """
    gone = broken_files(path)
    if not gone:
        return
    for version, entry in entries(path):
        for file in map(Place.of, added(path, version).files):
            if file.name in gone:
                yield version, entry, file.name


def broken_files(path: Place, *names: str) -> set[str]:
    """Return the names of the files of a table that are gone, or that have not the bytes with which they were written.

    Args:
        path: The table.
        names: The files that are looked at, each by a request on a store; all when none is named.
    """
    if not is_table(path):
        return set()
    table = opened(path)
    known = statistics(table)
    there = (Place.of(unquote(str(each.as_py()))).name for each in known["path"])
    sizes = dict(zip(there, (int(each.as_py()) for each in known["size_bytes"]), strict=True))
    files = (file for file in map(Place.of, live_files(table)) if not names or file.name in names)
    return {file.name for file in files if not _is_whole(file, sizes[file.name])}


def lost_file(error: BaseException, table: Table, lake: Lake) -> DamagedError | None:
    """Return what an error of Spark means, if a file of the table or of a source is gone that its newest version has; else None.

    One that is gone and that no version needs any more is none: the next attempt reads a newer version.
    """
    found = GONE.search(str(error))
    if found is None:
        return None
    name = found["name"]
    for each in (table, *table.upstream):
        if any(broken_files(path, name) for path in lake.folders(each)):
            reads = "" if each is table else f", and {table.id} reads it"
            return DamagedError(
                f"{each.id} lacks its file {name}, which is gone or was cut{reads}",
                hint=remedy(each.id),
                table=each.id,
                file=name,
            )
    return None


def _is_whole(file: Place, size: int) -> bool:
    try:
        return file.size() == size
    except FileNotFoundError:
        return False


def statistics(table: DeltaTable) -> Any:  # noqa: ANN401  # versions of delta-rs return tables of different Arrow libraries
    """Return path, partition and statistics of each file, one row a file."""
    return table.get_add_actions(flatten=True)


def live_files(table: DeltaTable) -> list[str]:
    """Return the files of a table as paths of the file system, or as addresses of a store.

    delta-rs escapes the table's own folder as a URL, ``a%20lake``, but not the paths within it, where Spark names a
    folder ``00%3A00``.
    """
    at = urlsplit(table.table_uri)
    if at.scheme == S3A:  # of whose keys delta-rs escapes a part, so that they cannot be had back
        root = Place(unquote(f"{at.netloc}{at.path}"), S3A)
        return [str(root / unquote(each.as_py())) for each in statistics(table)["path"]]
    root_path = at.path
    return [unquote(root_path) + uri.removeprefix(root_path) for uri in table.file_uris()]


# What a Delta table declares of itself: its id, its columns and its folders, without a JVM.


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


def declared_schema(path: Place, version: int | None = None) -> StructType:
    """Return the columns that a table declares at a version, the latest by default."""
    if version is None:
        return _schema(_about(path))
    return StructType.fromJson(json.loads(opened(path, version).schema().to_json()))


WAS = "strandline.was."
"""Before a column's name: the property with the name that the column had first (jobs/strandline/engine/lake/commit/rename_columns.py)."""


def first_names(path: Place) -> dict[str, str]:
    """Return by which name each column of a table is known that has another one than at first.

    A column that took a name which was free again is known by one of its own, or it would be taken for the renamed one.
    """
    about = _about(path)
    properties = about.get("configuration") or {}
    found = {
        name.removeprefix(WAS): was for name, was in properties.items() if name.startswith(WAS)
    }
    taken = {was for name, was in found.items() if name != was}
    again = {each for each in _schema(about).names if each in taken and each not in found}
    return {**found, **{each: _unlike(each, taken) for each in again}} if taken else {}


def _unlike(name: str, taken: Collection[str]) -> str:
    while name in taken:
        name += "__again"
    return name


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
        "configuration": dict(found.configuration),
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
