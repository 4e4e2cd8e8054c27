"""A certificate says equal when every way to compute a table gives the live rows, and else shows those that differ."""

import random
from datetime import timedelta

import pytest
from deltalake import DeltaTable
from pyspark.sql import DataFrame, SparkSession

from jobs.core import stateful
from jobs.core.errors import DefinitionError
from jobs.gold import device_signal_10m as gold
from jobs.run import streams
from jobs.run.balance import balance
from jobs.run.certificate import kept, standing
from jobs.run.lake import Lake
from jobs.run.recut import Log, recut
from jobs.run.runner import Site
from jobs.run.span import Span
from jobs.run.verify import Trial, verify
from jobs.silver import device_telemetry as silver
from tests.support.events import TABLE, received
from tests.support.logs import dealt, told
from tests.support.modes import derive
from tests.support.rows import NOON

TABLES = (silver.TABLE, gold.TABLE)


@pytest.fixture
def live(spark: SparkSession, lake: Lake, chance: random.Random) -> Lake:
    """Return a lake with a few hundred dirty events in three commits, computed by a stream."""
    received(spark, lake, [each.event for each in dealt(chance, told(chance, 300), batches=3)])
    derive(spark, lake, *TABLES)
    return lake


def site(spark: SparkSession) -> Site:
    return Site(spark=spark, clock=lambda: NOON)


@pytest.mark.slow
def test_a_sound_table_is_certified_with_what_was_tried(spark: SparkSession, live: Lake) -> None:
    """The stream runs in a process of its own, and is killed once on the way."""
    trial = Trial(splits=3, kills=1, seed=11)

    found = verify(TABLES, live, trial, site(spark))

    assert [(each.table, each.equal, each.differences) for each in found] == [
        (table.id, True, ()) for table in TABLES
    ]
    assert all((each.splits, each.kills, each.seed) == (3, 1, 11) for each in found)
    assert found[0].rows == 300 - balance(silver.TABLE, live).duplicates
    assert found[0].versions[TABLE.id] == DeltaTable(live.table(TABLE)).version()
    assert [kept(table, live) for table in TABLES] == found
    assert [standing(table, live) for table in TABLES] == ["equal", "equal"]
    assert list((live.root / "_verify").iterdir()) == []

    span = Span(since=NOON - timedelta(hours=4), until=NOON - timedelta(hours=2))
    (part,) = verify([gold.TABLE], live, Trial(splits=1, kills=0, seed=1, span=span), site(spark))

    assert part.equal
    assert 0 < part.rows < found[1].rows
    assert (part.since, part.until) == (span.since.isoformat(), span.until.isoformat())
    assert kept(gold.TABLE, live, is_whole=False) == part
    assert kept(gold.TABLE, live) == found[1], "which speaks of more"


@pytest.mark.slow
def test_an_operator_that_depends_on_chance_is_found_and_its_rows_are_shown(
    spark: SparkSession, live: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Here the batch side keeps the last of several copies, and the live table has the first."""

    def last_copies(rows: DataFrame, same: tuple[str, ...], _order: tuple[str, ...]) -> DataFrame:
        backwards = rows.withColumns({name: -rows[name] for name in ("_batch", "_offset")})
        kept = stateful.first_copies(backwards, same, ("_batch", "_offset"))
        return kept.withColumns({name: -kept[name] for name in ("_batch", "_offset")})

    monkeypatch.setattr(streams, "first_copies", last_copies)

    (found,) = verify([silver.TABLE], live, Trial(splits=1, kills=0, seed=1), site(spark))

    assert not found.equal
    assert any("are not in one batch" in line for line in found.differences)
    assert any(line.startswith("silver.device_telemetry: only live") for line in found.differences)
    assert standing(silver.TABLE, live) == "NOT EQUAL"


def test_a_table_that_lags_is_not_compared(spark: SparkSession, live: Lake) -> None:
    """A difference would say nothing."""
    received(spark, live, [each.event for each in told(random.Random(1), 5)])  # noqa: S311

    with pytest.raises(DefinitionError, match="5 rows behind"):
        verify([gold.TABLE], live, Trial(splits=1, kills=0, seed=1), site(spark))


def test_a_table_of_other_code_is_not_called_equal(live: Lake) -> None:
    assert standing(gold.TABLE, live) == "none"


def test_a_recut_log_has_the_same_rows_in_order_and_in_as_many_commits(
    spark: SparkSession, live: Lake, chance: random.Random
) -> None:
    """Each commit begins behind the one before it, in the order of arrival within a live commit."""
    log = Log(table=TABLE, path=live.table(TABLE), version=DeltaTable(live.table(TABLE)).version())
    other = Lake(live.root.parent / "other").open_for_writing()

    rows = recut(spark, log, other, commits=4, chance=chance)

    assert len(rows) == 4
    assert sum(rows) == 300
    before = spark.read.format("delta").load(str(live.table(TABLE)))
    after = spark.read.format("delta").load(str(other.table(TABLE)))
    assert before.exceptAll(after).count() == 0
    places = [
        [
            (row["_batch"], row["_arrived_at"])
            for row in DeltaTable(other.table(TABLE), version=n).to_pyarrow_table().to_pylist()
        ]
        for n in range(1, 5)
    ]
    seen: set[object] = set()
    for commit in places:
        added = [place for place in commit if place not in seen]
        assert not seen or not added or min(added) >= max(seen)  # type: ignore[type-var]
        seen |= set(commit)
