"""Tables in SQL in the flow: a WHERE of silver passes records over and counts them, and lineage reads a plan of SQL as any other."""

from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import orjson
import pytest
from pyspark.sql import SparkSession
from strandline import sql

from fleet.bronze import device_telemetry as bronze
from fleet.gold import confirmed_logins, device_daily, device_signal_10m
from strandline.core.stateful import AvailableNow
from strandline.core.table import Judged
from strandline.engine.accounting.balance_sheet import balance
from strandline.engine.flow.function_plan import derive_lineage
from strandline.engine.flow.preflight import Answer, judge, needs_look
from strandline.engine.lake.lake import Lake
from strandline.engine.lake.log.ledger_sums import sums_of
from strandline_quality.rules import required
from tests.support import fleet_in_sql
from tests.support.events import Event, received
from tests.support.modes import derive, in_every_mode
from tests.support.rows import NOON, rows

MORNING = NOON - timedelta(hours=2)

ORDERS = Judged(
    name="device_telemetry",
    reads=(bronze.TABLE,),
    transform=sql(
        """
        SELECT id, at, amount * 2 AS twice
        FROM {device_telemetry} AS orders
        WHERE NOT is_test  -- from the shop's own staff
          AND orders.amount BETWEEN 1 AND 100
        """,
        fields="id string, at timestamp, amount bigint, is_test boolean",
    ),
    key=("id",),
    event_at="at",
    rules=required("id", "at"),
)
OF_TEST, OF_AMOUNT = "WHERE NOT is_test", "WHERE orders.amount BETWEEN 1 AND 100"


def order(number: int, batch: int, **values: object) -> Event:
    at = MORNING + timedelta(minutes=number)
    fields = {
        "id": f"o{number}",
        "at": at.isoformat(),
        "amount": number,
        "is_test": False,
        **values,
    }
    return Event(payload=orjson.dumps(fields), batch=batch, arrived_at=at, ingested_at=at)


SENT = [
    order(1, 1),
    order(2, 1, is_test=True),
    order(2, 1, is_test=True, amount=0),
    order(3, 2, is_test=None),
    order(4, 2, amount=101),
    order(5, 2, id=None),
    order(1, 2),
    Event(payload=b"{", batch=2, arrived_at=MORNING, ingested_at=MORNING),
    order(6, 3),
]


@pytest.mark.slow
def test_a_where_of_silver_passes_records_over_in_every_mode(
    spark: SparkSession, tmp_path: Path
) -> None:
    """A condition may name a field that is no column; a record of which it is NULL is none of the rows, as SQL says."""
    answers = in_every_mode(spark, tmp_path, SENT, (ORDERS,))

    assert answers.of("silver", "id", "twice") == rows("""
        id | twice
        o1 | 2
        o6 | 12
    """)
    assert sorted(row["reasons"] for row in answers.quarantine) == [
        "malformed",
        "missing:id",
    ]


@pytest.mark.whole
def test_what_a_where_passes_over_is_counted_under_the_text_of_each_condition(
    spark: SparkSession, tmp_path: Path
) -> None:
    """The first that a record does not meet counts it, and the books balance."""
    lake = Lake(tmp_path).open_for_writing()
    for batch in (1, 2, 3):
        received(lake, [each for each in SENT if each.batch == batch])
        derive(spark, lake, ORDERS, mode=AvailableNow())

    assert sums_of(lake.table(ORDERS)).skipped == {OF_TEST: 3, OF_AMOUNT: 1}
    assert balance(ORDERS, lake).faults == []
    assert judge(spark, ORDERS, lake).answer is Answer.SAFE


def test_a_column_that_is_not_there_is_found_before_the_table_runs(
    spark: SparkSession, tmp_path: Path
) -> None:
    """Pre-flight asks Spark's analyser over the sources as they are, and the other tables go on."""
    lake = Lake(tmp_path).open_for_writing()
    received(lake, SENT)
    wrong = replace(
        ORDERS,
        transform=sql(
            "SELECT id, att AS at FROM {device_telemetry}", fields="id string, at timestamp"
        ),
    )

    assert needs_look(wrong, lake)
    verdict = judge(spark, wrong, lake)

    assert verdict.answer is Answer.REFUSED
    assert "att" in verdict.differences[0].what
    assert "did you mean" in verdict.hint


@pytest.mark.slow
def test_lineage_of_sql_is_that_of_python(spark: SparkSession) -> None:
    """By the plan, so through sub-queries, WITH, joins and windows; a constant table is of no table."""
    pairs = {
        device_signal_10m.TABLE: fleet_in_sql.SIGNALS,
        confirmed_logins.TABLE: fleet_in_sql.LOGINS,
        device_daily.TABLE: fleet_in_sql.DAILY,
    }
    for python, in_sql in pairs.items():
        own, other = (derive_lineage(spark, each) for each in (in_sql, python))
        # The zone of a site is looked up in a map there, and joined here: a condition is no part of a column.
        for name in (each for each in own if each not in {"zone", "day", "day_from"}):
            assert own[name] == other[name], f"{python.id} {name}"
        assert own.keys() == other.keys()
