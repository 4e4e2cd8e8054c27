"""Put small files of a table together beside its writer, in a commit that changes no row.

The commit says ``dataChange: false``, so streams that read the table pass over it, and it has no ledger entry, so no sum
changes. The files are written first; the lock of the next version is held only to look at what others committed meanwhile and
to write the commit. If another writer removed one of the files, the new file is thrown away, and the next attempt finds other
files. A process that is killed leaves a file that no version names.

The files that were put together stay on the disk: a stream that has not read their commits reads them, as may a query
that is running (jobs/strandline/engine/lake/log/vacuum.py deletes them later).
"""

import json
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from itertools import groupby
from math import log
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, unquote
from uuid import uuid4

from strandline.core.errors import DataError
from strandline.engine.lake.duckdb_table import Duck, let_read, spilling
from strandline.engine.lake.locks import turn_without_jvm
from strandline.engine.lake.log.commit_log import commit_file, sum_file
from strandline.engine.lake.log.ledger import latest_version
from strandline.engine.lake.log.ledger_sums import FOLDER, name_of
from strandline.engine.lake.log.log_actions import (
    LaterCommits,
    combined,
    live_files,
    name,
)
from strandline.engine.lake.place import Place, is_outage, keep_files

# Which files of a table are put together: the small ones of a partition, neighbours in time, in steps of their size.
#
# A stream writes a file a batch. Files are put together when eight of about the same size are there, and the results again when
# there are eight of them, until a file is large; so a row is written again three times in its life, and a table of any age
# has some dozens of small files. Files of a partition are ordered by the table's time first, so that each result covers a
# short range of it, which readers skip as a whole.


LARGE = 32 * 1024 * 1024
"""Bytes of a file; its rows are sorted in memory, where they take some ten times as much."""

MANY = 8
"""Files of about one size that are put together."""

SMALL = 128 * 1024
"""Bytes up to which files count as of one size."""

MOST = 500
"""Files that are put together at once: each is opened."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """Which files of a table may be put together, and in which order.

    Args:
        at: The column with a row's time, in whose order files are put together; without one, in that of their writing.
        sorted_by: The columns by which the rows of a new file are sorted.
        before_ms: Files that were written since are left: a writer may be about to replace them.
        apart: The paths of files that a reader of the table has not read, which are left as well: what was read and what
            was not must stay apart, or a repair of the one would seem to be one of the other.
    """

    at: str | None = None
    sorted_by: tuple[str, ...] = ()
    before_ms: int
    apart: Collection[str] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Bin:
    """Files that become one.

    Args:
        files: What the log says of each, in the order of their times.
        size: Their bytes.
    """

    files: tuple[Mapping[str, Any], ...]
    size: int


def bins(files: Mapping[str, Mapping[str, Any]], choice: Choice) -> Iterator[Bin]:
    """Yield the files of a table, by their paths, that are to be put together."""
    small = [
        file
        for path, file in files.items()
        if file["size"] < LARGE // 2
        and file["modificationTime"] < choice.before_ms
        and path not in choice.apart
    ]
    small.sort(key=lambda file: (*_class(file), _time(file, choice.at), file["path"]))
    for _, alike in groupby(small, key=_class):
        yield from _cut(alike)


def _cut(files: Iterable[Mapping[str, Any]]) -> Iterator[Bin]:
    """Yield files that follow each other, up to the size of a large one."""
    chosen: list[Mapping[str, Any]] = []
    size = 0
    for file in files:
        if size + file["size"] > LARGE or len(chosen) == MOST:
            yield from _if_worth_it(chosen, size)
            chosen, size = [], 0
        chosen.append(file)
        size += file["size"]
    yield from _if_worth_it(chosen, size)


def _if_worth_it(files: Sequence[Mapping[str, Any]], size: int) -> Iterator[Bin]:
    """Yield the files if they are many, or become a large one."""
    if len(files) >= MANY or (len(files) > 1 and size > LARGE // 2):
        yield Bin(files=tuple(files), size=size)


def _class(file: Mapping[str, Any]) -> tuple[str, int]:
    """Return the partition of a file and its step in size; files of one class are put together."""
    partition = json.dumps(file["partitionValues"], sort_keys=True)
    size = file["size"]
    return partition, 0 if size <= SMALL else 1 + int(log(size / SMALL, MANY))


def _time(file: Mapping[str, Any], at: str | None) -> str:
    if at is None:
        return f"{file['modificationTime']:020d}"
    return str(json.loads(file["stats"] or "{}").get("minValues", {}).get(at, ""))


# Write the rows of several data files of a table into one, sorted, and compare them before a version names it.
#
# Without a JVM: the work runs beside a stream on the same cores, and Arrow needs a fifth of the memory that a second Spark
# would. Times are written as Spark writes them here, as INT64; in files of before they are INT96, which has no zone and means UTC.
#
# The rows of a table with a key are sorted by it, so that a look-up by key reads a few groups of a file. Those of bronze stay
# in their order, which is that of their commits.


if TYPE_CHECKING:
    import pyarrow as pa

GROUP = 50_000
"""Rows of a group, the piece of a file that a reader skips or reads."""

COMPARED = """
    SELECT count(*), sum(hash(rows)::HUGEINT)
    FROM read_parquet(getvariable('files_'), union_by_name = true, hive_partitioning = false) AS rows
"""
"""The number of rows, and a sum over all of their values that no order changes."""


def merged_file(files: Sequence[Place], folder: Place, sorted_by: Sequence[str]) -> Place:
    """Write the rows of some files into one of a folder, and return it; nothing is committed.

    Args:
        files: The files, in the order of their rows.
        folder: Where the new file comes.
        sorted_by: The columns by which the rows are sorted; none to keep their order.

    Raises:
        DataError: A file cannot be read, or the rows of the new file are not those of the others.
    """
    target = folder / f"part-00000-{uuid4()}-c000.zstd.parquet"
    try:
        if sorted_by:
            _write_sorted(files, target, sorted_by)
        else:
            _write_one_by_one(files, target)
        refuse_different(files, target)
    except BaseException as error:
        target.remove()
        if _says_unreadable(error):
            raise _unreadable(folder, files, error) from error
        raise
    keep_files([target], within=folder)  # the others are deleted one day
    return target


def _says_unreadable(error: BaseException) -> bool:
    """Return whether an error of Arrow says that a file is none, or half of one; what the system refuses has a number."""
    import pyarrow as pa  # noqa: PLC0415  # its import takes longer than most answers

    is_own = isinstance(error, pa.ArrowException) or (
        isinstance(error, OSError) and error.errno is None
    )
    return is_own and not is_outage(error)


def _unreadable(folder: Place, files: Sequence[Place], error: BaseException) -> DataError:
    return DataError(
        f"{len(files)} files of {folder} were not put together, because one cannot be read: {error}",
        hint="nothing was changed; `strandline ledger` names a table that lacks rows, and `strandline rebuild` makes it anew.",
        folder=str(folder),
    )


def _write_sorted(files: Sequence[Place], target: Place, columns: Sequence[str]) -> None:
    import pyarrow as pa  # noqa: PLC0415  # as above

    schema = _schema(files)
    rows = pa.concat_tables(
        [shaped(open_file(file).read(use_threads=False), schema) for file in files]
    )
    known = [(name, "ascending") for name in columns if name in schema.names]
    with writing(target, schema) as writer:
        writer.write_table(rows.sort_by(known), row_group_size=GROUP)


def _write_one_by_one(files: Sequence[Place], target: Place) -> None:
    """Copy rows in pieces, so that memory does not grow with the files."""
    import pyarrow as pa  # noqa: PLC0415  # as above

    schema = _schema(files)
    with writing(target, schema) as writer:
        gathered: list[Any] = []
        for file in files:
            for batch in open_file(file).iter_batches(batch_size=GROUP, use_threads=False):
                gathered.append(shaped(pa.Table.from_batches([batch]), schema))
                if sum(map(len, gathered)) >= GROUP:
                    writer.write_table(pa.concat_tables(gathered), row_group_size=GROUP)
                    gathered = []
        if gathered:
            writer.write_table(pa.concat_tables(gathered), row_group_size=GROUP)


def open_file(file: Place) -> Any:  # noqa: ANN401  # Arrow has no types
    """Open a data file of a table, with times of any year."""
    import pyarrow.parquet as pq  # noqa: PLC0415  # as above

    return pq.ParquetFile(
        file.source(), coerce_int96_timestamp_unit="us", page_checksum_verification=True
    )


@contextmanager
def writing(target: Place, schema: "pa.Schema") -> Iterator[Any]:
    """Write a data file as Spark writes them here."""
    import pyarrow.parquet as pq  # noqa: PLC0415  # as above

    target.parent.make()
    how = {"compression": "zstd", "store_schema": False, "write_page_checksum": True}
    with target.written() as file, pq.ParquetWriter(file, schema, **how) as writer:
        yield writer


def _schema(files: Sequence[Place]) -> "pa.Schema":
    """Return the columns of all files; older ones may lack some, or have shorter types."""
    import pyarrow as pa  # noqa: PLC0415  # as above

    found = [columns_in(open_file(file)) for file in files]
    return pa.unify_schemas(found, promote_options="permissive")


INT96 = "INT96"
"""How Spark writes times by default, and wrote them here: nanoseconds of a day and the day's number."""


def columns_in(file: Any) -> "pa.Schema":  # noqa: ANN401  # Arrow has no types
    """Return the columns of an open data file, with the zone of their times; those that are INT96 say none, and are in UTC."""
    import pyarrow as pa  # noqa: PLC0415  # as above

    leaves = iter(_leaves(file))
    own = file.schema_arrow.remove_metadata()
    return pa.schema([each.with_type(_in_utc(each.type, leaves)) for each in own])


def is_of_before(file: Place) -> bool:
    """Return whether a data file has times as INT96, which pandas may not be able to read, and Iceberg and DuckLake refuse."""
    return INT96 in _leaves(open_file(file))


def _leaves(file: Any) -> list[str]:  # noqa: ANN401  # as above
    """Return how the values of each column are written, those within others included, in their order."""
    return [file.schema.column(number).physical_type for number in range(len(file.schema.names))]


def _in_utc(kind: "pa.DataType", leaves: Iterator[str]) -> "pa.DataType":
    import pyarrow as pa  # noqa: PLC0415  # as above

    def within(field: "pa.Field") -> "pa.Field":
        return field.with_type(_in_utc(field.type, leaves))

    if pa.types.is_struct(kind):
        return pa.struct([within(each) for each in kind])
    if pa.types.is_map(kind):
        return pa.map_(within(kind.key_field), within(kind.item_field))
    if pa.types.is_list(kind):
        return pa.list_(within(kind.value_field))
    if pa.types.is_large_list(kind):  # of a file that Arrow wrote elsewhere
        return pa.large_list(within(kind.value_field))
    return pa.timestamp(kind.unit, "UTC") if next(leaves) == INT96 else kind


def shaped(rows: "pa.Table", schema: "pa.Schema") -> "pa.Table":
    """Return rows in the columns of a schema; one that is missing is NULL."""
    import pyarrow as pa  # noqa: PLC0415  # as above

    columns = [
        rows[each.name].cast(each.type)
        if each.name in rows.schema.names
        else pa.nulls(len(rows), each.type)
        for each in schema
    ]
    return pa.Table.from_arrays(columns, schema=schema)


def refuse_different(files: Sequence[Place], target: Place) -> None:
    """Compare the rows by another reader than the one that copied them."""
    with spilling() as duck:
        before, after = _sums(duck, files), _sums(duck, [target])
    if before != after:
        raise DataError(
            f"{len(files)} files of {target.parent} were put together, and the rows of the result differ from theirs",
            hint="nothing was changed; report it with the table's columns.",
            rows_before=before[0],
            rows_after=after[0],
        )


def _sums(duck: Duck, files: Sequence[Place]) -> tuple[int, int]:
    let_read(duck, map(str, files))
    duck.execute("SET VARIABLE files_ = $files", {"files": [str(file) for file in files]})
    ((rows, total),) = duck.execute(COMPARED).fetchall()
    return int(rows), int(total or 0)


TIMES = frozenset({"timestamp", "date"})
COPIED = TIMES | {
    "string",
    "binary",
    "boolean",
    "byte",
    "short",
    "integer",
    "long",
    "float",
    "double",
}
"""Types of Spark that Arrow writes as Spark does; beside these, decimals and what is made of all of them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Merged:
    """Files that became one.

    Args:
        files: How many there were.
        bytes_before: Their bytes.
        bytes_after: The bytes of the one.
        left: Why others were left, where that is to be said.
    """

    files: int = 0
    bytes_before: int = 0
    bytes_after: int = 0
    left: str = ""


def merge_files(path: Place, choice: Choice, now: datetime, *, go: bool = True) -> Iterator[Merged]:
    """Put the small files of a table together, a commit for each file that results.

    Args:
        path: The table.
        choice: Which, and in which order.
        now: The present.
        go: Whether to do it; otherwise they are only counted.
    """
    found = live_files(path)
    columns = json.loads(found.metadata.get("schemaString") or "{}")
    if found.reader > 1 or not is_copied(columns):
        return
    times = {each["name"] for each in columns["fields"] if str(each["type"]) in TIMES}
    meanwhile = LaterCommits(path, found.version)
    for each in bins(found.files, choice):
        files = [path / unquote(file["path"]) for file in each.files]
        if not all(
            file.exists() for file in files
        ):  # of a copy that lacks some; its balance names them
            continue
        if not go:
            yield Merged(files=len(files), bytes_before=each.size, bytes_after=each.size)
            continue
        written = merged_file(files, files[0].parent, choice.sorted_by)
        added = _add(each, written, times)
        if _commit(path, meanwhile, each, [added], now):
            yield Merged(files=len(files), bytes_before=each.size, bytes_after=added["size"])
        else:
            written.remove()


def left_apart(path: Place, choice: Choice) -> tuple[str, ...]:
    """Return the columns, with their types, for which the small files of a table are not put together; none where they are too few.

    A Variant is one: Arrow writes it as a struct of bytes. So is a local time: a table's column that was a date before is one in older
    files still, and Arrow makes no time of a date where it joins their columns.
    """
    found = live_files(path)
    columns = json.loads(found.metadata.get("schemaString") or "{}")
    if is_copied(columns) or not any(bins(found.files, choice)):
        return ()
    return tuple(
        f"{each['name']} {each['type'] if isinstance(each['type'], str) else each['type']['type']}"
        for each in columns["fields"]
        if not is_copied(each["type"])
    )


def _add(files: Bin, written: Place, times: Collection[str]) -> dict[str, Any]:
    folder, slash, _ = files.files[0]["path"].rpartition("/")
    stats = combined((file["stats"] for file in files.files), times)
    return {
        "path": f"{folder}{slash}{quote(written.name)}",
        "partitionValues": files.files[0]["partitionValues"],
        "size": written.size(),
        "modificationTime": max(file["modificationTime"] for file in files.files),
        "dataChange": False,
        **({"stats": stats} if stats else {}),
    }


def _commit(
    path: Place,
    meanwhile: LaterCommits,
    files: Bin,
    adds: Sequence[Mapping[str, Any]],
    now: datetime,
) -> bool:
    """Commit the exchange, unless another writer removed one of the files or changed the table's columns meanwhile."""
    with turn_without_jvm(path):
        version = latest_version(path)
        meanwhile.follow(version)
        names = {name(file) for file in files.files}
        if not meanwhile.went.isdisjoint(names) or meanwhile.shaped_at >= 0:
            return False
        at = int(now.timestamp() * 1000)
        removes = [removal(file, at) for file in files.files]
        info = _info(version, files, adds, at)
        actions = [{"commitInfo": info}, *removes, *({"add": dict(added)} for added in adds)]
        lines = [json.dumps(action, separators=(",", ":")) for action in actions]
        sum_file(
            path, version + 1
        ).remove_file()  # of a version that is not there: a merge of before was killed
        if not commit_file(path, version + 1).create("\n".join(lines) + "\n"):
            return False
        _sum_up(path, version, files, adds, info["txnId"])
        return True


def _info(version: int, files: Bin, adds: Sequence[Mapping[str, Any]], at: int) -> dict[str, Any]:
    return {
        "timestamp": at,
        "operation": "OPTIMIZE",
        "operationParameters": {
            "predicate": "[]",
            "zOrderBy": "[]",
            "clusterBy": "[]",
            "auto": False,
        },
        "readVersion": version,
        "isolationLevel": "SnapshotIsolation",
        "isBlindAppend": False,
        "operationMetrics": {
            "numRemovedFiles": str(len(files.files)),
            "numRemovedBytes": str(files.size),
            "numAddedFiles": str(len(adds)),
            "numAddedBytes": str(sum(added["size"] for added in adds)),
        },
        "engineInfo": "Strandline",
        "txnId": str(uuid4()),
    }


def removal(file: Mapping[str, Any], at: int) -> dict[str, Any]:
    """Return the action that takes a file out and changes no row."""
    return {
        "remove": {
            "path": file["path"],
            "deletionTimestamp": at,
            "dataChange": False,
            "extendedFileMetadata": True,
            "partitionValues": file["partitionValues"],
            "size": file["size"],
        }
    }


def _sum_up(
    path: Place, version: int, files: Bin, adds: Sequence[Mapping[str, Any]], transaction: str
) -> None:
    """Write the new version's checksum, from that of the version before; without one, Delta computes it by a Spark job.

    After the commit, never before it. Where a process was killed in between, or another writer made the version, its checksum
    was that of the files that were put together. Delta keeps a checksum that is there and derives all later ones from it: two
    commits later a table of 22 files had 2 by its checksum. The rows were still read from the log [measured: test_merge_files.py].
    """
    before = sum_file(path, version).text()
    if before is None:
        return
    sums = json.loads(before)
    sums.pop("fileSizeHistogram", None)
    gone = {file["path"] for file in files.files}
    known = sums.get("allFiles")
    sums |= {
        "txnId": transaction,
        "tableSizeBytes": sums["tableSizeBytes"]
        - files.size
        + sum(added["size"] for added in adds),
        "numFiles": sums["numFiles"] - len(files.files) + len(adds),
    }
    if known is not None:
        stay = (file for file in known if file["path"] not in gone)
        sums["allFiles"] = [*stay, *map(dict, adds)]
    sum_file(path, version + 1).put(json.dumps(sums, separators=(",", ":")))


def is_copied(kind: Any) -> bool:  # noqa: ANN401  # a type of Spark as JSON
    """Return whether Arrow copies all values of a type as they are."""
    match kind:
        case str():
            return kind in COPIED or kind.startswith("decimal")
        case {"type": "struct", "fields": [*fields]}:
            return all(is_copied(each["type"]) for each in fields)
        case {"type": "array", "elementType": element}:
            return is_copied(element)
        case {"type": "map", "keyType": key, "valueType": value}:
            return is_copied(key) and is_copied(value)
        case _:
            return False


# Files of before, whose times are INT96, are written again with times that other engines read, beside the table's writer.
#
# What is put together has its times as INT64 anyway, so this is about the large files of a table, and the few that are left. Only
# the last bytes of a file say how its times are written, so each is looked at once in its life: the paths of those that are well
# are kept in a small file beside the snapshots of the ledger, while the table has them. So a run looks at what came since the one
# before, at what was left, and at what an undo or a RESTORE brought back. It is a matter of room and speed: Strandline reads both.


LOOKED_AT = 1_000
"""Files of a table of which the last bytes are looked at before it is recorded."""

WRITTEN = 8 * LARGE
"""Bytes of a table that are written again before they are committed."""


def looked_file(path: Place) -> Place:
    """Return the file that records which files of a table are well."""
    return path.parent.parent / FOLDER / f"{name_of(path)}.times.json"


def looked(path: Place) -> set[str]:
    """Return the paths of the files of a table that are well; where the record is torn, or of other code, none is known."""
    try:
        found = json.loads(looked_file(path).text() or "[]")
    except ValueError:
        return set()
    return set(found) if isinstance(found, list) else set()


def rewrite_times(
    path: Place,
    choice: Choice,
    now: datetime,
    *,
    go: bool = True,
    is_over: Callable[[], bool] = lambda: False,
) -> Iterator[Merged]:
    """Write the files of a table again whose times are INT96, some in each commit, which changes no row.

    Args:
        path: The table.
        choice: Which files are left; their order does not count.
        now: The present.
        go: Whether to do it; otherwise they are only counted.
        is_over: Whether the time is over; asked before each file. The next run goes on.
    """
    found = live_files(path)
    columns = json.loads(found.metadata.get("schemaString") or "{}")
    if found.reader > 1 or not is_copied(columns) or not _has_times(columns):
        return
    recorded = looked(path)
    well = recorded & found.files.keys()
    waiting = deque(
        file
        for each, file in sorted(found.files.items())
        if each not in well
        and each not in choice.apart
        and file["modificationTime"] < choice.before_ms
    )
    meanwhile, left = LaterCommits(path, found.version), list[str]()
    is_beaten = False
    while waiting and not is_beaten and not is_over():
        old = _old_files(path, waiting, well, left, is_over)
        if old and not go:
            size = sum(file["size"] for file in old)
            yield Merged(files=len(old), bytes_before=size, bytes_after=size)
        if not go:
            continue
        exchanged, adds = _written_again(path, old, left, is_over)
        waiting.extendleft(reversed(old))
        if adds and _commit(path, meanwhile, exchanged, adds, now):
            well |= {added["path"] for added in adds}
            after = sum(added["size"] for added in adds)
            yield Merged(files=len(adds), bytes_before=exchanged.size, bytes_after=after)
        elif adds:
            _throw_away(path, adds)
            is_beaten = True  # its files are looked at again
        if well != recorded:
            looked_file(path).put(json.dumps(sorted(well)))
            recorded = {*well}
    more = f", and {len(left) - 1:,} more" if len(left) > 1 else ""
    late = ["files of before, for lack of time"] if waiting and not is_beaten else []
    if left or late:
        yield Merged(left="; ".join([*(f"{each}{more}" for each in left[:1]), *late]))


def _old_files(
    path: Place,
    waiting: deque[Mapping[str, Any]],
    well: set[str],
    left: list[str],
    is_over: Callable[[], bool],
) -> deque[Mapping[str, Any]]:
    """Take files from those that wait, and return those with such times; which are well, and which cannot be read, is noted.

    One that is missing, as in a copy of a lake, is looked at again by the next run; the table's balance names it.
    """
    old: deque[Mapping[str, Any]] = deque()
    for number in range(LOOKED_AT):
        is_full = sum(file["size"] for file in old) >= WRITTEN
        if not waiting or is_full or (number and is_over()):
            break
        file = waiting.popleft()
        place = path / unquote(file["path"])
        try:
            if not place.exists():
                continue
            if is_of_before(place):
                old.append(file)
            else:
                well.add(file["path"])
        except FileNotFoundError:
            continue
        except Exception as error:
            if not _says_unreadable(error):
                raise
            left.append(f"its file {place.name} cannot be read: {error}")
    return old


def _written_again(
    path: Place, old: deque[Mapping[str, Any]], left: list[str], is_over: Callable[[], bool]
) -> tuple[Bin, list[dict[str, Any]]]:
    """Take files to write again, and return them and what the log is to say of the new ones; one that cannot be read is left."""
    exchanged: list[Mapping[str, Any]] = []
    adds: list[dict[str, Any]] = []
    try:
        while old and not (adds and is_over()):
            file = old.popleft()
            try:
                adds.append(_copied(path, file))
                exchanged.append(file)
            except DataError as error:
                left.append(f"its file {name(file)} was not written again: {error.message}")
    except BaseException:
        _throw_away(path, adds)
        raise
    return Bin(files=tuple(exchanged), size=sum(file["size"] for file in exchanged)), adds


def _throw_away(path: Place, adds: Sequence[Mapping[str, Any]]) -> None:
    for added in adds:
        (path / unquote(added["path"])).remove()


def _copied(path: Place, file: Mapping[str, Any]) -> dict[str, Any]:
    source = path / unquote(file["path"])
    folder, slash, _ = file["path"].rpartition("/")
    written = merged_file([source], source.parent, ())
    return {
        "path": f"{folder}{slash}{quote(written.name)}",
        "partitionValues": file["partitionValues"],
        "size": written.size(),
        "modificationTime": file["modificationTime"],
        "dataChange": False,
        **({"stats": file["stats"]} if file["stats"] else {}),
    }


def _has_times(kind: Any) -> bool:  # noqa: ANN401  # as above
    return '"timestamp"' in json.dumps(kind)
