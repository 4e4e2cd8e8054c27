"""Whole commits come next: at least one, and about as many rows as are wanted."""

from dataclasses import asdict

import pytest

from strandline.engine.flow.batch.governor import next_commits
from strandline.engine.lake.lake import Lake
from tests.engine.written import SILVER, entry, numbers, written

SIZES = (3, 4, 5, 0, 6)


@pytest.fixture
def lake_of_five(lake: Lake) -> Lake:
    """Return a lake with a table of five commits, one of them without rows."""
    for batch, rows in enumerate(SIZES):
        written(
            lake.table(SILVER), numbers(rows), entry(SILVER, batch=batch, written=rows).encoded()
        )
    return lake


@pytest.mark.whole
@pytest.mark.parametrize(
    ("version", "rows", "commits", "files", "total", "is_all"),
    [
        (0, 1, 1, 1, 3, False),
        (0, 3, 1, 1, 3, False),
        (0, 7, 2, 2, 7, False),
        (0, 11, 2, 2, 7, False),
        (0, 17, 3, 3, 12, False),
        (0, 18, 4, 4, 18, True),
        (3, 6, 1, 1, 6, True),
        (5, 6, 0, 0, 0, True),
    ],
)
def test_commits_are_taken_whole(  # noqa: PLR0913, PLR0917  # what is asked, and what is answered
    lake_of_five: Lake,
    version: int,
    rows: int,
    commits: int,
    files: int,
    total: int,
    is_all: bool,  # noqa: FBT001  # a column of the table above
) -> None:
    found = next_commits(lake_of_five.table(SILVER), version, rows)

    assert asdict(found) == {"commits": commits, "files": files, "rows": total, "is_all": is_all}


def test_a_commit_that_streams_pass_over_has_nothing_to_read(lake_of_five: Lake) -> None:
    path = lake_of_five.table(SILVER)
    repair = entry(SILVER, batch=5, since="2026-01-01", until="2026-01-02", written=9)
    written(path, numbers(9), repair.encoded())

    assert next_commits(path, 4, 100).rows == 6
    assert next_commits(path, 5, 100) == next_commits(path, 6, 100)
