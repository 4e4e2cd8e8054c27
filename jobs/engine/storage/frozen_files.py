"""Hold the files of a table or a folder as they are now, under a second name, while writers go on.

A link takes no room and some microseconds, and a file that is replaced, compacted away or deleted meanwhile stays under its
second name. It is as good as a copy for files that are written once: data, commits, state. A file that programs change in
place is copied.
"""

import json
import os
import shutil
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from urllib.parse import unquote

from jobs.engine.storage.commit_log import Kind, actions, log_of
from jobs.engine.storage.ledger import latest_version
from jobs.engine.storage.old_commits import FOLDER as PACKS
from jobs.engine.storage.place import Place
from jobs.engine.storage.uncommitted_files import uncommitted

LAST = "_last_checkpoint"
"""The file in a log that names its newest checkpoint; Delta changes it in place."""

SIDECARS = "_sidecars"
"""The folder in a log with parts of checkpoints."""

UNFINISHED = ".tmp"
"""Part of the name of a file that Spark or Hadoop is writing."""

COMMITS = "commits"
"""The folder of a stream's checkpoint with the batches that are done."""


def freeze_table(path: Place, into: Place, version: int) -> None:
    """Hold a version of a table: its log, the commits that left it, and the files of this version and those before.

    The caller pins the version, so commits that leave the log meanwhile are older, and are found in their packs.
    """
    for name in log_of(path).names():
        number = _version_of(name)
        if number is not None and number <= version and UNFINISHED not in name:
            with suppress(FileNotFoundError):
                _link(log_of(path) / name, log_of(into) / name)
    freeze_folder(log_of(path) / SIDECARS, log_of(into) / SIDECARS)
    freeze_folder(path / PACKS, into / PACKS)
    _name_checkpoint(log_of(path), log_of(into), version)
    for file in _committed(path, version):
        with suppress(FileNotFoundError):  # if a reader needs it, the balance of the copy names it
            _link(path / file, into / file)


def freeze_checkpoint(checkpoint: Place, into: Place) -> None:
    """Hold a stream's checkpoint, the batches that are done first.

    State and plans are there before their batch is done, so whatever is linked later belongs to them or is newer.
    """
    freeze_folder(checkpoint / COMMITS, into / COMMITS)
    freeze_folder(checkpoint, into)


def freeze_folder(folder: Place, into: Place) -> None:
    """Hold all files of a folder; one that goes meanwhile is no longer needed."""
    for file in files_below(folder):
        if UNFINISHED not in file:
            with suppress(FileNotFoundError):
                _link(folder / file, into / file)


def freeze_copy(file: Place, into: Place) -> None:
    """Hold a small file, or those of a folder, that programs change in place; nothing where there is none."""
    if file.local.is_dir():
        for name in files_below(file):
            freeze_copy(file / name, into / name)
    elif file.exists():
        into.parent.make()
        shutil.copy2(file, into)


def files_below(folder: Place) -> Iterator[str]:
    """Yield the paths of all files below a folder, in order; links are not followed."""
    for above, folders, names in os.walk(folder.local):
        folders.sort()
        for name in sorted(names):
            yield str(Path(above, name).relative_to(folder.local))


def _committed(path: Place, version: int) -> list[str]:
    """Return the data files that commits up to a version have added and that are there."""
    there = [name for name in files_below(path) if name.endswith(".parquet") and name[0] != "_"]
    without = {place.below(path) for place in uncommitted(path)}
    for number in range(version + 1, latest_version(path) + 1):
        without |= {unquote(each.body["path"]) for each in actions(path, number, Kind.ADD)}
    return [name for name in there if name not in without]


def _version_of(name: str) -> int | None:
    """Return the version that a file of a log belongs to: a commit, a checksum, a checkpoint or a part of one."""
    head = name.lstrip(".").partition(".")[0]
    return int(head) if head.isdigit() else None


def _name_checkpoint(log: Place, into: Place, version: int) -> None:
    """Name the newest checkpoint, unless it is of a later version: then readers find the one before by its name."""
    text = (log / LAST).text()
    with suppress(ValueError, KeyError, TypeError):
        if text and int(json.loads(text)["version"]) <= version:
            (into / LAST).put(text)


def _link(file: Place, into: Place) -> None:
    into.parent.make()
    with suppress(FileExistsError):
        os.link(file, into)
