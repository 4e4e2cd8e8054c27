"""A row that arrived too far behind the rows of earlier commits is held in every mode, and comes in by a replay."""

import random
import shutil
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from fleet.gold import device_signal_10m as gold
from fleet.silver import device_telemetry as silver
from strandline.core.kind import SKEW, Lateness
from strandline.engine.accounting.balance_sheet import balance
from strandline.engine.ask.locate import Verdict, World
from strandline.engine.ask.why import why
from strandline.engine.flow.runner import Site
from strandline.engine.lake.lake import Lake
from strandline.engine.lake.log.ledger import entries
from strandline.engine.proof.verify import Trial, verify
from strandline.engine.repair.backfill import backfill
from strandline.engine.repair.closed_range import Span
from strandline.engine.repair.replay import Choice, replay
from tests.support.events import Event, reading, readings, received
from tests.support.logs import dealt, random_log
from tests.support.modes import (
    STEPWISE,
    STREAMED,
    Answers,
    answers_of,
    derive,
    in_every_mode,
    proven,
)
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
        received(lake, [each for each in readings(DISORDERED) if each.batch == batch])
        derive(spark, lake, silver.TABLE, gold.TABLE)
    return lake


@pytest.fixture
def live(met: Lake, tmp_path: Path) -> Lake:
    """Return a copy of it, for one test alone."""
    shutil.copytree(met.root, tmp_path / "lake")
    return Lake(tmp_path / "lake")


@pytest.fixture(scope="module")
def clean(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Answers:
    """Return the rows of a lake that got the same events in order."""
    lake = Lake(tmp_path_factory.mktemp("clean")).open_for_writing()
    received(lake, in_order(DISORDERED))
    derive(spark, lake, silver.TABLE, gold.TABLE)
    return answers_of(lake)


@pytest.mark.whole
@pytest.mark.slow
def test_disordered_rows_are_held_alike_in_every_mode(spark: SparkSession, tmp_path: Path) -> None:
    """A stream would drop them below its watermark, and a batch would not: so it is a law of the log."""
    found = in_every_mode(spark, tmp_path, readings(DISORDERED), (silver.TABLE,), STEPWISE)

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


def test_why_names_how_far_behind_a_row_was_and_what_brings_it_in(met: Lake) -> None:
    """By its place and by its key."""
    world = World(lake=met, now=NOON)
    found = why("device-telemetry/0/2", silver.TABLE, world)

    assert found.verdict is why("c", silver.TABLE, world).verdict is Verdict.DISORDERED
    assert found.evidence["newest_before"] == "2026-11-20T12:00:01+00:00"
    assert "3:59:00 before the newest in earlier commits" in found.sentence
    assert "quarantine replay silver.device_telemetry --reason disordered" in found.sentence


@pytest.mark.whole
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


@pytest.mark.slow
@pytest.mark.prove(alone="half a minute")
def test_what_a_replay_brought_in_is_certified(spark: SparkSession, live: Lake) -> None:
    """A verification admits the same rows, in a batch and in a stream of its own."""
    replay(spark, silver.TABLE, live, Choice(reason="disordered"))

    (certificate,) = verify(
        (silver.TABLE,),
        live,
        Trial(splits=2, kills=0, seed=5),
        Site(spark=spark, clock=lambda: NOON),
    )
    assert (certificate.equal, certificate.differences) == (True, ())


@pytest.mark.whole
@pytest.mark.slow
def test_a_backfill_of_their_range_brings_them_in(
    spark: SparkSession, live: Lake, clean: Answers
) -> None:
    """Its stream has left the range for good, so their order no longer matters; a second backfill changes nothing."""
    first = backfill(spark, silver.TABLE, live, MORNING)
    second = backfill(spark, silver.TABLE, live, MORNING)

    assert (first.came, first.gone, second.came, second.gone) == (2, 0, 0, 0)
    assert proven(live, (silver.TABLE,))
    assert answers_of(live).of("silver", "event_id", "value") == clean.of(
        "silver", "event_id", "value"
    )


@pytest.mark.whole
@pytest.mark.slow
def test_random_arrivals_of_hours_ago_are_accounted_for_in_any_mode(
    spark: SparkSession, tmp_path: Path, chance: random.Random
) -> None:
    """One row in five was stamped up to a day before it was sent; the seed is in the header, and draws the mode."""
    log = []
    for each in dealt(chance, random_log(chance, 150), batches=4):
        back = chance.choice([timedelta(0)] * 4 + [timedelta(minutes=chance.randrange(1, 1440))])
        log.append(replace(each.event, arrived_at=each.event.arrived_at - back))

    way = chance.choice(STREAMED)
    found = in_every_mode(spark, tmp_path, log, (silver.TABLE,), (way,))

    assert any("disordered" in row["reasons"] for row in found.quarantine)


def test_two_commits_may_share_a_moment() -> None:
    """Without a millisecond of disorder the second of them would be held as a whole."""
    with pytest.raises(ValueError, match="a millisecond or more"):
        Lateness(disorder=timedelta(0))


BACKLOG = [
    replace(event, ingested_at=NOON)
    for event in readings("""
        batch | id | device | event_at | arrived_at
        0     | a  | d1     | 06:00:00 | 06:00:01
        0     | b  | d1     | 06:03:00 | 06:03:01
        1     | c  | d1     | 06:05:00 | 06:05:01
        2     | d  | d1     | 06:06:00 | 06:06:01
        2     | e  | d1     | 08:20:00 | 08:20:01
    """)
]
"""A topic that is read hours after its records came."""


def of_a_broken_clock(batch: int, ahead: timedelta) -> Event:
    """Return a record that was stamped beyond the reader's clock."""
    return Event(
        batch=batch,
        payload=reading(event_id=f"odd{batch}", event_at=(NOON + ahead).isoformat()),
        arrived_at=NOON + ahead,
        ingested_at=NOON,
    )


@pytest.mark.whole
@pytest.mark.slow
def test_a_broken_clock_in_a_backlog_takes_nothing_with_it(
    spark: SparkSession, tmp_path: Path
) -> None:
    """It counted as one of the moment at which it was read, hours later, and all rows after it were disordered."""
    ahead = (SKEW * 2, timedelta(days=365 * 7900), SKEW * 2)
    log = [*BACKLOG, *(of_a_broken_clock(batch, each) for batch, each in enumerate(ahead))]

    found = in_every_mode(spark, tmp_path, log, (silver.TABLE,), STEPWISE)

    assert len(found.silver) == len(BACKLOG)
    assert {row["reasons"] for row in found.quarantine} == {"from_the_future"}


@pytest.mark.prove(alone="half a minute")
@pytest.mark.slow
def test_a_log_with_broken_clocks_is_verified_however_it_is_cut(
    spark: SparkSession, lake: Lake
) -> None:
    """In a commit that spans hours they come last; a piece with nothing else must not lie below the watermark."""
    broken = [of_a_broken_clock(batch, SKEW * (2 + batch)) for batch in range(3)]
    for batch in range(3):
        received(lake, [each for each in [*BACKLOG, *broken] if each.batch == batch])
        derive(spark, lake, silver.TABLE)

    certificates = verify(
        (silver.TABLE,),
        lake,
        Trial(splits=len(BACKLOG) + len(broken), kills=0, seed=5),
        Site(spark=spark, clock=lambda: NOON),
    )

    assert [(each.equal, each.differences) for each in certificates] == [(True, ())]
    assert balance(silver.TABLE, lake).quarantined == {"from_the_future": 3}


@pytest.mark.whole
def test_an_arrival_ahead_of_the_clock_is_held_even_where_early_events_are_allowed(
    spark: SparkSession, lake: Lake
) -> None:
    """Bronze, which does not know a table's lateness, leaves it out of the newest arrival; so every table holds it."""
    generous = replace(silver.TABLE, lateness=Lateness(early=timedelta(hours=2)))
    received(lake, [of_a_broken_clock(0, SKEW * 2), of_a_broken_clock(1, SKEW)])
    derive(spark, lake, generous)

    sheet = balance(generous, lake)
    assert (sheet.quarantined, sheet.good) == ({"from_the_future": 1}, 1)
