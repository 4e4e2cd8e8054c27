"""A stream that is asked to end waits for a batch that moves, and for one that hangs a quarter of a minute."""

import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from fleet.silver import device_telemetry
from strandline.core.errors import TransientError
from strandline.core.stateful import MicroBatch
from strandline.core.table import Judged, Table
from strandline.engine.accounting.balance_sheet import balance
from strandline.engine.flow import running
from strandline.engine.flow.runner import Site
from strandline.engine.lake.commit.delta_commit import Commit
from strandline.engine.lake.lake import Lake
from strandline.engine.lake.locks import is_written
from strandline.engine.lake.log.ledger import last_entry
from strandline.engine.runtime.jvm import jvm
from strandline.engine.service import stream_host
from strandline.engine.service.stream_host import Host
from tests.engine.service.test_failing import Served
from tests.support.events import readings, received
from tests.support.modes import derive
from tests.support.morning import MORNING

SILVER = device_telemetry.TABLE
EVENTS = readings(MORNING)
LONGER = 6
"""Seconds that a healthy batch takes, more than the three in which one that hangs must move in these tests."""


@pytest.fixture(autouse=True)
def _soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(running, "STILL", 3.0)
    monkeypatch.setattr(running, "LOOK", 0.2)
    monkeypatch.setattr(stream_host, "LOOK", 0.2)


@pytest.fixture
def site(spark: SparkSession, clock: Callable[[], datetime]) -> Site:
    return Site(spark=spark, clock=clock)


def named(table: Judged, name: str) -> Judged:
    return replace(table, name=name)


def hanging(table: Judged, until: Path) -> Judged:
    """Return a table whose function waits for a file in a worker of Python, as one does that asks a service without a limit."""
    file = str(until)

    def wait() -> bool:
        import time as clock  # noqa: PLC0415  # on the worker
        from pathlib import Path as Place  # noqa: PLC0415  # as above

        while not Place(file).exists():
            clock.sleep(0.05)
        return True

    # Of annotations Spark would guess what kind of function it is.
    waited = F.udf(lambda _: wait(), "boolean")

    def transform(events: DataFrame, *others: DataFrame) -> DataFrame:
        return table.transform(events.filter(waited("_offset")), *others)

    return replace(table, transform=transform)


@contextmanager
def served(tables: tuple[Table, ...], lake: Lake, site: Site, answered: Path) -> Iterator[Served]:
    stop = threading.Event()
    stream = Served(Host(tables, MicroBatch(every=0.05), lake, site, stop), stop)
    try:
        yield stream
    finally:
        answered.touch()
        stop.set()
        stream.ended()
        for query in site.spark.streams.active:
            query.stop()


@pytest.fixture
def busy() -> Iterator[None]:
    """Another program of this process works meanwhile, as a broker does that the demo has started."""
    with subprocess.Popen([sys.executable, "-c", "while True: pass"]) as program:
        try:
            yield
        finally:
            program.kill()


@pytest.mark.whole
@pytest.mark.usefixtures("busy")
@pytest.mark.parametrize("is_suspended", [False, True])
def test_tables_that_never_come_back_keep_no_stream_from_its_end(
    spark: SparkSession, lake: Lake, site: Site, tmp_path: Path, *, is_suspended: bool
) -> None:
    """Several at once, and beside a JVM that answers to nothing; each had a minute, and the end of a program came after 67 s."""
    answered, machine = tmp_path / "answered", spark.sparkContext._gateway.proc  # type: ignore[union-attr]
    received(lake, EVENTS)
    names = ("one",) if is_suspended else ("one", "two", "three")
    tables = tuple(hanging(named(SILVER, name), answered) for name in names)
    with served(tables, lake, site, answered) as stream:
        running = stream.host._running
        stream.until(lambda: all(running[each.id].batch == 0 for each in tables))
        try:
            if is_suspended:
                machine.send_signal(signal.SIGSTOP)
            stream.stop.set()
            error = stream.ended()
        finally:
            machine.send_signal(signal.SIGCONT)

        assert isinstance(error, TransientError)
        assert f"batch 0 of {tables[0].id}" in error.message
        assert "did not come back and did not move for 3 s" in error.message
        assert stream.host.hung == [each.id for each in tables]
        assert [last_entry(lake.table(each)) for each in tables] == [None] * len(tables)


def test_a_function_that_hangs_before_its_first_batch_does_not_either(
    lake: Lake, site: Site, tmp_path: Path
) -> None:
    """In the process itself, where it makes the plan."""
    answered, begun = tmp_path / "answered", threading.Event()
    received(lake, EVENTS)

    def transform(events: DataFrame, *others: DataFrame) -> DataFrame:
        begun.set()
        while not answered.exists():
            time.sleep(0.05)
        return SILVER.transform(events, *others)

    table = replace(SILVER, transform=transform)
    with served((table,), lake, site, answered) as stream:
        stream.until(begun.is_set)
        stream.stop.set()
        error = stream.ended()

        assert isinstance(error, TransientError)
        assert stream.host.hung == [table.id]


@pytest.fixture
def slow(spark: SparkSession, lake: Lake, monkeypatch: pytest.MonkeyPatch) -> threading.Event:
    """Make the commit of rows take long in the JVM, and return what is set once it is at it."""
    begun, commit = threading.Event(), Commit._committed

    def committed(self: Commit, operation: object) -> int:
        if self._path == lake.table(SILVER) and self._written:
            begun.set()
            jvm(spark).java.lang.Thread.sleep(LONGER * 1000)
        return commit(self, operation)

    monkeypatch.setattr(Commit, "_committed", committed)
    return begun


@pytest.mark.slow
def test_a_commit_that_takes_long_is_waited_for(
    lake: Lake, site: Site, tmp_path: Path, slow: threading.Event
) -> None:
    """Spark's driver is at work, without a job and without a row that moves."""
    received(lake, EVENTS)
    with served((SILVER,), lake, site, tmp_path / "answered") as stream:
        stream.until(slow.is_set)
        stream.stop.set()
        assert stream.ended() is None
        assert stream.host.hung == []

    assert is_counted_once(lake)


@pytest.mark.whole
def test_one_that_takes_longer_than_that_loses_and_repeats_nothing(
    lake: Lake, site: Site, tmp_path: Path, slow: threading.Event, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The stream has ended, and the commit comes all the same; the next start has read those rows."""
    received(lake, EVENTS)
    monkeypatch.setattr(running, "ENDS", 1.0)
    with served((SILVER,), lake, site, tmp_path / "answered") as stream:
        stream.until(slow.is_set)
        stream.stop.set()
        error = stream.ended()
        assert isinstance(error, TransientError)
        assert "did not come back within 1 s of the request to end" in error.message
        assert last_entry(lake.table(SILVER)) is None
        while is_written(SILVER, lake):
            time.sleep(0.05)

    derive(site.spark, lake, SILVER)
    assert is_counted_once(lake)


def is_counted_once(lake: Lake) -> bool:
    sheet = balance(SILVER, lake)
    assert (sheet.batches, sheet.read, sheet.good) == (1, len(EVENTS), sheet.rows)
    return sheet.balanced
