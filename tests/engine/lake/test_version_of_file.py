"""The version that added a file is found near the time of the file, and what maintenance made of others is known by its commit."""

from datetime import UTC, datetime
from pathlib import Path

import pytest

from strandline.engine.lake import find_rows
from strandline.engine.lake.commit.compact import Choice, merge_files
from strandline.engine.lake.find_rows import version_of
from strandline.engine.lake.lake import Lake
from strandline.engine.lake.log.log_actions import added, brings_rows, live_files
from strandline.engine.lake.place import Place
from tests.support import events
from tests.support.events import Event, reading, received

pytestmark = pytest.mark.whole

BATCHES = 40
NOW = datetime(2030, 1, 1, tzinfo=UTC)


@pytest.fixture
def bronze(tmp_path: Path) -> Place:
    lake = Lake(tmp_path).open_for_writing()
    received(lake, [Event(payload=reading(event_id=f"e{n}"), batch=n) for n in range(BATCHES)])
    return lake.table(events.TABLE)


@pytest.fixture
def looked_at(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Return the versions that a search looks at."""
    seen: list[int] = []

    def look(path: Place, version: int, file: Place) -> bool | None:
        seen.append(version)
        return brings_rows(path, version, file)

    monkeypatch.setattr(find_rows, "brings_rows", look)
    return seen


def test_the_version_of_each_file_of_a_batch_is_found(bronze: Place) -> None:
    for version in range(1, BATCHES + 1):
        (file,) = added(bronze, version).files

        assert version_of(bronze, Place(file)) == version


def test_a_file_that_maintenance_made_has_no_version_and_the_search_ends_at_its_commit(
    bronze: Place, looked_at: list[int]
) -> None:
    """Otherwise ``why`` would read all commits for every row of a maintained lake."""
    [*merge_files(bronze, Choice(before_ms=2**62), NOW)]
    (name,) = live_files(bronze).files

    assert version_of(bronze, bronze / name) is None
    assert len(looked_at) <= 3
