"""Keep a table's log short for Delta: move the commits before a checkpoint out of it, and bring them back when asked.

Delta needs the newest checkpoint and the commits after it. A stream needs those that it has not read, and a version that
is read by its number needs a checkpoint before it. So the log is cut at the newest checkpoint that none of them needs to
look behind, and never at the newest of all, because another process may just read the one before.

The commits are packed first and removed from the log then, so a process that is killed in between leaves them in both
places, where they are the same; the next cut goes on. Where the log was cut, no reader of the ledger notices: it finds
them in their packs (jobs/strandline/engine/storage/old_commits.py).

Why not Delta's own clean-up: it goes by age, in days, and a stream of one second makes 86,400 commits a day, each of
which every batch lists three times; and what it removes is gone, while the ledger is these commits.
"""

import re
from collections.abc import Iterator
from itertools import groupby

from strandline.engine.storage.commit_log import commit_file, commit_text, log_of, logged_versions
from strandline.engine.storage.old_commits import PACKED, is_old, old_commit, write_pack
from strandline.engine.storage.place import Place

CHECKPOINT = re.compile(r"(?P<version>\d{20})\.checkpoint(\..+)?\.parquet")
PARQUET = b"PAR1"
"""The last bytes of a Parquet file."""
SUM = re.compile(r"(?P<version>\d{20})\.crc")


def cut(path: Place, needed: int, *, go: bool = True) -> int:
    """Move the commits out of a table's log that neither Delta nor a reader needs there; return how many.

    Args:
        path: The table.
        needed: The first version that a reader has not read; the one before it stays readable by its number.
        go: Whether to move them; otherwise they are only counted.
    """
    names = log_of(path).names()
    older = [version for version in _checkpoints(path, names)[:-1] if version < needed]
    if not older:
        return 0
    first = older[-1] - older[-1] % PACKED
    packs = [*_packs(path, logged_versions(path), first)]
    if go:
        for pack in packs:
            _move(path, pack)
        for name in names:
            found = CHECKPOINT.fullmatch(name) or SUM.fullmatch(name)
            if found and int(found["version"]) < first:
                (log_of(path) / name).remove()
    return sum(map(len, packs))


def bring_back(path: Place, first: int) -> int:
    """Write the commits from a version on into the log again, where they were moved out of it; return how many.

    A stream that begins there asks Delta for them. The next cut removes them once it has read them.
    """
    logged = logged_versions(path)
    if not logged or first >= logged[0]:
        return 0
    # The newest first: a reader that looks meanwhile finds no gap in the log.
    for version in range(logged[0] - 1, first - 1, -1):
        text = old_commit(path, version)
        if text is None:
            return logged[0] - 1 - version
        commit_file(path, version).create(text)
    return logged[0] - first


def begins_at(path: Place) -> int:
    """Return the first version whose commit is in the log itself."""
    if commit_file(path, 0).exists():
        return 0
    return min(logged_versions(path), default=0)


def _checkpoints(path: Place, names: list[str]) -> list[int]:
    """Return the versions of Delta's checkpoints; one that a machine left torn when it lost its power is none."""
    found = {name: match for name in names if (match := CHECKPOINT.fullmatch(name))}
    torn = {match["version"] for name, match in found.items() if not _is_whole(log_of(path) / name)}
    return sorted({int(each["version"]) for each in found.values() if each["version"] not in torn})


def _is_whole(file: Place) -> bool:
    return file.last_bytes(len(PARQUET)) == PARQUET


def _packs(path: Place, logged: list[int], first: int) -> Iterator[list[int]]:
    """Yield the versions before the first one that stays, pack by pack."""
    before = (version for version in logged if version < first)
    for _, versions in groupby(before, lambda version: version // PACKED):
        pack = [*versions]
        # A part of a pack is in the log where a process was killed, or where a reader had it brought back.
        if len(pack) == PACKED or is_old(path, pack[0]):
            yield pack


def _move(path: Place, pack: list[int]) -> None:
    if not is_old(path, pack[0]):
        texts = {
            version: text for version in pack if (text := commit_text(path, version)) is not None
        }
        write_pack(path, texts)
    for version in pack:
        commit_file(path, version).remove()
