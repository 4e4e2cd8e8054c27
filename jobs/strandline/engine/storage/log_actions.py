"""The files that versions of a table added and removed, from its log alone."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any
from urllib.parse import unquote

from strandline.engine.storage.commit_log import Kind, actions, commit_text
from strandline.engine.storage.ledger import entry_in, latest_version
from strandline.engine.storage.place import Place


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
