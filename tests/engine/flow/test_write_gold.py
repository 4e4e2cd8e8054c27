"""A table on change holds the latest row of each key, and its entries record the time range that changed."""

import random
from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from itertools import zip_longest
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from fleet.gold import attributed_connections
from fleet.silver import devices
from strandline.engine.flow.batch.write_rows import Windows
from strandline.engine.lake.commit import create_table
from strandline.engine.lake.commit.delta_commit import OPEN, rows_at
from strandline.engine.lake.commit.replace_rows import changed_span
from strandline.engine.lake.log.ledger import Entry, entry_at, latest_version
from strandline.engine.lake.place import Place
from strandline.engine.runtime.jvm import Meter
from tests.engine.written import entry
from tests.support.rows import NOON, micros

pytestmark = pytest.mark.whole

KINDS = (
    "device_id string, valid_from timestamp, valid_until timestamp, site string, ended_on timestamp"
)


@dataclass(frozen=True, slots=True)
class Interval:
    """A device's site, from when until when."""

    device: str
    begins: datetime
    ends: datetime | None
    site: str

    @property
    def row(self) -> tuple[object, ...]:
        """Return it as a row of the table."""
        midnight = {"hour": 0, "minute": 0, "second": 0, "microsecond": 0}
        folder = self.ends.replace(**midnight) if self.ends else devices.NOT_ENDED
        return (self.device, self.begins, self.ends, self.site, folder)

    @property
    def last(self) -> int:
        """Return the end of its validity in microseconds."""
        return micros(self.ends) if self.ends else OPEN


def intervals_of(changes: Iterable[tuple[str, datetime, str]]) -> set[Interval]:
    """Return the intervals that all changes together make."""
    by_device: dict[str, dict[datetime, str]] = {}
    for device, moment, site in changes:
        by_device.setdefault(device, {})[moment] = site
    intervals = set()
    for device, sites in by_device.items():
        moments = sorted(sites)
        for begins, ends in zip_longest(moments, moments[1:]):
            intervals.add(Interval(device, begins, ends, sites[begins]))
    return intervals


def change(chance: random.Random, day: int) -> tuple[str, datetime, str]:
    """Return a change of some device, perhaps a late one."""
    late = timedelta(days=chance.choice([0, 0, 0, 1, 2]))
    moment = NOON + timedelta(days=day, minutes=chance.randrange(600)) - late
    return chance.choice("abcdef"), moment, chance.choice(["lima", "osaka"])


def changed_reach(before: set[Interval], after: set[Interval]) -> tuple[int, int]:
    """Return the time range in which two versions of a table differ."""
    were = {replace(each, ends=None): each for each in before - after}
    reaches = []
    for new in after - before:
        old = were.pop(replace(new, ends=None), None)
        first = min(old.last, new.last) if old else micros(new.begins)
        reaches.append((first, max(old.last, new.last) if old else new.last))
    reaches += [(micros(old.begins), old.last) for old in were.values()]
    return min(first for first, _ in reaches), max(last for _, last in reaches)


def test_the_latest_rows_remain_and_the_entry_records_the_changed_range(
    spark: SparkSession, tmp_path: Path, chance: random.Random
) -> None:
    """With late and repeated changes too: an interval is in the partition of its end, and readers compare no files."""
    path, known, changes = Place.of(tmp_path / "devices"), set[Interval](), []
    create_table.create(
        spark, path, spark.createDataFrame([], KINDS).schema, partition_by=["ended_on"]
    )
    windows = Windows(devices.TABLE, path)

    for number in range(8):
        changes += [change(chance, number // 2) for _ in range(5)]
        intervals = intervals_of(changes)
        rows = spark.createDataFrame([each.row for each in intervals - known], KINDS)
        windows.change(rows, entry(devices.TABLE, read=5), Meter(spark))

        version = latest_version(path)
        live = {tuple(row) for row in rows_at(spark, path, version).collect()}
        assert live == {
            tuple(row) for row in spark.createDataFrame([i.row for i in intervals], KINDS).collect()
        }
        changed = changed_reach(known, intervals)
        assert changed_span(spark, devices.TABLE, path, version - 1, version) == changed
        assert entry_of(path, version).changed == changed
        known = intervals


def entry_of(path: Place, version: int) -> Entry:
    known = entry_at(path, version)
    assert known is not None
    return known


@pytest.mark.parametrize("minutes", [[], [3, 70]], ids=["nothing", "two windows"])
def test_the_changed_range_of_rows_without_an_end_is_their_event_times(
    spark: SparkSession, tmp_path: Path, minutes: list[int]
) -> None:
    """A batch that changes nothing records that, too."""
    table, path = attributed_connections.TABLE, tmp_path / "connections"
    kinds = "connection_id string, event_at timestamp, device_id string, window_from timestamp"
    create_table.create(
        spark, Place.of(path), spark.createDataFrame([], kinds).schema, partition_by=["window_from"]
    )
    windows = Windows(table, Place.of(path))
    moments = [NOON + timedelta(minutes=minute) for minute in minutes]

    for holder in ("unknown", "d1"):
        rows = [(str(at), at, holder, at.replace(minute=0)) for at in moments]
        windows.change(spark.createDataFrame(rows, kinds), entry(table, read=2), Meter(spark))

    version = latest_version(Place.of(path))
    expected = (micros(moments[0]), micros(moments[-1])) if moments else None
    assert changed_span(spark, table, Place.of(path), version - 2, version) == expected


def test_a_row_with_null_in_its_key_replaces_its_older_version(
    spark: SparkSession, tmp_path: Path
) -> None:
    """SQL's `=` matches no NULL, so each change would leave one more row."""
    path, columns = (
        tmp_path / "daily",
        "device_id string, site string, day_from timestamp, windows long",
    )
    create_table.create(
        spark, Place.of(path), spark.createDataFrame([], columns).schema, partition_by=["day_from"]
    )
    daily = {"key": ("device_id", "site"), "event_at": "day_from", "window_from": "day_from"}
    table = replace(attributed_connections.TABLE, **daily)
    windows = Windows(table, Place.of(path))

    for count in (1, 2):
        rows = spark.createDataFrame(
            [("d1", None, NOON, count), ("d2", "lima", NOON, count)], columns
        )
        windows.change(rows, entry(table, read=2), Meter(spark))

    live = (
        rows_at(spark, Place.of(path), latest_version(Place.of(path)))
        .orderBy("device_id")
        .collect()
    )
    assert [(row["device_id"], row["site"], row["windows"]) for row in live] == [
        ("d1", None, 2),
        ("d2", "lima", 2),
    ]
