"""Hold the files of a table or a folder as they are now, under a second name, while writers go on.

A link takes no room and some microseconds, and a file that is replaced, compacted away or deleted meanwhile stays under its
second name. It is as good as a copy for files that are written once: data, commits, state. A file that programs change in
place is copied.

An object store has no links. There the server copies what may go meanwhile: logs, which maintenance cuts, and checkpoints,
which Spark cleans. Data files and packs of commits are held where they are: they are written once, and maintenance leaves
those of a pinned version (jobs/strandline/engine/storage/pinned_versions.py).
"""

import json
import os
import shutil
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from urllib.parse import unquote

from strandline.engine.storage.at_once import each_done
from strandline.engine.storage.commit_log import Kind, actions, log_of
from strandline.engine.storage.ledger import latest_version
from strandline.engine.storage.old_commits import FOLDER as PACKS
from strandline.engine.storage.place import Listed, Place
from strandline.engine.storage.scratch import MAKER
from strandline.engine.storage.uncommitted_files import uncommitted

LAST = "_last_checkpoint"
"""The file in a log that names its newest checkpoint; Delta changes it in place."""

SIDECARS = "_sidecars"
"""The folder in a log with parts of checkpoints."""

UNFINISHED = ".tmp"
"""Part of the name of a file that Spark or Hadoop is writing."""

COMMITS = "commits"
"""The folder of a stream's checkpoint with the batches that are done."""


class Held:
    """The files of a lake that are held.

    Args:
        root: The lake.
        folder: Where they have their second names or their copies, as they lie in the lake.
    """

    def __init__(self, root: Place, folder: Place) -> None:
        """Hold none."""
        self.root, self.folder = root, folder
        self._in_place: list[Listed] = []

    def there(self, file: Place) -> Place:
        """Return where a file of the lake is held."""
        return self.folder / file.below(self.root)

    def hold(self, files: Iterable[Place]) -> None:
        """Hold files that may go; one that is gone already is no longer needed."""
        self._each(_link, files)

    def copy(self, files: Iterable[Place]) -> None:
        """Hold files that programs change in place."""
        self._each(_copy, files)

    def hold_lasting(self, files: Iterable[Listed]) -> None:
        """Hold files that are written once and stay as long as their version is pinned."""
        if self.root.is_local:
            self.hold(file.place for file in files)
        else:
            self._in_place.extend(files)

    def files(self) -> list[tuple[str, Listed]]:
        """Return what is held, sorted: the path of each file in the lake, and where its bytes are."""
        kept = [(file.place.below(self.folder), file) for file in self.folder.listed()]
        kept += [(file.place.below(self.root), file) for file in self._in_place]
        return sorted(each for each in kept if each[0] != MAKER)

    def _each(self, work: Callable[[Place, Place], None], files: Iterable[Place]) -> None:
        def one(file: Place) -> None:
            with suppress(FileNotFoundError):
                work(file, self.there(file))

        for _ in each_done(one, files, among=[self.root]):
            pass


def freeze_table(path: Place, held: Held, version: int) -> None:
    """Hold a version of a table: its log, the commits that left it, and the files of this version and those before.

    The caller pins the version, so commits that leave the log meanwhile are older, and are found in their packs.
    """
    log = log_of(path)
    held.hold(log / name for name in log.names() if _is_of(name, version))
    freeze_folder(log / SIDECARS, held)
    held.hold_lasting((path / PACKS).listed())
    _name_checkpoint(log, held.there(log), version)
    # Of a file that is gone and that a reader needs, the balance of the copy names it.
    held.hold_lasting(_committed(path, version))


def freeze_checkpoint(checkpoint: Place, held: Held) -> None:
    """Hold a stream's checkpoint, the batches that are done first.

    State and plans are there before their batch is done, so whatever is held later belongs to them or is newer.
    """
    freeze_folder(checkpoint / COMMITS, held)
    freeze_folder(checkpoint, held)


def freeze_folder(folder: Place, held: Held) -> None:
    """Hold all files of a folder."""
    held.hold(file for file in folder.files() if UNFINISHED not in file.below(folder))


def freeze_copy(file: Place, held: Held) -> None:
    """Hold a small file, or those of a folder, that programs change in place; nothing where there is none."""
    held.copy([file] if file.is_file() else file.files())


def _committed(path: Place, version: int) -> Iterator[Listed]:
    """Yield the data files that commits up to a version have added and that are there."""
    there = [file for file in path.listed() if _is_data(file.place.below(path))]
    without = {place.below(path) for place in uncommitted(path)}
    for number in range(version + 1, latest_version(path) + 1):
        without |= {unquote(each.body["path"]) for each in actions(path, number, Kind.ADD)}
    return (file for file in there if file.place.below(path) not in without)


def _is_data(name: str) -> bool:
    return name.endswith(".parquet") and name[0] != "_"


def _is_of(name: str, version: int) -> bool:
    """Return whether a file of a log belongs to a version or one before: a commit, a checksum, a checkpoint or a part of one."""
    head = name.lstrip(".").partition(".")[0]
    return head.isdigit() and int(head) <= version and UNFINISHED not in name


def _name_checkpoint(log: Place, into: Place, version: int) -> None:
    """Name the newest checkpoint, unless it is of a later version: then readers find the one before by its name."""
    text = (log / LAST).text()
    with suppress(ValueError, KeyError, TypeError):
        if text and int(json.loads(text)["version"]) <= version:
            (into / LAST).put(text)


def _link(file: Place, into: Place) -> None:
    if not file.is_local:
        file.copy(into)
        return
    into.parent.make()
    with suppress(FileExistsError):
        os.link(file, into)


def _copy(file: Place, into: Place) -> None:
    if not file.is_local:
        file.copy(into)
        return
    into.parent.make()
    shutil.copy2(file, into)
