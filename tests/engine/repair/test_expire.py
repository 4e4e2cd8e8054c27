"""What is older than a table keeps it is deleted, in the books, once, and never before it was read."""

from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from fleet.gold import device_signal_10m as gold
from fleet.silver import device_telemetry as silver
from strandline.core.errors import DefinitionError
from strandline.engine.accounting.balance_sheet import balance, held_rows
from strandline.engine.accounting.held_records import Signed
from strandline.engine.ask.locate import Verdict, World
from strandline.engine.ask.why import why
from strandline.engine.flow.runner import Site
from strandline.engine.lake.lake import Lake
from strandline.engine.lake.log.ledger import latest_version
from strandline.engine.proof.verify import Trial, verify
from strandline.engine.repair.backfill import backfill
from strandline.engine.repair.closed_range import Span
from strandline.engine.repair.expire import expire, overdue
from strandline.engine.repair.rebuild import refuse_lossy
from strandline.engine.repair.replay import Choice, discard
from tests.support.events import TABLE as BRONZE
from tests.support.events import TOPIC, readings, received
from tests.support.modes import answers_of, derive, proven, twin
from tests.support.morning import LATER, TABLES, step_by_step, streamed
from tests.support.rows import NOON, at, rows
from tests.support.seeds import copied

pytestmark = pytest.mark.slow

SILVER = replace(silver.TABLE, keeps="2 hours", keeps_held="150 minutes")


@pytest.fixture
def morning(spark: SparkSession, tmp_path: Path) -> Lake:
    """Return a lake whose stream read the morning commit by commit, so that its files have ages of their own."""
    lake = Lake(tmp_path / "lake").open_for_writing()
    return copied(lake, "morning, commit by commit", lambda seed: step_by_step(spark, seed))


def test_old_rows_go_as_whole_files_and_the_books_balance(
    spark: SparkSession, morning: Lake
) -> None:
    """Of silver's files of the morning the first two are old at noon; what was read and judged stays counted."""
    before = balance(silver.TABLE, morning)
    files = len(DeltaTable(morning.table(silver.TABLE)).file_uris())
    shown = overdue(SILVER, morning, NOON)

    done = expire(spark, SILVER, morning, NOON)

    sheet = balance(silver.TABLE, morning)
    assert proven(morning, TABLES)
    assert [(each.table, each.rows) for each in done] == [(each.table, each.rows) for each in shown]
    assert sheet.expired == sum(each.rows for each in done) > 0
    assert (sheet.read, sheet.good, sheet.duplicates) == (
        before.read,
        before.good,
        before.duplicates,
    )
    assert sheet.rows == before.rows - done[0].rows
    assert len(DeltaTable(morning.table(silver.TABLE)).file_uris()) == files - done[0].files
    assert answers_of(morning).of("silver", "event_id") == rows("""
        event_id
        h
        i
    """)


def test_a_second_run_changes_nothing(spark: SparkSession, morning: Lake) -> None:
    """No commit, so a schedule may ask every minute."""
    expire(spark, SILVER, morning, NOON)
    versions = [latest_version(path) for path in morning.books(silver.TABLE)]

    assert all(each.rows == 0 for each in expire(spark, SILVER, morning, NOON))

    assert [latest_version(path) for path in morning.books(silver.TABLE)] == versions


@pytest.mark.whole
def test_streams_pass_over_it_and_run_on(spark: SparkSession, morning: Lake) -> None:
    """The windows that come later are those of a lake in which nothing expired."""
    other = twin(morning, "undisturbed")
    for table in (replace(BRONZE, keeps="2 hours"), SILVER, replace(gold.TABLE, keeps="2 hours")):
        expire(spark, table, morning, NOON)

    streamed(spark, morning, LATER)
    received(other, readings(LATER))
    derive(spark, other, *TABLES)

    assert proven(morning, TABLES)
    late = [row for row in answers_of(other).closed if row in answers_of(morning).closed]
    assert late == answers_of(morning).closed
    assert len(late) > 1


@pytest.mark.whole
def test_rows_that_a_table_above_has_not_read_stay(spark: SparkSession, morning: Lake) -> None:
    """Its name is in the answer; once it has read them they go."""
    received(morning, readings(LATER))
    derive(spark, morning, silver.TABLE)
    evening = NOON + timedelta(hours=12)

    (done, _) = expire(spark, SILVER, morning, evening)
    kept = answers_of(morning).of("silver", "event_id")
    derive(spark, morning, gold.TABLE)
    (again, _) = expire(spark, SILVER, morning, evening)

    assert done.waits_for == (gold.TABLE.id,)
    assert kept == rows("""
        event_id
        j
        k
    """)
    assert (again.rows, again.waits_for) == (2, ())
    assert proven(morning, TABLES)


def test_rows_that_a_compaction_has_gathered_are_read_where_they_were_read_before(
    spark: SparkSession, morning: Lake
) -> None:
    """On a quiet lake a request to forget and an expiry waited for the next record: no batch reads what has no new rows."""
    evening = NOON + timedelta(hours=12)
    DeltaTable(morning.table(silver.TABLE)).optimize.compact()
    (read, _) = expire(spark, SILVER, morning, evening)
    received(morning, readings(LATER))
    derive(spark, morning, silver.TABLE)
    DeltaTable(morning.table(silver.TABLE)).optimize.compact()
    (unread, _) = expire(spark, SILVER, morning, evening)
    derive(spark, morning, gold.TABLE)
    (again, _) = expire(spark, SILVER, morning, evening)

    assert (read.waits_for, read.rows > 0) == ((), True)
    assert (unread.rows, unread.waits_for) == (0, (gold.TABLE.id,))
    assert (again.rows, again.waits_for) == (2, ())
    assert proven(morning, TABLES)


def test_records_of_the_quarantine_go_with_what_was_decided_about_them(
    spark: SparkSession, morning: Lake
) -> None:
    """Discarded ones are held as well; the number of those that are still held is right."""
    discard(spark, silver.TABLE, morning, Choice(reason="malformed"), Signed(why="a test", at=NOON))
    held = held_rows(silver.TABLE, morning)

    done = expire(spark, replace(silver.TABLE, keeps_held="1 hour"), morning, NOON)

    assert [(each.table, each.rows) for each in done] == [("quarantine.device_telemetry", held)]
    assert held_rows(silver.TABLE, morning) == 0
    assert balance(silver.TABLE, morning).expired == held
    assert proven(morning, TABLES)


def test_what_expired_is_not_computed_again(spark: SparkSession, morning: Lake) -> None:
    """A backfill of it is refused, as is a rebuild that would lose rows; what is left can be computed."""
    expire(spark, replace(BRONZE, keeps="2 hours"), morning, NOON)

    with pytest.raises(DefinitionError, match="cannot be computed again: retention deleted"):
        backfill(spark, silver.TABLE, morning, Span(since=at("09:00:00"), until=at("09:30:00")))
    with pytest.raises(DefinitionError, match="cannot be rebuilt: its sources have no rows from"):
        refuse_lossy(silver.TABLE, morning)

    assert proven(morning, TABLES)


@pytest.mark.prove(alone="three computations and a stream in a process of its own")
def test_a_certificate_compares_what_is_left(spark: SparkSession, morning: Lake) -> None:
    """Rows of silver whose records expired are no difference, and the certificate says from when on it compares."""
    streamed(spark, morning, LATER)
    for table in (replace(BRONZE, keeps="5 hours"), SILVER):
        expire(spark, table, morning, NOON + timedelta(hours=4))
    site = Site(spark=spark, clock=lambda: NOON)

    found = verify(TABLES, morning, Trial(splits=2, kills=0, seed=1), site)

    assert [(each.equal, each.differences) for each in found] == [(True, ())] * 2
    assert all(each.whole_from for each in found)


def test_why_names_the_commit_that_deleted_an_event(spark: SparkSession, morning: Lake) -> None:
    """While its record is in bronze and when that is gone too, and also when the deleted files are off the disk."""
    world = World(lake=morning, now=NOON, search=False)
    spot = f"{TOPIC}/0/0"
    expire(spark, SILVER, morning, NOON)
    first = why(spot, silver.TABLE, world)
    for file in {*morning.table(silver.TABLE).names()} - {*live_names(morning)}:
        if file.endswith(".parquet"):
            (morning.table(silver.TABLE) / file).remove()
    second = why(spot, silver.TABLE, world)
    expire(spark, replace(BRONZE, keeps="2 hours"), morning, NOON)
    third = why(spot, silver.TABLE, world)

    assert [each.verdict for each in (first, second, third)] == [Verdict.DELETED] * 3
    assert [each.table for each in (first, second, third)] == [
        silver.TABLE.id,
        silver.TABLE.id,
        BRONZE.id,
    ]
    assert all(each.evidence["until"] == "2026-11-20T10:00:00+00:00" for each in (first, second))


def live_names(lake: Lake) -> list[str]:
    return [uri.rpartition("/")[2] for uri in DeltaTable(lake.table(silver.TABLE)).file_uris()]
