"""A report names the rows of closed days that are not what they were, and the moment of which its sums are."""

from collections.abc import Mapping, Sequence
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Literal

import pytest

from strandline.engine.ask.moments import note
from strandline.engine.lake.duckdb_table import changed_files
from strandline.engine.lake.lake import Lake
from strandline.engine.lake.log.ledger import EXPIRE, Entry, entry_at, latest_version
from strandline.engine.lake.place import Place
from strandline.engine.proof import revised
from strandline.engine.proof.daily_report import Period, gather
from strandline_quality.findings import Revision
from strandline_quality.page import page
from tests.engine.written import BRONZE, GOLD, SILVER, entry, written
from tests.support.days import Came, dated, lived, receive

DAY = timedelta(days=1)
FIRST = datetime(2026, 11, 20, tzinfo=UTC)
SECOND, THIRD = FIRST + DAY, FIRST + 2 * DAY
NINE = timedelta(hours=9)
REPAIR = {"mode": "backfill", "since": FIRST.isoformat(), "until": SECOND.isoformat()}
TABLES = (BRONZE, SILVER, GOLD)


def window(device: str, at: datetime, readings: int) -> dict[str, object]:
    return {"device_id": device, "signal": "t", "window_from": at, "readings": readings}


OLD = [window("d1", FIRST + NINE, 1), window("d2", FIRST + NINE, 2)]
NEW = [window("d1", SECOND + NINE, 3)]


class Lived:
    """A lake with a gold table alone, whose first day was over when the second began."""

    def __init__(self, root: Path) -> None:
        """Commit the windows of two days, each on its day."""
        self.lake = Lake(Place.of(root))
        self.commit(OLD, FIRST + 2 * NINE)
        self.commit(NEW, SECOND + 2 * NINE)

    def commit(
        self,
        rows: Sequence[Mapping[str, object]],
        at: datetime,
        how: Literal["append", "overwrite"] = "append",
        **fields: object,
    ) -> None:
        """Commit rows at a moment; an entry says how many."""
        path = self.lake.table(GOLD)
        known = {"batch": latest_version(path) + 1, "written": len(rows), **fields}
        written(path, rows, entry(GOLD, **known).encoded(), mode=how)
        dated(path, at)

    def repaired(self, at: datetime, readings: int = 20) -> None:
        """Let a backfill of the first day give the second device another count."""
        rows = [OLD[0], window("d2", FIRST + NINE, readings), *NEW]
        self.commit(rows, at, "overwrite", came=1, gone=1, **REPAIR)

    def revisions(self, day: datetime = SECOND) -> tuple[Revision, ...]:
        """Return what the report of a day says, made at six the next morning; its page stays in the lake."""
        now = day + DAY + timedelta(hours=6)
        period = Period(since=day.date(), until=(day + DAY).date(), now=now)
        found = gather(self.lake, (GOLD,), period)
        self.lake.report(day.date().isoformat()).put(page(found))
        return found.revisions


@pytest.fixture
def past(tmp_path: Path) -> Lived:
    return Lived(tmp_path / "lake")


def test_a_backfill_of_a_closed_day_is_named_with_its_rows_and_what_shows_them(past: Lived) -> None:
    """Once: the next report is about what has come since this one."""
    past.repaired(SECOND + 2 * NINE + timedelta(hours=1))

    (found,) = past.revisions()

    assert (found.table, found.rows, found.days) == (GOLD.id, 1, ("2026-11-20", "2026-11-20"))
    assert (
        found.because == "a backfill of 2026-11-20T00:00:00+00:00 to 2026-11-21T00:00:00+00:00 (1)"
    )
    assert found.command == f"strandline diff {GOLD.id} --from 1 --to 2"
    assert "1 row of 2026-11-20 not what they were" in found.sentence
    past.commit([window("d1", THIRD + NINE, 4)], THIRD + NINE)
    assert past.revisions(THIRD) == ()


def test_what_is_changed_back_is_what_it_was(past: Lived) -> None:
    past.repaired(SECOND + 2 * NINE + timedelta(hours=1))
    past.repaired(SECOND + 2 * NINE + timedelta(hours=2), readings=2)

    assert past.revisions() == ()


def test_late_events_change_what_was_reported_and_make_whole_what_was_not(past: Lived) -> None:
    """What came to a day before it was in any report is no change of it; a row that was there and is otherwise always is."""
    late = window("d3", FIRST + NINE, 7)
    past.commit([late], SECOND + 2 * NINE + timedelta(hours=1))
    assert past.revisions() == ()

    later = [window("d1", FIRST + NINE, 9), OLD[1], late, window("d4", SECOND + NINE, 1), *NEW]
    past.commit(later, THIRD + NINE, "overwrite", changed=None)
    (found,) = past.revisions(THIRD)

    assert (found.rows, found.days) == (2, ("2026-11-20", "2026-11-21"))
    assert found.causes == ((revised.LATE, 2),)


def test_a_batch_that_changed_open_days_alone_is_not_looked_at(past: Lived) -> None:
    """Its entry says which time it changed; retention is no news either."""
    micros = int((SECOND + NINE).timestamp() * 1e6)
    at = SECOND + 2 * NINE + timedelta(hours=1)
    wrong = [window("d1", FIRST + NINE, 99), OLD[1], *NEW]  # as if: no run does that
    past.commit(wrong, at, "overwrite", changed=(micros, micros))
    past.commit(NEW, at + timedelta(hours=1), "overwrite", mode=EXPIRE, expired=2)

    assert past.revisions() == ()


def test_only_commits_since_the_last_report_are_read(
    past: Lived, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And of these the ones that have to do with closed days."""
    for minute in range(30):
        past.commit([window("d1", SECOND + NINE, minute)], SECOND + 2 * NINE + minute * DAY / 1440)
    past.repaired(SECOND + 2 * NINE + timedelta(hours=1))
    read = list[int]()

    def noticed(path: Place, version: int) -> Entry | None:
        read.append(version)
        return entry_at(path, version)

    monkeypatch.setattr(revised, "entry_at", noticed)

    (found,) = past.revisions()

    assert read == [32]
    assert (found.since, found.until) == (31, 32)


def test_rows_that_cannot_be_compared_are_not_counted(
    past: Lived, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Their files are gone, or too many; the reason and the versions are known all the same."""
    past.repaired(SECOND + 2 * NINE + timedelta(hours=1))
    monkeypatch.setattr(revised, "MOST_ROWS", 2)
    (found,) = past.revisions()
    assert (found.rows, found.since, found.until) == (None, 1, 2)
    assert "rows not what they were, by a backfill" in found.sentence

    monkeypatch.undo()
    for file in changed_files(past.lake.table(GOLD), 2, 2)[1]:
        Place.of(file.path).remove_file()
    (found,) = past.revisions()
    assert (found.rows, found.causes[0][1]) == (None, None)


def test_a_table_that_was_made_since_has_no_former_numbers(tmp_path: Path) -> None:
    lake = Lake(Place.of(tmp_path / "lake"))
    written(lake.table(GOLD), OLD, entry(GOLD, written=2).encoded())
    dated(lake.table(GOLD), SECOND + NINE)
    period = Period(since=SECOND.date(), until=THIRD.date(), now=THIRD)

    assert gather(lake, (GOLD,), period).revisions == ()


@pytest.mark.parametrize("text", ["", "no page", '"made_at": "soon"'])
def test_a_page_that_says_nothing_of_its_time_is_none(past: Lived, text: str) -> None:
    """The day itself is then the bound; a page of the day, or of one after it, is not of before."""
    past.lake.report("2026-11-20").put(text)
    past.lake.report("2026-11-21").put('"made_at":"2026-11-21T23:00:00+00:00"')

    seen = revised.last_seen(past.lake, SECOND.date())

    assert (seen.at, seen.in_report) == (SECOND, False)
    assert revised.last_seen(past.lake, THIRD.date()).in_report


@pytest.fixture
def balanced(tmp_path: Path) -> Lake:
    """Return a lake whose tables are level."""
    return lived(tmp_path / "level", [Came(at=FIRST + NINE, good=3), Came(at=SECOND, good=2)])


def test_the_sums_are_as_of_a_moment_where_tables_are_level(balanced: Lake) -> None:
    """Otherwise the tables are named that have gone on."""
    period = Period(since=date(2026, 11, 20), until=date(2026, 11, 22), now=THIRD)
    noted = note(balanced, TABLES, "a test")
    assert noted is not None

    found = gather(balanced, TABLES, period).as_of
    assert found is not None
    assert (found.moment, found.beyond, found.behind) == (1, (), ())
    assert found.sentence.startswith("The sums of all tables are as of moment 1 of 2026-11-21")

    receive(balanced, Came(at=SECOND + NINE, good=4), 2)
    found = gather(balanced, TABLES, period).as_of
    assert found is not None
    assert (found.moment, found.beyond) == (1, (BRONZE.id,))
    assert f"Sums of {BRONZE.id} are of later versions" in found.sentence
    assert "as of moment" not in found.sentence


def test_a_lake_without_a_moment_has_a_report(past: Lived) -> None:
    period = Period(since=SECOND.date(), until=THIRD.date(), now=THIRD)

    assert gather(past.lake, (), period).as_of is None
