"""The report has the ledger's figures of the chosen days, and a verdict on whether they can be trusted."""

import json
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

import pytest
from deltalake import DeltaTable

from strandline.core.kind import Day
from strandline.core.table import Table
from strandline.engine.accounting.balance_sheet import balance
from strandline.engine.flow import readers
from strandline.engine.flow.readers import Danger, Level
from strandline.engine.lake.completeness import Retirement, write_down
from strandline.engine.lake.lake import Lake
from strandline.engine.proof.certificate import Certificate, keep
from strandline.engine.proof.daily_report import Period, gather, newest_day
from strandline_quality.findings import Flow, Gate, TableFindings, Verdict
from strandline_quality.page import _steps, pictures
from tests.engine.written import BRONZE, GOLD, SILVER
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


def test_the_report_has_for_each_reader_the_partition_that_the_radar_saw_nearest_to_a_loss(
    lake: Lake,
) -> None:
    """It needs no broker: the radar keeps what it saw last."""
    assert gather(lake, TABLES, BOTH).unread == ()
    safe = Danger(reader=BRONZE.id, source="t/0", unread=2, level=Level.SAFE, says="kept")
    soon = Danger(
        reader=BRONZE.id,
        source="t/1",
        unread=3,
        goes_at="x",
        seconds=9,
        level=Level.SOON,
        says="goes",
    )
    of_a_table = Danger(reader=SILVER.id, source=BRONZE.id, unread=9, level=Level.SAFE, says="")
    readers.keep(lake, [safe, soon, of_a_table], NOW)

    (found,) = gather(lake, TABLES, BOTH).unread
    assert (found.reader, found.unread, found.goes_at) == (BRONZE.id, 5, "x")
    assert (found.level, found.says) == ("soon", "t/1: goes")
    assert found.seen_at == NOW.isoformat()


@pytest.mark.whole
@pytest.mark.parametrize("table", TABLES, ids=str)
def test_the_sheet_is_that_of_the_ledger(table: Table, lake: Lake) -> None:
    """The report and the ledger must show the same numbers."""
    sheet, ledger = of(table, lake).sheet, balance(table, lake)

    assert sheet.flow == Flow(
        read=ledger.read,
        good=ledger.good,
        duplicates=ledger.duplicates,
        quarantined=sum(ledger.quarantined.values()),
        dropped=ledger.dropped_by_watermark,
        lost=ledger.lost_by_function,
        made=ledger.made_by_function,
    )
    assert (sheet.rows, sheet.waiting, sheet.batches) == (
        ledger.rows,
        ledger.waiting,
        ledger.batches,
    )
    assert sheet.balanced


@pytest.mark.whole
@pytest.mark.parametrize("table", TABLES, ids=str)
def test_days_and_hours_add_up_to_the_sheet(table: Table, lake: Lake) -> None:
    """Figures of days and figures of a table are counted from the same entries."""
    found = of(table, lake)

    assert sum((day.flow for day in found.days), Flow()) == found.sheet.flow
    assert sum((hour.flow for hour in found.hours), Flow()) == found.sheet.flow == found.flow


@pytest.mark.whole
def test_a_report_of_a_day_judges_that_day(lake: Lake) -> None:
    """The other days are shown for comparison only."""
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


def test_a_table_of_local_days_is_judged_by_them(tmp_path: Path) -> None:
    """At 20:00 it is five in the morning of the next day in Osaka; the tables below keep the days of UTC."""
    own = replace(GOLD, window=Day("Asia/Tokyo"))
    past = [Came(at=NINE, good=3), Came(at=NINE + timedelta(hours=11), good=4)]
    lake = lived(tmp_path, [*past, Came(at=NINE + DAY, good=5)])

    found = gather(lake, (BRONZE, SILVER, own), BOTH)

    by_table = {each.table: each for each in found.tables}
    read = {name: [day.flow.read for day in each.days][-2:] for name, each in by_table.items()}
    assert read == {BRONZE.id: [7, 5], SILVER.id: [7, 5], GOLD.id: [3, 9]}
    gold = by_table[GOLD.id]
    assert gold.own_day == ("2026-11-19T15:00:00+00:00", "2026-11-21T15:00:00+00:00")
    assert by_table[SILVER.id].own_day is None
    assert gold.about.endswith("Its days are those of Asia/Tokyo.")
    assert sum((day.flow for day in gold.days), Flow()) == gold.flow
    drawn = pictures(gold, found)
    assert drawn.ends == ["19 Nov 15:00", "21 Nov 15:00"]
    assert drawn.most == 5


def test_the_page_has_a_bar_for_each_hour_of_a_day_of_twenty_three(tmp_path: Path) -> None:
    """And for each of a day of twenty-five, which no number of days makes up."""
    lake = lived(tmp_path, [Came(at=datetime(2026, 3, 28, 22, tzinfo=UTC), good=3)])
    own = replace(GOLD, window=Day("Europe/Helsinki"))
    for day, hours in ((date(2026, 3, 29), 23), (date(2026, 10, 25), 25)):
        found = gather(lake, (own,), Period(since=day, until=day + DAY, now=NOW))
        picture = str(pictures(found.tables[0], found).volume)
        assert found.tables[0].flow.read == (3 if hours == 23 else 0)
        assert len(_steps(found.tables[0].own_day or ("", ""))[0]) == hours + 1, picture


@pytest.mark.whole
def test_broken_rules_have_the_ledger_s_counts_if_it_has_any(tmp_path: Path) -> None:
    """A row that breaks two rules counts under both, and a row with only a warning counts as well."""
    counts = {"broke": {"late": 1, "missing:value": 1, "odd:signal": 2}}
    lake = lived(tmp_path, [Came(at=NINE, good=3, held=[BROKEN], extra=counts)])

    found = of(SILVER, lake)

    assert {each.rule: each.rows for each in found.failing} == counts["broke"]
    assert found.failing[0].share == 0.5
    assert [each.reason for each in found.reasons] == ["missing:value"]


@pytest.mark.whole
def test_deleted_rows_make_the_numbers_untrustworthy(lake: Lake) -> None:
    """The tables downstream name the reason."""
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


@pytest.mark.whole
def test_unread_rows_make_a_table_stale(lake: Lake) -> None:
    """Bronze received more rows, silver did not read them."""
    receive(lake, Came(at=NINE + DAY, good=6), 3)

    found = of(SILVER, lake, Period(since=SECOND, until=SECOND + DAY, now=NOW))

    assert found.verdict is Verdict.STALE
    assert found.sheet.waiting == 6
    assert found.because == ("rows have waited since 2026-11-21 09:00",)
    write_down(found.table, Retirement(who="ann", at=NOW.isoformat(), why="enough"), lake)
    later = Period(since=SECOND, until=SECOND + 3 * DAY, now=NOW + 2 * DAY)
    ended = of(SILVER, lake, later)
    assert ended.because == (), "neither on that day nor on later ones"
    assert ended.about.startswith(f"Retired by ann at {NOW.isoformat()}: enough. ")


@pytest.mark.whole
def test_the_caller_decides_which_gates_are_shut(lake: Lake) -> None:
    """By one function, so that gates of another kind can be added."""

    def shut(table: Table, _: Lake) -> Gate | None:
        why = "only 3 rows came"
        return Gate(since=NOW.isoformat(), why=why) if table is SILVER else None

    found = gather(lake, TABLES, BOTH, shut=shut)

    assert found.verdict is Verdict.HELD
    assert [day.verdict for day in found.tables[1].days][-2:] == [Verdict.BELIEVED, Verdict.HELD]
    assert "silver.device_telemetry: 21 November, only 3 rows came" in found.because


@pytest.mark.whole
def test_a_certificate_with_a_difference_makes_a_table_unproven(lake: Lake) -> None:
    """A balanced ledger is not enough."""
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

    assert found.verdict is Verdict.UNPROVEN
    assert found.proof is not None
    assert found.proof.standing == "NOT EQUAL, by other code"


@pytest.mark.whole
def test_days_without_a_batch_are_silent(lake: Lake) -> None:
    """Nothing was written, so there is nothing to judge."""
    then = Period(since=date(2026, 11, 18), until=date(2026, 11, 19), now=NOW)

    found = gather(lake, TABLES, then)

    assert (found.verdict, found.sentence) == (
        Verdict.SILENT,
        "Nothing was written on 18 November 2026.",
    )


@pytest.mark.whole
def test_the_newest_day_is_that_of_the_last_commit(lake: Lake) -> None:
    """A report without a named day is of this day."""
    assert newest_day(TABLES, lake) == SECOND


@pytest.mark.whole
def test_the_structure_survives_json_and_has_the_rules_with_their_columns(lake: Lake) -> None:
    """Programs read what people see."""
    report = json.loads(json.dumps(gather(lake, TABLES, BOTH).as_json()))

    rules = {rule["rule"]: rule for rule in report["tables"][1]["rules"]}
    assert rules["missing:value"]["holds"] == "`value` IS NOT NULL"
    assert rules["late"]["holds"] == "event_at is at most 1 h before the arrival"
    assert report["tables"][1]["quarantine"]["rows"] == 3
