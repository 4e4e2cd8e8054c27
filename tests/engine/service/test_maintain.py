"""A lake that is maintained beside its streams has the same rows as one that is not, and everything can still be asked."""

import json
import os
from dataclasses import replace
from datetime import timedelta
from types import SimpleNamespace

import pytest
from pyspark.sql import SparkSession
from pyspark.sql.types import StructField, StructType, TimestampType

from fleet.gold import device_signal_10m as gold
from fleet.silver import device_telemetry as silver
from strandline.core.errors import DefinitionError, TransientError
from strandline.engine.accounting.balance_sheet import balance
from strandline.engine.ask.locate import first_version
from strandline.engine.flow.runner import Site
from strandline.engine.lake.find_rows import Where, look
from strandline.engine.lake.lake import Lake
from strandline.engine.lake.log.commit_log import logged_versions
from strandline.engine.lake.log.ledger import is_table, latest_version
from strandline.engine.lake.log.log_actions import live_files
from strandline.engine.lake.log.vacuum import UNDOABLE, begins_at, swept
from strandline.engine.lake.open_table import EXPIRES, FOLDER, pin_versions
from strandline.engine.lake.store_lease import hold
from strandline.engine.proof.verify import Trial, verify
from strandline.engine.repair.rebuild import promote, rebuild, undo
from strandline.engine.runtime import clock
from strandline.engine.runtime.processes import own
from strandline.engine.service.maintain import LOCK, Maintained, Policy, maintain, refuse_idle
from strandline.operate import decisions
from tests.support import by_hand, engine
from tests.support.by_hand import as_before, written_as
from tests.support.events import TABLE, Event, reading, received
from tests.support.modes import answers_of, derive, proven
from tests.support.packs import small_packs
from tests.support.rows import NOON

pytestmark = pytest.mark.slow

AT_ONCE = Policy(keep=timedelta(0), untouched=timedelta(0))
"""What was replaced goes at once, and a file may be put together as soon as it is there."""

PACKED = 3
STEPS = 10


def maintained(
    lake: Lake, policy: Policy = AT_ONCE, *, later: timedelta = timedelta(0)
) -> dict[str, Maintained]:
    soon = clock.now() + timedelta(seconds=1) + later
    return {each.table: each for each in maintain(lake, soon, policy)}


def batch(number: int) -> list[Event]:
    """Return readings of three devices, a copy, and now and then one that is broken."""
    moment = NOON + timedelta(minutes=30 * number)
    at = {"arrived_at": moment, "ingested_at": moment, "batch": number}
    payloads = [
        *(
            reading(event_id=f"e{number}-{n}", device_id=f"d{n}", event_at=moment.isoformat())
            for n in range(3)
        ),
        *([b"broken"] if number % 4 == 0 else []),
    ]
    return [Event(payload=each, **at) for each in (*payloads, payloads[0])]


def grown(
    spark: SparkSession, lake: Lake, *, first: int = 0, steps: int = STEPS, maintains: bool
) -> None:
    """Let a batch come, let silver read it, and maintain the lake; again and again."""
    for number in range(first, first + steps):
        received(lake, batch(number))
        derive(spark, lake, silver.TABLE)
        if maintains and number % 3 == 2:
            maintained(lake)


@pytest.fixture
def cut_early(monkeypatch: pytest.MonkeyPatch) -> None:
    small_packs(monkeypatch, PACKED)


@pytest.mark.whole
@pytest.mark.usefixtures("cut_early")
def test_a_maintained_lake_gives_the_same_rows_and_answers(spark: SparkSession, lake: Lake) -> None:
    calm = Lake(lake.root.parent / "calm").open_for_writing()
    grown(spark, lake, maintains=True)
    maintained(lake)
    received(calm, [each for number in range(STEPS) for each in batch(number)])
    derive(spark, calm, silver.TABLE, gold.TABLE)

    path = lake.table(silver.TABLE)
    assert len(logged_versions(path)) <= 3 * PACKED
    assert begins_at(path) > 0
    assert len(live_files(path).files) < STEPS / 2
    assert swept(path).deletes
    for table in (TABLE, silver.TABLE):
        assert balance(table, lake).faults == []
        assert len([*lake.table(table).local.glob("*.parquet")]) < STEPS
    derive(spark, lake, gold.TABLE)  # a new stream, whose source lacks its first commits
    assert answers_of(lake) == answers_of(calm)
    assert len(answers_of(lake).closed) > 0
    assert proven(lake, (silver.TABLE, gold.TABLE))
    (row,) = look(path, Where(equal={"event_id": "e1-1"}))
    assert first_version(silver.TABLE, lake, row) is not None


@pytest.mark.prove(alone="half a minute")
@pytest.mark.usefixtures("cut_early")
def test_a_stream_that_paused_finds_what_it_has_not_read(spark: SparkSession, lake: Lake) -> None:
    grown(spark, lake, steps=2, maintains=False)
    derive(spark, lake, gold.TABLE)
    grown(spark, lake, first=2, steps=STEPS - 2, maintains=True)
    unread = latest_version(lake.table(silver.TABLE))

    done = maintained(lake)
    derive(spark, lake, gold.TABLE)

    assert logged_versions(lake.table(silver.TABLE))[0] <= unread - STEPS + 2
    assert done[silver.TABLE.id].deleted == 0
    calm = Lake(lake.root.parent / "calm").open_for_writing()
    received(calm, [each for number in range(STEPS) for each in batch(number)])
    derive(spark, calm, silver.TABLE, gold.TABLE)
    assert answers_of(lake).closed == answers_of(calm).closed
    maintained(lake)
    grown(spark, lake, first=STEPS, steps=1, maintains=False)
    derive(spark, lake, gold.TABLE)
    maintained(lake)
    assert swept(lake.table(silver.TABLE)).deletes


@pytest.mark.prove(alone="half a minute")
@pytest.mark.usefixtures("cut_early")
def test_a_promotion_can_be_undone_after_maintenance_and_not_for_ever(
    spark: SparkSession, lake: Lake
) -> None:
    site = Site(spark=spark, clock=lambda: NOON)
    grown(spark, lake, steps=5, maintains=True)
    rebuild(silver.TABLE, lake, site)
    grown(spark, lake, first=5, steps=5, maintains=True)
    assert begins_at(lake.table(TABLE)) == 0, "by hand, so Delta has written no checkpoint"
    promote(silver.TABLE, lake, site)
    before = answers_of(lake)
    maintained(lake)

    undo(spark, silver.TABLE, lake)
    assert answers_of(lake) == before
    maintained(lake)
    derive(spark, lake, silver.TABLE)
    assert answers_of(lake) == before
    assert proven(lake, (silver.TABLE,))

    rebuild(silver.TABLE, lake, site)
    promote(silver.TABLE, lake, site)
    grown(spark, lake, first=10, steps=2, maintains=False)
    maintained(lake, later=UNDOABLE * 2)
    maintained(lake, later=UNDOABLE * 10)
    with pytest.raises(DefinitionError, match="cannot be undone any more"):
        undo(spark, silver.TABLE, lake)
    assert proven(lake, (silver.TABLE,))


@pytest.mark.whole
def test_what_reads_versions_keeps_them(lake: Lake) -> None:
    received(lake, [each for number in range(9) for each in batch(number)])
    bronze = lake.table(TABLE)
    policy = Policy(keep=timedelta(0), untouched=timedelta(0))
    with pin_versions(lake.root, {bronze: 2}):
        assert maintained(lake, policy)[TABLE.id].merged == 0, "its files are unread"
    assert maintained(lake, policy)[TABLE.id].merged == 9
    with pin_versions(lake.root, {bronze: 9}):
        assert maintained(lake, policy)[TABLE.id].deleted == 0
    assert maintained(lake, policy)[TABLE.id].deleted == 9


def test_a_pod_that_is_gone_holds_maintenance_for_a_while(lake: Lake) -> None:
    """What it had pinned is free a quarter of an hour after its last renewal, and no person was asked."""
    received(lake, [each for number in range(9) for each in batch(number)])
    policy = Policy(keep=timedelta(0), untouched=timedelta(0))
    gone = {"pid": 7, "host": "code-gone", "started": 1.0}
    pin = lake.root / FOLDER / "abc.json"
    pin.put(json.dumps({"holder": gone, "versions": {TABLE.id: 2}, "renewed": True}))
    assert maintained(lake, policy)[TABLE.id].merged == 0

    then = clock.now().timestamp() - EXPIRES - 1
    os.utime(pin.local, (then, then))

    assert maintained(lake, policy)[TABLE.id].merged == 9
    assert not pin.exists()


def test_two_at_once_and_one_without_time_leave_the_rest(lake: Lake) -> None:
    received(lake, [each for number in range(9) for each in batch(number)])
    with (
        hold(lake.root / LOCK, json.dumps(own())),
        pytest.raises(TransientError, match="maintained already"),
    ):
        maintained(lake)
    over = Policy(is_over=lambda: True)
    assert [each.left for each in maintained(lake, over).values()] == ["out of time"]
    shown = maintained(lake, Policy(untouched=timedelta(0), go=False))[TABLE.id]
    assert shown.merged == 9
    assert latest_version(lake.table(TABLE)) == 9


def test_a_file_that_is_torn_is_said_and_the_rest_is_maintained(lake: Lake) -> None:
    """It ended each run as unforeseen, so all tables after it had no maintenance."""
    received(lake, [each for number in range(3) for each in batch(number)])
    path, other = lake.table(TABLE), lake.table(silver.TABLE)
    by_hand.create(other, StructType([StructField("at", TimestampType())]))
    as_before(path)
    (path / min(live_files(path).files)).local.write_bytes(b"")

    done = maintained(lake)

    assert "cannot be read" in done[TABLE.id].left
    assert done[TABLE.id].kind == "", "its other files were written again"
    assert done[TABLE.id].retimed == 2
    assert done[silver.TABLE.id].left == ""
    refuse_idle([*done.values()])


def test_files_of_before_keep_no_other_table_waiting(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They are written again in the first half of the time, which one large table may take for days."""
    received(lake, batch(0))
    path, other = lake.table(TABLE), lake.table(silver.TABLE)
    by_hand.create(other, StructType([StructField("at", TimestampType())]))
    as_before(path)
    now = 0.0
    monkeypatch.setattr(decisions, "time", SimpleNamespace(monotonic=lambda: now))
    policy = replace(decisions.policy_of("1d", "10m"), untouched=timedelta(0))

    now = 301.0
    done = maintained(lake, policy)

    left = "files of before, for lack of time"
    assert {each: done[each].left for each in done} == {TABLE.id: left, silver.TABLE.id: ""}
    now = 299.0
    assert maintained(lake, policy)[TABLE.id].retimed == 1
    now = 601.0
    assert [each.left for each in maintained(lake, policy).values()] == ["out of time"]


@pytest.mark.whole
def test_a_lake_of_before_goes_on_and_is_written_again(spark: SparkSession, lake: Lake) -> None:
    """Times in its files are INT96. Streams and proofs read both kinds, and no row is another one after."""
    calm = Lake(lake.root.parent / "calm").open_for_writing()
    for each in (lake, calm):
        grown(spark, each, steps=4, maintains=False)
        derive(spark, each, gold.TABLE)
    books = [
        path
        for table in (TABLE, silver.TABLE, gold.TABLE)
        for path in lake.books(table)
        if is_table(path)
    ]
    for path in books:
        as_before(path)
    engine.forget()
    for each in (lake, calm):
        grown(spark, each, first=4, steps=2, maintains=False)
        derive(spark, each, gold.TABLE)
    assert {kind for path in books for kind in written_as(path)} == {"INT96", "INT64"}
    assert answers_of(lake) == answers_of(calm)
    site = Site(spark=spark, clock=lambda: NOON)
    trial = Trial(splits=2, kills=0, seed=1)
    found = verify([silver.TABLE, gold.TABLE], lake, trial, site)
    assert [(each.equal, each.differences) for each in found] == [(True, ())] * 2

    maintained(lake)
    again = maintained(lake)

    assert {kind for path in books for kind in written_as(path)} == {"INT64"}
    assert not any(each.retimed for each in again.values())
    assert answers_of(lake) == answers_of(calm)
    assert proven(lake, (silver.TABLE, gold.TABLE))
    for each in (lake, calm):
        grown(spark, each, first=6, steps=1, maintains=False)
        derive(spark, each, gold.TABLE)
    assert answers_of(lake) == answers_of(calm)
