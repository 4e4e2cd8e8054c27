"""A promise of freshness is kept or broken by the ledgers alone, and the hop that is late is named."""

from dataclasses import replace
from datetime import datetime, timedelta
from unittest.mock import patch

import pytest
from pyspark.sql import SparkSession

from fleet.gold import device_signal_10m as gold
from fleet.silver import device_telemetry as silver
from strandline.core.errors import DefinitionError
from strandline.core.kind import Fresh
from strandline.core.table import Table
from strandline.engine.accounting import gate_files
from strandline.engine.accounting.gate_files import Shut, Where
from strandline.engine.lake.completeness import Retirement, write_down
from strandline.engine.lake.lake import Lake
from strandline.engine.proof.daily_report import Period, gather
from strandline.engine.proof.day_verdicts import PROMISE, questions, signs
from strandline.engine.proof.freshness import Freshness, freshness
from strandline.engine.runtime import clock
from strandline.engine.runtime.code_files import code_version
from strandline.engine.service.condition import overdue
from strandline.engine.service.metrics_page import AGE, Promises
from tests.support.events import TABLE, readings, received
from tests.support.modes import derive
from tests.support.rows import NOON, at
from tests.support.seeds import copied

BRONZE = replace(TABLE, fresh="5 minutes")
SILVER = replace(silver.TABLE, fresh="5 minutes")
BY_ARRIVAL = replace(silver.TABLE, fresh=Fresh("5 minutes", by="arrival"))
GOLD = replace(gold.TABLE, fresh="5 minutes")
MINUTE = timedelta(minutes=1)

LOG = """
    batch | id | event_at | arrived_at
    1     | a  | 09:00:00 | 09:00:01
    2     | b  | 11:58:00 | 11:59:00
    3     | c  | 11:20:00 | 12:00:00
"""


def fresh(table: Table, lake: Lake, now: datetime, behind: int = 0) -> Freshness:
    found = freshness(table, lake, now, {TABLE.id: behind})
    assert found is not None
    return found


@pytest.fixture
def filled(spark: SparkSession, lake: Lake) -> Lake:
    """Return a lake whose newest event is not in its newest commit."""

    def make(seed: Lake) -> None:
        received(seed, readings(LOG))
        derive(spark, seed, silver.TABLE, gold.TABLE)

    return copied(lake, "fresh", make)


def test_the_age_is_that_of_the_newest_row_by_event_or_by_arrival(filled: Lake) -> None:
    assert fresh(SILVER, filled, NOON + MINUTE).age == 3 * MINUTE
    assert fresh(BY_ARRIVAL, filled, NOON + MINUTE).age == MINUTE
    assert fresh(BRONZE, filled, NOON + MINUTE).age == MINUTE
    assert fresh(SILVER, filled, NOON + MINUTE).is_kept
    assert not fresh(SILVER, filled, NOON + 4 * MINUTE).is_kept
    assert fresh(BY_ARRIVAL, filled, NOON + 4 * MINUTE).is_kept
    assert freshness(silver.TABLE, filled, NOON) is None


def test_no_row_is_read_for_it(filled: Lake) -> None:
    """Only the log: the files of the tables may be gone."""
    for table in (TABLE, silver.TABLE, gold.TABLE):
        for file in filled.table(table).local.rglob("*.parquet"):
            if "_delta_log" not in file.parts:
                file.unlink()

    assert fresh(SILVER, filled, NOON).age == 2 * MINUTE
    assert fresh(GOLD, filled, NOON).newest == at("09:00:00")


def test_a_topic_that_is_silent_is_named(filled: Lake) -> None:
    found = fresh(SILVER, filled, NOON + 10 * MINUTE)

    assert found.because == (
        (
            "the topic device-telemetry and the topic device-telemetry-v1 is silent: the newest record arrived at "
            "2026-11-20T12:00:00+00:00"
        ),
    )
    assert found.says.startswith(
        "silver.device_telemetry is 12 min old by event, and 5 minutes are promised: "
    )


def test_bronze_behind_its_topic_and_silver_behind_bronze_are_named(filled: Lake) -> None:
    received(filled, readings("batch | id | event_at | arrived_at\n9 | d | 12:01:00 | 12:01:00"))
    now = NOON + 10 * MINUTE

    assert fresh(SILVER, filled, now).because == (
        "silver.device_telemetry has not read 1 rows of bronze.device_telemetry, and no process writes it",
    )
    assert fresh(BRONZE, filled, now, behind=7).because == (
        (
            "bronze.device_telemetry has not read 7 records of the topic device-telemetry and the topic "
            "device-telemetry-v1, and no process writes it"
        ),
    )
    both = fresh(SILVER, filled, now, behind=7).because
    assert [each.partition(" ")[0] for each in both] == [TABLE.id, SILVER.id]


def test_a_shut_gate_is_named(filled: Lake) -> None:
    shut = Shut(
        table=silver.TABLE.id,
        at="2026-11-20T11:00:00+00:00",
        where=Where.BEFORE,
        stream="s",
        batch=1,
        rows=1,
    )
    gate_files.write(shut, silver.TABLE, filled)

    assert fresh(GOLD, filled, NOON).because == (
        "the gate before silver.device_telemetry is shut since 2026-11-20T11:00:00+00:00",
    )


def test_windows_that_wait_for_their_watermark_are_named(filled: Lake) -> None:
    """Records come, their events are young, and the newest window is 85 minutes behind them by its declaration."""
    found = fresh(GOLD, filled, NOON)

    assert found.because == (
        (
            "gold.device_signal_10m waits for its watermark: a row is emitted when no admitted row can change it any more, "
            "1.4 h after its time"
        ),
    )


def test_events_that_come_late_are_named(filled: Lake) -> None:
    """The topic has records of now, and no young event is among the believed ones."""
    late = readings("batch | id | event_at | arrived_at\n9 | d | 11:30:00 | 12:20:00")
    received(filled, late)
    with patch("strandline.engine.proof.freshness.waiting", return_value=0):
        found = fresh(SILVER, filled, at("12:20:00"))

    assert (
        "is silent: the newest record arrived at" in found.because[0]
        or "are older" in found.because[0]
    )


def test_a_clock_that_is_a_year_ahead_is_named_beside_the_topic(filled: Lake) -> None:
    says = fresh(BY_ARRIVAL, filled, NOON + timedelta(days=365)).says

    assert "365 d old by arrival" in says
    assert "is silent" in says
    assert says.endswith("or this machine's clock is wrong: it shows 2027-11-20T12:00:00+00:00")


def test_a_row_beyond_the_clock_has_no_age(spark: SparkSession, lake: Lake) -> None:
    """Silver holds an event of the year 9999, so it cannot hide a silence; a clock that lags makes rows of the future."""
    received(
        lake,
        readings("""
        batch | id | event_at | arrived_at
        1     | a  | 11:50:00 | 11:50:00
    """),
    )
    received(
        lake,
        [
            replace(
                each, payload=each.payload and each.payload.replace(b"2026-11-20", b"9999-12-31")
            )
            for each in readings("batch | id | event_at | arrived_at\n2 | b | 11:51:00 | 11:51:00")
        ],
    )
    derive(spark, lake, silver.TABLE)

    assert fresh(SILVER, lake, NOON).age == 10 * MINUTE
    ahead = fresh(SILVER, lake, at("10:00:00"))
    assert not ahead.is_kept
    assert (
        "this machine's clock shows 2026-11-20T10:00:00+00:00: by event its age is not known"
        in ahead.says
    )


def test_an_empty_table_is_as_old_as_itself(spark: SparkSession, lake: Lake) -> None:
    received(lake, readings("batch | id | event_at | arrived_at\n1 | a | 11:50:00 | 11:50:00"))
    derive(spark, lake, silver.TABLE, gold.TABLE)

    assert fresh(GOLD, lake, NOON + timedelta(days=9)).newest is None
    found = fresh(GOLD, lake, datetime.max.replace(tzinfo=NOON.tzinfo))
    assert "gold.device_signal_10m has had no row for" in found.says
    assert not found.is_kept


def test_a_retired_table_keeps_every_promise(filled: Lake) -> None:
    ended = Retirement(who="ops", at="2026-11-20T11:00:00+00:00", why="moved")
    write_down(SILVER.id, ended, filled)

    found = {sign.name: sign for sign in signs(SILVER, filled, NOON + timedelta(days=2))}

    assert found[PROMISE].well
    assert found[PROMISE].message.startswith("retired by")


def test_a_broken_promise_is_a_sign_a_trouble_and_a_metric(filled: Lake) -> None:
    """The same in each place; a table that promises nothing has none of them."""
    now = NOON + 10 * MINUTE
    (sign,) = [each for each in signs(SILVER, filled, now) if each.name == PROMISE]
    (trouble,) = overdue([TABLE, SILVER], filled, now)
    promises = Promises(filled)
    samples = {each.metric: each for each in promises.samples([TABLE, SILVER], now)}
    again = {each.metric: each for each in promises.samples([TABLE, SILVER], now)}

    assert samples == again
    assert (sign.well, sign.grave) == (False, False)
    assert sign.message == trouble.says
    assert trouble.tables == (SILVER.id,)
    assert samples[AGE].labels == (SILVER.id, "event")
    assert {each.value for each in samples.values()} == {720.0, 300.0, 1.0}
    assert PROMISE not in questions(silver.TABLE)


def test_the_report_of_now_warns_and_that_of_an_older_day_does_not(filled: Lake) -> None:
    now = clock.now()
    days = [now.date() + timedelta(days=n) for n in (-4, -3, 0, 1)]
    older, of_now = (
        Period(since=since, until=until, now=now)
        for since, until in ((days[0], days[1]), (days[2], days[3]))
    )

    def said(period: Period) -> list[str]:
        found = gather(filled, [TABLE, SILVER], period)
        whys = (why for each in found.tables if each.table == SILVER.id for why in each.because)
        return [why for why in whys if "are promised" in why]

    assert len(said(of_now)) == 1
    assert said(older) == []


def test_a_promise_changes_no_fingerprint() -> None:
    """Of the value here, and of the declaration's text (tests/engine/runtime/test_code_files.py)."""
    assert code_version(SILVER) == code_version(silver.TABLE)


@pytest.mark.parametrize("fresh", ["soon", "", "1 month", Fresh("5 minutes", by="guess"), 5])  # type: ignore[arg-type]  # what is refused
def test_what_is_no_age_is_refused(fresh: object) -> None:
    with pytest.raises(DefinitionError, match="which is no age of a row") as refused:
        replace(silver.TABLE, fresh=fresh)

    assert "Fresh('5 minutes', by='arrival')" in str(refused.value.hint)


def test_bronze_promises_no_age_by_event() -> None:
    assert str(BRONZE.promise) == "5 minutes by arrival"
    with pytest.raises(DefinitionError, match="bronze knows no time but the arrival"):
        replace(TABLE, fresh=Fresh("5 minutes"))
