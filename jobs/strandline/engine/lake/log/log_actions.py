"""The files that versions of a table added and removed, from its log alone."""

import json
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from functools import lru_cache
from itertools import islice
from typing import Any
from urllib.parse import unquote

import pyarrow.parquet as pq

from strandline.engine.lake.log.commit_log import (
    Action,
    Kind,
    actions,
    commit_file,
    commit_text,
    log_of,
    sum_file,
    torn,
)
from strandline.engine.lake.log.ledger import entry_in, latest_version, newest_checkpoint
from strandline.engine.lake.place import Place


@dataclass(frozen=True, slots=True, kw_only=True)
class Added:
    """What one version added.

    Args:
        rows: The number of rows.
        bytes: The size of their files.
        lowest: The smallest time in each column.
        files: Their files.
        places: For bronze the offsets of each partition, both ends as in the ledger, where every one of them has a record;
            None where some have none, or only some files were added up.
    """

    rows: int
    bytes: int = 0
    lowest: Mapping[str, str]
    files: tuple[str, ...]
    places: Mapping[str, tuple[int, int]] | None = None


def added(path: Place, version: int, *, files: tuple[int, int | None] = (0, None)) -> Added:
    """Return what a version added, or only its files from one position to another."""
    return _added(path, (each.body for each in islice(actions(path, version, Kind.ADD), *files)))


def appended(
    path: Place, version: int, *, files: tuple[int, int | None] = (0, None)
) -> Added | None:
    """Return what a version added for a stream that reads the table; None for one that streams skip. It is read once."""
    adds, places = [], None
    for each in actions(path, version, Kind.INFO, Kind.ADD):
        if each.kind is Kind.ADD:
            adds.append(each.body)
        elif entry := entry_in(each.body, path, version):
            if entry.is_passed_over:
                return None
            places = dict(entry.offsets) or None
    found = _added(path, islice(adds, *files))
    spans = sum(end - first for first, end in places.values()) if places else -1
    return replace(found, places=places) if spans == found.rows else found


def _added(path: Place, adds: Iterable[Mapping[str, Any]]) -> Added:
    stats: list[dict[str, Any]] = []
    names: list[str] = []
    size = 0
    for add in adds:
        if add.get("dataChange", True):
            stats.append(json.loads(add["stats"]))
            names.append(file_of(path, add))
            size += int(add["size"])
    lowest: dict[str, str] = {}
    for file in stats:
        for name, value in file.get("minValues", {}).items():
            if isinstance(value, str):
                lowest[name] = min(value, lowest.get(name, value))
    rows = sum(file["numRecords"] for file in stats)
    return Added(rows=rows, bytes=size, lowest=lowest, files=tuple(names))


def highest(path: Place, version: int, column: str) -> str | None:
    """Return the largest time of a column among the files that a version added, by their statistics or their folder."""
    found = []
    for each in actions(path, version, Kind.ADD):
        stats = json.loads(each.body.get("stats") or "{}").get("maxValues") or {}
        value = stats.get(column) or (each.body.get("partitionValues") or {}).get(column)
        found += [value] if isinstance(value, str) else []
    return max(found, default=None)


def files_between(path: Place, first: int, last: int) -> tuple[set[str], set[str]]:
    """Return the net changes of a range of versions: the files that were added, and those that were removed."""
    came: set[str] = set()
    went: set[str] = set()
    for version in range(first, last + 1):
        changes = list(actions(path, version, Kind.ADD, Kind.REMOVE))
        added_now = {file_of(path, each.body) for each in changes if each.kind is Kind.ADD}
        gone = {file_of(path, each.body) for each in changes if each.kind is Kind.REMOVE}
        went |= gone - came
        came = (came - gone) | added_now
    return came, went


def added_since(path: Place, first: int) -> set[str]:
    """Return the paths, as in the log, of the files that were added from a version on."""
    later = range(first, latest_version(path) + 1)
    return {each.body["path"] for version in later for each in actions(path, version, Kind.ADD)}


def removes_rows(path: Place, version: int) -> bool:
    """Return whether a version took rows out, or wrote its files again with other columns: no stream reads across that."""
    found = [*actions(path, version, Kind.REMOVE, Kind.METADATA)]
    gone = [each for each in found if each.kind is Kind.REMOVE]
    return any(each.body.get("dataChange") for each in gone) or 0 < len(gone) < len(found)


def changes_rows(path: Place, version: int) -> bool:
    """Return whether a version changed the rows of its table; to put files together changes none."""
    changes = actions(path, version, Kind.ADD, Kind.REMOVE)
    return any(each.body.get("dataChange", True) for each in changes)


def removed(path: Place, version: int) -> dict[str, Mapping[str, Any]]:
    """Return the files that a version removed, each with the values of its partition columns."""
    return {
        file_of(path, each.body): dict(each.body.get("partitionValues") or {})
        for each in actions(path, version, Kind.REMOVE)
    }


def brings_rows(path: Place, version: int, file: Place) -> bool | None:
    """Return whether a version that added a file brought rows with it, or put older ones together; None if it did not add it.

    The names of most versions are compared as text, without parsing.
    """
    if file.name not in (commit_text(path, version) or ""):
        return None
    adds = (each.body for each in actions(path, version, Kind.ADD))
    found = (add for add in adds if file_of(path, add) == str(file))
    return next((bool(add.get("dataChange", True)) for add in found), None)


def existing(files: Iterable[str]) -> list[str]:
    """Return those of a table's files that are there."""
    return [file for file in files if Place.of(file).exists()]


def file_of(path: Place, action: Mapping[str, Any]) -> str:
    """Return the path of the file in an action of a table's log."""
    return str(path / unquote(action["path"]))


# What other processes committed to a table after a version, read from its log commit by commit.


class LaterCommits:
    """The files that were added and removed after a version; each commit is read once."""

    def __init__(self, path: Place, version: int) -> None:
        """Begin after a version."""
        self._path = path
        self._read_until = version
        self.came: dict[str, str] = {}
        """By name, the files that were added and not removed since, each as its line in the log."""
        self.went: set[str] = set()
        """The names of those that were removed."""
        self.shaped_at = -1
        """The last version that changed the table's columns or properties."""

    def follow(self, version: int) -> None:
        """Read the commits up to a version."""
        for number in range(self._read_until + 1, version + 1):
            for action in actions(
                self._path, number, Kind.ADD, Kind.REMOVE, Kind.METADATA, Kind.PROTOCOL
            ):
                self._read(action, number)
        self._read_until = max(version, self._read_until)

    def _read(self, action: Action, version: int) -> None:
        match action.kind:
            case Kind.ADD:
                self.came[name(action.body)] = action.line
            case Kind.REMOVE:
                gone = name(action.body)
                self.came.pop(gone, None)
                self.went.add(gone)
            case _:
                self.shaped_at = version


def come_since(
    path: Place, before: int, now: int, is_skipped: Callable[[int], bool] = lambda _: False
) -> dict[str, str]:
    """Return the files with rows that came after a version and are there at a later one, each as its line in the log.

    A file that only gathers rows of others, as a compaction writes it, has such rows if one of these others came after it too.
    So has one of a version whose rows the reader skips.
    """
    came: dict[str, str] = {}
    for version in range(before + 1, now + 1):
        adds, gone = [], set()
        for action in actions(path, version, Kind.ADD, Kind.REMOVE):
            if action.kind is Kind.ADD:
                adds.append(action)
            else:
                gone.add(name(action.body))
        is_new = any(each.body.get("dataChange", True) for each in adds) and not is_skipped(version)
        has_new = is_new or not gone.isdisjoint(came)
        for each in gone:
            came.pop(each, None)
        if has_new:
            came.update({name(each.body): each.line for each in adds})
    return came


def name(action: Mapping[str, Any]) -> str:
    """Return the name of a file as in Spark's ``_metadata.file_name``; it is unique within the table."""
    return unquote(str(action["path"])).rpartition("/")[2]


# The files of a table at a version, from its log alone; no commit is ever removed from it (jobs/strandline/engine/lake/commit/delta_commit.py).


@dataclass(frozen=True, slots=True)
class TableFiles:
    """The files of one version.

    Args:
        files: The log's lines that added them, by their paths as in the log.
        columns: The schema, as in Delta's metadata.
        folders: The partition columns.
        properties: What the table said of itself.
    """

    files: dict[str, str]
    columns: str
    folders: tuple[str, ...] = ()
    properties: Mapping[str, str] = field(default_factory=dict)


def table_files(path: Place, version: int) -> TableFiles:
    """Return the files, the schema and the partition columns of a table at a version."""
    files: dict[str, str] = {}
    columns, folders = "", ()
    properties: Mapping[str, str] = {}
    for number in range(version + 1):
        added: dict[str, str] = {}
        for action in actions(path, number, Kind.ADD, Kind.REMOVE, Kind.METADATA):
            match action.kind:
                case Kind.ADD:
                    added[action.body["path"]] = action.line
                case Kind.REMOVE:
                    files.pop(action.body["path"], None)
                case _:
                    columns = action.body["schemaString"]
                    folders = tuple(action.body["partitionColumns"])
                    properties = action.body.get("configuration") or {}
        files |= added
    return TableFiles(files, columns, folders, properties)


def table_id(path: Place) -> str:
    """Return the id that Delta gave to a table when it was created.

    Raises:
        DamagedError: Its first commit is torn.
    """
    try:
        stamp = commit_file(path, 0).stamp() if path.is_local else ""
    except FileNotFoundError:  # none, or moved out of the log
        stamp = ""
    return _id_again(path, stamp) if stamp else _id(path)


@lru_cache(maxsize=1_000)
def _id_again(path: Place, stamp: str) -> str:  # noqa: ARG001  # a commit that was written again is another
    """Return the same of a table of which it may be asked again: a look at what is usual asks it of each, for each of its questions."""
    return _id(path)


def _id(path: Place) -> str:
    found = next(actions(path, 0, Kind.METADATA), None)
    if found is None:
        raise torn(path, 0)
    return str(found.body["id"])


# The files of a table's latest version as its log names them, from Delta's newest checkpoint and the commits after it.
#
# delta-rs parses the statistics and decodes the paths; a commit that removes a file must repeat the path as it is, and one that
# puts files together needs their statistics as they are. No JVM is needed.


COLUMNS = ("path", "partitionValues", "size", "modificationTime", "stats")
METADATA = ("schemaString", "partitionColumns", "configuration")
WIDENED = "typeWidening"
"""The feature of a table of which a column has a wider type than some of its files (jobs/strandline/engine/lake/commit/create_table.py)."""

CHECKPOINT = re.compile(r"(?P<version>\d{20})\.checkpoint\.parquet")

ROWS = 10_000
"""Rows of a checkpoint that are in memory at once."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveFiles:
    """The files of a version.

    Args:
        version: The version.
        files: What the log says of each, by its path as in the log.
        metadata: The table's columns, partitions and properties, as in the log.
        reader: The version of Delta that a reader needs: above 1, a file may hold rows that the log says are deleted. That a
            file has a shorter type than the table is nothing to a reader who casts.
    """

    version: int
    files: Mapping[str, Mapping[str, Any]]
    metadata: Mapping[str, Any]
    reader: int


def live_files(path: Place, until: int | None = None) -> LiveFiles:
    """Read the files of a table's latest version, or of one of before: from the newest checkpoint before it that is whole in one file."""
    latest = latest_version(path) if until is None else until
    begun, parts = _checkpoint(path, latest)
    files: dict[str, Mapping[str, Any]] = {}
    metadata: Mapping[str, Any] = {}
    reader = 1
    for name in _parts(begun, parts) if begun >= 0 else ():
        for kind, body in _checkpointed(log_of(path) / name):
            match kind:
                case Kind.METADATA:
                    metadata = body
                case Kind.PROTOCOL:
                    reader = _reader(body)
                case _:
                    files[body["path"]] = body
    for version in range(begun + 1, latest + 1):
        added: dict[str, Mapping[str, Any]] = {}
        for action in actions(path, version, Kind.ADD, Kind.REMOVE, Kind.METADATA, Kind.PROTOCOL):
            match action.kind:
                case Kind.ADD:
                    added[action.body["path"]] = {name: action.body.get(name) for name in COLUMNS}
                case Kind.REMOVE:
                    files.pop(action.body["path"], None)
                case Kind.PROTOCOL:
                    reader = _reader(action.body)
                case _:
                    metadata = action.body
        files |= added
    return LiveFiles(version=latest, files=files, metadata=metadata, reader=reader)


def small_log(path: Place) -> LiveFiles | None:
    """Return the files of the latest version of a table without a checkpoint; None for others, which may have a hundred thousand files.

    Such a log is read here in a fraction of the time in which delta-rs opens one, and a list of tables reads one of each. What was
    read last stays for who asks the next question about the same table; another commit, or the same one written again, is another.
    """
    if newest_checkpoint(path) is not None:
        return None
    latest = latest_version(path)
    return _of_small_log(path, latest, commit_file(path, latest).stamp())


@lru_cache(maxsize=8)
def _of_small_log(path: Place, latest: int, stamp: str) -> LiveFiles:  # noqa: ARG001  # a commit that was written again is another
    return live_files(path, latest)


def summed_files(path: Place) -> LiveFiles | None:
    """Return the files of the latest version by the checksum that Delta writes beside it; None where it has none, or does not name them.

    It names them where they are few, each with its statistics: one small file, however many commits there were.
    """
    latest = latest_version(path)
    text = sum_file(path, latest).text()
    if text is None:
        return None
    # A commit of another process, after one was taken out of the log, may have the number of the one that it belongs to.
    info = next((each.body for each in actions(path, latest, Kind.INFO)), {})
    try:
        found = json.loads(text)
        if info["txnId"] != found["txnId"]:
            return None
        files = {each["path"]: each for each in found["allFiles"]}
        size = sum(each["size"] for each in files.values())
        if (len(files), size) != (found["numFiles"], found["tableSizeBytes"]):
            return None
        reader = _reader(found["protocol"])
        return LiveFiles(version=latest, files=files, metadata=found["metadata"], reader=reader)
    except (KeyError, TypeError, ValueError):  # torn, or of another tool
        return None


def _checkpoint(path: Place, latest: int) -> tuple[int, int | None]:
    """Return the newest checkpoint up to a version, and the number of its files where it has several; -1 where there is none."""
    known = json.loads((log_of(path) / "_last_checkpoint").text() or "{}")
    newest = int(known.get("version", -1))
    if newest <= latest:
        return newest, known.get("parts")
    found = (CHECKPOINT.fullmatch(name) for name in log_of(path).names())
    older = (int(each["version"]) for each in found if each)
    return max((each for each in older if each <= latest), default=-1), None


def _reader(protocol: Mapping[str, Any]) -> int:
    features = {*(protocol.get("readerFeatures") or ())}
    return 1 if features == {WIDENED} else int(protocol["minReaderVersion"])


def _parts(version: int, parts: int | None) -> Iterator[str]:
    if not parts:
        yield f"{version:020d}.checkpoint.parquet"
        return
    for part in range(1, parts + 1):
        yield f"{version:020d}.checkpoint.{part:010d}.{parts:010d}.parquet"


def _checkpointed(file: Place) -> Iterator[tuple[Kind, Mapping[str, Any]]]:
    wanted = [
        "protocol.minReaderVersion",
        "protocol.readerFeatures",
        *(f"add.{name}" for name in COLUMNS),
        *(f"metaData.{name}" for name in METADATA),
    ]
    for batch in pq.ParquetFile(file.source()).iter_batches(batch_size=ROWS, columns=wanted):
        for row in batch.to_pylist():
            add, metadata, protocol = row["add"], row["metaData"], row["protocol"]
            if add and add["path"]:
                yield Kind.ADD, {**add, "partitionValues": dict(add["partitionValues"] or ())}
            elif metadata and metadata["schemaString"]:
                known = dict(metadata["configuration"] or ())
                yield Kind.METADATA, {**metadata, "configuration": known}
            elif protocol and protocol["minReaderVersion"]:
                yield Kind.PROTOCOL, protocol


# The statistics of some files together, as the log has them: of a file that holds the rows of others, without looking at a value.


COUNT, LOWEST, HIGHEST, NULLS = "numRecords", "minValues", "maxValues", "nullCount"


def combined(texts: Iterable[str | None], times: Collection[str] = ()) -> str | None:
    """Return the statistics of some files together, as the log has them; None where one has none.

    Delta skips a file by its smallest and largest values, so these may be too wide and never too narrow. A column of which one
    of the files says nothing gets none. Numbers are compared as decimals; one that a JSON number of Python cannot hold exactly
    gets no statistic, because one that was rounded would hide rows. Times are compared as text, which is their order unless a
    year has more than four digits or is negative; then they get none either.

    Args:
        texts: Those of each.
        times: The names of the columns that hold dates or times.
    """
    stats = []
    for text in texts:
        if not text:
            return None
        stats.append(json.loads(text, parse_float=Decimal))
    if any(COUNT not in each for each in stats):
        return None
    total = {COUNT: sum(each[COUNT] for each in stats)}
    total[LOWEST] = _extremes(stats, LOWEST, min, times)
    total[HIGHEST] = _extremes(stats, HIGHEST, max, times)
    total[NULLS] = _nulls([each.get(NULLS, {}) for each in stats])
    return json.dumps(total, separators=(",", ":"))


def _extremes(
    stats: Sequence[Mapping[str, Any]],
    side: str,
    choose: Callable[[Sequence[Any]], Any],
    times: Collection[str],
) -> dict[str, Any]:
    names = {column for each in stats for column in each.get(side, {})}
    found = {}
    for column in sorted(names):
        known = [each.get(side, {}).get(column) for each in stats if not _is_all_null(each, column)]
        value = _extreme(known, choose)
        is_unordered = column in times and any(str(each)[0] in "+-" for each in known if each)
        if value is not None and not is_unordered:
            found[column] = value
    return found


def _is_all_null(stats: Mapping[str, Any], name: str) -> bool:
    return bool(stats.get(NULLS, {}).get(name) == stats[COUNT])


def _extreme(values: Sequence[Any], choose: Callable[[Sequence[Any]], Any]) -> Any:  # noqa: ANN401  # values of JSON
    kinds = {_kind(value) for value in values}
    if len(kinds) != 1 or not values or None in kinds:
        return None
    value = choose(values)
    if not isinstance(value, Decimal):
        return value
    return float(value) if Decimal(repr(float(value))) == value else None


def _kind(value: object) -> type | None:
    match value:
        case bool():
            return None
        case str():
            return str
        case int() | Decimal():
            return Decimal
        case _:  # one is missing, or it is of a structure
            return None


def _nulls(counts: Sequence[Mapping[str, Any]]) -> dict[str, int]:
    names = set.intersection(*(set(each) for each in counts)) if counts else set()
    return {
        name: sum(each[name] for each in counts)
        for name in sorted(names)
        if all(isinstance(each[name], int) for each in counts)
    }
