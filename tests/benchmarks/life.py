"""One table in a lake of its own, which grows a batch at a time and measures what each batch costs."""

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from statistics import mean, median

import psutil
from pyspark.sql import SparkSession

from strandline.core.stateful import AvailableNow, MicroBatch
from strandline.core.table import Ingested, Recomputed, Table
from strandline.engine.accounting.balance_sheet import balance
from strandline.engine.flow.recompute import Afresh
from strandline.engine.flow.runner import Site, run
from strandline.engine.lake.lake import Lake
from strandline.engine.lake.log.ledger import LOOKED_AGAIN, Entry, entries, is_table, latest_version
from strandline.engine.lake.place import Place
from strandline.engine.runtime.jvm import jvm
from tests.benchmarks.feed import PATIENCE, FeedError, Versions, adds, keep_sums

MANY = 1_000_000
WHOLE = 430
"""So many parts the events are read in."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """What a batch cost: seconds, seconds of CPU, bytes read from files."""

    wall: float
    cpu: float
    read: float


@dataclass(slots=True)
class Life:
    """A table that grows.

    Args:
        table: Which.
        lake: Its own.
        site: With what.
        prepared: The lakes in which its sources are whole.
        records: Of a bronze table, how many make a batch.
    """

    table: Table
    lake: Lake
    site: Site
    prepared: Sequence[Path]
    records: int = 1
    age: int = field(default=0, init=False)
    _feed: Iterator[None] = field(init=False)
    _afresh: Afresh | None = field(default=None, init=False)

    def __post_init__(self) -> None:
        """Begin at the lake's newest batch."""
        self.lake.open_for_writing()
        self._feed = self._given()
        path = self.lake.table(self.table)
        self.age = sum(_is_batch(entry) for _, entry in entries(path)) if is_table(path) else 0

    def grow(self, batches: int) -> None:
        """Let it grow by so many batches, or by fewer where there is no more to read."""
        if batches > 0:
            self._grown(batches)

    def costs(self, batches: int) -> Cost:
        """Let it grow, and return what the batches after the first cost: time in the middle, bytes on average.

        Bytes have no noise, and what only every third batch reads must not be hidden in the middle.
        """
        marks = self._grown(batches)
        steps = [
            tuple(after - before for before, after in zip(*both, strict=True))
            for both in pairwise(marks)
        ]
        wall, cpu, read = zip(*steps, strict=True)
        return Cost(wall=median(wall), cpu=median(cpu), read=mean(read))

    def prove(self) -> None:
        """See that the ledger balances."""
        sheet = balance(self.table, self.lake)
        if not sheet.balanced:
            message = f"{self.table.id}: {sheet.faults[:3]}"
            raise AssertionError(message)

    def _grown(self, batches: int) -> list[tuple[float, float, float]]:
        marks: list[tuple[float, float, float]] = []
        over = threading.Event()

        def heard(entry: Entry) -> None:
            if not _is_batch(entry):
                return
            self.age += 1
            marks.append(_mark(self.site.spark))
            keep_sums(self.lake.table(self.table).local)
            # Given while the batch is on its way: a stream that waits looks for news all the time.
            if len(marks) >= batches or not self._give():
                over.set()

        if self._give():
            self._run(heard, over)
        return marks

    def _run(self, heard: Callable[[Entry], None], over: threading.Event) -> None:
        if isinstance(self.table, Ingested):
            mode = AvailableNow(max_offsets=self.records)
            run(self.table, mode, self.lake, site=self.site, on_commit=heard, stopped=over.is_set)
        elif isinstance(self.table, Recomputed):
            self._again(heard, over)
        else:
            stopped = _within(PATIENCE, over, self.table)
            mode = MicroBatch(every=0.0)
            run(self.table, mode, self.lake, site=self.site, on_commit=heard, stopped=stopped)

    def _again(self, heard: Callable[[Entry], None], over: threading.Event) -> None:
        if self._afresh is None:
            self._afresh = Afresh(self.site.spark, self.table, self.lake, "micro-batch")
        while not over.is_set():
            entry = self._afresh.catch_up()
            if entry is not None:
                heard(entry)
            elif not self._give():
                return

    def _give(self) -> bool:
        return next(self._feed, MANY) is None

    def _given(self) -> Iterator[None]:
        """Give each source's versions a part at a time, until none has more; of one without rows no stream hears."""
        if isinstance(self.table, Ingested):
            yield from (None for _ in range(MANY))
        paths = [
            path / source.layer / source.name
            for path, source in zip(self.prepared, self.table.needs, strict=True)
        ]
        sources = [
            Versions(path, self.lake.table(source).local)
            for path, source in zip(paths, self.table.needs, strict=True)
        ]
        for versions in _parts(paths):
            both = zip(sources, versions, strict=True)
            if any([source.give_until(version) for source, version in both]):  # noqa: C419  # each gives
                yield None


def steps(prepared: Sequence[Path]) -> int:
    """Return how many batches some sources suffice for."""
    found, before = 0, [0] * len(prepared)
    for versions in _parts(prepared):
        news = zip(prepared, before, versions, strict=True)
        found += any(adds(path, n) for path, old, new in news for n in range(old + 1, new + 1))
        before = versions
    return found


def _parts(prepared: Sequence[Path]) -> Iterator[list[int]]:
    """Yield up to which version of each source a batch may read.

    All come to their end together, because in life no source is hours ahead of another.
    """
    last = [latest_version(Place.of(path)) for path in prepared]
    parts = min(WHOLE, max(last))
    yield from ([version * part // parts for version in last] for part in range(1, parts + 1))


def _is_batch(entry: Entry) -> bool:
    return entry.read > 0 and entry.mode != LOOKED_AGAIN


def _within(patience: float, over: threading.Event, table: Table) -> Callable[[], bool]:
    """Return a function that answers whether to stop, and raises when nothing came for too long after its first call."""
    seen = [time.monotonic()]

    def stopped() -> bool:
        if time.monotonic() - seen[0] > patience * 10:
            message = f"{table.id} did not come so far within {patience * 10:.0f} s"
            raise FeedError(message)
        return over.is_set()

    return stopped


def _mark(spark: SparkSession) -> tuple[float, float, float]:
    """Return the time, the CPU that was spent, and the bytes that were read from files.

    Not what the system counts as read: to list a folder Java asks for the owner of each file, for which the C library
    reads the whole of /etc/passwd and /etc/group each time.
    """
    own = psutil.Process()
    spent = sum(map(_spent, (own, *own.children(recursive=True))))
    system = jvm(spark).org.apache.hadoop.fs.FileSystem
    read = sum(int(each.getBytesRead()) for each in system.getAllStatistics())
    return time.monotonic(), spent, float(read + own.io_counters().read_chars)


def _spent(process: psutil.Process) -> float:
    """Return the seconds of CPU of a process; one that has just ended counts no more."""
    try:
        times = process.cpu_times()
    except psutil.NoSuchProcess:
        return 0.0
    return times.user + times.system
