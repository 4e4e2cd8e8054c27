"""A table is rebuilt and promoted beside its sources' streams at any moment; its ledger has each row that it has read.

The law: what the ledger says was read is what the sources have, and so are the rows, however many sources a table reads, whenever
its stream was killed, and whatever was committed between two looks of a starting stream.
"""

import random
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from functools import reduce
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StringType, StructType, TimestampType

from fleet.silver import device_telemetry
from strandline.core.stateful import AvailableNow
from strandline.core.table import Appended, Judged
from strandline.core.topic import PLACE, RECEIVED
from strandline.engine.accounting.balance_sheet import balance
from strandline.engine.flow.runner import Site, run
from strandline.engine.lake.lake import Lake
from strandline.engine.lake.log.ledger import Entry
from strandline.engine.lake.open_table import live_rows
from strandline.engine.repair.rebuild import promote, rebuild
from tests.support import by_hand
from tests.support.proofs import Times
from tests.support.rows import NOON

pytestmark = pytest.mark.whole

SCHEMA = StructType().add("id", StringType()).add("event_at", TimestampType())
for _name in (*PLACE, "_arrived_at"):
    SCHEMA = SCHEMA.add(RECEIVED[_name])

SOURCES: tuple[Judged, ...] = tuple(
    replace(device_telemetry.TABLE, name=name, key=("id",), rules=())
    for name in ("page_views", "baskets", "payments")
)
MOST = 300
"""Commits of the sources at most, if a stream never ends."""


def together(*sources: DataFrame) -> DataFrame:
    """Take all rows of all sources."""
    return reduce(DataFrame.unionByName, sources).select("id", "event_at")


def table(sources: int) -> Appended:
    """Return a table of so many sources."""
    return Appended(
        name=f"of_{sources}",
        reads=SOURCES[:sources],
        transform=together,
        key=("id",),
        event_at="event_at",
    )


@dataclass(slots=True)
class Feeding:
    """Commits rows to the sources of a table, as their streams do."""

    lake: Lake
    table: Appended
    chance: random.Random
    rows: int = 0
    batches: dict[str, int] = field(default_factory=dict)

    def begin(self, *, rewritten: bool) -> None:
        """Make the sources, of which one was computed again, so that a new stream begins with a snapshot."""
        for source in self.table.reads:
            by_hand.create(self.lake.table(source), SCHEMA)
            self.commit(source)
        if rewritten:
            source = self.chance.choice(self.table.reads)
            again = self._entry(source, 0, mode="backfill", since=NOON.isoformat())
            by_hand.commit(self.lake.table(source), [], again.encoded())

    def commit(self, source: object) -> None:
        """Commit some rows to a source."""
        assert isinstance(source, Judged)
        count = self.chance.randrange(1, 9)
        rows = [self._row(source, self.rows + number) for number in range(count)]
        entry = self._entry(source, count)
        by_hand.commit(self.lake.table(source), [by_hand.table(SCHEMA, rows)], entry.encoded())
        self.rows += count

    @contextmanager
    def beside(self) -> Iterator[None]:
        """Commit again and again for the length of the block."""
        ended, failures = threading.Event(), list[Exception]()

        def feed() -> None:
            try:
                for _ in range(MOST):
                    self.commit(self.chance.choice(self.table.reads))
                    if ended.wait(0.02):
                        return
            except Exception as error:  # noqa: BLE001  # any error is a finding
                failures.append(error)

        thread = threading.Thread(target=feed)
        thread.start()
        try:
            yield
        finally:
            ended.set()
            thread.join()
        assert failures == []

    def _entry(self, source: Judged, count: int, **more: str) -> Entry:
        batch = self.batches[source.id] = self.batches.get(source.id, -1) + 1
        usual = {"mode": "available-now", **more}
        counts = {"read": count, "good": count, "written": count}
        return Entry(table=source.id, stream="s", batch=batch, source="b", **usual, **counts)  # type: ignore[arg-type]  # its own fields

    def _row(self, source: Judged, number: int) -> tuple[object, ...]:
        at = NOON + timedelta(milliseconds=number)
        return (f"{source.name} {number}", at, "t", 0, number, at)


class KilledError(Exception):
    """Ends a stream between its commit and the mark that the batch is done."""


def killed(lake: Lake, of: Appended, site: Site, after: int) -> None:
    """Run a stream, and end it behind one of its commits."""
    left = after

    def count(_: Entry) -> None:
        nonlocal left
        left -= 1
        if left <= 0:
            raise KilledError

    try:
        run(of, AvailableNow(), lake, site=site, on_commit=count)
    except Exception as error:
        if KilledError.__name__ not in str(error):
            raise


@pytest.mark.slow
@pytest.mark.prove
def test_after_a_promotion_at_any_moment_the_ledger_has_every_row(
    spark: SparkSession, tmp_path: Path, chance: random.Random, times: Times
) -> None:
    """Tables of two, three and one source, in turn; their streams are killed before and after."""
    site = Site(spark=spark, clock=now)
    for number in range(times(1, 50)):
        of, lake = table((2, 3, 1)[number % 3]), Lake(tmp_path / str(number)).open_for_writing()
        feeding = Feeding(lake, of, chance)
        feeding.begin(rewritten=chance.random() < 0.8 or number == 0)
        with feeding.beside():
            killed(lake, of, site, after=chance.randrange(1, 4))
            rebuild(of, lake, site)
            promote(of, lake, site)
            killed(lake, of, site, after=chance.randrange(1, 4))
        run(of, AvailableNow(), lake, site=site)

        sheet = balance(of, lake)
        there = live_rows(lake.table(of))
        found = (sheet.faults, sheet.read, sheet.rows, there, sheet.waiting)
        assert found == ([], feeding.rows, feeding.rows, feeding.rows, 0), f"lake {number}"


def now() -> datetime:
    """Return the time of the tests."""
    return NOON
