"""The metrics of a ledger are those of ``strandline ledger``, and each look reads what is new."""

import shutil
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random

import pytest

from strandline.engine.accounting.balance_sheet import balance, waiting
from strandline.engine.accounting.table_books import close
from strandline.engine.lake.completeness import Retirement, write_down
from strandline.engine.lake.lake import Lake
from strandline.engine.lake.log import ledger_sums
from strandline.engine.lake.log.commit_log import committed_at
from strandline.engine.service import metrics
from strandline.engine.service.metrics import LedgerFigures
from tests.engine.written import BRONZE, GOLD, SILVER, entry, numbers, small_lake, written
from tests.support.ledgers import histories, made, write_log

TABLES = (BRONZE, SILVER, GOLD)
LAG, BEHIND = (each.name.removeprefix("strandline_") for each in (metrics.LAG, metrics.BEHIND))
NOW = datetime(2026, 11, 25, 12, tzinfo=UTC)


def seen(
    figures: LedgerFigures, now: datetime = NOW, **behind: int
) -> dict[tuple[str, ...], float]:
    figures.follow()
    found = figures.samples({f"bronze.{name}": rows for name, rows in behind.items()}, now)
    return {
        (each.metric.name.removeprefix("strandline_"), *each.labels): each.value for each in found
    }


def test_the_figures_are_those_of_the_balance_sheet(tmp_path: Path) -> None:
    lake = small_lake(tmp_path)

    found = seen(LedgerFigures(TABLES, lake))

    for table in TABLES:
        sheet = balance(table, lake)
        assert found["rows_read_total", table.id] == sheet.read > 0
        assert found["batches_total", table.id] == sheet.batches
        rows = {
            "good": sheet.good,
            "duplicate": sheet.duplicates,
            "quarantined": sum(sheet.quarantined.values()),
            "dropped": sheet.dropped_by_watermark,
            "lost": sheet.lost_by_function,
            "made": sheet.made_by_function,
        }
        assert {name: found["ledger_rows", table.id, name] for name in rows} == rows
        held = {why: found["quarantined_rows", table.id, why] for why in sheet.quarantined}
        assert held == sheet.quarantined
        assert found["ledger_balanced", table.id] == sheet.balanced


def test_a_retired_table_is_behind_nothing(tmp_path: Path) -> None:
    """No alarm about what it has not read; its books are watched on."""
    lake = small_lake(tmp_path)
    before = seen(LedgerFigures(TABLES, lake))
    write_down(GOLD.id, Retirement(who="ann", at=NOW.isoformat(), why="enough"), lake)

    after = seen(LedgerFigures(TABLES, lake))

    gone = {each for each in before if each not in after}
    assert gone <= {(LAG, GOLD.id), (BEHIND, GOLD.id)}
    assert (LAG, GOLD.id) in gone
    assert ("ledger_balanced", GOLD.id) in after


@pytest.mark.whole
def test_looks_at_a_lake_that_grows_add_up_to_one_look_at_its_end(tmp_path: Path) -> None:
    """Random logs with repairs, replacements and maintenance; what is unread is what `strandline ledger` calls waiting."""
    lake, logs = Lake(tmp_path), histories(40, Random(11))  # noqa: S311  # a test's own
    figures = LedgerFigures(TABLES, lake)
    assert seen(figures) == {}
    half = len(logs[SILVER]) // 2
    for table, first, last in (
        (BRONZE, 0, None),
        (SILVER, 0, half),
        (SILVER, half, None),
        (GOLD, 0, None),
    ):
        write_log(lake.table(table), logs[table][first:last], first)
        seen(figures)

    found = seen(figures)

    assert found == seen(LedgerFigures(TABLES, lake))
    for table in (SILVER, GOLD):
        assert found["table_lag_rows", table.id] == waiting(table, lake)


def test_a_row_that_is_in_no_place_is_counted(tmp_path: Path) -> None:
    """By how many, and which table; `strandline ledger` then names the batch."""
    lake = small_lake(tmp_path)
    figures = LedgerFigures(TABLES, lake)
    assert seen(figures)["ledger_balanced", GOLD.id] == 1
    bad = entry(GOLD, batch=1, versions={SILVER.id: (0, 0)}, read=3, good=1, written=1)
    written(lake.table(GOLD), numbers(1), bad.encoded())

    found = seen(figures)

    assert found["ledger_balanced", GOLD.id] == 0
    assert found["ledger_unaccounted_rows", GOLD.id] == 2
    assert found["ledger_faults", GOLD.id] > 0
    assert found["ledger_balanced", SILVER.id] == 1


def test_a_table_is_behind_since_the_oldest_commit_that_it_has_not_read(tmp_path: Path) -> None:
    """A commit of maintenance before it has no rows, so it is not counted."""
    lake = small_lake(tmp_path)
    figures = LedgerFigures(TABLES, lake)
    assert seen(figures)["table_lag_seconds", SILVER.id] == 0
    written(lake.table(BRONZE), [])  # by another tool: no entry
    for batch, offsets in enumerate([(5, 9), (9, 11)], 2):
        count = offsets[1] - offsets[0]
        more = entry(
            BRONZE, batch=batch, offsets={"0": offsets}, read=count, good=count, written=count
        )
        written(lake.table(BRONZE), numbers(count), more.encoded())
    oldest = committed_at(lake.table(BRONZE), 3)

    found = seen(figures, oldest + timedelta(seconds=40))

    assert found["table_lag_rows", SILVER.id] == 6
    assert found["table_lag_seconds", SILVER.id] == 40
    assert found["table_lag_seconds", GOLD.id] == 0


def test_bronze_is_behind_since_its_newest_arrival_as_far_as_its_stream_measures_it(
    tmp_path: Path,
) -> None:
    """Without a stream, no broker is asked, and nothing is said."""
    lake = small_lake(tmp_path)
    arrival = (NOW - timedelta(seconds=90)).isoformat()
    more = entry(
        BRONZE, batch=2, offsets={"0": (5, 6)}, read=1, good=1, written=1, newest_arrival=arrival
    )
    written(lake.table(BRONZE), numbers(1), more.encoded())
    figures = LedgerFigures(TABLES, lake)

    assert ("table_lag_rows", BRONZE.id) not in seen(figures)
    assert seen(figures, device_telemetry=0)["table_lag_seconds", BRONZE.id] == 0
    assert seen(figures, device_telemetry=7)["table_lag_seconds", BRONZE.id] == 90


@pytest.mark.whole
def test_a_look_reads_what_is_new_and_the_first_one_since_the_books_were_closed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However long the history is."""
    lake, logs = Lake(tmp_path), histories(60, Random(3))  # noqa: S311  # a test's own
    made(lake, logs)
    close(lake, TABLES, every=1)
    read = list[int]()
    entry_at = ledger_sums.entry_at
    monkeypatch.setattr(
        ledger_sums,
        "entry_at",
        lambda path, version: read.append(version) or entry_at(path, version),
    )
    figures = LedgerFigures(TABLES, lake)

    first = seen(figures)
    assert read == []
    more = entry(BRONZE, batch=999, read=7, good=7, written=7)
    write_log(lake.table(BRONZE), [more], len(logs[BRONZE]))
    then = seen(figures)

    assert read == [len(logs[BRONZE])]
    assert then["rows_read_total", BRONZE.id] == first["rows_read_total", BRONZE.id] + 7


def test_a_lake_that_was_made_again_is_read_again(tmp_path: Path) -> None:
    """Its tables have other figures, and their versions begin anew."""
    lake = small_lake(tmp_path / "lake")
    figures = LedgerFigures(TABLES, lake)
    assert seen(figures)["rows_read_total", BRONZE.id] == 5
    shutil.rmtree(tmp_path / "lake")
    assert seen(figures) == {}
    one = entry(BRONZE, offsets={"0": (0, 2)}, read=2, good=2, written=2)
    written(lake.table(BRONZE), numbers(2), one.encoded())

    assert seen(figures)["rows_read_total", BRONZE.id] == 2
