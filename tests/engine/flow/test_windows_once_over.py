"""Rows are counted by what a dimension says of them, each window once it is over, and again where late news touches it."""

import random
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from deltalake import DeltaTable
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StringType, StructType, TimestampType
from strandline import catalog

from fleet.silver import device_inventory, devices
from strandline.core.errors import DefinitionError
from strandline.core.kind import Day, Emit
from strandline.core.stateful import Batch
from strandline.core.table import Ingested, Judged, Recomputed
from strandline.core.topic import Topic
from strandline.engine.accounting.balance_sheet import balance
from strandline.engine.lake.commit import delta_commit
from strandline.engine.lake.lake import Lake
from strandline.engine.lake.log.commit_log import added_file
from strandline.engine.lake.log.ledger import FORGET, Entry, last_entry, latest_version
from strandline.engine.repair.expire import expire
from tests.support.literal import Log, in_every_way, put
from tests.support.modes import derive
from tests.support.rows import NOON
from tests.support.shapes import arrived

VIEW = (
    StructType()
    .add("view_id", StringType())
    .add("device_id", StringType())
    .add("viewed_at", TimestampType())
)
VIEWS = Judged(
    name="views",
    reads=(Ingested(name="views", reads=(Topic(name="views"),)),),
    transform=lambda rows: rows,
    key=("view_id",),
    event_at="viewed_at",
)
HOUR, SLIDE = timedelta(hours=1), timedelta(minutes=10)
MINUTE, SECOND = timedelta(minutes=1), timedelta(seconds=1)
DELAY = VIEWS.lateness.delay
HELSINKI = Day("Europe/Helsinki")


def by_site(views: DataFrame, intervals: DataFrame) -> DataFrame:
    """Count the views of each site in windows of an hour that begin every ten minutes."""
    placed = devices.as_of(views, intervals, "viewed_at", ("site",))
    return _counted(placed, F.window("viewed_at", "1 hour", "10 minutes"))


def by_day(views: DataFrame, intervals: DataFrame) -> DataFrame:
    """Count the views of each site and day of Helsinki."""
    placed = devices.as_of(views, intervals, "viewed_at", ("site",))
    return _counted(HELSINKI.of(placed, "viewed_at", name="window"), F.col("window"))


def _counted(placed: DataFrame, window: object) -> DataFrame:
    sites = placed.groupBy(F.coalesce("site", F.lit("?")).alias("site"), window)  # type: ignore[arg-type]
    return sites.agg(F.count("*").alias("views")).select(
        "site",
        F.col("window.start").alias("window_from"),
        F.col("window.end").alias("window_until"),
        "views",
    )


TABLE = Recomputed(
    name="views_by_site",
    reads=(VIEWS, devices.TABLE),
    transform=by_site,
    key=("site", "window_from"),
    window="1 hour",
    every="10 minutes",
    window_from="window_from",
    closes_at="window_until",
    emits=Emit.ON_WATERMARK,
)
DAILY = replace(TABLE, name="views_by_day", transform=by_day, window=HELSINKI, every=None)
HEADS = {
    VIEWS: (VIEW, "batch | view_id | device_id | viewed_at"),
    device_inventory.TABLE: (
        arrived(device_inventory.FIELDS),
        "batch | change_id | device_id | site | model | owner | event_at | _arrived_at | _partition | _offset",
    ),
}


@dataclass(frozen=True, slots=True)
class Moved:
    """A device is at a site from a moment on."""

    device: str
    site: str
    at: datetime


def text(rows: Sequence[str], of: Judged) -> tuple[StructType, str]:
    schema, head = HEADS[of]
    return schema, "\n".join([head, *rows])


@dataclass(frozen=True, slots=True)
class World:
    """Views and moves at random: views a little disordered, and some moves that are known an hour late."""

    views: tuple[tuple[int, str, datetime], ...]
    moves: tuple[tuple[int, Moved], ...]

    @classmethod
    def of(cls, chance: random.Random, batches: int = 5, views: int = 60) -> "World":
        """Return one that chance makes."""
        seen, moves = [], [(1, Moved(f"d{n}", "berlin", NOON - HOUR)) for n in range(3)]
        for number in range(views):
            at = NOON + number * 3 * MINUTE + chance.randrange(600) * SECOND
            batch = 1 + number * batches // views
            seen.append((batch, f"d{chance.randrange(4)}", at))
            if chance.random() < 0.2:
                late = chance.choice((timedelta(0), HOUR, 2 * HOUR))
                site = chance.choice(("berlin", "lima", "osaka"))
                moves.append((batch, Moved(f"d{chance.randrange(4)}", site, at - late)))
        return cls(tuple(seen), tuple(moves))

    def log(self) -> Log:
        """Return its rows as the sources have them, batch by batch."""
        views = [f"{b} | v{n} | {d} | {_said(at)}" for n, (b, d, at) in enumerate(self.views)]
        moves = [
            f"{b} | {n} | {m.device} | {m.site} | m | o | {_said(m.at)} | {_said(m.at)} | 0 | {n}"
            for n, (b, m) in enumerate(self.moves)
        ]
        return {
            VIEWS: text(views, VIEWS),
            device_inventory.TABLE: text(moves, device_inventory.TABLE),
        }

    def until(self, batch: int) -> "World":
        """Return what had come by a batch."""
        return World(
            tuple(each for each in self.views if each[0] <= batch),
            tuple(each for each in self.moves if each[0] <= batch),
        )

    def site(self, device: str, at: datetime) -> str:
        """Return where a device was: by the last of its moves, of two of one moment the one that is later in the log."""
        known = [m for _, m in self.moves if m.device == device and m.at <= at]
        return (
            max(enumerate(known), key=lambda each: (each[1].at, each[0]))[1].site if known else "?"
        )

    def counted(self) -> Counter[tuple[str, datetime]]:
        """Return the views of each site and hour that is over."""
        over = max(at for _, _, at in self.views) - DELAY
        found: Counter[tuple[str, datetime]] = Counter()
        for _, device, at in self.views:
            begun = at - (at - NOON) % SLIDE
            for nth in range(6):
                start = begun - nth * SLIDE
                if start + HOUR <= over:
                    found[self.site(device, at), start] += 1
        return found


def _said(at: datetime) -> str:
    return at.isoformat()


def live(lake: Lake, table: Recomputed = TABLE) -> Counter[tuple[str, datetime]]:
    found = DeltaTable(lake.table(table)).to_pyarrow_table().to_pylist()
    return Counter(
        {(row["site"], row["window_from"].astimezone(UTC)): row["views"] for row in found}
    )


def forgotten(spark: SparkSession, lake: Lake) -> None:
    """Take out the file of the second batch, as a request to forget does."""
    commit = delta_commit.Commit(spark, lake.table(VIEWS))
    _, second = sorted(commit.files(), key=lambda line: added_file(line)["modificationTime"])
    commit.take_out([second])
    entry = replace(newest(lake, VIEWS), mode=FORGET, since=NOON.isoformat(), read=0, good=0)
    commit.commit(replace(entry, until=NOON.isoformat(), written=0, forgotten=1).encoded())


def newest(lake: Lake, table: Recomputed | Judged = TABLE) -> Entry:
    found = last_entry(lake.table(table))
    assert found is not None
    return found[1]


@pytest.mark.whole
@pytest.mark.slow
def test_every_mode_has_the_windows_that_are_over_by_what_is_known_at_last(
    spark: SparkSession, tmp_path: Path, chance: random.Random
) -> None:
    world = World.of(chance)

    in_every_way(spark, tmp_path, TABLE, world.log(), through=(devices.TABLE,))

    for way in ("batch", "step by step", "always on"):
        assert live(Lake(tmp_path / way)) == world.counted(), way


@pytest.mark.slow
def test_after_each_batch_the_table_has_what_is_over_and_news_of_the_past_is_counted(
    spark: SparkSession, lake: Lake, chance: random.Random
) -> None:
    world = World.of(chance, batches=4)

    for batch in range(1, 5):
        put(lake, world.log(), str(batch))
        derive(spark, lake, devices.TABLE, TABLE)
        assert live(lake) == world.until(batch).counted(), batch
        assert balance(TABLE, lake).faults == []
    assert newest(lake).over_until is not None
    assert newest(lake).watermark is not None


def test_a_window_is_read_once_and_nothing_is_computed_where_none_ends(
    spark: SparkSession, lake: Lake
) -> None:
    put(lake, _at("1 | v1 | d1 | 12:00:00", "1 | v2 | d1 | 12:09:00"), "1")
    derive(spark, lake, devices.TABLE, TABLE)
    assert live(lake) == Counter()
    put(lake, _at("2 | v3 | d1 | 12:05:00"), "2")
    derive(spark, lake, devices.TABLE, TABLE)
    quiet = newest(lake)
    put(lake, _at("3 | v4 | d1 | 13:25:00"), "3")
    derive(spark, lake, devices.TABLE, TABLE)
    ended = newest(lake)
    assert (quiet.read, quiet.written) == (1, 0)
    assert (ended.read, ended.written) == (1, 1)
    assert live(lake) == Counter({("?", NOON - 5 * SLIDE): 3})


@pytest.mark.whole
@pytest.mark.slow
def test_a_source_that_lost_its_newest_rows_has_fewer_windows_that_are_over(
    spark: SparkSession, lake: Lake
) -> None:
    """What is over follows from the rows that are there, so that a certificate computes the same."""
    put(lake, _at("1 | v1 | d1 | 12:00:00"), "1")
    put(lake, _at("2 | v2 | d1 | 15:00:00"), "2")
    derive(spark, lake, devices.TABLE, TABLE)
    assert len(live(lake)) == 6
    forgotten(spark, lake)
    put(lake, _at("3 | v3 | d1 | 12:01:00"), "3")
    derive(spark, lake, devices.TABLE, TABLE)
    stepwise = live(lake)
    derive(spark, lake, TABLE, mode=Batch())
    assert stepwise == live(lake) == Counter()


@pytest.mark.whole
def test_days_of_a_zone_are_computed_when_they_are_over(spark: SparkSession, lake: Lake) -> None:
    put(
        lake,
        _at("1 | v1 | d1 | 2026-10-24T12:00:00+00:00", "1 | v2 | d1 | 2026-10-25T12:00:00+00:00"),
        "1",
    )
    derive(spark, lake, devices.TABLE, DAILY)
    assert live(lake, DAILY) == Counter({("?", datetime(2026, 10, 23, 21, tzinfo=UTC)): 1})
    put(lake, _at("2 | v3 | d1 | 2026-10-25T23:14:00+00:00"), "2")
    derive(spark, lake, devices.TABLE, DAILY)
    assert len(live(lake, DAILY)) == 1, (
        "the day of 25 hours ends at 22:00 UTC, and a row may be 75 minutes behind the newest"
    )
    put(lake, _at("3 | v4 | d1 | 2026-10-25T23:15:00+00:00"), "3")
    derive(spark, lake, devices.TABLE, DAILY)
    assert live(lake, DAILY)["?", datetime(2026, 10, 24, 21, tzinfo=UTC)] == 1


def test_a_table_that_begins_to_wait_is_computed_as_a_whole_and_back(
    spark: SparkSession, lake: Lake
) -> None:
    changing = replace(TABLE, emits=Emit.ON_CHANGE, every=None)
    put(lake, _at("1 | v1 | d1 | 12:00:00", "1 | v2 | d1 | 13:00:00"), "1")
    derive(spark, lake, devices.TABLE, changing)
    assert len(live(lake)) == 12
    put(lake, _at("2 | v3 | d1 | 13:55:00"), "2")
    derive(spark, lake, TABLE)
    over = live(lake)
    assert over == Counter({("?", NOON - nth * SLIDE): 1 for nth in range(2, 6)})
    put(lake, _at("3 | v4 | d1 | 13:02:00"), "3")
    derive(spark, lake, changing)
    assert len(live(lake)) == 17


def late_end(views: DataFrame, intervals: DataFrame) -> DataFrame:
    """Let a window end four hours after its hour."""
    return by_site(views, intervals).withColumn(
        "window_until", F.col("window_until") + F.expr("INTERVAL 4 HOURS")
    )


def no_end(views: DataFrame, intervals: DataFrame) -> DataFrame:
    """Let windows have no end."""
    return by_site(views, intervals).withColumn("window_until", F.lit(None).cast("timestamp"))


@pytest.mark.parametrize("function", [late_end, no_end])
def test_a_window_without_an_end_or_with_a_later_one_than_declared_is_refused(
    spark: SparkSession, lake: Lake, function: Callable[..., DataFrame]
) -> None:
    """It would be looked for where it is not: a batch had it, and the steps had not."""
    put(lake, _at("1 | v1 | d1 | 12:00:00", "1 | v2 | d1 | 20:00:00"), "1")
    with pytest.raises(DefinitionError, match="a window without an end, or one that is longer"):
        derive(spark, lake, devices.TABLE, replace(TABLE, transform=function))


def test_a_slide_that_does_not_divide_the_length_ends_where_spark_ends_it(
    spark: SparkSession, lake: Lake
) -> None:
    def function(views: DataFrame, intervals: DataFrame) -> DataFrame:
        placed = devices.as_of(views, intervals, "viewed_at", ("site",))
        return _counted(placed, F.window("viewed_at", "1 hour", "25 minutes"))

    table = replace(TABLE, transform=function, every="25 minutes")
    put(lake, _at("1 | v1 | d1 | 12:00:00"), "1")
    ((ends,),) = (
        function(
            spark.read.format("delta").load(str(lake.table(VIEWS))),
            spark.createDataFrame(
                [], "device_id string, valid_from timestamp, valid_until timestamp, site string"
            ),
        )
        .agg(F.min("window_until"))
        .collect()
    )
    just, before = ends.astimezone(UTC) + DELAY, ends.astimezone(UTC) + DELAY - SECOND
    put(lake, _at(f"2 | v2 | d1 | {before.isoformat()}"), "2")
    derive(spark, lake, devices.TABLE, table)
    assert live(lake) == Counter()
    put(lake, _at(f"3 | v3 | d1 | {just.isoformat()}"), "3")
    derive(spark, lake, devices.TABLE, table)
    assert sum(live(lake).values()) == 1


def test_retention_below_leaves_rows_whose_window_is_not_over(
    spark: SparkSession, lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They were read and not counted; a feed that paused for longer than they are kept lost the window."""
    source = replace(VIEWS, keeps="1 hour")
    table = replace(TABLE, reads=(source, devices.TABLE))
    monkeypatch.setattr(catalog, "tables", lambda: (source, devices.TABLE, table))
    put(lake, _at("1 | v1 | d1 | 12:00:00"), "1")
    put(lake, _at("2 | v2 | d1 | 13:50:00"), "2")
    derive(spark, lake, devices.TABLE, table)
    assert len(live(lake)) == 3, "up to 12:30"

    done = expire(spark, source, lake, NOON + timedelta(days=2))
    assert [each.rows for each in done] == [0]
    put(lake, _at("3 | v3 | d1 | 20:00:00"), "3")
    derive(spark, lake, devices.TABLE, table)
    assert len(live(lake)) == 12
    done = expire(spark, source, lake, NOON + timedelta(days=2))
    assert [each.rows for each in done] == [2]


@pytest.mark.whole
def test_another_declaration_keeps_the_windows_whose_rows_have_expired(
    spark: SparkSession, lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What retention has deleted below cannot be computed again, and nothing was typed that would give it up."""
    source = replace(VIEWS, keeps="1 hour")
    changing = replace(TABLE, reads=(source, devices.TABLE), emits=Emit.ON_CHANGE, every=None)
    waiting = replace(TABLE, reads=(source, devices.TABLE))
    monkeypatch.setattr(catalog, "tables", lambda: (source, devices.TABLE, changing))
    put(lake, _at("1 | v1 | d1 | 2026-11-10T12:00:00+00:00"), "1")
    put(lake, _at("2 | v2 | d1 | 12:00:00"), "2")
    derive(spark, lake, devices.TABLE, changing)
    assert [each.rows for each in expire(spark, source, lake, NOON)] == [1]

    put(lake, _at("3 | v3 | d1 | 14:00:00"), "3")
    derive(spark, lake, devices.TABLE, waiting)
    kept = live(lake)
    assert len(kept) == 6 + 5, (
        "of ten days ago, and those that begin before noon, which lack rows of before 11:00"
    )
    put(lake, _at("4 | v4 | d1 | 14:01:00"), "4")
    derive(spark, lake, devices.TABLE, changing)
    assert len(live(lake)) == 6 + 12


@pytest.mark.slow
def test_a_look_at_a_quiet_lake_commits_nothing(spark: SparkSession, lake: Lake) -> None:
    put(lake, _at("1 | v1 | d1 | 12:00:00"), "1")
    derive(spark, lake, devices.TABLE, TABLE)
    before = latest_version(lake.table(TABLE))
    derive(spark, lake, devices.TABLE, TABLE)
    assert latest_version(lake.table(TABLE)) == before


def _at(*views: str) -> Log:
    return {VIEWS: text(views, VIEWS), device_inventory.TABLE: text((), device_inventory.TABLE)}


MISTAKES: tuple[tuple[dict[str, object], str], ...] = (
    ({"closes_at": None}, "does not declare where one ends"),
    ({"every": "2 hours"}, "no length of time up to that of a window"),
    ({"every": "often"}, "no length of time up to that of a window"),
    ({"reads": (devices.TABLE,)}, "reads intervals alone"),
    ({"emits": Emit.ON_CHANGE}, "computes a window at its first row"),
    ({"window": HELSINKI}, "no length of time up to that of a window"),
    ({"emits": "on_watermark"}, "which is no Emit"),
)


@pytest.mark.parametrize(("change", "sentence"), MISTAKES)
def test_a_declaration_by_which_no_window_ends_is_refused(
    change: dict[str, object], sentence: str
) -> None:
    with pytest.raises(DefinitionError, match=sentence):
        replace(TABLE, **change)  # type: ignore[arg-type]
