"""Which files stood in a table at a version, from its log alone; nothing of the log is ever removed (jobs/run/delta.py)."""

import json
from dataclasses import dataclass
from pathlib import Path

from jobs.run.ledger import commit_file


@dataclass(frozen=True, slots=True)
class Standing:
    """A table as it stood.

    Args:
        files: The log's lines that added them, by their paths as the log writes them.
        columns: The columns, as Delta's metadata has them.
        folders: The columns by which it is divided into folders.
    """

    files: dict[str, str]
    columns: str
    folders: tuple[str, ...] = ()


def standing(path: Path, version: int) -> Standing:
    """Return a table as it stood at a version."""
    files: dict[str, str] = {}
    columns, folders = "", ()
    for number in range(version + 1):
        added: dict[str, str] = {}
        with commit_file(path, number).open() as log:
            for line in log:
                if line.startswith('{"add":'):
                    added[json.loads(line)["add"]["path"]] = line.strip()
                elif line.startswith('{"remove":'):
                    files.pop(json.loads(line)["remove"]["path"], None)
                elif line.startswith('{"metaData":'):
                    told = json.loads(line)["metaData"]
                    columns, folders = told["schemaString"], tuple(told["partitionColumns"])
        files |= added
    return Standing(files, columns, folders)


def table_id(path: Path) -> str:
    """Return the id that Delta gave to a table when it was made."""
    with commit_file(path, 0).open() as log:
        told = next(line for line in log if line.startswith('{"metaData":'))
    return str(json.loads(told)["metaData"]["id"])
