"""The report says what the ledger says, of the days that were asked for, and whether they can be trusted."""

import json
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

import pytest
from deltalake import DeltaTable

from jobs.core.table import Table
from jobs.run.balance import balance
from jobs.run.certificate import Certificate, keep
from jobs.run.lake import Lake
from jobs.run.trust import Period, gather, newest_day
from quality.report.findings import Flow, Gate, TableFindings, Verdict
from tests.run.written import BRONZE, GOLD, SILVER
from tests.support.days import Came, Held, lived, receive

TABLES = (BRONZE, SILVER, GOLD)
FIRST, SECOND = date(2026, 11, 20), date(2026, 11, 21)
NINE = datetime(2026, 11, 20, 9, tzinfo=UTC)
NOW = datetime(2026, 11, 21, 12, tzinfo=UTC)
DAY = timedelta(days=1)
LATE = Held(reasons=("late",), payload=b'{"event_id":"e1"}')
BROKEN = Held(reasons=("missing:value", "late"), payload=b"{}")
PAST = [
    Came(at=NINE, good=3, duplicates=1, held=[LATE]),
    Came(at=NINE + timedelta(hours=1), good=4, held=[LATE, BROKEN]),
    Came(at=NINE + DAY, good=5, duplicates=2),
]
BOTH = Period(since=FIRST, until=SECOND + DAY, now=NOW)


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    """Return a lake with two days that balance."""
    return lived(tmp_path / "lake", PAST)


def of(table: Table, lake: Lake, period: Period = BOTH) -> TableFindings:
    found = gather(lake, TABLES, period)
    return next(each for each in found.tables if each.table == table.id)


@pytest.mark.parametrize("table", TABLES, ids=str)
def test_the_sheet_is_that_of_the_ledger(table: Table, lake: Lake) -> None:
    """One number in two places must be one number."""
    sheet, ledger = of(table, lake).sheet, balance(table, lake)

    assert sheet.flow == Flow(
        read=ledger.read,
        good=ledger.good,
        duplicates=ledger.duplicates,
        quarantined=sum(ledger.quarantined.values()),
        dropped=ledger.dropped_by_watermark,
    )
    assert (sheet.rows, sheet.waiting, sheet.batches) == (
        ledger.rows,
        ledger.waiting,
        ledger.batches,
    )
    assert sheet.balanced


@pytest.mark.parametrize("table", TABLES, ids=str)
def test_days_and_hours_add_up_to_the_sheet(table: Table, lake: Lake) -> None:
    """What a day was worth and what a table is worth are counted from the same entries."""
    found = of(table, lake)

    assert sum((day.flow for day in found.days), Flow()) == found.sheet.flow
    assert sum((hour.flow for hour in found.hours), Flow()) == found.sheet.flow == found.flow


def test_a_report_of_a_day_speaks_of_that_day(lake: Lake) -> None:
    """The other days stand beside it for comparison only."""
    found = gather(lake, TABLES, Period(since=FIRST, until=SECOND, now=NOW))
    silver = found.tables[1]

    assert found.sentence == "The numbers of 20 November 2026 can be trusted."
    assert (found.verdict, found.because) == (Verdict.BELIEVED, ())
    assert (found.arrived, found.judged) == (
        11,
        Flow(read=11, good=7, duplicates=1, quarantined=3),
    )
    assert silver.flow == found.judged
    assert [(each.reason, each.rows) for each in silver.reasons] == [
        ("late", 2),
        ("missing:value", 1),
    ]
    assert [(each.rule, each.rows) for each in silver.failing] == [
        ("late", 2),
        ("missing:value", 1),
    ]
    assert [day.day for day in silver.days][-1] == "2026-11-20"


def test_rules_are_counted_as_the_ledger_counts_them_where_it_does(tmp_path: Path) -> None:
    """A row that breaks two rules counts under both, and one that is only warned of counts as well."""
    told = {"broke": {"late": 1, "missing:value": 1, "odd:signal": 2}}
    lake = lived(tmp_path, [Came(at=NINE, good=3, held=[BROKEN], told=told)])

    found = of(SILVER, lake)

    assert {each.rule: each.rows for each in found.failing} == told["broke"]
    assert found.failing[0].share == 0.5
    assert [each.reason for each in found.reasons] == ["missing:value"]


def test_rows_that_somebody_deleted_make_the_numbers_untrustworthy(lake: Lake) -> None:
    """And what rests on them is told of it."""
    DeltaTable(lake.table(SILVER)).delete("event_id = '2-0'")

    found = gather(lake, TABLES, BOTH)

    assert found.verdict is Verdict.UNBALANCED
    assert found.sentence == (
        "The numbers of 20 to 21 November 2026 cannot be trusted: "
        "silver.device_telemetry is unbalanced."
    )
    assert found.because[0] == (
        "silver.device_telemetry: 21 November, the table holds 11 rows, but 12 were written"
    )
    assert found.tables[2].because == (
        "21 November, rests on silver.device_telemetry, which is unbalanced",
    )


def test_rows_that_nobody_has_read_make_it_stale(lake: Lake) -> None:
    """Bronze went on, silver did not."""
    receive(lake, Came(at=NINE + DAY, good=6), 3)

    found = of(SILVER, lake, Period(since=SECOND, until=SECOND + DAY, now=NOW))

    assert found.verdict is Verdict.STALE
    assert found.sheet.waiting == 6
    assert found.because == ("rows have waited since 2026-11-21 09:00",)


def test_a_shut_gate_is_asked_of_whoever_knows(lake: Lake) -> None:
    """One function; there may be gates of another kind one day."""

    def shut(table: Table, _: Lake) -> Gate | None:
        why = "only 3 rows came"
        return Gate(since=NOW.isoformat(), why=why) if table is SILVER else None

    found = gather(lake, TABLES, BOTH, shut=shut)

    assert found.verdict is Verdict.HELD
    assert [day.verdict for day in found.tables[1].days][-2:] == [Verdict.BELIEVED, Verdict.HELD]
    assert "silver.device_telemetry: 21 November, only 3 rows came" in found.because


def test_a_certificate_that_found_a_difference_is_not_overlooked(lake: Lake) -> None:
    """Balanced is not yet right."""
    bad = Certificate(
        table=GOLD.id,
        equal=False,
        rows=1,
        splits=1,
        kills=0,
        seed=1,
        offsets={},
        versions={},
        code="x",
        at=NOW.isoformat(),
        seconds=1.0,
    )
    keep(bad, GOLD, lake)

    found = of(GOLD, lake)

    assert found.verdict is Verdict.UNBALANCED
    assert found.proof is not None
    assert found.proof.standing == "NOT EQUAL, by other code"


def test_days_without_a_batch_are_told_as_such(lake: Lake) -> None:
    """Nothing was written, so nothing is wrong, and nothing is right."""
    then = Period(since=date(2026, 11, 18), until=date(2026, 11, 19), now=NOW)

    found = gather(lake, TABLES, then)

    assert (found.verdict, found.sentence) == (
        Verdict.SILENT,
        "Nothing was written on 18 November 2026.",
    )


def test_the_last_day_on_which_something_was_written_is_known(lake: Lake) -> None:
    """It is the day of the report when none is named."""
    assert newest_day(TABLES, lake) == SECOND


def test_the_structure_goes_through_json_and_says_the_rules_with_their_columns(lake: Lake) -> None:
    """Programs read what people see."""
    told = json.loads(json.dumps(gather(lake, TABLES, BOTH).as_json()))

    rules = {rule["rule"]: rule for rule in told["tables"][1]["rules"]}
    assert rules["missing:value"]["holds"] == "`value` IS NOT NULL"
    assert rules["late"]["holds"] == "event_at is at most 1 h before the arrival"
    assert told["tables"][1]["quarantine"]["rows"] == 3
