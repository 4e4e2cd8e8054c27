"""The questions of on-call are answered from the lake: balance, proof, freshness, lag, age of the quarantine."""

from dataclasses import replace
from datetime import timedelta

import pytest
from pyspark.sql import SparkSession

from fleet.gold import device_signal_10m as gold
from fleet.silver import device_telemetry as silver
from strandline.engine.lake.completeness import Retirement, strike_out, write_down
from strandline.engine.lake.lake import Lake
from strandline.engine.lake.log.commit_log import commit_file
from strandline.engine.proof.day_verdicts import (
    CERTIFICATE,
    DRIFT,
    FRESH,
    LAGS,
    LATE,
    LEDGER,
    LONG,
    QUARANTINE,
    Sign,
    committed_at,
    questions,
    signs,
)
from strandline.engine.runtime import clock
from tests.support.events import TABLE, Event, reading, received
from tests.support.modes import derive
from tests.support.rows import NOON, at

GOOD = Event(batch=0, payload=reading(event_id="good", value=20))
BAD = Event(batch=0, payload=b"no object at all")
MORE = Event(batch=1, payload=reading(event_id="more", value=21, event_at=str(at("12:01:00"))))


def answers(lake: Lake, *, later: timedelta = timedelta(0)) -> dict[str, Sign]:
    """Return silver's answers at a time after its last commit."""
    last = committed_at(silver.TABLE, lake)
    assert last is not None
    return {sign.name: sign for sign in signs(silver.TABLE, lake, last + later)}


def test_each_layer_has_its_own_questions() -> None:
    assert questions(TABLE) == (LEDGER,)
    assert questions(silver.TABLE) == (LEDGER, CERTIFICATE, FRESH, LAGS, QUARANTINE, DRIFT)
    assert questions(gold.TABLE) == (LEDGER, CERTIFICATE, FRESH, LAGS)


@pytest.mark.slow
def test_a_table_in_order_is_well_and_each_fault_shows_under_its_own_name(
    spark: SparkSession, lake: Lake
) -> None:
    # Commits have the time of today, and what is held must not be a week older than they are.
    received(lake, [GOOD, replace(BAD, arrived_at=clock.now(), ingested_at=clock.now())])
    derive(spark, lake, silver.TABLE)

    assert [sign.name for sign in signs(silver.TABLE, lake, NOON)] == [*questions(silver.TABLE)]
    assert all(sign.well for sign in answers(lake, later=LATE * 2).values())

    received(lake, [MORE])
    soon, late = answers(lake), answers(lake, later=LATE * 2)
    assert soon[LAGS].figures == {"lag": 1}
    assert soon[FRESH].well
    assert not late[FRESH].well
    assert "1 rows wait" in late[FRESH].message
    write_down(silver.TABLE.id, Retirement(who="ann", at=NOON.isoformat(), why="enough"), lake)
    ended = answers(lake, later=LATE * 2)
    assert ended[FRESH].well
    assert ended[FRESH].message == f"retired by ann at {NOON.isoformat()}: enough"
    assert ended[LEDGER].message == "balanced"
    strike_out(silver.TABLE.id, lake)

    path = lake.table(silver.TABLE)
    newest = max(int(file.stem) for file in (path / "_delta_log").local.glob("0*.json"))
    commit = commit_file(path, newest)
    commit.local.write_text(commit.local.read_text().replace(r"\"good\":1", r"\"good\":2"))
    broken = answers(lake)[LEDGER]
    assert not broken.well
    assert broken.grave


@pytest.mark.whole
@pytest.mark.slow
def test_a_row_that_waits_in_the_quarantine_for_more_than_a_week_is_reported(
    spark: SparkSession, lake: Lake
) -> None:
    received(lake, [GOOD, BAD])
    derive(spark, lake, silver.TABLE)

    found = {sign.name: sign for sign in signs(silver.TABLE, lake, NOON + LONG * 2)}[QUARANTINE]

    assert not found.well
    assert found.figures["held"] == 1
