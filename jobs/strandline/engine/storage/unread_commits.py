"""The next commits of a table that a stream has not read: whole commits, up to a number of rows.

A batch must end between two commits. The files of one commit cover the same time, each for some partitions or keys, so
a batch that ends among them would move the watermark past rows of the files that it leaves. Delta's own limits count
files and bytes and end anywhere, so the limit is set to the number of files that whole commits have.
"""

from dataclasses import dataclass

from strandline.engine.storage.commit_log import is_commit
from strandline.engine.storage.ledger import is_passed_over
from strandline.engine.storage.log_actions import added
from strandline.engine.storage.place import Place

MOST_COMMITS = 1_000
"""A batch reads no more commits, however few rows they have; each is a file to open."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Next:
    """Whole commits that come next.

    Args:
        commits: How many of them have rows.
        files: Their files.
        rows: Their rows.
        is_all: Whether nothing is left after them.
    """

    commits: int
    files: int
    rows: int
    is_all: bool


def next_commits(path: Place, version: int, rows: int) -> Next:
    """Return the commits from a version on that have about so many rows together, at least one of them.

    Args:
        path: The table.
        version: The first that is not read.
        rows: The most rows that they should have.
    """
    commits = files = total = 0
    while is_commit(path, version):
        if not is_passed_over(path, version):
            part = added(path, version)
            is_too_much = total + part.rows > rows or commits >= MOST_COMMITS
            if commits and part.files and is_too_much:
                return Next(commits=commits, files=files, rows=total, is_all=False)
            if part.files:
                commits, files, total = commits + 1, files + len(part.files), total + part.rows
        version += 1
    return Next(commits=commits, files=files, rows=total, is_all=True)


def bytes_a_row(path: Place, version: int) -> int:
    """Return how many bytes of file a row has in the next commit that a stream reads; 0 where there is none."""
    while is_commit(path, version):
        if not is_passed_over(path, version) and (part := added(path, version)).rows:
            return part.bytes // part.rows
        version += 1
    return 0
