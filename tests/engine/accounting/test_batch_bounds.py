"""A suite gets the usual figures of a batch from history, and no bounds while they are unknown."""

from pathlib import Path

import pytest

from strandline.engine.accounting.batch_check import Usual
from strandline.engine.accounting.commit_history import catch_up
from strandline.engine.lake.lake import Lake
from strandline_quality.expectations import HELD_SHARE, VOLUME, Bounds, Counts, of_counters
from strandline_quality.rules import Severity
from strandline_quality.suite import Suite
from tests.engine.written import SILVER
from tests.support.days import HOUR, NINE, TABLES, Came, Held, lived

LATE = Held(reasons=("late",), payload=b"{}")


def bounds(lake: Lake, after: int) -> Bounds:
    return Usual(SILVER, lake, lambda: NINE + after * HOUR).bounds()


def hours(root: Path, count: int) -> Lake:
    return lived(
        root, [Came(at=NINE + n * HOUR, good=99, held=[LATE]) for n in range(count)], gold=False
    )


def unusual(rows: int, held: int, known: Bounds) -> list[tuple[str, Severity]]:
    figures = {VOLUME: float(rows), HELD_SHARE: held / rows, "unread": 0.0, "refused_by_state": 0.0}
    suite = Suite("silver.usual", of_counters((), ()))
    found = suite.of_counts(Counts(rows=rows, figures=figures), known)
    return [(each.name, each.severity) for each in found if not each.holds]


@pytest.mark.whole
def test_an_unusual_batch_is_reported_and_stops_nothing(tmp_path: Path) -> None:
    """After twenty hours with a hundred rows, one of them held back, another volume or share is worth a warning."""
    lake = hours(tmp_path, 20)
    catch_up(lake, TABLES)

    known = bounds(lake, 30)

    assert known[VOLUME] == (90.0, 110.0)
    assert unusual(100, 1, known) == []
    assert unusual(1000, 10, known) == [(VOLUME, Severity.WARNING)]
    assert unusual(100, 9, known) == [(HELD_SHARE, Severity.WARNING)]


@pytest.mark.whole
def test_nothing_is_unusual_while_there_is_little_history_or_none(tmp_path: Path) -> None:
    young, unread = hours(tmp_path / "young", 13), hours(tmp_path / "unread", 20)
    catch_up(young, TABLES)

    assert bounds(young, 30) == bounds(unread, 30) == {}
    assert unusual(1000, 900, {}) == []


def test_history_that_cannot_be_read_gives_no_bounds(tmp_path: Path) -> None:
    """A stream must not stop for a warning."""
    lake = hours(tmp_path, 20)
    catch_up(lake, TABLES)
    for file in lake.history.local.rglob("*.parquet"):
        file.write_bytes(b"no parquet")

    assert bounds(lake, 30) == {}


def test_history_is_read_once_an_hour(tmp_path: Path) -> None:
    lake = hours(tmp_path, 20)
    now = [NINE + 30 * HOUR]
    usual = Usual(SILVER, lake, lambda: now[0])
    before = usual.bounds()
    catch_up(lake, TABLES)

    same_hour = usual.bounds()
    now.append(now.pop() + HOUR)

    assert before == same_hour == {}
    assert usual.bounds()[VOLUME] == (90.0, 110.0)
