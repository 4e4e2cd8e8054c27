"""Put small files of a table together beside its writer, in a commit that changes no row.

The commit says ``dataChange: false``, so streams that read the table pass over it, and it has no ledger entry, so no sum
changes. The files are written first; the lock of the next version is held only to look at what others committed meanwhile and
to write the commit. If another writer removed one of the files, the new file is thrown away, and the next attempt finds other
files. A process that is killed leaves a file that no version names.

The files that were put together stay on the disk: a stream that has not read their commits reads them, as may a query
that is running (jobs/strandline/engine/storage/dead_files.py deletes them later).
"""

import json
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Any
from urllib.parse import quote, unquote
from uuid import uuid4

from strandline.engine.storage.commit_log import commit_file, sum_file
from strandline.engine.storage.later_commits import LaterCommits, name
from strandline.engine.storage.ledger import latest_version
from strandline.engine.storage.live_files import LiveFiles, live_files
from strandline.engine.storage.locks import turn_without_jvm
from strandline.engine.storage.merge_plan import Bin, Choice, bins
from strandline.engine.storage.merged_file import merged_file
from strandline.engine.storage.place import Place

COUNT, LOWEST, HIGHEST, NULLS = "numRecords", "minValues", "maxValues", "nullCount"


def combined(texts: Iterable[str | None], times: Collection[str] = ()) -> str | None:
    """Return the statistics of some files together, as the log has them; None where one has none.

    The statistics of a file that holds the rows of others: theirs put together, without looking at a value.

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
    """

    files: int
    bytes_before: int
    bytes_after: int


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
    if found.reader > 1 or not _is_copied(columns):
        return
    times = {each["name"] for each in columns["fields"] if str(each["type"]) in TIMES}
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
        if _commit(path, found, each, added, now):
            yield Merged(files=len(files), bytes_before=each.size, bytes_after=added["size"])
        else:
            written.remove()


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
    path: Place, found: LiveFiles, files: Bin, added: Mapping[str, Any], now: datetime
) -> bool:
    """Commit the exchange, unless another writer removed one of the files or changed the table's columns meanwhile."""
    meanwhile = LaterCommits(path, found.version)
    with turn_without_jvm(path):
        version = latest_version(path)
        meanwhile.follow(version)
        names = {name(file) for file in files.files}
        if not meanwhile.went.isdisjoint(names) or meanwhile.shaped_at > found.version:
            return False
        at = int(now.timestamp() * 1000)
        removes = [_remove(file, at) for file in files.files]
        info = _info(version, files, added, at)
        actions = [{"commitInfo": info}, *removes, {"add": dict(added)}]
        lines = [json.dumps(action, separators=(",", ":")) for action in actions]
        sum_file(
            path, version + 1
        ).remove_file()  # of a version that is not there: a merge of before was killed
        if not commit_file(path, version + 1).create("\n".join(lines) + "\n"):
            return False
        _sum_up(path, version, files, added, info["txnId"])
        return True


def _info(version: int, files: Bin, added: Mapping[str, Any], at: int) -> dict[str, Any]:
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
            "numAddedFiles": "1",
            "numAddedBytes": str(added["size"]),
        },
        "engineInfo": "Strandline",
        "txnId": str(uuid4()),
    }


def _remove(file: Mapping[str, Any], at: int) -> dict[str, Any]:
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
    path: Place, version: int, files: Bin, added: Mapping[str, Any], transaction: str
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
        "tableSizeBytes": sums["tableSizeBytes"] - files.size + added["size"],
        "numFiles": sums["numFiles"] - len(files.files) + 1,
    }
    if known is not None:
        sums["allFiles"] = [*(file for file in known if file["path"] not in gone), dict(added)]
    sum_file(path, version + 1).put(json.dumps(sums, separators=(",", ":")))


def _is_copied(kind: Any) -> bool:  # noqa: ANN401  # a type of Spark as JSON
    """Return whether Arrow copies all values of a type as they are."""
    match kind:
        case str():
            return kind in COPIED or kind.startswith("decimal")
        case {"type": "struct", "fields": [*fields]}:
            return all(_is_copied(each["type"]) for each in fields)
        case {"type": "array", "elementType": element}:
            return _is_copied(element)
        case {"type": "map", "keyType": key, "valueType": value}:
            return _is_copied(key) and _is_copied(value)
        case _:
            return False
