"""Commits that were moved out of a table's log, a hundred to a file, and that every reader of the ledger still finds.

Delta lists the whole log of a table three times a batch, at 36 µs a file: after a day of a busy stream that is 1.8 s a
batch. The ledger is that log, so its commits may not be deleted either. They are packed beside the table instead
(jobs/strandline/engine/storage/cut_log.py), where neither Delta nor delta-rs looks, and ``commit_log`` reads a commit from there when it
is not in the log. A pack of a hundred commits is a twentieth of their size, and one commit is read from it in a millisecond.

A pack is found by its number, so no folder is ever listed. It is lines of JSON in gzip: ``zcat`` and ``jq`` read it.
"""

import gzip
import json
import zlib
from collections.abc import Mapping
from datetime import datetime
from functools import lru_cache

from strandline.core.errors import DamagedError
from strandline.engine.storage.place import Place

FOLDER = "_old_commits"
"""In the folder of the table; Delta ignores names that begin with an underscore."""

PACKED = 100
"""Commits in a pack; the interval of Delta's checkpoints (jobs/strandline/engine/storage/create_table.py), before which a log can be cut."""

PACKS = 1_000
"""Packs in a folder."""

KEPT = 4
"""Packs that a process keeps unpacked: a walk along the log opens each once, a search opens about twenty."""


def pack_file(path: Place, number: int) -> Place:
    """Return the file of a pack of a table."""
    return path / FOLDER / f"{number // PACKS:06d}" / f"{number:09d}.jsonl.gz"


def is_old(path: Place, version: int) -> bool:
    """Return whether a commit was moved out of a table's log."""
    return version >= 0 and pack_file(path, version // PACKED).is_file()


def old_commit(path: Place, version: int) -> str | None:
    """Return the text of a commit that was moved out of a table's log; None if it was not."""
    if version < 0:
        return None
    file = pack_file(path, version // PACKED)
    try:
        changed_at = file.modified_at()
    except FileNotFoundError:
        return None
    return _unpacked(file, changed_at).get(version)


def write_pack(path: Place, commits: Mapping[int, str]) -> None:
    """Write a pack of commits that follow each other; a reader sees all of it or none."""
    first = min(commits)
    lines = (json.dumps({"version": each, "commit": text}) for each, text in commits.items())
    packed = gzip.compress("\n".join(lines).encode(), compresslevel=6, mtime=0)
    pack_file(path, first // PACKED).put_bytes(packed)


@lru_cache(maxsize=KEPT)
def _unpacked(file: Place, changed_at: datetime) -> Mapping[int, str]:  # noqa: ARG001  # a pack that was written again is another
    packed = file.bytes()
    try:
        lines = gzip.decompress(packed).decode().split("\n") if packed else []
        found = [json.loads(line) for line in lines if line]
        return {each["version"]: each["commit"] for each in found}
    except (EOFError, zlib.error, gzip.BadGzipFile, ValueError, KeyError) as error:
        raise DamagedError(
            f"{file} is torn, which has the commits of before",
            hint="only a copy has them: `strandline restore` into another folder, and copy the file from there.",
            file=str(file),
        ) from error
