"""A table that is rewritten holds the latest word on each key, and says of which time it speaks anew."""

import random
from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from itertools import zip_longest
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from jobs.gold import attributed_connections, device_daily
from jobs.run import delta
from jobs.run.churn import changed_span
from jobs.run.ledger import Entry, commit_file, entry_of, latest_version
from jobs.run.meter import Meter
from jobs.run.rows import OPEN, rows_at
from jobs.run.windows import Windows
from jobs.silver import devices
from tests.run.written import entry
from tests.support.rows import NOON, micros

KINDS = (
    "device_id string, valid_from timestamp, valid_until timestamp, site string, ended_on timestamp"
)


@dataclass(frozen=True, slots=True)
class Interval:
    """Where a device was, from when until when."""

    device: str
    begins: datetime
    ends: datetime | None
    site: str

    @property
    def row(self) -> tuple[object, ...]:
        """Return it as the table has it."""
        midnight = {"hour": 0, "minute": 0, "second": 0, "microsecond": 0}
        folder = self.ends.replace(**midnight) if self.ends else devices.NOT_ENDED
        return (self.device, self.begins, self.ends, self.site, folder)

    @property
    def last(self) -> int:
        """Return the last microsecond of which it speaks."""
        return micros(self.ends) if self.ends else OPEN


def told(changes: Iterable[tuple[str, datetime, str]]) -> set[Interval]:
    """Return the intervals that all changes together make."""
    by_device: dict[str, dict[datetime, str]] = {}
    for device, moment, site in changes:
        by_device.setdefault(device, {})[moment] = site
    found = set()
    for device, sites in by_device.items():
        moments = sorted(sites)
        for begins, ends in zip_longest(moments, moments[1:]):
            found.add(Interval(device, begins, ends, sites[begins]))
    return found


def change(chance: random.Random, day: int) -> tuple[str, datetime, str]:
    """Return a change of some device, perhaps a late one."""
    late = timedelta(days=chance.choice([0, 0, 0, 1, 2]))
    moment = NOON + timedelta(days=day, minutes=chance.randrange(600)) - late
    return chance.choice("abcdef"), moment, chance.choice(["lima", "osaka"])


def spoken_of(before: set[Interval], after: set[Interval]) -> tuple[int, int]:
    """Return the first and the last moment of which a table says something else."""
    were = {replace(each, ends=None): each for each in before - after}
    reaches = []
    for new in after - before:
        old = were.pop(replace(new, ends=None), None)
        first = min(old.last, new.last) if old else micros(new.begins)
        reaches.append((first, max(old.last, new.last) if old else new.last))
    reaches += [(micros(old.begins), old.last) for old in were.values()]
    return min(first for first, _ in reaches), max(last for _, last in reaches)


def test_the_latest_rows_stand_and_the_entry_says_of_which_time(
    spark: SparkSession, tmp_path: Path, chance: random.Random
) -> None:
    """Whatever comes, late or twice: what held lies where its end says, and a follower need compare no files."""
    path, known, changes = tmp_path / "devices", set[Interval](), []
    delta.create(spark, path, spark.createDataFrame([], KINDS).schema, partition_by=["ended_on"])
    windows = Windows(devices.TABLE, path)

    for number in range(8):
        changes += [change(chance, number // 2) for _ in range(5)]
        intervals = told(changes)
        rows = spark.createDataFrame([each.row for each in intervals - known], KINDS)
        windows.change(rows, lambda: entry(devices.TABLE, read=5), Meter(spark))

        version = latest_version(path)
        live = {tuple(row) for row in rows_at(spark, path, version).collect()}
        assert live == {
            tuple(row) for row in spark.createDataFrame([i.row for i in intervals], KINDS).collect()
        }
        spoken = spoken_of(known, intervals)
        assert changed_span(spark, devices.TABLE, path, version - 1, version) == spoken
        assert said(path, version).speaks_of == spoken
        known = intervals


def said(path: Path, version: int) -> Entry:
    found = entry_of(commit_file(path, version))
    assert found is not None
    return found


@pytest.mark.parametrize("minutes", [[], [3, 70]], ids=["nothing", "two windows"])
def test_rows_of_a_moment_speak_of_it(
    spark: SparkSession, tmp_path: Path, minutes: list[int]
) -> None:
    """Also a batch that changes nothing says so."""
    table, path = attributed_connections.TABLE, tmp_path / "connections"
    kinds = "connection_id string, event_at timestamp, device_id string, window_from timestamp"
    delta.create(spark, path, spark.createDataFrame([], kinds).schema, partition_by=["window_from"])
    windows = Windows(table, path)
    moments = [NOON + timedelta(minutes=minute) for minute in minutes]

    for holder in ("nobody", "d1"):
        rows = [(str(at), at, holder, at.replace(minute=0)) for at in moments]
        windows.change(
            spark.createDataFrame(rows, kinds), lambda: entry(table, read=2), Meter(spark)
        )

    version = latest_version(path)
    expected = (micros(moments[0]), micros(moments[-1])) if moments else None
    assert changed_span(spark, table, path, version - 2, version) == expected


def test_a_row_with_null_in_its_key_takes_the_place_of_its_older_self(
    spark: SparkSession, tmp_path: Path
) -> None:
    """To SQL's `=` it has no equal, and each change would leave one more row behind."""
    path, columns = (
        tmp_path / "daily",
        "device_id string, site string, day_from timestamp, windows long",
    )
    delta.create(spark, path, spark.createDataFrame([], columns).schema, partition_by=["day_from"])
    table = replace(device_daily.TABLE, key=("device_id", "site"))
    windows = Windows(table, path)

    for count in (1, 2):
        rows = spark.createDataFrame(
            [("d1", None, NOON, count), ("d2", "lima", NOON, count)], columns
        )
        windows.change(rows, lambda: entry(table, read=2), Meter(spark))

    live = rows_at(spark, path, latest_version(path)).orderBy("device_id").collect()
    assert [(row["device_id"], row["site"], row["windows"]) for row in live] == [
        ("d1", None, 2),
        ("d2", "lima", 2),
    ]
