"""``expire`` and ``forget`` as they are typed: each shows first, and says what it did not do."""

from datetime import UTC, datetime
from pathlib import Path

import pytest

from strandline.engine.lake.forgotten import Forgotten, keep, requests
from strandline.engine.lake.lake import Lake
from tests.cli.inside import strandline, succeeded
from tests.engine.written import SILVER, entry, written

DONE = "2026-11-20T09:00:00+00:00"


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    """Return a lake with a table of one row."""
    lake = Lake(tmp_path / "lake").open_for_writing()
    rows = [{"device_id": "d-17", "event_at": datetime(2020, 1, 1, tzinfo=UTC)}]
    written(lake.table(SILVER), rows, entry(SILVER, written=1).encoded())
    return lake


def test_a_lake_whose_tables_declare_no_retention_loses_nothing(lake: Lake) -> None:
    """Not even with --go."""
    answer = succeeded("expire", "--go", "--lake", lake.root)

    assert "no table declares how long it keeps its rows" in answer.out
    assert succeeded("expire", "--json", "--lake", lake.root).json == []


def test_a_search_names_each_file_with_what_it_is(lake: Lake) -> None:
    """A table's file and a log here; another name is in none."""
    lake.log("stream").put('{"row": "d-17"}')

    found = succeeded("forget", "--search", "d-17", "--json", "--lake", lake.root).json
    none = succeeded("forget", "--search", "d-1", "--lake", lake.root)

    kinds = {hit["kind"] for hit in found}
    assert kinds == {"a table's file", "a log, which rotates"}
    assert "0 files hold it, 0 cannot be searched" in none.out


def test_requests_are_listed_by_their_hash(lake: Lake) -> None:
    """One that was interrupted is seen."""
    assert "no request was carried out" in succeeded("forget", "--lake", lake.root).out
    keep(lake, Forgotten(mark="forget 12ab", begun_at=DONE))

    (known,) = succeeded("forget", "--json", "--lake", lake.root).json

    assert (known["mark"], known["begun_at"], known["done_at"]) == ("forget 12ab", DONE, None)


def test_a_history_is_scrubbed_an_hour_after_its_request(lake: Lake) -> None:
    """Without --go it is only counted."""
    keep(lake, Forgotten(mark="forget 12ab", begun_at=DONE, done_at=DONE))

    answer = succeeded("forget", "--scrub", "--lake", lake.root)

    assert "1 requests were carried out over an hour ago" in answer.out
    assert [request.scrubbed_at for request in requests(lake)] == [None]
    assert not requests(lake)[0].is_due(datetime.fromisoformat(DONE).replace(hour=8))


def test_one_step_at_a_time(lake: Lake) -> None:
    """Words that contradict each other, and a condition that means everybody, are refused before Spark starts."""
    both = strandline("forget", "--scrub", "--search", "x", "--lake", lake.root)
    empty = strandline("forget", "--where", " ", "--go", "--lake", lake.root)

    assert (both.code, empty.code) == (2, 2)
    assert "three steps" in both.err
    assert "needs a condition" in empty.err
