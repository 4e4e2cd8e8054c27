"""A Delta table as delta-rs sees it, without a JVM: its columns, its files and their statistics; as it is, or in a past version that a moment means and a long work keeps readable."""

import json
import re
import threading
import time
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any
from urllib.parse import unquote, urlsplit
from uuid import uuid4

import deltalake
import deltalake.exceptions
import deltalake.table
from pyspark.sql.types import ArrayType, DataType, MapType, StructField, StructType

from strandline.core.errors import DamagedError, DataError, DefinitionError, LakeError
from strandline.core.table import Table
from strandline.engine.lake.lake import Lake
from strandline.engine.lake.log.commit_log import (
    Kind,
    actions,
    committed_at,
    is_commit,
    log_of,
    owner,
    sum_file,
)
from strandline.engine.lake.log.ledger import Entry, entries, is_table, latest_version
from strandline.engine.lake.log.ledger_sums import name_of
from strandline.engine.lake.log.log_actions import WIDENED, added, small_log, summed_files
from strandline.engine.lake.log.vacuum import CHECKPOINT, begins_at, swept
from strandline.engine.lake.place import Place, is_outage, mended, remedy
from strandline.engine.lake.store_lease import unchanged_for
from strandline.engine.runtime.processes import is_there, own
from strandline.engine.runtime.settings import ENDPOINTS, GS, S3A, store_options

GONE = re.compile(
    r"(?:FAILED_READ_FILE\.FILE_NOT_EXIST|PATH_NOT_FOUND).*?(?P<name>[^/\s]+\.parquet)", re.DOTALL
)
"""What Spark says of a file that is in a table's log and not there: as it reads it, or where it was named."""

ELSEWHERE = re.compile(r"/|[a-z0-9+.-]+:", re.IGNORECASE)
"""How the path of a file begins that is not in the folder of its table."""


LOOKS, PAUSE = 3, 0.05
"""How often a log is looked at before it is called damaged, and the seconds between: a folder that is listed while a commit is made
may show the commit's checksum and not the commit, which delta-rs refuses as newer than the log [deltalake 1.6, one of 1,700 questions
beside a stream]."""


def opened(path: Place, version: int | None = None) -> "deltalake.DeltaTable":
    """Open a version of a table, the latest by default.

    Raises:
        DamagedError: A file of its log is torn, or closed to this user.
        DefinitionError: It has a feature that delta-rs does not know, such as a catalog that says what its versions are.
    """
    # deltalake 1.6 refuses its data set of Arrow for that feature, which Arrow needs not: a scan casts each file to the table's columns.
    deltalake.table.SUPPORTED_READER_FEATURES.add(WIDENED)
    return _opened(path, version, LOOKS)


def _opened(path: Place, version: int | None, looks: int) -> "deltalake.DeltaTable":
    try:
        return deltalake.DeltaTable(str(path), version=version, storage_options=delta_options(path))
    except deltalake.exceptions.TableNotFoundError:
        raise
    except (deltalake.exceptions.DeltaError, OSError) as error:
        if is_outage(error):
            raise
        found = _damage(path, error)
        if looks == 1 or not isinstance(found, DamagedError):  # another look finds the same feature
            raise found from error
    time.sleep(PAUSE)
    return _opened(path, version, looks - 1)


def _damage(path: Place, error: Exception) -> LakeError:
    """Return what ails a table whose log delta-rs cannot read."""
    table, lines = owner(path), str(error).splitlines()
    if unknown := FOREIGN.search(str(error)):
        return _unread(table, [unknown["name"] or CATALOG_MANAGED])
    return DamagedError(
        f"{table} is damaged: the log of {path} cannot be read ({(lines or ['no reason'])[0].strip()})",
        hint=f"`ls -l {path}/_delta_log` shows files of another user; {mended(table, 'what is torn')} "
        "All other tables go on meanwhile.",
        table=table,
        file=str(path),
    )


def delta_options(path: Place) -> dict[str, str] | None:
    """Return what delta-rs must know of an object store beside the environment; None for a folder of this machine."""
    if path.is_local:
        return None
    options = store_options(path.scheme)
    is_plain = str(options.is_plain).lower()
    if path.scheme == S3A:
        return {"aws_allow_http": is_plain, "aws_conditional_put": "etag"}
    if (
        path.scheme == GS and options.endpoint
    ):  # its version of the client knows no variable for an address, and no token
        account = {"gcs_base_url": options.endpoint, "disable_oauth": True}
        unused = dict.fromkeys(("client_email", "private_key", "private_key_id"), "")
        key = json.dumps({**account, **unused})
        return {"google_service_account_key": key, "allow_http": is_plain}
    return {"allow_http": is_plain}


def kinds(path: Place) -> dict[str, str]:
    """Return a table's columns and Delta's names of their types; none when it does not exist."""
    return {name: kind for name, (kind, _) in columns(path).items()}


def columns(path: Place) -> dict[str, tuple[str, str]]:
    """Return the same, each with what the column says of itself, its comment; empty where it has none."""
    if not is_table(path):
        return {}
    fields = opened(path).schema().fields
    return {
        each.name: (
            str(getattr(each.type, "type", each.type)),
            str(each.metadata.get("comment") or ""),
        )
        for each in fields
    }


def live_rows(path: Place, version: int | None = None) -> int:
    """Return the number of rows in a table's files, from their statistics, at a version or at the latest."""
    if not is_table(path):
        return 0
    if version is None and (counts := _counted(path)) is not None:
        return sum(rows for rows, _ in counts.values())
    return sum(int(count.as_py()) for count in statistics(opened(path, version))["num_records"])


def _counted(path: Place) -> dict[str, tuple[int, int]] | None:
    """Return rows and bytes of each file of a table, by its path within it, without delta-rs; None where that reads it, or says why not."""
    if not path.is_local:
        return None
    try:
        found = summed_files(path) or small_log(path)
        if found is None or found.reader > 1 or any(ELSEWHERE.match(each) for each in found.files):
            return None
        return {
            unquote(name): (int(json.loads(each["stats"])["numRecords"]), int(each["size"]))
            for name, each in found.files.items()
        }
    except (LakeError, OSError, KeyError, TypeError, ValueError):
        return None


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
    if (counts := _counted(path)) is not None:
        looked = ((path / name, size) for name, (_, size) in counts.items())
        wanted = ((file, size) for file, size in looked if not names or file.name in names)
        return {file.name for file, size in wanted if not _is_whole(file, size)}
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


def statistics(table: "deltalake.DeltaTable") -> Any:  # noqa: ANN401  # versions of delta-rs return tables of different Arrow libraries
    """Return path, partition and statistics of each file, one row a file."""
    return table.get_add_actions(flatten=True)


def live_files(table: "deltalake.DeltaTable") -> list[str]:
    """Return the files of a table as paths of the file system, or as addresses of a store.

    delta-rs escapes the table's own folder as a URL, ``a%20lake``, but not the paths within it, where Spark names a
    folder ``00%3A00``.
    """
    at = urlsplit(table.table_uri)
    if (
        at.scheme in ENDPOINTS
    ):  # of whose keys delta-rs escapes a part, so that they cannot be had back
        root = Place(unquote(f"{at.netloc}{at.path}"), at.scheme)
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
"""Before a column's name: the property with the name that the column had first (jobs/strandline/engine/lake/commit/replace_rows.py)."""


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


# Versions of a table: the past one that a moment means, and those that a long work keeps readable.
#
# A past version of a table: which one a moment means, and whether it can still be read.
#
# A search reads some twenty commits of a million, and nothing else here grows with a table's history. Maintenance cuts logs
# (jobs/strandline/engine/lake/log/vacuum.py) and deletes the files that only old versions have (jobs/strandline/engine/lake/log/vacuum.py), so an
# old version ends with a sentence that names the oldest one that can be read.

READABLE = {"timestampNtz", "variantType", "variantType-preview", WIDENED}
"""What DuckDB and Arrow read as well; a table with other features would be read wrongly, as with deleted rows in it."""

CATALOG_MANAGED = "catalogManaged"
MEANINGS = {
    "deletionVectors": "rows that are marked as deleted and still in the files (deletion vectors)",
    "columnMapping": "columns that have other names in the files (column mapping)",
    CATALOG_MANAGED: f"versions that a catalog, and not its log, says ({CATALOG_MANAGED})",
    "v2Checkpoint": "checkpoints in a newer form (v2Checkpoint)",
}

FOREIGN = re.compile(r"loading a catalog-managed table|Feature '(?P<name>\w+)' is not supported")
"""What delta-rs says of a table with a feature that it does not know; the log is not damaged."""


def version_at(path: Place, name: str, moment: datetime) -> int:
    """Return the version that a table had at a moment.

    Raises:
        DefinitionError: There was none yet.
    """
    low = first = 0 if is_commit(path, 0) else begins_at(path)
    high = latest_version(path)
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if committed_at(path, middle) <= moment else (low, middle - 1)
    begun = committed_at(path, first)
    if low == first and begun > moment:
        raise DefinitionError(
            f"{name} did not exist at {moment.isoformat(sep=' ')}",
            hint=f"its first commit is of {begun.astimezone(UTC).isoformat(sep=' ', timespec='milliseconds')}.",
            table=name,
        )
    return low


def open_version(path: Place, name: str, version: int | None = None) -> "deltalake.DeltaTable":
    """Return a version of a table, the latest by default, whose files hold its rows as they are.

    Raises:
        DefinitionError: There is no such version, its log was cut, or its files need a reader that knows more.
        DataError: Its log is damaged.
    """
    latest = latest_version(path) if version is not None else None
    if version is not None and latest is not None and not 0 <= version <= latest:
        raise DefinitionError(
            f"{name} has no version {version:,}", hint=f"its latest is {latest:,}.", table=name
        )
    try:
        table = opened(path, version)
    except (
        deltalake.exceptions.DeltaError,
        deltalake.exceptions.TableNotFoundError,
        DamagedError,
    ) as error:
        if isinstance(error, DamagedError) and version is None:
            raise
        if version is None:
            raise damaged_log(name, path, error) from error
        raise DefinitionError(
            f"{name} cannot be read at version {version:,}: its log was cut behind it",
            hint=f"the oldest version that can be read is {_first_readable(path):,}; `strandline why` and "
            "`strandline ledger` still know what the commits before it did.",
            table=name,
        ) from error
    refuse_features(table, name)
    return table


def damaged_log_error() -> "type[deltalake.exceptions.DeltaError]":
    """Return what opening a table raises whose log is damaged."""
    return deltalake.exceptions.DeltaError


def damaged_log(name: str, path: Place, error: Exception) -> DataError:
    """Return what is to be said of a table whose log cannot be read."""
    reason = str(error).splitlines()[0]
    return DataError(
        f"{name} cannot be read, because its log is damaged: {reason}",
        hint=f"put the files of {path / '_delta_log'} back from a backup, or make a lake of a snapshot: "
        "`strandline restore`; the other tables can be asked meanwhile.",
        table=name,
    )


def refuse_features(table: "deltalake.DeltaTable", name: str) -> None:
    """Refuse a table whose files alone do not show its rows.

    Raises:
        DefinitionError: It is one.
    """
    unknown = sorted({*(table.protocol().reader_features or ())} - READABLE)
    mapped = table.metadata().configuration.get("delta.columnMapping.mode", "none") != "none"
    if mapped and "columnMapping" not in unknown:
        unknown.append("columnMapping")  # of tables from before features had names
    if unknown:
        raise _unread(name, unknown)


def _unread(name: str, features: Iterable[str]) -> DefinitionError:
    """Return what is to be said of a table with features that only Spark reads."""
    what = ", ".join(MEANINGS.get(each, each) for each in features)
    return DefinitionError(
        f"{name} cannot be read without Spark: it has {what}",
        hint="another tool set that up, because Strandline's own tables have none; read it with Spark, or rewrite it "
        "with `REORG TABLE … APPLY (PURGE)` and drop the feature.",
        table=name,
    )


def refuse_deleted_files(path: Place, name: str, version: int) -> None:
    """Refuse a version that cannot be read, because some of its files are gone or its log was cut.

    Raises:
        DefinitionError: It cannot.
    """
    files = live_files(open_version(path, name, version))
    gone = sum(not Place.of(file).exists() for file in files)
    if gone:
        raise DefinitionError(
            f"{name} cannot be read at version {version:,}: {gone:,} of its {len(files):,} files were deleted, "
            "because its latest version has not had them for longer than they are kept",
            hint=f"the versions from {max(swept(path).version, version + 1):,} on have all their files; "
            "`strandline maintain --keep` decides for how long they do.",
            table=name,
        )


def readable_from(path: Place) -> int:
    """Return the oldest version of a table that its log still builds, and of which no file was deleted."""
    return max(_first_readable(path), swept(path).version) if is_table(path) else 0


def _first_readable(path: Place) -> int:
    """Return the oldest version from which the log itself builds the table: the first commit, or a checkpoint."""
    begun = begins_at(path)
    found = (CHECKPOINT.fullmatch(name) for name in log_of(path).names())
    checkpoints = (int(each["version"]) for each in found if each)
    return begun if begun == 0 else min(checkpoints, default=begun)


# Versions of tables that a long work reads by their numbers, and that maintenance must leave readable meanwhile.
#
# A verification compares versions for an hour while streams go on. It pins them in a small file of the lake for as long as it
# runs, and writes that file again and again. The pins of the dead hold nothing: those of a process of this machine that is gone,
# and those of another machine that were not renewed; the next look removes them.


FOLDER = "_pins"

RENEWED = 60.0
"""Seconds between two renewals of a pin."""

EXPIRES = 1800.0
"""Seconds without a renewal after which a pin of another machine holds nothing; clocks may differ by a quarter of an hour."""

UNRENEWED = 86_400.0
"""The same of a pin of an older version, which does not renew it; what it was for takes hours."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pin:
    """What one process holds.

    Args:
        who: The process, in words.
        since: When it was pinned; None of an older version.
        versions: For each table the first version that is needed.
    """

    who: str
    since: str | None
    versions: Mapping[str, int]


@contextmanager
def pin_versions(root: Place, versions: Mapping[Place, int]) -> Iterator[None]:
    """Pin versions of tables of a lake for the length of the block.

    Args:
        root: The lake's folder.
        versions: The first version of each table that is needed.
    """
    pin = root / FOLDER / f"{uuid4().hex}.json"
    names = {name_of(path): version for path, version in versions.items()}
    over = threading.Event()
    pin.put(json.dumps({"holder": own(), "versions": names, "renewed": True}))
    since = pin.modified_at().isoformat(timespec="seconds")
    text = json.dumps({"holder": own(), "versions": names, "renewed": True, "since": since})

    def renew() -> None:
        while not over.wait(RENEWED):
            try:
                pin.put(text)
            except Exception:  # noqa: BLE001, S112  # whatever a store says for a while, the next renewal may succeed
                continue

    renewing = threading.Thread(target=renew, name="pin", daemon=True)
    renewing.start()
    try:
        yield
    finally:
        over.set()
        renewing.join()
        pin.remove()


def pinned_versions(root: Place) -> dict[str, int]:
    """Return for each pinned table of a lake the smallest version that is pinned."""
    return lowest(pin.versions for pin in pins(root))


def lowest(needs: Iterable[Mapping[str, int]]) -> dict[str, int]:
    """Return for each table the smallest of the versions that several readers need of it."""
    found: dict[str, int] = {}
    for each in needs:
        for table, version in each.items():
            found[table] = min(version, found.get(table, version))
    return found


def pins(root: Place) -> Iterator[Pin]:
    """Yield the pins of processes that are there, and remove the others."""
    folder = root / FOLDER
    for name in folder.names():
        text = (folder / name).text()
        if name.startswith(".") or text is None:  # a draft, or removed meanwhile
            continue
        pin = json.loads(text)
        if not _holds(folder / name, pin):
            (folder / name).remove()
            continue
        yield Pin(who=_in_words(pin["holder"]), since=pin.get("since"), versions=pin["versions"])


def let_go(root: Place, host: str, *, go: bool = True) -> list[str]:
    """Remove the pins of a machine that a person knows to be gone, and return whose they were; only look without ``go``.

    A process that lives there all the same renews its own within a minute; until then a deletion takes only what has been
    replaced for as long as a policy says.
    """
    folder, found = root / FOLDER, []
    for name in folder.names():
        text = (folder / name).text()
        holder = {} if name.startswith(".") or text is None else json.loads(text)["holder"]
        if holder.get("host") == host:
            if go:
                (folder / name).remove()
            found.append(_in_words(holder))
    return found


def _in_words(holder: Mapping[str, Any]) -> str:
    return f"process {holder['pid']} on {holder['host']}"


def _holds(place: Place, pin: Mapping[str, Any]) -> bool:
    seen = is_there(pin["holder"])
    if seen is not None:
        return seen
    try:
        return unchanged_for(place) < (EXPIRES if pin.get("renewed") else UNRENEWED)
    except FileNotFoundError:  # removed meanwhile
        return False
