"""A search finds the same entry as a look at all of them, and opens few."""

from bisect import bisect_left
from datetime import UTC, datetime
from random import Random

import pytest

from strandline.engine.lake import find_rows
from strandline.engine.lake.find_rows import first_reaching, nearest_versions, newest_first
from strandline.engine.lake.log.commit_log import committed_at
from strandline.engine.lake.log.ledger import Entry, entries, entry_at
from strandline.engine.lake.place import Place
from tests.engine.written import BRONZE
from tests.support.ledgers import histories, write_log

pytestmark = pytest.mark.core

PART = "x/0"


@pytest.fixture
def path(anywhere: Place) -> Place:
    """Return the log of a bronze table, with maintenance between its batches."""
    path = anywhere
    write_log(path, histories(300, Random(3))[BRONZE])  # noqa: S311  # a test's own
    return path


def end(entry: Entry) -> int | None:
    return entry.offsets[PART][1] if PART in entry.offsets else None


@pytest.mark.whole
def test_each_offset_is_found_in_the_entry_that_read_it(path: Place) -> None:
    """The figure is the end of the range, so the first one beyond the offset has it."""
    known = list(entries(path))
    ends = [entry.offsets[PART][1] for _, entry in known]

    for offset in range(ends[-1]):
        assert first_reaching(path, offset + 1, end) == known[bisect_left(ends, offset + 1)]


@pytest.mark.whole
def test_what_no_entry_has_reached_is_not_found(path: Place) -> None:
    """It is still in Kafka."""
    newest = next(newest_first(path))[1]

    assert first_reaching(path, newest.offsets[PART][1] + 1, end) is None
    assert first_reaching(path, 1, lambda _: None) is None
    assert first_reaching(path / "nowhere", 1, end) is None


@pytest.mark.whole
def test_a_search_begins_at_a_version(path: Place) -> None:
    """What a promotion replaced is no longer in force."""
    found = first_reaching(path, 0, end, 100)

    assert found is not None
    assert found[0] >= 100
    assert found == next(each for each in entries(path) if each[0] >= 100)


@pytest.mark.whole
def test_a_search_opens_few_commits(path: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of 300 about nine, and those of maintenance beside them."""
    opened: list[int] = []

    def counted(place: Place, version: int) -> Entry | None:
        opened.append(version)
        return entry_at(place, version)

    monkeypatch.setattr(find_rows, "entry_at", counted)
    first_reaching(path, 700, end)

    assert 0 < len(opened) < 20


@pytest.mark.whole
def test_the_newest_come_first_and_are_read_one_by_one(path: Place) -> None:
    """Who looks for the last watermark reads one entry."""
    assert list(newest_first(path)) == list(reversed(list(entries(path))))


@pytest.mark.parametrize("version", [0, 1, 150, 299])
def test_versions_are_tried_from_a_time_on_in_both_directions(version: int, path: Place) -> None:
    """The time of a file leads near its commit; all others follow."""
    tried = list(nearest_versions(path, committed_at(path, version)))

    assert tried[0] == version
    assert sorted(tried) == list(range(len(tried)))
    assert next(nearest_versions(path, datetime(2000, 1, 1, tzinfo=UTC))) == 0
