"""A row that arrived too far behind the rows of earlier commits is held in every mode, and comes in by a replay."""

import random
import shutil
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from jobs.core.lateness import Lateness
from jobs.gold import device_signal_10m as gold
from jobs.run.backfill import backfill
from jobs.run.balance import balance
from jobs.run.finding import Verdict, World
from jobs.run.heal import Choice
from jobs.run.lake import Lake
from jobs.run.ledger import entries
from jobs.run.replay import replay
from jobs.run.runner import Site
from jobs.run.span import Span
from jobs.run.verify import Trial, verify
from jobs.run.why import why
from jobs.silver import device_telemetry as silver
from tests.support.events import Event, reading, readings, received
from tests.support.logs import dealt, told
from tests.support.modes import Answers, answers_of, derive, in_every_mode, proven
from tests.support.rows import NOON, at, rows

DISORDERED = """
    batch | id | device | value | event_at | arrived_at
    0     | a  | d1     | 1     | 08:00:00 | 08:00:01
    0     | b  | d1     | 2     | 12:00:00 | 12:00:01
    1     | c  | d1     | 3     | 08:01:00 | 08:01:01
    1     | a  | d1     | 9     | 08:00:00 | 08:02:00
    1     | d  | d1     | 4     | 12:01:00 | 12:01:01
    2     | e  | d1     | 5     | 06:30:00 | 08:03:00
    2     | f  | d1     | 6     | 08:02:00 | 08:02:01
    2     | g  | d1     | 7     | 12:02:00 | 12:02:01
"""
"""Of the second and third commit all but the last row were stamped four hours before they were sent."""

MORNING = Span(since=at("08:00:00"), until=at("09:00:00"))


def in_order(text: str) -> list[Event]:
    """Return the same events in one commit, before which nothing had arrived."""
    return [replace(event, batch=0) for event in readings(text)]


@pytest.fixture(scope="module")
def met(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Lake:
    """Make a lake whose stream met disordered rows, commit by commit."""
    lake = Lake(tmp_path_factory.mktemp("met")).open_for_writing()
    for batch in range(3):
        received(spark, lake, [each for each in readings(DISORDERED) if each.batch == batch])
        derive(spark, lake, silver.TABLE, gold.TABLE)
    return lake


@pytest.fixture
def live(met: Lake, tmp_path: Path) -> Lake:
    """Return a copy of it, for one test alone."""
    shutil.copytree(met.root, tmp_path / "lake")
    return Lake(tmp_path / "lake")


@pytest.fixture(scope="module")
def clean(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Answers:
    """Return what a lake says that got the same events in order."""
    lake = Lake(tmp_path_factory.mktemp("clean")).open_for_writing()
    received(spark, lake, in_order(DISORDERED))
    derive(spark, lake, silver.TABLE, gold.TABLE)
    return answers_of(lake)


@pytest.mark.slow
def test_disordered_rows_are_held_alike_in_every_mode(spark: SparkSession, tmp_path: Path) -> None:
    """A stream would drop them below its watermark, and a batch would not: so it is a law of the log."""
    found = in_every_mode(spark, tmp_path, readings(DISORDERED), (silver.TABLE,))

    assert found.of("silver", "event_id") == rows("""
        event_id
        a
        b
        d
        g
    """)
    assert [(row["_offset"], row["reasons"]) for row in found.quarantine] == [
        ("2", "disordered"),
        ("3", "disordered"),
        ("5", "late disordered"),
        ("6", "disordered"),
    ]


def test_nothing_is_dropped_and_the_ledger_balances(met: Lake) -> None:
    """Each row that came out of order is in the quarantine."""
    assert [entry.read for _, entry in entries(met.table(silver.TABLE))] == [2, 3, 3]
    assert balance(silver.TABLE, met).dropped_by_watermark == 0
    assert proven(met, (silver.TABLE, gold.TABLE))


def test_why_says_how_far_behind_a_row_was_and_what_brings_it_in(met: Lake) -> None:
    """By its place and by its key."""
    world = World(lake=met, now=NOON)
    found = why("device-telemetry/0/2", silver.TABLE, world)

    assert found.verdict is why("c", silver.TABLE, world).verdict is Verdict.DISORDERED
    assert found.evidence["newest_before"] == "2026-11-20T12:00:01+00:00"
    assert "3:59:00 before the newest arrival" in found.sentence
    assert "quarantine replay silver.device_telemetry --reason disordered" in found.sentence


@pytest.mark.slow
def test_a_replay_brings_them_in_once_and_the_windows_above_follow(
    spark: SparkSession, live: Lake, clean: Answers
) -> None:
    """The copy of a row that silver has stays a copy, and what is late as well stays held."""
    done = replay(spark, silver.TABLE, live, Choice(reason="disordered"))
    again = replay(spark, silver.TABLE, live)

    assert (done.healed, done.duplicates, done.remain, again.healed) == (2, 1, 1, 0)
    assert proven(live, (silver.TABLE, gold.TABLE))
    assert answers_of(live).of("silver", "event_id", "value") == clean.of(
        "silver", "event_id", "value"
    )
    assert answers_of(live).closed == clean.closed

    certificates = verify(
        (silver.TABLE, gold.TABLE),
        live,
        Trial(splits=2, kills=0, seed=5),
        Site(spark=spark, clock=lambda: NOON),
    )
    assert [(each.equal, each.differences) for each in certificates] == [(True, ())] * 2


@pytest.mark.slow
def test_a_backfill_of_their_range_brings_them_in(
    spark: SparkSession, live: Lake, clean: Answers
) -> None:
    """Its stream has left the range for good, so their order says nothing any more; a second one changes nothing."""
    first = backfill(spark, silver.TABLE, live, MORNING)
    second = backfill(spark, silver.TABLE, live, MORNING)

    assert (first.came, first.gone, second.came, second.gone) == (2, 0, 0, 0)
    assert proven(live, (silver.TABLE,))
    assert answers_of(live).of("silver", "event_id", "value") == clean.of(
        "silver", "event_id", "value"
    )


@pytest.mark.slow
def test_random_arrivals_of_hours_ago_are_accounted_for_in_every_mode(
    spark: SparkSession, tmp_path: Path, chance: random.Random
) -> None:
    """One row in five was stamped up to a day before it was sent; the seed is in the header."""
    log = []
    for each in dealt(chance, told(chance, 150), batches=4):
        back = chance.choice([timedelta(0)] * 4 + [timedelta(minutes=chance.randrange(1, 1440))])
        log.append(replace(each.event, arrived_at=each.event.arrived_at - back))

    found = in_every_mode(spark, tmp_path, log, (silver.TABLE,))

    assert any("disordered" in row["reasons"] for row in found.quarantine)


def test_two_commits_may_share_a_moment() -> None:
    """Without a millisecond of disorder the second of them would be held as a whole."""
    with pytest.raises(ValueError, match="a millisecond or more"):
        Lateness(disorder=timedelta(0))


def test_the_newest_arrival_is_no_later_than_the_readers_clock(
    spark: SparkSession, lake: Lake
) -> None:
    """One record of the year 9999 would make every row after it disordered."""
    odd = Event(
        payload=reading(event_id="odd"),
        arrived_at=NOON.replace(year=9999),
        ingested_at=NOON,
    )
    received(spark, lake, [odd])
    received(spark, lake, readings("id | event_at | arrived_at\n n | 12:01:00 | 12:01:00"))
    derive(spark, lake, silver.TABLE)

    assert balance(silver.TABLE, lake).quarantined == {"late": 1}
    assert balance(silver.TABLE, lake).good == 1
