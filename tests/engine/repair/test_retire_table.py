"""A retired table is fed no more and stays: it is read, forgotten from and kept as long as it says, and holds up no other."""

from dataclasses import replace
from datetime import timedelta
from unittest.mock import patch

import pytest
from pyspark.sql import SparkSession

from fleet.gold import device_signal_10m as gold
from fleet.silver import device_telemetry as silver
from strandline.core.errors import DefinitionError
from strandline.engine.accounting import gate_files
from strandline.engine.accounting.balance_sheet import balance, waiting
from strandline.engine.accounting.held_records import Signed
from strandline.engine.flow.readers import readers
from strandline.engine.flow.runner import Site
from strandline.engine.lake.completeness import (
    STATE_OF,
    RetiredError,
    Retirement,
    let_go,
    retired,
    strike_out,
    write_down,
)
from strandline.engine.lake.forgotten import TABLE_FILE, requests, search
from strandline.engine.lake.lake import FORMS, TABLES, Lake, forms
from strandline.engine.lake.locks import WriterWatch
from strandline.engine.lake.log.vacuum import UNDOABLE
from strandline.engine.lake.open_table import opened
from strandline.engine.lake.place import Place
from strandline.engine.repair.backfill import backfill
from strandline.engine.repair.closed_range import Span
from strandline.engine.repair.downstream import left_behind
from strandline.engine.repair.expire import AFTER, expire, scrub
from strandline.engine.repair.forget import Forgetting, carry_out
from strandline.engine.repair.forget_request import Request
from strandline.engine.repair.rebuild import promote, rebuild, undo
from strandline.engine.repair.replay import replay
from strandline.engine.repair.retire import retire, take_back
from strandline.engine.service.maintain import Policy, maintain
from tests.support.events import TABLE as BRONZE
from tests.support.events import readings, received
from tests.support.modes import answers_of, derive, proven, twin
from tests.support.morning import LATER, STRICT, step_by_step
from tests.support.morning import TABLES as BOTH
from tests.support.rows import NOON
from tests.support.seeds import copied

pytestmark = pytest.mark.slow

SIGNED = Signed(who="ann", at=NOON, why="it is counted elsewhere")
AGAIN = Retirement(who="ann", at=NOON.isoformat(), why="enough")
DEVICE = "d2"
REQUEST = Request.of(f"device_id = '{DEVICE}'")


@pytest.fixture
def morning(spark: SparkSession, lake: Lake) -> Lake:
    """Return a lake whose stream read the morning commit by commit."""
    return copied(lake, "morning, commit by commit", lambda seed: step_by_step(spark, seed))


def ended(lake: Lake) -> None:
    """Retire gold."""
    retire(gold.TABLE, lake, SIGNED, WriterWatch(gold.TABLE, lake))


def again(lake: Lake) -> None:
    """Retire gold again, whose place was let go, with its place kept."""
    strike_out(gold.TABLE.id, lake)
    write_down(gold.TABLE.id, AGAIN, lake)


@pytest.mark.whole
@pytest.mark.core
def test_it_is_left_out_and_goes_on_where_it_ended(spark: SparkSession, morning: Lake) -> None:
    """Meanwhile silver goes on, maintenance keeps for a week what gold would read, and code of before refuses the lake."""
    other = twin(morning, "never retired")
    with pytest.raises(DefinitionError, match=f"{gold.TABLE.id} would get no more rows"):
        retire(silver.TABLE, morning, SIGNED, WriterWatch(silver.TABLE, morning))
    ended(morning)
    before = answers_of(morning).closed
    with pytest.raises(DefinitionError, match="is retired already, by ann"):
        ended(morning)

    received(morning, readings(LATER))
    derive(spark, morning, silver.TABLE)
    with pytest.raises(RetiredError, match="is retired, by ann"):
        derive(spark, morning, gold.TABLE)

    assert answers_of(morning).closed == before
    assert proven(morning, BOTH)
    assert waiting(gold.TABLE, morning) > 0
    assert forms(morning.formats)[TABLES]["number"] == FORMS[TABLES].number
    [*maintain(morning, NOON + UNDOABLE, Policy(keep=timedelta(0), untouched=timedelta(0)))]

    take_back(gold.TABLE, morning)
    derive(spark, morning, gold.TABLE)
    received(other, readings(LATER))
    derive(spark, other, *BOTH)
    assert answers_of(morning).closed == answers_of(other).closed != before
    assert proven(morning, BOTH)


@pytest.mark.whole
@pytest.mark.core
def test_after_a_week_nothing_is_kept_for_it_and_it_is_fed_again_by_a_rebuild(
    spark: SparkSession, morning: Lake
) -> None:
    site = Site(spark=spark, clock=lambda: NOON)
    ended(morning)
    with pytest.raises(RetiredError, match="is retired"):
        rebuild(gold.TABLE, morning, site)
    assert gold.TABLE.id in {each.table for each in readers(morning)}

    [*maintain(morning, NOON + UNDOABLE + timedelta(hours=1), Policy())]

    assert gold.TABLE.id not in {each.table for each in readers(morning)}
    received(morning, readings(LATER))
    derive(spark, morning, silver.TABLE)
    with pytest.raises(DefinitionError, match="cannot go on where it ended") as refused:
        take_back(gold.TABLE, morning)
    assert f"strandline rebuild {gold.TABLE.id}" in refused.value.hint
    rebuild(gold.TABLE, morning, site)
    with (
        patch.object(gate_files, "clear", side_effect=KeyboardInterrupt),  # after the exchange
        pytest.raises(KeyboardInterrupt),
    ):
        promote(gold.TABLE, morning, site)
    state = morning.checkpoint(gold.TABLE) / STATE_OF
    assert state.exists()
    [*maintain(morning, NOON + UNDOABLE + timedelta(hours=1), Policy())]
    assert state.exists(), "maintenance took the state of the new checkpoint for that of the old"
    with pytest.raises(DefinitionError, match="was interrupted"):
        derive(spark, morning, gold.TABLE)

    promote(gold.TABLE, morning, site)
    with pytest.raises(DefinitionError, match="no promotion to undo"):
        undo(spark, gold.TABLE, morning)
    assert retired(morning) == {}
    derive(spark, morning, gold.TABLE)
    assert waiting(gold.TABLE, morning) == 0
    assert proven(morning, BOTH)


def test_what_a_kill_leaves_of_a_state_goes_with_the_next_maintenance(lake: Lake) -> None:
    """It is let go by then: no stream goes on with a part of it."""
    state = lake.checkpoint(gold.TABLE) / STATE_OF
    (state / "0" / "1.delta").put("rows of the past")
    write_down(gold.TABLE.id, Retirement(who="ann", at=NOON.isoformat(), why="enough"), lake)

    with (
        patch.object(Place, "remove", side_effect=KeyboardInterrupt),
        pytest.raises(KeyboardInterrupt),
    ):
        let_go(gold.TABLE, lake)
    assert (state.exists(), retired(lake)[gold.TABLE.id].place_kept) == (True, False)
    [*maintain(lake, NOON, Policy())]

    assert not state.exists()


@pytest.mark.whole
@pytest.mark.core
def test_a_request_to_forget_reaches_it_and_waits_for_no_stream_of_it(
    spark: SparkSession, morning: Lake
) -> None:
    """It had not read all of silver, its last windows are open, and the whole device is gone from all files all the same."""
    received(
        morning,
        readings(f"""
            batch | id | device   | value | event_at | arrived_at
            5     | m  | {DEVICE} | 7     | 12:20:00 | 12:20:01
            6     | n  | d1       | 7     | 15:00:00 | 15:00:01
        """),
    )
    derive(spark, morning, silver.TABLE)
    ended(morning)
    assert (morning.checkpoint(gold.TABLE) / STATE_OF).exists()

    work = Forgetting(spark, morning, REQUEST)
    parts = [*work.parts()]
    done = [*carry_out(work, morning, REQUEST, lambda: NOON, parts)]
    work.close()

    assert {part.waits for part in parts if part.rows} == {""}
    assert {part.table: part.rows for part in done if part.rows}.keys() >= {
        BRONZE.id,
        gold.TABLE.id,
    }
    assert (
        DEVICE not in opened(morning.table(gold.TABLE)).to_pyarrow_table()["device_id"].to_pylist()
    )
    assert [request.is_done for request in requests(morning)] == [True]
    assert not (morning.checkpoint(gold.TABLE) / STATE_OF).exists()
    assert not retired(morning)[gold.TABLE.id].place_kept
    assert balance(gold.TABLE, morning).faults == []
    assert proven(morning, BOTH)
    [*scrub(spark, morning, NOON + AFTER)]
    assert [hit.file for hit in search(morning, DEVICE) if hit.kind == TABLE_FILE] == []


@pytest.mark.prove(alone="half a minute")
def test_what_a_repair_changes_below_it_is_not_promised_by_an_undo(
    spark: SparkSession, morning: Lake
) -> None:
    """Its stream passes over what a replay, a backfill or a promotion changes, so it does not go on from where it ended."""
    received(morning, readings(LATER))
    derive(spark, morning, silver.TABLE)
    ended(morning)
    reach = Span(since=NOON - timedelta(hours=12), until=NOON - timedelta(hours=2))

    changed = backfill(spark, silver.TABLE, morning, reach)
    assert (changed.came, changed.gone) == (0, 0)
    assert retired(morning)[gold.TABLE.id].place_kept, "no row has changed"
    assert backfill(spark, STRICT, morning, reach).gone > 0
    assert left_behind(silver.TABLE, morning) == [gold.TABLE]
    with pytest.raises(DefinitionError, match="cannot go on where it ended"):
        take_back(gold.TABLE, morning)

    again(morning)
    assert replay(spark, silver.TABLE, morning).healed > 0
    assert not retired(morning)[gold.TABLE.id].place_kept
    again(morning)
    site = Site(spark=spark, clock=lambda: NOON)
    rebuild(silver.TABLE, morning, site)
    promote(silver.TABLE, morning, site)
    assert not retired(morning)[gold.TABLE.id].place_kept
    again(morning)
    undo(spark, silver.TABLE, morning)
    assert not retired(morning)[gold.TABLE.id].place_kept


@pytest.mark.whole
def test_what_is_too_old_below_it_goes_without_waiting_and_its_own_rows_go_too(
    spark: SparkSession, morning: Lake
) -> None:
    received(morning, readings(LATER))
    derive(spark, morning, silver.TABLE)
    ended(morning)
    evening = NOON + timedelta(hours=12)

    (done, _) = expire(
        spark, replace(silver.TABLE, keeps="2 hours", keeps_held="150 minutes"), morning, evening
    )
    (own,) = expire(spark, replace(gold.TABLE, keeps="2 hours"), morning, evening)

    assert (done.waits_for, answers_of(morning).silver) == ((), [])
    assert own.rows > 0
    assert opened(morning.table(gold.TABLE)).to_pyarrow_table().num_rows == 0
    assert not retired(morning)[gold.TABLE.id].place_kept, "taken back, it would miss the rows"
    assert proven(morning, BOTH)
