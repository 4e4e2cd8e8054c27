"""The verdict on a day's numbers: each reason that lowers it is found and named."""

from datetime import UTC, date, datetime, timedelta

import pytest

from strandline.engine.accounting.balance_sheet import Balance
from strandline.engine.accounting.history_queries import RULES, VOLUME, Batch, Mark, Range
from strandline.engine.proof.day_verdicts import Known, capped, flow, judged, kinds, versions_in
from strandline_quality.findings import Verdict

DAY = date(2026, 11, 20)
NINE = datetime(2026, 11, 20, 9, tzinfo=UTC)
LATER = datetime(2026, 11, 22, 12, tzinfo=UTC)
HOUR = timedelta(hours=1)


def hour(at: datetime = NINE, opened: str | None = None, **values: float) -> Batch:
    figures = {"read": 10.0, "good": 9.0, "quarantined": 1.0} | values
    return Batch(
        table="silver.x",
        version=0,
        mode="available-now",
        batch=0,
        at=at,
        since=None,
        until=None,
        values=figures,
        opened=opened,
        rules="",
        schema="",
    )


def silver(*hours: Batch, **named: object) -> Known:
    usual: dict[str, object] = {"hours": hours, "sources": [NINE], "now": LATER}
    return Known(**{**usual, **named})  # type: ignore[arg-type]  # a test's own values


def test_a_day_without_a_fault_is_believed() -> None:
    """A tenth of the rows held back with a reason is no fault of the table."""
    assert judged(silver(hour()), DAY) == (Verdict.BELIEVED, ())


def test_a_day_without_a_batch_is_silent_when_none_was_due() -> None:
    """There is nothing to believe or to doubt."""
    assert judged(silver(hour()), date(2026, 11, 21)) == (Verdict.SILENT, ())


def test_rows_that_are_in_no_place_make_a_day_unbalanced() -> None:
    """The arithmetic of the day alone shows them."""
    verdict, because = judged(silver(hour(good=8.0)), DAY)

    assert verdict is Verdict.UNBALANCED
    assert because == ("10 rows were read and 9 accounted for",)


def test_a_fault_of_the_ledger_counts_on_its_day_only() -> None:
    """That is the day on which the named batch was committed."""
    known = silver(hour(), faults={DAY: ["the table holds 5 rows, but 3 were written"]})

    assert judged(known, DAY)[0] is Verdict.UNBALANCED
    assert judged(known, date(2026, 11, 19))[0] is Verdict.SILENT


def test_a_shut_gate_holds_its_day_and_the_days_after_it() -> None:
    """The verdicts on earlier days do not change."""
    known = silver(hour(NINE - 24 * HOUR), hour(), shut=(DAY, "volume: 3 rows"))

    assert judged(known, date(2026, 11, 19))[0] is Verdict.BELIEVED
    assert judged(known, DAY) == (Verdict.HELD, ("volume: 3 rows",))
    assert judged(known, date(2026, 11, 21))[0] is Verdict.HELD


@pytest.mark.parametrize(
    ("sources", "now", "waiting", "verdict"),
    [
        ([NINE, NINE + 5 * HOUR], NINE + 8 * HOUR, 7, Verdict.STALE),
        ([NINE, NINE + 5 * HOUR], NINE + 8 * HOUR, 0, Verdict.BELIEVED),
        ([NINE, NINE + 5 * HOUR], NINE + 6 * HOUR, 7, Verdict.BELIEVED),
        ([NINE], NINE + 8 * HOUR, 7, Verdict.STALE),
        ([NINE], NINE + 8 * HOUR, 0, Verdict.BELIEVED),
        ([NINE, NINE + 5 * HOUR], LATER, 0, Verdict.STALE),
    ],
    ids=[
        "waits for hours",
        "nothing waits now",
        "not long enough",
        "came in the hour of the last batch",
        "was read in that hour",
        "waited when the day ended",
    ],
)
def test_rows_that_wait_too_long_make_a_day_stale(
    sources: list[datetime], now: datetime, waiting: int, verdict: Verdict
) -> None:
    """A day that ended with waiting rows stays stale."""
    known = silver(hour(), sources=sources, now=now, waiting=waiting > 0)

    assert judged(known, DAY)[0] is verdict


def test_bronze_is_stale_when_it_is_silent_for_longer_than_usual() -> None:
    """No setting has the usual gap between records of a topic; it is learnt from history."""
    hourly = [hour(NINE - n * HOUR, good=10.0, quarantined=0.0) for n in range(30, -1, -1)]
    known = silver(*hourly, sources=None, now=NINE + 9 * HOUR)
    soon = silver(*hourly, sources=None, now=NINE + 2 * HOUR)

    assert judged(known, DAY) == (
        Verdict.STALE,
        ("nothing came for 8 hours; usually for at most 2",),
    )
    assert judged(soon, DAY)[0] is Verdict.BELIEVED


@pytest.mark.parametrize(
    ("bad", "why"),
    [
        (hour(**{"failed:volume": 1.0}), "at 09:00 the expectation volume did not hold"),
        (hour(opened="a launch"), "at 09:00 the gate was opened by hand: a launch"),
    ],
)
def test_a_failed_expectation_or_an_opened_gate_is_a_warning(bad: Batch, why: str) -> None:
    """The numbers count, with the reason beside them."""
    assert judged(silver(bad), DAY) == (Verdict.WARNED, (why,))


def test_a_row_below_the_watermark_is_a_loss_and_no_warning() -> None:
    """Disordered rows are held before the watermark can drop them, so a count above 0 is a fault."""
    lost = hour(good=7.0, dropped_by_watermark=2.0)

    assert judged(silver(lost), DAY) == (
        Verdict.UNBALANCED,
        ("2 rows were dropped below Spark's watermark",),
    )


def test_an_anomaly_is_a_warning_and_an_anomaly_of_volume_only_in_bronze() -> None:
    """Twice the rows of bronze are twice the rows of every table above it; one warning is enough."""
    usual = Range(low=1, middle=2, high=3, points=20)
    volume = Mark(at=NINE, version=1, what=VOLUME, measure="read", value=9.0, usual=usual)
    rules = Mark(at=NINE + HOUR, version=2, what=RULES, measure="rules")
    known = silver(hour(), changes=[volume, rules])

    assert judged(known, DAY) == (Verdict.WARNED, ("at 10:00 rules changed",))
    assert judged(silver(hour(), changes=[volume], sources=None), DAY) == (
        Verdict.WARNED,
        ("at 09:00 9 rows read, usually 1 to 3",),
    )
    assert judged(known, date(2026, 11, 19))[0] is Verdict.SILENT


def test_a_failed_certificate_is_no_fault_of_the_balance() -> None:
    """Its books may balance; what is wrong is said in its own words."""
    known = silver(hour(), unproven=(DAY, "its rows differ"))

    assert judged(known, DAY) == (Verdict.UNPROVEN, ("its rows differ",))
    assert not Verdict.UNPROVEN.is_trusted
    assert judged(known, date(2026, 11, 19))[0] is Verdict.SILENT


@pytest.mark.whole
def test_the_worst_reason_decides_and_all_are_returned() -> None:
    """An operator who repairs one must know of the others."""
    known = silver(hour(good=8.0, opened="x"), shut=(DAY, "y"))

    verdict, because = judged(known, DAY)

    assert verdict is Verdict.UNBALANCED
    assert because == (
        "10 rows were read and 9 accounted for",
        "y",
        "at 09:00 the gate was opened by hand: x",
    )


def test_a_verdict_is_capped_by_the_tables_below() -> None:
    """Gold over a stale silver is at most a warning; a silent table stays silent."""
    below = {"silver.x": (Verdict.STALE, ()), "silver.y": (Verdict.WARNED, ())}

    assert capped((Verdict.BELIEVED, ()), below) == (
        Verdict.WARNED,
        ("rests on silver.x, which is stale",),
    )
    assert capped((Verdict.HELD, ("z",)), below)[0] is Verdict.HELD
    assert capped((Verdict.SILENT, ()), below) == (Verdict.SILENT, ())


def test_the_versions_that_a_fault_names_are_found() -> None:
    """A fault is assigned to the days of these versions."""
    assert versions_in("batch 3 (version 17) begins partition 0 at 4, not at 3") == [17]
    assert versions_in("the table holds 5 rows, but 3 were written") == []


@pytest.mark.whole
@pytest.mark.parametrize(
    ("values", "parts"),
    [
        ({"read": 0, "good": 50, "duplicates": -50}, (0, 0, 0)),
        ({"read": 100, "good": 130, "duplicates": 10, "quarantined": -40}, (90, 10, 0)),
        ({"read": 0, "good": -5, "quarantined": 5}, (0, 0, 0)),
        ({"read": 10, "good": 7, "duplicates": 2, "quarantined": 1}, (7, 2, 1)),
    ],
)
def test_a_day_counts_where_the_rows_that_it_read_went(
    values: dict[str, float], parts: tuple[int, int, int]
) -> None:
    """Rows that a backfill moved among earlier days never make a negative count; the sheet has them under healed."""
    one = flow([hour(**({"good": 0.0, "quarantined": 0.0} | values))])

    assert (one.good, one.duplicates, one.quarantined) == parts
    assert one.read == sum(parts)


def test_what_no_table_takes_is_the_first_of_the_kinds() -> None:
    """Then the commonest; a kind of which there is no record is none."""
    sheet = Balance(
        table="bronze.shop",
        kinds={"click": 900, "order_created": 1_000, "order_paid": 0},
        unrouted={"visit": 2, "refund": 1_204},
        unrouted_more=7,
        kindless=3,
        left_out={"heartbeat": 5},
    )

    assert [(each.kind, each.rows, each.goes) for each in kinds(sheet)] == [
        ("refund", 1_204, "no table takes it"),
        ("further kinds", 7, "no table takes it"),
        ("without a kind", 3, "no table takes it"),
        ("visit", 2, "no table takes it"),
        ("order_created", 1_000, "a table takes it"),
        ("click", 900, "a table takes it"),
        ("heartbeat", 5, "left on purpose"),
    ]
