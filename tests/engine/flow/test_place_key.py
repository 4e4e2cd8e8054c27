"""Events without an id: each record is a row, in every mode, and each verb that counts copies says that none is looked for."""

from dataclasses import replace
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from strandline import PLACE, catalog

from fleet.bronze import device_telemetry as bronze
from fleet.silver import device_telemetry as silver
from strandline.core.stateful import explained
from strandline.core.table import Judged
from strandline.engine.accounting.balance_sheet import balance
from strandline.engine.ask.locate import Verdict, World
from strandline.engine.ask.why import why
from strandline.engine.flow.compare_plans import Remedy
from strandline.engine.flow.plan import framed
from strandline.engine.flow.preflight import judge
from strandline.engine.flow.runner import Site
from strandline.engine.lake.lake import Lake
from strandline.engine.lake.log.ledger import entries
from strandline.engine.lake.mend_checkpoint import operator_names
from strandline.engine.lake.place import Place
from strandline.engine.repair.backfill import backfill
from strandline.engine.repair.closed_range import Span
from strandline.engine.repair.forget import Forgetting, carry_out
from strandline.engine.repair.forget_request import Request
from strandline.engine.repair.rebuild import promote, rebuild
from strandline.engine.repair.replay import replay
from strandline_quality.rules import required
from tests.support import lakes
from tests.support.events import TOPIC, readings, received
from tests.support.modes import answers_of, derive, in_every_mode, proven, twin
from tests.support.rows import NOON, at

NO_ID: Judged = replace(
    silver.TABLE, key=PLACE, rules=required("device_id", "signal", "value", "event_at")
)
STRICT = replace(NO_ID, rules=(*NO_ID.rules, *required("event_id")))
"""Which the two events without an id do not meet."""

LOG = """
    batch | id | device | value | event_at | arrived_at
    1     | a  | d1     | 1     | 09:00:00 | 09:00:01
    1     | a  | d1     | 1     | 09:00:00 | 09:00:02
    1     | b  | d2     | 2     | 09:01:00 | 09:01:01
    2     | a  | d1     | 1     | 09:00:00 | 09:10:00
    2     | -  | d2     | 3     | 09:11:00 | 09:11:01
    2     | -  | d2     | 3     | 09:11:00 | 09:11:01
    2     | b  | d2     | -     | 09:12:00 | 09:12:01
    2     | b  | d2     | -     | 09:12:00 | 09:12:01
    3     | b  | d2     | 2     | 09:01:00 | 10:00:00
    3     | z  | d1     | 9     | 08:00:00 | 10:01:00
    4     | c  | d3     | 5     | 13:00:00 | 13:00:01
"""
ROWS = 8
"""What is good: of each copy all; a NULL value and a late event are held."""


@pytest.fixture(scope="module")
def read(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Lake:
    """Make a lake whose stream has read all of the log."""
    lake = Lake(Place.of(tmp_path_factory.mktemp("read"))).open_for_writing()
    received(lake, readings(LOG))
    derive(spark, lake, NO_ID)
    return lake


@pytest.fixture
def streamed(read: Lake, tmp_path: Path) -> Lake:
    """Return a copy of it, for one test."""
    lakes.copy(read.root, Place.of(tmp_path / "lake"))
    return Lake(Place.of(tmp_path / "lake"))


@pytest.mark.slow
def test_both_of_two_copies_are_rows_in_every_mode(spark: SparkSession, tmp_path: Path) -> None:
    """Also where one comes in a later batch, where a key would be in state; and held copies are held, each."""
    answers = in_every_mode(spark, tmp_path, readings(LOG), (NO_ID,))

    assert len(answers.silver) == ROWS
    assert sorted(row["event_id"] for row in answers.silver) == [
        "-",
        "-",
        "a",
        "a",
        "a",
        "b",
        "b",
        "c",
    ]
    assert sorted(row["reasons"] for row in answers.quarantine) == [
        "late",
        "missing:value",
        "missing:value",
    ]
    for way in ("batch", "commit by commit", "micro-batch"):
        lake = Lake(Place.of(tmp_path / way))
        sheet = balance(NO_ID, lake)
        assert (sheet.read, sheet.good, sheet.duplicates) == (11, ROWS, 0)
        assert sheet.copies == "not looked for"
        assert all(entry.keeps_copies for _, entry in entries(lake.table(NO_ID)))
    other = balance(silver.TABLE, Lake(Place.of(tmp_path / "batch")))
    assert other.copies == 0


def test_its_stream_shuffles_nothing_and_keeps_no_state(
    spark: SparkSession, streamed: Lake
) -> None:
    """That is what one pays for the copies of others; the watermark stays, by which repairs know what is closed."""
    received(streamed, readings(LOG.replace("4     | c", "5     | d")))
    plan = explained(framed(spark, NO_ID, streamed).result)

    assert "EventTimeWatermark" in plan
    assert [each for each in ("Exchange", "StateStore", "Dedup", "Sort") if each in plan] == []
    assert operator_names(streamed.checkpoint(NO_ID)) == []
    assert not Path(str(streamed.checkpoint(NO_ID)), "state").exists()


@pytest.mark.slow
def test_a_backfill_changes_none_of_them_and_a_replay_brings_in_each(
    spark: SparkSession, tmp_path: Path
) -> None:
    """What is held twice is released twice: the ledger balances, and equals a batch by today's rules."""
    lake = Lake(Place.of(tmp_path / "lake")).open_for_writing()
    received(lake, readings(LOG))
    derive(spark, lake, STRICT)
    assert len(answers_of(lake).silver) == ROWS - 2

    same = backfill(spark, STRICT, lake, Span(since=at("09:00:00"), until=at("09:05:00")))
    assert (same.came, same.gone, same.duplicates) == (0, 0, 0)
    done = replay(spark, NO_ID, lake)

    assert (done.healed, done.duplicates) == (2, 0)
    assert len(answers_of(lake).silver) == ROWS
    assert proven(lake, (NO_ID,))
    assert balance(NO_ID, lake).copies == "not looked for"


def test_a_backfill_by_another_rule_holds_each_copy(spark: SparkSession, streamed: Lake) -> None:
    """Both are judged, not the first alone."""
    done = backfill(spark, STRICT, streamed, Span(since=at("09:00:00"), until=at("09:30:00")))

    assert (done.gone, done.quarantined, done.duplicates) == (2, {"missing:event_id": 2}, 0)
    assert proven(streamed, (STRICT,))


@pytest.mark.whole
@pytest.mark.slow
def test_a_request_to_forget_takes_each_copy_and_no_other_row(
    spark: SparkSession, streamed: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rows are found by the place of their records, which is their key."""
    monkeypatch.setattr(catalog, "tables", lambda: (bronze.TABLE, NO_ID))
    request = Request.of("event_id = 'a'")
    work = Forgetting(spark, streamed, request)
    try:
        list(carry_out(work, streamed, request, lambda: NOON, [*work.parts()]))
    finally:
        work.close()

    assert [row["event_id"] for row in answers_of(streamed).silver].count("a") == 0
    assert len(answers_of(streamed).silver) == ROWS - 3
    sheet = balance(NO_ID, streamed)
    assert (sheet.forgotten, sheet.faults) == (3, [])


def test_why_says_of_a_copy_that_none_is_looked_for(
    streamed: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each is asked for by its place, and a key of a payload is none of such a table."""
    monkeypatch.setattr(catalog, "tables", lambda: (bronze.TABLE, NO_ID))
    world = World(lake=streamed, now=NOON)

    for offset in (0, 1, 3):
        found = why(f"{TOPIC}/0/{offset}", NO_ID, world)
        assert found.verdict is Verdict.IN_TABLE
        assert "no copy of it is looked for" in found.sentence
    with pytest.raises(Exception, match="neither an offset") as error:
        why("a,b,c", NO_ID, world)
    assert "have no id (key=PLACE)" in str(getattr(error.value, "hint", ""))


@pytest.mark.parametrize(
    ("before", "after", "says"),
    [
        (silver.TABLE, NO_ID, "its key is the place of a record now"),
        (NO_ID, silver.TABLE, "its key is event_id now, and was the place of a record"),
    ],
    ids=["to a place", "from a place"],
)
def test_a_change_of_that_is_computed_anew(
    spark: SparkSession, streamed: Lake, before: Judged, after: Judged, says: str
) -> None:
    """Spark would go on: without the state, or with one that knows no row before."""
    lake = streamed
    if before is not NO_ID:
        lake = twin(streamed, "before")
        derive(spark, lake, before)

    verdict = judge(spark, after, lake)

    assert Remedy.REBUILD in verdict.remedies
    assert [each.what for each in verdict.differences if says in each.what]
    assert f"strandline migrate {after.id}" in verdict.hint


def test_one_that_is_computed_anew_has_the_copies_that_were_left_out(
    spark: SparkSession, tmp_path: Path
) -> None:
    """That is what the verdict asks for, and what it gives."""
    lake = Lake(Place.of(tmp_path / "lake")).open_for_writing()
    log = "\n".join(line for line in LOG.splitlines() if "| -  |" not in line)
    received(lake, readings(log))
    derive(spark, lake, silver.TABLE)
    assert len(answers_of(lake).silver) == 3

    site = Site(spark=spark, clock=lambda: NOON)
    rebuild(NO_ID, lake, site)
    promote(NO_ID, lake, site)

    assert len(answers_of(lake).silver) == ROWS - 2
    assert balance(NO_ID, lake).copies == "not looked for"
    assert proven(lake, (NO_ID,))
