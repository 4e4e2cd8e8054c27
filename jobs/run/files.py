"""Which files the versions of a table added and took away, from its log alone."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from deltalake import DeltaTable

from jobs.run.ledger import commit_file


@dataclass(frozen=True, slots=True, kw_only=True)
class Added:
    """What one version added: how many rows, in which files, and the smallest time in each column."""

    rows: int
    lowest: Mapping[str, str]
    files: tuple[str, ...]


def added(path: Path, version: int, *, files: tuple[int, int | None] = (0, None)) -> Added:
    """Read from the log what a version added, or only its files from one position to another."""
    stats: list[dict[str, Any]] = []
    names: list[str] = []
    with commit_file(path, version).open() as log:
        adds = [line for line in log if line.startswith('{"add":')]
    for line in adds[files[0] : files[1]]:
        add = json.loads(line)["add"]
        if add.get("dataChange", True):
            stats.append(json.loads(add["stats"]))
            names.append(_file(path, add))
    lowest: dict[str, str] = {}
    for file in stats:
        for name, value in file.get("minValues", {}).items():
            if isinstance(value, str):
                lowest[name] = min(value, lowest.get(name, value))
    rows = sum(file["numRecords"] for file in stats)
    return Added(rows=rows, lowest=lowest, files=tuple(names))


def files_between(path: Path, first: int, last: int) -> tuple[set[str], set[str]]:
    """Return the files that some versions added, and those that they took away, less what came and went."""
    came: set[str] = set()
    went: set[str] = set()
    for version in range(first, last + 1):
        with commit_file(path, version).open() as log:
            actions = [
                json.loads(line) for line in log if line.startswith(('{"add":', '{"remove":'))
            ]
        added_now = {_file(path, each["add"]) for each in actions if "add" in each}
        gone = {_file(path, each["remove"]) for each in actions if "remove" in each}
        went |= gone - came
        came = (came - gone) | added_now
    return came, went


def live_files(table: DeltaTable) -> list[str]:
    """Return the files of a table as a file system knows them.

    delta-rs writes the table's folder as a URL does, ``a%20lake``, and what lies in it as it is, where Spark has named
    a folder ``00%3A00``.
    """
    root = urlsplit(table.table_uri).path
    return [unquote(root) + uri.removeprefix(root) for uri in table.file_uris()]


def _file(path: Path, action: Mapping[str, Any]) -> str:
    return str(path / unquote(action["path"]))
