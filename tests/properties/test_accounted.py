"""However a log is cut and whatever is killed, every event is in one place, and always in the same one.

Few examples with many rows each, because starting a stream costs far more than a row in it.
A failure is not shrunk; the seed in pytest's last lines brings it back.
"""

import random
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession

from fleet.silver import device_telemetry as silver
from strandline.core.stateful import Batch
from strandline.engine.lake.lake import Lake
from strandline.engine.lake.log.ledger import entries, latest_version
from tests.support.events import commits, received
from tests.support.interrupted import forget, kill_at
from tests.support.logs import Labelled, dealt, expected, halved, random_log
from tests.support.modes import (
    STREAMED,
    TABLES,
    Answers,
    answered_by,
    answers_of,
    derive,
    proven,
    twin,
)
from tests.support.proofs import Times


@pytest.mark.prove
@pytest.mark.slow
def test_any_cut_of_a_log_gives_the_same_rows_and_each_event_one_place(
    spark: SparkSession, tmp_path: Path, chance: random.Random, times: Times
) -> None:
    """Slices depend on load, outages and luck; the answer must not."""
    for number in range(times(1, 200)):
        assert_any_cut_is_the_same(spark, tmp_path / str(number), chance)


def assert_any_cut_is_the_same(spark: SparkSession, root: Path, chance: random.Random) -> None:
    """Cut a log at random, run it in a mode that is drawn, and compare with one batch over all of it."""
    log = random_log(chance, 150)
    cut = dealt(chance, log, batches=chance.choice([2, 3]))

    one = answered_by("batch", spark, root / "one", [each.event for each in log], [silver.TABLE])
    many = answered_by("batch", spark, root / "many", [each.event for each in cut])
    way = chance.choice(STREAMED)
    streamed = answered_by(way, spark, root / "many", [each.event for each in cut])

    assert streamed == many, way
    assert_accounted(many, cut)
    assert_accounted(one, log)
    # Which of two different copies is the first is a matter of commits; all else is not.
    assert many.quarantine == one.quarantine
    assert many.of("silver", *KEY) == one.of("silver", *KEY)


@pytest.mark.prove(alone="half a minute")
@pytest.mark.slow
def test_a_batch_that_runs_again_changes_nothing(
    spark: SparkSession, lake: Lake, chance: random.Random
) -> None:
    """A kill after Delta's commit and before Spark's own leaves a batch that is run once more."""
    log = halved(random_log(chance, 120))
    # The newest batch alone, which closes windows, or with it the one that brought the rows.
    for forgotten, batch in enumerate(commits(each.event for each in log), start=1):
        received(lake, batch)
        derive(spark, lake, *TABLES)
        before = versions(lake), answers_of(lake)

        for table in TABLES:
            forget(lake, table, forgotten)
        derive(spark, lake, *TABLES)

        assert (versions(lake), answers_of(lake)) == before
    assert_complete(spark, lake, log)


@pytest.mark.prove(alone="half a minute")
@pytest.mark.slow
def test_a_batch_that_is_killed_between_its_commits_is_ended_by_the_next_start(
    spark: SparkSession, lake: Lake, monkeypatch: pytest.MonkeyPatch, chance: random.Random
) -> None:
    """The quarantine is written first; what it has of the batch must be there once when silver follows."""
    log = halved(random_log(chance, 120))
    for batch in commits(each.event for each in log):
        received(lake, batch)
        for table in TABLES:
            # Silver's second commit; gold has one, and is killed with its files written but not in the log.
            nth = 1 if table is silver.TABLE else 0
            with monkeypatch.context() as patch:
                kill_at(patch, table, nth)
                with pytest.raises(StreamingQueryException):
                    derive(spark, lake, table)
            if table is silver.TABLE:
                assert len(answers_of(lake).quarantine) > held(lake)
            derive(spark, lake, table)

    assert_complete(spark, lake, log)


KEY = ("event_id", "event_at")


def held(lake: Lake) -> int:
    """Return how many bad rows silver's ledger knows of."""
    found = entries(lake.table(silver.TABLE))
    return sum(sum(entry.quarantined.values()) for _, entry in found)


def versions(lake: Lake) -> list[int]:
    """Return the newest version of each table, quarantines too."""
    return [latest_version(path) for table in TABLES for path in lake.folders(table)]


def assert_complete(spark: SparkSession, lake: Lake, log: Sequence[Labelled]) -> None:
    """Assert that a lake has what it must have, and the rows of a lake that was never killed."""
    answers = answers_of(lake)
    calm = twin(lake, "calm")
    derive(spark, calm, *TABLES, mode=Batch())
    assert answers == answers_of(calm)
    assert_accounted(answers, log)
    assert proven(lake, TABLES)


def assert_accounted(answers: Answers, log: Sequence[Labelled]) -> None:
    """Assert that good and bad rows are those of the log, and that all others are copies."""
    places, held, copies = expected(log)
    good = [(int(row["_partition"]), int(row["_offset"])) for row in answers.silver]
    bad = Counter(row["reasons"] for row in answers.quarantine)
    assert set(good) == places
    assert bad == held
    assert len(good) + bad.total() + copies == len(log)
