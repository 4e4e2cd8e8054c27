"""Delete rows of a table for good, in one commit that streams pass over.

Files whose rows all go are taken out without being read. Of the others the rows that stay are written again, outside the
turn, because a stream that waits for its turn fails after a minute; inside it only the commits that came meanwhile are
read, and if one of them removed a file that is taken out, all begins again.

The number of rows that go is known before the commit and is part of its ledger entry: the rows of the files that are
taken out, less those that were written again.
"""

from collections.abc import Callable, Collection
from dataclasses import dataclass

from pyspark.sql import DataFrame, SparkSession

from strandline.core.errors import TransientError
from strandline.engine.storage import delta_commit
from strandline.engine.storage.commit_log import added_file
from strandline.engine.storage.later_commits import LaterCommits, name
from strandline.engine.storage.ledger import latest_version
from strandline.engine.storage.locks import turn
from strandline.engine.storage.output_files import rows_in
from strandline.engine.storage.place import Place
from strandline.engine.storage.replace_rows import TRIES, divided

Stays = Callable[[DataFrame], DataFrame]
"""Selects the rows that stay."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Files:
    """What to take out of a table.

    Args:
        whole: The names of files whose rows all go.
        partly: The names of files some of whose rows go.
    """

    whole: Collection[str] = ()
    partly: Collection[str] = ()

    @property
    def is_empty(self) -> bool:
        """Return whether there is nothing to do."""
        return not self.whole and not self.partly


@dataclass(frozen=True, slots=True, kw_only=True)
class Removal:
    """Rows to delete.

    Args:
        at: The column with the time of a row, by which files that are written again keep short ranges.
        pick: Returns the files of the latest version; asked again when another writer has removed one of them.
        stays: Selects the rows that stay, of the files that are taken out in part.
        entry: Returns the metadata of the commit, from the number of rows that go.
    """

    at: str
    pick: Callable[[], Files]
    stays: Stays
    entry: Callable[[int], str]


def remove_rows(spark: SparkSession, path: Place, removal: Removal) -> tuple[int, int] | None:
    """Delete rows; return the version and how many they were, or None when there was none.

    Raises:
        TransientError: Other writers rewrote the files of these rows in every attempt.
    """
    for _ in range(TRIES):
        known = latest_version(path)
        files = removal.pick()
        if files.is_empty:
            return None
        done = _attempt(spark, path, removal, files, known)
        if done is not None:
            return done
    raise TransientError(
        f"other writers rewrote files of {path} while rows of them were deleted, {TRIES} times",
        hint="nothing was changed; run the same again.",
        table=str(path),
    )


def _attempt(
    spark: SparkSession, path: Place, removal: Removal, files: Files, known: int
) -> tuple[int, int] | None:
    """Write what stays and commit; None when another writer removed one of the files since a version."""
    touched = {*files.whole, *files.partly}
    meanwhile = LaterCommits(path, known)
    commit = delta_commit.Commit(spark, path)
    meanwhile.follow(commit.read_version)
    if not touched.isdisjoint(meanwhile.went):
        return None
    lines = {name(added_file(line)): line for line in commit.named(touched)}
    gone = sum(map(rows_in, lines.values()))
    parts = [lines[each] for each in files.partly]
    if files.whole:
        commit.take_out([lines[each] for each in files.whole])
    if parts:
        rows = removal.stays(commit.take_out(parts))
        count = sum(map(rows_in, parts))
        gone -= commit.write(divided(rows, removal.at, [*map(added_file, parts)], count)).rows
    with turn(spark, path):
        meanwhile.follow(latest_version(path))
        is_there = touched.isdisjoint(meanwhile.went) and meanwhile.shaped_at <= commit.read_version
        if is_there:
            commit.onto_latest()
            return commit.commit(removal.entry(gone)), gone
    commit.abandon()
    return None
