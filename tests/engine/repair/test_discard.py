"""Discarded rows stay in the books, are skipped by replays, and can be reopened."""

import shutil
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from fleet.silver import device_telemetry as silver
from strandline.core.errors import DefinitionError
from strandline.engine.accounting.balance_sheet import balance
from strandline.engine.accounting.browse_held import piles
from strandline.engine.accounting.browse_held import rows as held_rows
from strandline.engine.accounting.held_records import Signed
from strandline.engine.lake.lake import Lake
from strandline.engine.repair.backfill import backfill
from strandline.engine.repair.closed_range import Span
from strandline.engine.repair.replay import Choice, discard, reopen, replay
from tests.support.events import TOPIC
from tests.support.mistaken import TABLES, computed_anew, is_same, mistaken
from tests.support.modes import proven
from tests.support.rows import NOON, at

pytestmark = pytest.mark.slow

WHY = Signed(who="ann", at=NOON, why="a test of the line")
TOO_MUCH = Choice(reason="out_of_range:value")


@pytest.fixture(scope="module")
def judged(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Lake:
    """Make a lake whose streams judged by the mistaken rule."""
    return mistaken(spark, Lake(tmp_path_factory.mktemp("mistaken")).open_for_writing())


@pytest.fixture
def wrong(judged: Lake, tmp_path: Path) -> Lake:
    """Return a copy of it for one test."""
    shutil.copytree(judged.root, tmp_path / "lake")
    return Lake(tmp_path / "lake")


def opened(lake: Lake) -> dict[str, tuple[int, int]]:
    """Return by reason how many rows are open, and how many discarded."""
    return {pile.reason: (pile.open, pile.discarded) for pile in piles(silver.TABLE, lake, NOON)}


@pytest.mark.whole
def test_a_discard_closes_rows_with_its_reason_and_the_books_stay_as_they_are(
    spark: SparkSession, wrong: Lake
) -> None:
    """The event is in no other place."""
    before = balance(silver.TABLE, wrong)

    assert discard(spark, silver.TABLE, wrong, Choice(reason="malformed"), WHY) == 1

    assert balance(silver.TABLE, wrong) == before
    assert opened(wrong)["malformed"] == (0, 1)
    (row,) = held_rows(silver.TABLE, wrong, at=(TOPIC, 1, 2))
    (done,) = row.done
    assert (row.state, done.who, done.at, done.why) == (
        "discarded",
        "ann",
        NOON,
        "a test of the line",
    )


@pytest.mark.whole
def test_a_replay_skips_discarded_rows_until_the_discard_is_undone(
    spark: SparkSession, wrong: Lake
) -> None:
    """The last discard is undone first; the one before it stays."""
    discard(spark, silver.TABLE, wrong, Choice(place=(TOPIC, 1, 2)), WHY)
    discard(spark, silver.TABLE, wrong, TOO_MUCH, WHY)

    assert replay(spark, silver.TABLE, wrong).rows == 1
    assert reopen(spark, silver.TABLE, wrong, Signed(who="bob", at=NOON)) == 5
    assert opened(wrong)["malformed"] == (0, 1)
    assert replay(spark, silver.TABLE, wrong).healed == 3
    assert proven(wrong, TABLES)
    assert is_same(wrong, computed_anew(spark, wrong))


@pytest.mark.whole
def test_a_backfill_computes_what_bronze_gives_whatever_was_discarded(
    spark: SparkSession, wrong: Lake
) -> None:
    """A discarded row that came to silver by it does not become open when the discard is undone."""
    discard(spark, silver.TABLE, wrong, TOO_MUCH, WHY)

    backfill(spark, silver.TABLE, wrong, Span(since=at("08:00:00"), until=at("10:00:00")))

    assert balance(silver.TABLE, wrong).faults == []
    assert is_same(wrong, computed_anew(spark, wrong), silver.TABLE)
    assert reopen(spark, silver.TABLE, wrong, Signed()) == 0
    assert opened(wrong) == {"late": (1, 0), "malformed": (1, 0), "missing:signal": (1, 0)}


def test_a_discard_that_means_nothing_is_refused(spark: SparkSession, wrong: Lake) -> None:
    """No reason, no choice, no matching row; or no discard to undo."""
    for choice, signed in ((Choice(), WHY), (TOO_MUCH, Signed())):
        with pytest.raises(DefinitionError, match="must name its rows and the reason"):
            discard(spark, silver.TABLE, wrong, choice, signed)
    with pytest.raises(DefinitionError, match="no open row"):
        discard(spark, silver.TABLE, wrong, Choice(reason="nonsense"), WHY)
    with pytest.raises(DefinitionError, match="no discard"):
        reopen(spark, silver.TABLE, wrong, WHY)
