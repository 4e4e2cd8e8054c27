"""Files are old as a whole, in part, or not, as their statistics say; without one they are not."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from strandline.engine.lake.find_rows import OldFiles, old_files
from strandline.engine.lake.place import Place
from tests.engine.written import written

NOON = datetime(2026, 11, 20, 12, tzinfo=UTC)
HOUR = timedelta(hours=1)


@pytest.fixture
def table(tmp_path: Path) -> Place:
    """Return a table of three files: an old one, a young one, and one that has both."""
    path = Place.of(tmp_path / "table")
    for hours in ((-3, -2), (1, 2), (-1, 1)):
        written(path, [{"at": NOON + each * HOUR, "number": each} for each in hours])
    return path


@pytest.mark.whole
def test_a_file_is_old_when_all_of_its_rows_are(table: Place) -> None:
    """Of the one that has both the oldest row is named."""
    found = old_files(table, "at", NOON)

    assert (len(found.whole), found.rows) == (1, 2)
    assert [at for _, at in found.partly] == [NOON - HOUR]


def test_a_row_at_the_very_moment_is_young(table: Place) -> None:
    """So is one less than a millisecond before, which Delta's statistics cannot distinguish from it."""
    assert old_files(table, "at", NOON - 2 * HOUR).whole == ()
    assert old_files(table, "at", NOON - 2 * HOUR + timedelta(milliseconds=2)).rows == 2


def test_a_row_without_a_time_keeps_its_file(table: Place) -> None:
    """A hold without an end is open."""
    written(table, [{"at": NOON - 9 * HOUR, "number": 1}, {"at": None, "number": 2}])

    found = old_files(table, "at", NOON)

    assert (found.rows, len(found.partly)) == (2, 2)


def test_without_table_rows_or_statistics_nothing_is_old(table: Place, tmp_path: Path) -> None:
    """Then no file is taken for old."""
    assert old_files(Place.of(tmp_path / "none"), "at", NOON) == OldFiles()
    assert old_files(table, "nothing", NOON) == OldFiles()
