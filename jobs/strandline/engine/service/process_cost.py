"""What this process has used, by what used it: compilers, garbage collection, Spark, Python; kept beside the ledger.

A commit says what its batch used itself (jobs/strandline/engine/runtime/jvm.py). What remains of a process is of no table: classes that are
compiled, memory that is cleared, a scheduler, an interpreter that starts. The kernel counts the CPU of each thread, and
the JVM names them, so that is read and not computed. Two counts that know nothing of each other meet in one sum: what Spark and the
threads say of themselves, and what the kernel says of the process and of all that it has started. Their difference is a
line of its own, ``unexplained``; nothing is scaled to make it small.

A thread that ended between two looks is in no look after it. So there is one at the end of each table's run, when its threads are
there, and the time between others is short at first, when most threads come and go.

Requests to an object store are counted where they leave the process: in the JVM by its client of S3 (infra/strandline_infra/spark/s3/StoreRequests.scala),
in Python by ours (jobs/strandline/engine/lake/object_files.py). delta-rs has a client of its own, which says of none.

Written at the end and every minute, on a store every ten, one small file a process and day, put whole. A kill loses what was used
since then, and no entry of the ledger.
"""

import atexit
import sys
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from datetime import date, datetime
from functools import partial
from itertools import count

import psutil
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from strandline.core.stateful import MicroBatch
from strandline.core.table import Table
from strandline.engine.accounting.process_lines import (
    Process,
    add_process,
    fold,
    note_process,
    owner_of,
)
from strandline.engine.flow.running import Wrote, states
from strandline.engine.lake.lake import Lake
from strandline.engine.lake.log.ledger import Entry
from strandline.engine.runtime.jvm import Spent, beside_batches, measured, pid_of, store_requests
from strandline.engine.runtime.processes import REQUESTS, age, family, own, threads_of
from strandline.engine.runtime.settings import S3A

FIRST, EVERY, ON_STORE = 5.0, 60.0, 600.0
"""Seconds from the first look to the second; between two files at most, and on a store, where each is a request."""

PATIENCE = 5.0
"""Seconds for which the end of a process waits for what the JVM has sent to a store."""

AGAIN = 2.0
"""Seconds from one look at threads to the next at a commit of a run."""

SLOWER = 10
"""A process waits a tenth of its age for its next look, within these bounds: a look at 300 threads takes 8 ms."""

THREADS = (
    (("C1 Comp", "C2 Comp", "Sweeper"), "jit"),
    (("GC Thre", "ParGC", "G1 ", "Paralle"), "gc"),
    (
        (
            "VM Thre",
            "VM Peri",
            "Referen",
            "Finaliz",
            "Common-",
            "Signal ",
            "Service",
            "Monitor",
            "Notific",
        ),
        "jvm",
    ),
    (("Executo",), "tasks"),
    (("stream ",), "queries"),
    (("Thread-",), "calls"),
)
"""How the names of the JVM's threads begin; all others are Spark's own, and its clients'. The kernel has 15 letters of a name, of which
newer JVMs keep the first seven and the last six."""

MAIN = "java"
"""The name of the JVM's first threads."""


def line_of(name: str) -> str:
    """Return what a thread of the JVM works for.

    >>> [line_of(name) for name in ("C2 CompilerThre", "Executor task l", "dag-scheduler-e", "java")]
    ['jit', 'tasks', 'spark', 'jvm']
    """
    if name == MAIN:
        return "jvm"
    return next((line for begins, line in THREADS if name.startswith(begins)), "spark")


_numbers = count()


class Account:
    """Adds up what this process uses, for a lake."""

    def __init__(
        self, lake: Lake, spark: SparkSession, clock: Callable[[], datetime], cores: int
    ) -> None:
        """Begin with all that the process has used since its start."""
        self._lake, self._clock, self._cores, self._spark = lake, clock, cores, spark
        self._me, self._java = psutil.Process(), pid_of(spark)
        self._is_local = str(spark.conf.get("spark.master", "local")).startswith("local")
        self._began = time.monotonic() - age()
        self._host = str(own()["host"])
        self._name = self._new_name()
        self._lock, self._due = threading.RLock(), threading.Event()
        self._living: dict[tuple[int, str], tuple[str, float]] = {}
        self._ended: dict[str, float] = defaultdict(float)
        """What threads used that are no more."""
        self._beside: dict[str, Spent] = {}
        """What tables used beside batches."""
        self._used: dict[int, tuple[float, float]] = {}
        """Of each process of ours what it used itself, and what those used that it started and has waited for."""
        self._apart: dict[str, Spent] = {}
        """What was used for tables apart from them, without the batches of that."""
        self._apart_batches: dict[str, float] = defaultdict(float)
        """The seconds of those batches, of programs that were started for it, and of threads of Python beside the one that asks."""
        self._has_feeds = False
        """Whether it raises alerts, in tasks that are of no batch."""
        self._sent: dict[str, Counter[str]] = defaultdict(Counter)
        """The requests to a store, by the table and by what was asked."""
        self._looked_at = 0.0
        self._runs = False
        """Whether a table of the lake was run."""
        self._before = measured().total
        self._base: Process | None = None
        """What was used until the day began."""
        self._day = clock().date()
        self._folded: date | None = None
        """The day on which those before were put together."""
        if self._look_at_threads():  # requests until now may be of the account before
            self._look_at_processes()

    def _new_name(self) -> str:
        """Return a name for the files of a day that no other process has, and none of this one: a clock that was ahead may go back."""
        return f"{self._host}-{self._me.pid}-{int(own()['started'] or 0)}-{next(_numbers)}"

    def is_of(self, lake: Lake, spark: SparkSession) -> bool:
        """Return whether it is of a lake, and of the JVM of a session."""
        return (self._lake.root, self._java) == (lake.root, pid_of(spark))

    def begin(self, former: "Account | None") -> "Account":
        """Look and write from time to time, in a thread; where another account ends, what was used until now is in that."""
        if former is not None:
            former.close()
            self.look()
            self._base = self.found()
        self._ask_for_requests()  # from here on by table
        threading.Thread(target=self._go_on, name="cost", daemon=True).start()
        return self

    @contextmanager
    def record(self, spark: SparkSession, table: Table, mode: str, lake: Lake) -> Iterator[Wrote]:
        """Measure what a run of a table uses beside its batches; of one that goes on, that is in the lines of all.

        A run in another lake is a rebuild or a proof: what its batches say there, no commit of the table says.
        """
        self._runs = True
        is_own = lake.root == self._lake.root
        if is_own and mode == MicroBatch().name:
            yield _nothing
            return
        heard = partial(self._heard, self._beside if is_own else self._apart, table.id)
        with beside_batches(spark, heard):
            try:
                yield self._committed if is_own else self._committed_apart
            finally:
                self.look()

    @contextmanager
    def apart(self, table: str) -> Iterator[Callable[[float], None]]:
        """Measure what this thread does apart from a table for it; yield what adds the seconds of a program or a thread that it started."""
        self._runs = True
        with beside_batches(self._spark, partial(self._heard, self._apart, table)):
            yield partial(self._add_apart, table)

    def has_feeds(self) -> None:
        """Keep a line of it although no table is run: its tasks are those of feeds."""
        self._runs = self._has_feeds = True

    def _committed_apart(self, table: Table, entry: Entry) -> None:
        self._add_apart(table.id, entry.own_ms / 1000)
        self._committed(table, entry)

    def _add_apart(self, table: str, seconds: float) -> None:
        with self._lock:
            self._apart_batches[table] += seconds

    def _committed(self, _: Table, __: Entry) -> None:
        """Look while the threads of a batch are there; a run may be over before the next look is due."""
        if time.monotonic() - self._looked_at > AGAIN:
            self._look_at_threads()

    def _heard(self, by_table: dict[str, Spent], table: str, used: Spent) -> None:
        with self._lock:
            by_table[table] = by_table.get(table, Spent()) + used

    def look(self) -> None:
        """Read what the kernel counts of the threads of the JVM, and of all processes of ours."""
        with self._lock:
            if self._look_at_threads():
                self._look_at_processes()

    def _look_at_threads(self) -> bool:
        """Return whether the JVM is there; one that has ended would be counted as a part of its parent."""
        with self._lock:
            self._looked_at = time.monotonic()
            if not (now := threads_of(self._java)):
                return False
            for key in self._living.keys() - now.keys():
                name, seconds = self._living[key]
                self._ended[line_of(name)] += seconds
            self._living = now
            return True

    def _look_at_processes(self) -> None:
        there = {each.pid: each for each in family(self._me.pid)}
        if self._java not in there:  # spark-submit has started this process
            there |= {each.pid: each for each in family(self._java)}
        for pid, each in there.items():
            with suppress(psutil.Error):
                times = each.cpu_times()
                waited = times.children_user + times.children_system
                self._used[pid] = times.user + times.system, waited
        # One that has ended is in the count of its parent, which has waited for it.
        gone = [pid for pid in self._used if pid not in there and not psutil.pid_exists(pid)]
        for pid in gone:
            del self._used[pid]

    def _ask_for_requests(self) -> None:
        """Ask the JVM what it has sent to the store, without the lock: one that hangs answers never, and runs end by a look."""
        if self._lake.root.scheme == S3A:  # of the other stores nothing counts what the JVM sends
            with suppress(Py4JError, PySparkException):  # the JVM ends
                sent = [*store_requests(self._spark, self._lake.root.path)]
                with self._lock:
                    _add_requests(self._sent, self._lake, sent)

    def found(self) -> Process:
        """Return what the process has used since it began, by what used it."""
        with self._lock:
            if self._lake.root.scheme == S3A:
                _add_requests(self._sent, self._lake, _of_python())
            threads = defaultdict(float, self._ended)
            for name, seconds in self._living.values():
                threads[line_of(name)] += seconds
            beside = sum((*self._beside.values(), *self._apart.values()), Spent())
            batches = measured()
            tables = batches + beside
            python, _ = self._used.get(self._me.pid, (0.0, 0.0))
            java, _ = self._used.get(self._java, (0.0, 0.0))
            used = sum(alone + waited for alone, waited in self._used.values())
            now = self._clock()
            return Process(
                program=program(),
                host=self._host,
                pid=self._me.pid,
                day=self._day.isoformat(),
                at=now.isoformat(timespec="seconds"),
                cores=self._cores,
                seconds=time.monotonic() - self._began,
                # On a cluster tasks run in processes of other machines.
                cpu=used + (0.0 if self._is_local else tables.tasks),
                lines={
                    "batches": batches.total,
                    "beside": beside.total,
                    "jit": threads["jit"],
                    "gc": threads["gc"],
                    "jvm": threads["jvm"],
                    "spark": threads["spark"],
                    # Of a query that began and ended between two looks only its batches are known.
                    "queries": max(0.0, threads["queries"] - tables.query),
                    # As the kernel counts them: in real time a task ends after minutes.
                    "feeds": max(0.0, threads["tasks"] - tables.tasks) if self._has_feeds else 0.0,
                    "calls": threads["calls"] - tables.driver,
                    "python": python - tables.python,
                    "programs": used - python - java,
                },
                tables={name: each.total for name, each in sorted(self._beside.items())},
                task_threads=threads["tasks"],
                tasks=tables.tasks,
                apart={
                    name: self._apart.get(name, Spent()).total + self._apart_batches.get(name, 0.0)
                    for name in sorted({*self._apart, *self._apart_batches})
                },
                requests={name: dict(each) for name, each in sorted(self._sent.items())},
                state=states(self._lake),
            )

    def write(self) -> None:
        """Keep what was used today in the lake; what was used until this look is of the day before where that is over."""
        with self._lock:
            today = self._clock().date()
            self._put()
            if today != self._day:
                self._base, self._day, self._name = self.found(), today, self._new_name()

    def _put(self) -> None:
        # What only answers changes no lake; one may have been removed meanwhile; and not each system counts threads.
        works = self._runs or measured().total > self._before
        if works and self._used and self._lake.root.exists():
            now = self.found()
            today = now if self._base is None else now.since(self._base)
            note_process(self._lake, self._name, today)
            if self._folded != self._day:
                fold(self._lake, self._day)
                self._folded = self._day

    def close(self) -> None:
        """Look and write for the last time."""
        self._due.set()
        asks = threading.Thread(target=self._ask_for_requests, daemon=True)
        asks.start()
        asks.join(PATIENCE)
        with suppress(Exception):  # a full disk or a store that is away: no run depends on it
            self.look()
            self.write()

    def _go_on(self) -> None:
        longest = EVERY if self._lake.root.is_local else ON_STORE
        wait, unwritten = FIRST, 0.0
        while not self._due.wait(wait):
            unwritten += wait
            with suppress(Exception):  # as above; the next look counts all of it
                self._ask_for_requests()
                self.look()
                if unwritten >= longest:
                    self.write()
                    unwritten = 0.0
            wait = min(max(FIRST, (time.monotonic() - self._began) / SLOWER), EVERY)


def _of_python() -> Iterator[tuple[str, str, str, int]]:
    """Yield what Python has sent to S3 since this was asked last, as the JVM says it."""
    return ((*of, times) for of, times in REQUESTS.take().items())


def _add_requests(
    to: dict[str, Counter[str]], lake: Lake, sent: Iterable[tuple[str, str, str, int]]
) -> None:
    """Add requests to those of the tables of a lake; those of its rebuilds are in lakes below it."""
    for asked, of, folders, times in sent:
        is_own = f"{of}/".startswith(f"{lake.root.path}/")
        below = f"{of.removeprefix(lake.root.path)}/{folders}".lstrip("/")
        # What lies beside the folders of a rebuild is its table's as well.
        owner = owner_of(folders) or owner_of("/".join(below.split("/")[:2]))
        to[owner if is_own else ""][asked] += times


_kept = [0.0, 0.0]
"""The CPU and the age of this process when its maintenance was kept last."""


@contextmanager
def maintaining(lake: Lake, now: datetime, *, go: bool) -> Iterator[dict[str, float]]:
    """Keep what maintenance takes by table, as it is noted in the block; it has no Spark, so its process is of Python alone.

    All that the process has used is counted, its start too: it works for nothing else. Those of a machine are one file a day, as they
    come four times an hour, and one at a time.
    """
    took = dict[str, float]()
    try:
        yield took
    finally:
        times, everything = psutil.Process().cpu_times(), sum(took.values())
        before, _kept[:] = [*_kept], [times.user + times.system, age()]
        cpu, seconds = (after - then for after, then in zip(_kept, before, strict=True))
        found = Process(
            program=program(),
            host=str(own()["host"]),
            pid=own()["pid"],
            day=now.date().isoformat(),
            at=now.isoformat(timespec="seconds"),
            cores=psutil.cpu_count() or 1,
            seconds=seconds,
            cpu=cpu,
            lines={"maintenance": everything, "python": cpu - everything},
            tables={},
            maintained=took,
            requests=_sent_alone(lake),
        )
        if go and took:
            with suppress(Exception):  # as at the end of any process: nothing depends on it
                add_process(lake, f"maintenance-{found.host}", found)
                fold(lake, now.date())


def _sent_alone(lake: Lake) -> Mapping[str, Mapping[str, int]]:
    """Return what a process without Spark has sent since this was asked last."""
    sent: dict[str, Counter[str]] = defaultdict(Counter)
    if lake.root.scheme == S3A:
        _add_requests(sent, lake, _of_python())
    return {name: dict(each) for name, each in sorted(sent.items())}


def _nothing(_: Table, __: Entry) -> None:
    """Hear of a commit, which says itself what it used."""


def program() -> str:
    """Return the verb that this process was started with, or the name of the program."""
    words = [each for each in sys.argv[1:] if not each.startswith("-")]
    name = sys.argv[0].rpartition("/")[2]
    # In the background it is started as ``python -m strandline.cli``.
    return words[0] if name in {"strandline", "__main__.py"} and words else name


_accounts: list[Account] = []
"""That of this process, which works for one lake."""


def _close() -> None:
    """Close the account that is open when the process ends."""
    for each in _accounts:
        each.close()


def account_of(
    lake: Lake, spark: SparkSession, clock: Callable[[], datetime], cores: int
) -> Account:
    """Return the account of this process, which is closed at its end; that of another lake ends here."""
    if _accounts and _accounts[0].is_of(lake, spark):
        return _accounts[0]
    if not _accounts:
        atexit.register(_close)
    former = _accounts.pop() if _accounts else None
    _accounts.append(Account(lake, spark, clock, cores).begin(former))
    return _accounts[0]
