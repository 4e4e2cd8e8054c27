"""Does a batch cost more because many came before it? Every table of the domain, batch 400 against batch 40.

Each table runs alone, from versions of its sources that appear one after the other by links; what it makes is
what the tables above are fed with. Three days of events in four hundred parts, so that windows close, holds
end and devices move as they do in life.

Why a second, short run: a JVM compiles its hot code in its first minutes, which makes a young batch dear and would
flatter the old one. Batch 40 is therefore taken from a new table in the same, warm process.
"""

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from shutil import rmtree
from statistics import median

import psutil
from pyspark.sql import SparkSession

from jobs import catalog
from jobs.core.modes import AvailableNow, MicroBatch
from jobs.core.table import Layer, Speaks, Table
from jobs.play.domain import domain
from jobs.play.plan import Plan
from jobs.play.send import send
from jobs.run.afresh import Afresh
from jobs.run.balance import balance
from jobs.run.jvm import jvm
from jobs.run.lake import Lake
from jobs.run.runner import Site, run
from jobs.run.session import start
from jobs.run.settings import settings
from tests.benchmarks.feed import Versions, keep_sums, wait_for
from tests.benchmarks.samples import Sample, Samples

PART = "history"
YOUNG, OLD, NEAR = 40, 400, 10
BATCHES = OLD + NEAR
DAY = datetime(2026, 10, 1, tzinfo=UTC)
PLAN = Plan(since=DAY, until=DAY + timedelta(days=3), events=66_000, seed=7)
"""About a hundred readings a batch, and a tenth of that of most others."""


@dataclass(slots=True)
class Clock:
    """When each batch was done, and what had been read by then."""

    spark: SparkSession
    path: Path
    ends: list[tuple[float, float, int]] = field(default_factory=list)

    def tick(self) -> None:
        """Note the end of a batch."""
        own = psutil.Process()
        spent = sum(map(_spent, (own, *own.children(recursive=True))))
        self.ends.append((time.monotonic(), spent, self._read() + own.io_counters().read_chars))
        keep_sums(self.path)

    def _read(self) -> int:
        """Return the bytes that the JVM has read from files.

        Not what the system counts: to list a folder Java asks for the owner of each file, for which the C library
        reads the whole of /etc/passwd and /etc/group each time.
        """
        system = jvm(self.spark).org.apache.hadoop.fs.FileSystem
        return sum(int(each.getBytesRead()) for each in system.getAllStatistics())

    def around(self, table: Table, batch: int) -> Sample:
        """Return the median batch of those around one."""
        last = min(batch + NEAR, len(self.ends))
        steps = [(self.ends[n - 1], self.ends[n]) for n in range(batch - NEAR, last)]
        wall, cpu, read = (
            median(after[n] - before[n] for before, after in steps) for n in range(3)
        )
        return Sample(
            part=PART,
            row=table.id,
            contestant="strandline",
            number=batch,
            wall=wall,
            cpu=cpu,
            read=read,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class History:
    """Ages each table in turn.

    Args:
        work: Where the lakes lie; what is whole there is not made again.
        spark: One session for all.
        address: host:port of a broker.
        names: The tables, with what they rest on; all when there is none.
        samples: What an earlier run has measured stays.
        tell: Hears of each table.
    """

    work: Path
    spark: SparkSession
    address: str
    names: Sequence[str]
    samples: Samples
    tell: Callable[[str], None]

    def run(self) -> None:
        """Measure what nobody has measured."""
        hadoop = self.spark.sparkContext._jsc.hadoopConfiguration()
        hadoop.set("parquet.hadoop.vectored.io.enabled", "false")  # such reads are not counted
        for table in wanted(self.names):
            if self.samples.of(PART, table.id, "strandline"):
                continue
            clock = self._age(table, "old", BATCHES)
            old = clock.around(table, min(OLD, len(clock.ends) - NEAR))
            young = self._age(table, "young", YOUNG + NEAR).around(table, YOUNG)
            for each in (young, old):
                self.tell(
                    f"{table.id:28} batch {each.number:3}  {each.wall * 1e3:6.0f} ms wall, "
                    f"{each.cpu * 1e3:6.0f} ms CPU, {each.read / 1e6:7.2f} MB read"
                )
            self.samples.add([young, old])

    def _age(self, table: Table, age: str, batches: int) -> Clock:
        lake = self._fresh(table, age)
        clock = Clock(self.spark, lake.table(table))
        if table.layer is Layer.BRONZE:
            self._take_in(table, lake, batches, clock)
        elif table.speaks is Speaks.AFRESH:
            self._again_and_again(table, lake, batches, clock)
        else:
            self._stream(table, lake, batches, clock)
        sheet = balance(table, lake)
        if not sheet.balanced:
            message = f"{table.id}: {sheet.faults[:3]}"
            raise AssertionError(message)
        return clock

    def _take_in(self, table: Table, lake: Lake, batches: int, clock: Clock) -> None:
        there = sum(part.events for part in domain(PLAN) if part.topic in table.topics)
        run(
            table,
            AvailableNow(max_offsets=max(there // BATCHES, 1)),
            lake,
            site=self._site(),
            tell=lambda _: clock.tick(),
            stopped=lambda: len(clock.ends) >= batches,
        )

    def _again_and_again(self, table: Table, lake: Lake, batches: int, clock: Clock) -> None:
        feed = self._feed(table, lake)
        afresh = Afresh(self.spark, table, lake, "micro-batch")
        for _ in zip(range(batches), feed, strict=False):
            afresh.catch_up()
            clock.tick()

    def _stream(self, table: Table, lake: Lake, batches: int, clock: Clock) -> None:
        """Give the next part while a batch is on its way: a stream that waits looks for news all the time."""
        feed = self._feed(table, lake)
        next(feed)
        checkpoint = lake.checkpoint(table)
        with self._running(table, lake) as refuse_dead:
            for number in range(batches):
                refuse_dead()
                wait_for((checkpoint / "offsets" / str(number)).exists, f"plan {number}")
                is_last = number == batches - 1 or next(feed, None) is None
                wait_for((checkpoint / "commits" / str(number)).exists, f"batch {number}")
                clock.tick()
                if is_last:
                    return

    @contextmanager
    def _running(self, table: Table, lake: Lake) -> Iterator[Callable[[], None]]:
        """Run a table always on for the length of the block; the function raises what ended it early."""
        stop, failed = threading.Event(), list[BaseException]()

        def keep() -> None:
            try:
                run(table, MicroBatch(every=0.0), lake, site=self._site(), stopped=stop.is_set)
            except BaseException as error:  # noqa: BLE001  # raised where the batches are awaited
                failed.append(error)

        def refuse_dead() -> None:
            if failed:
                raise failed[0]

        thread = threading.Thread(target=keep, daemon=True)
        thread.start()
        try:
            yield refuse_dead
        finally:
            stop.set()
            thread.join()
        refuse_dead()

    def _feed(self, table: Table, lake: Lake) -> Iterator[int]:
        """Give a version of each source at every step, until none has more; of one without rows no stream hears."""
        sources = [
            Versions(self._lake(source, "old").table(source), lake.table(source))
            for source in table.needs
        ]
        steps = 0
        while any([source.give() for source in sources]):  # noqa: C419  # each gives
            if any(source.has_rows for source in sources):
                steps += 1
                yield steps

    def _fresh(self, table: Table, age: str) -> Lake:
        lake = self._lake(table, age)
        rmtree(lake.root, ignore_errors=True)
        return lake.open_for_writing()

    def _lake(self, table: Table, age: str) -> Lake:
        return Lake(self.work / age / table.id)

    def _site(self) -> Site:
        clock = lambda: datetime.now(UTC)  # noqa: E731, TID251  # the benchmark is its own composition root
        return Site(spark=self.spark, clock=clock, address=self.address)


def _spent(process: psutil.Process) -> float:
    """Return the seconds of CPU of a process; one that has just ended counts no more."""
    try:
        times = process.cpu_times()
    except psutil.NoSuchProcess:
        return 0.0
    return times.user + times.system


def wanted(names: Sequence[str]) -> list[Table]:
    """Return the tables of these names and what they rest on, or all."""
    needed: set[Table] = set()
    coming = [table for table in catalog.tables() if table.id in names or not names]
    while coming:
        table = coming.pop()
        needed.add(table)
        coming += table.needs
    return [table for table in catalog.tables() if table in needed]


def measure(
    work: Path, address: str, names: Sequence[str], samples: Samples, tell: Callable[[str], None]
) -> None:
    """Measure the tables that were not measured yet."""
    sent = work / "sent"
    if not sent.exists():
        send(PLAN, address, {})
        sent.touch()
    spark = start(settings(lake=work), work / "spark.log")
    try:
        History(
            work=work, spark=spark, address=address, names=names, samples=samples, tell=tell
        ).run()
    finally:
        spark.stop()
