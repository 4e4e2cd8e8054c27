"""The actions of a commit, as Delta writes them: one JSON object a line, named for its kind.

Only lines of the wanted kinds are parsed. A commit of a busy table has hundreds of ``add`` lines, and a reader that looks
for its schema needs none of them.

A commit is read alike whether it is in the log or was moved out of it.
"""

import gzip
import json
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from functools import lru_cache
from typing import Any

from strandline.core.errors import DamagedError
from strandline.engine.lake.place import Place, mended
from strandline.engine.runtime.limit import refuse_ended

# Commits that were moved out of a table's log, a hundred to a file, and that every reader of the ledger still finds.
#
# Delta lists the whole log of a table three times a batch, at 36 µs a file: after a day of a busy stream that is 1.8 s a
# batch. The ledger is that log, so its commits may not be deleted either. They are packed beside the table instead
# (jobs/strandline/engine/lake/log/vacuum.py), where neither Delta nor delta-rs looks, and ``commit_log`` reads a commit from there when it
# is not in the log. A pack of a hundred commits is a twentieth of their size, and one commit is read from it in a millisecond.
#
# A pack is found by its number, so no folder is ever listed. It is lines of JSON in gzip: ``zcat`` and ``jq`` read it.


FOLDER = "_old_commits"
"""In the folder of the table; Delta ignores names that begin with an underscore."""

PACKED = 100
"""Commits in a pack; the interval of Delta's checkpoints (jobs/strandline/engine/lake/commit/create_table.py), before which a log can be cut."""

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


class Kind(StrEnum):
    """What a line of a commit does, as Delta names it."""

    ADD = "add"
    REMOVE = "remove"
    METADATA = "metaData"
    PROTOCOL = "protocol"
    INFO = "commitInfo"


@dataclass(frozen=True, slots=True)
class Action:
    """One line of a commit.

    Args:
        kind: What it does.
        body: To what.
        line: The line itself, which a later commit may repeat.
    """

    kind: Kind
    body: Mapping[str, Any]
    line: str


def log_of(path: Place) -> Place:
    """Return the folder of a table's log."""
    return path / "_delta_log"


def commit_file(path: Place, version: int) -> Place:
    """Return the file of one commit of a table's log."""
    if path.is_local:  # asked thousands of times by a look at all tables
        return Place(f"{path.path}/_delta_log/{version:020d}.json")
    return log_of(path) / f"{version:020d}.json"


def sum_file(path: Place, version: int) -> Place:
    """Return the file of a version's checksum."""
    return log_of(path) / f"{version:020d}.crc"


def log_files(path: Place, version: int) -> Iterator[Place]:
    """Yield the files by which a reader finds a version: its commit, and the checkpoint that Delta writes at some."""
    yield commit_file(path, version)
    checkpoint = log_of(path) / f"{version:020d}.checkpoint.parquet"
    if checkpoint.is_file():
        yield checkpoint
        yield log_of(path) / "_last_checkpoint"


def is_commit(path: Place, version: int) -> bool:
    """Return whether a table has a version."""
    return commit_file(path, version).is_file() or is_old(path, version)


def commit_text(path: Place, version: int) -> str | None:
    """Return the text of a commit; None where a table has no such version."""
    text = commit_file(path, version).text()
    # A commit is moved between the two looks at most once, and it is in its pack before it leaves the log.
    return text if text is not None else old_commit(path, version)


def versions(path: Place) -> list[int]:
    """Return the versions of a table; its log is listed, which holds other files as well."""
    in_log = logged_versions(path)
    if not in_log or not is_old(path, in_log[0] - 1):
        return in_log
    first = in_log[0] - 1
    while is_old(path, first - PACKED):
        first -= PACKED
    return [*range(first - first % PACKED, in_log[0]), *in_log]


def logged_versions(path: Place) -> list[int]:
    """Return the versions whose commits are in the log itself, as Delta sees it."""
    names = (name.removesuffix(".json") for name in log_of(path).names() if name.endswith(".json"))
    return [int(name) for name in names if name.isdigit()]


def actions(path: Place, version: int, *kinds: Kind) -> Iterator[Action]:
    """Yield the actions of some kinds in one version of a table, in the order of its log.

    Raises:
        FileNotFoundError: The table has no such version.
        DamagedError: Its commit is torn.
    """
    starts = tuple(f'{{"{kind}":' for kind in kinds)
    last = ""
    try:
        for line in _lines(path, version):
            last = line.strip() or last
            if line.startswith(starts):
                ((kind, body),) = json.loads(line).items()
                yield Action(Kind(kind), body, line.strip())
    except ValueError as error:  # bytes that are no text are among them
        raise torn(path, version) from error
    # Cut within a line of another kind, or a power cut left a file without a byte, or of zeros.
    if not last.endswith("}"):
        raise torn(path, version)


def torn(path: Place, version: int) -> DamagedError:
    """Return the error about a commit that cannot be read."""
    table = owner(path)
    return DamagedError(
        f"{table} is damaged: its commit {commit_file(path, version)} is torn",
        hint=f"{mended(table, 'it')} All other tables go on meanwhile.",
        table=table,
        file=str(commit_file(path, version)),
    )


def owner(path: Place) -> str:
    """Return the name of the table whose folder this is, or beside which it is kept: a quarantine is a silver table's."""
    layer = path.parent.name
    return f"{'silver' if layer in {'quarantine', 'resolutions'} else layer}.{path.name}"


def _lines(path: Place, version: int) -> Iterator[str]:
    """Yield the lines of a commit; the first of a large one is there before the others are read.

    Raises:
        FileNotFoundError: A table has no such version.
        EndedError: What they are read for takes longer than it may.
    """
    refuse_ended()
    file = commit_file(path, version)
    try:
        if file.is_local:
            with open(file.path, encoding="utf-8") as log:  # noqa: PTH123  # as commit_file
                yield from log
            return
    except FileNotFoundError:
        pass
    text = commit_text(path, version)
    if text is None:
        raise FileNotFoundError(str(file))
    yield from text.split("\n")


def added_file(line: str) -> Mapping[str, Any]:
    """Return the file that a line of the log adds: its path, partition and statistics."""
    return dict(json.loads(line)["add"])


# The time of a commit, read from the commit itself: a file's own time may be that of a copy or of a restore.


FIELDS = ("inCommitTimestamp", "timestamp")
"""Milliseconds; the first exists where the table has Delta's in-commit timestamps, which never run backwards."""


def committed_at(path: Place, version: int) -> datetime:
    """Return when a version of a table was committed; the file's time where the commit holds none."""
    info = next((action.body for action in actions(path, version, Kind.INFO)), {})
    return time_of(path, version, info)


def time_of(path: Place, version: int, info: Mapping[str, Any]) -> datetime:
    """Return when a version was committed that says this of itself."""
    known = [info[name] for name in FIELDS if info.get(name) is not None]
    seconds = known[0] / 1000 if known else commit_file(path, version).modified_at().timestamp()
    return datetime.fromtimestamp(seconds, tz=UTC)


def modified_at(file: Place) -> datetime:
    """Return when a file was written, or copied; it says about when its commit was, and proves nothing."""
    return file.modified_at()
