"""Access to the JVM, for what Delta and the kernel offer nowhere else; and what a batch takes of it in time."""

import re
import subprocess
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, TimeoutError  # noqa: A004  # its own name
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import lru_cache
from itertools import count
from typing import Any, TypeVar

import psutil
from py4j.java_gateway import JavaPackage
from py4j.protocol import Py4JError, Py4JJavaError, Py4JNetworkError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from strandline.core.errors import TransientError

SLOW = "Python worker failed to connect back"
"""Spark's message on a machine that is too busy; seen with four Sparks on two cores."""

BUSY = "the machine is too busy"
"""How its sentence ends: it is no outage of a service."""

SHORT = ("java.lang.OutOfMemoryError", "SparkOutOfMemoryError", "UNABLE_TO_ACQUIRE_MEMORY")
"""What Spark's messages contain where memory ran out."""

ENDS = (
    *SHORT,
    'org.apache.spark.SparkContext.dagScheduler()" is null',
    "SparkContext was shut down",
)
"""What they contain then, and while the JVM ends for it: it stops its parts one by one, and a query fails with any of them
[measured: a batch of 3 million rows in a heap of 512 MB]."""

SHORT_CODE = 52
"""The exit code of a driver or an executor of Spark that ended for want of memory (``SparkExitCode.OOM``)."""

SHORT_EXIT = re.compile(rf"(?:exited with (?:exit )?code|Exit status:) ?{SHORT_CODE}\b")
"""How a cluster says that an executor ended with it: a standalone one, Kubernetes, YARN."""

LOST = "ExecutorLostFailure"
"""Spark's word for a task whose executor died; a job fails with it once one task has lost four."""

RUNS = "RUNNING"
"""Spark's word for a job that has not ended."""

ENDING = 1.0
"""Seconds that a JVM may take to end once its connections are closed."""


class SparkGoneError(TransientError):
    """The JVM is gone, or was killed because it answered to nothing; threads that waited for it may still be there at the end."""


def jvm(spark: SparkSession) -> Any:  # noqa: ANN401  # py4j's objects have no types
    """Return the view of the JVM that the session's process runs in."""
    return spark._jvm  # noqa: SLF001  # there is no public way


def pid_of(spark: SparkSession) -> int:
    """Return the number of the JVM's process."""
    return int(spark.sparkContext._gateway.proc.pid)  # type: ignore[union-attr]  # noqa: SLF001  # as above


def classic(spark: SparkSession) -> Any:  # noqa: ANN401  # as above
    """Return the JVM's own session behind the Python one."""
    return spark._jsparkSession  # noqa: SLF001  # as above


def running_tasks(spark: SparkSession, pool: str) -> int:
    """Return how many tasks of a scheduler's pool run, those included that were asked to end and still do something."""
    root = spark.sparkContext._jsc.sc().taskScheduler().rootPool()  # noqa: SLF001  # there is no public way
    found = root.getSchedulableByName(pool)
    return 0 if found is None else int(found.runningTasks())


@dataclass(frozen=True, slots=True)
class Moves:
    """What changes whenever a group of jobs does something."""

    figures: tuple[int, ...]
    """Its last job, and of its stages the tasks that have ended and the rows that were read, written and sent on."""
    runs: bool
    """Whether that job runs, or waits for others to run."""


def moves(spark: SparkSession, group: str) -> Moves:
    """Return what a group of jobs has done; of the rows of a task that runs Spark knows every ten seconds."""
    context = spark.sparkContext
    tracker, inner = context.statusTracker(), context._jsc  # noqa: SLF001  # the tracker counts no rows
    store = inner.sc().statusStore()
    # In the JVM: each number of a list is a call, and Spark remembers a thousand jobs.
    jobs = jvm(spark).java.util.Arrays.stream(inner.statusTracker().getJobIdsForGroup(group)).max()
    last = [int(jobs.getAsInt())] if jobs.isPresent() else []
    found = [tracker.getJobInfo(job) for job in last]
    numbers = [each for job in found if job is not None for each in job.stageIds]
    # A stage that has not begun is not known yet.
    stages = [store.lastStageAttempt(each) for each in numbers if tracker.getStageInfo(each)]
    figures = [
        figure
        for each in stages
        for figure in (
            each.numCompleteTasks(),
            each.inputRecords(),
            each.outputRecords(),
            each.shuffleReadRecords(),
            each.shuffleWriteRecords(),
        )
    ]
    return Moves((*last, *figures), any(job is not None and job.status == RUNS for job in found))


def kill(spark: SparkSession) -> None:
    """Kill the JVM, which may answer to nothing any more; it would keep the locks of the tables."""
    gateway: Any = spark.sparkContext._gateway  # noqa: SLF001  # as above
    with suppress(OSError, psutil.Error):
        gateway.proc.kill()


def executors(spark: SparkSession) -> int:
    """Return how many executors have registered beside the driver."""
    return int(spark.sparkContext._jsc.sc().getExecutorMemoryStatus().size()) - 1  # noqa: SLF001  # as above


def hadoop(spark: SparkSession) -> Any:  # noqa: ANN401  # as above
    """Return Hadoop's configuration, which the sessions of this process begin with."""
    return spark.sparkContext._jsc.hadoopConfiguration()  # noqa: SLF001  # as above


def store_requests(spark: SparkSession, lake: str) -> Iterator[tuple[str, str, str, int]]:
    """Yield what the JVM has sent to S3 since this was asked last: what is asked, the lake, two folders of it, how often.

    The folders of a lake, named by its bucket and its key, are counted each for itself from now on.
    """
    counts = jvm(spark).strandline.StoreRequests
    if isinstance(counts, JavaPackage):  # a JVM that others started has not our jar
        return
    counts.watch(lake)
    for line in str(counts.take()).splitlines():
        asked, of, folders, times = line.split("\t")
        yield asked, of, folders, int(times)


def gone() -> SparkGoneError:
    """Return the error of a process whose JVM is gone."""
    return SparkGoneError(
        "Spark's JVM is gone: it was killed, or memory ran out",
        hint="type the same again: it carries on, nothing is lost or repeated. `dmesg` shows whether "
        "memory was short (STRANDLINE_MEMORY), and Spark's last error is in the lake's _logs.",
    )


def has_ended(spark: SparkSession) -> bool:
    """Return whether the JVM has ended; one that is killed closes its connections a little before it has."""
    gateway: Any = spark.sparkContext._gateway  # noqa: SLF001  # as above
    try:
        gateway.proc.wait(ENDING)
    except (
        subprocess.TimeoutExpired,
        psutil.TimeoutExpired,
    ):  # a child, and the JVM of spark-submit
        return False
    return True


def exit_code(spark: SparkSession) -> int | None:
    """Return the exit code of the JVM; None while it runs, and where it is not a child of this process."""
    gateway: Any = spark.sparkContext._gateway  # noqa: SLF001  # as above
    poll = getattr(gateway.proc, "poll", None)  # the parent of a program of spark-submit has none
    return None if poll is None else poll()


def is_deaf(spark: SparkSession) -> bool:
    """Return whether the JVM reaches Python no more, so that no batch will ever be handed over.

    The thread that takes its calls ends for good when a call cannot be taken, for want of a descriptor or of a thread.
    """
    gateway: Any = spark.sparkContext._gateway  # noqa: SLF001  # as above
    server = gateway.__dict__.get("_callback_server")
    thread = getattr(server, "thread", None)
    return server is not None and (thread is None or not thread.is_alive())


def deaf() -> SparkGoneError:
    """Return the error of a process whose JVM reaches Python no more; it is killed, as it would keep the locks of the tables."""
    return SparkGoneError(
        "Spark's JVM reaches Python no more, so no batch would ever be written: too many files or threads are open",
        hint="type the same again: it carries on, nothing is lost or repeated. `strandline doctor` says how many tables a stream "
        "carries here; share more of them out over several streams.",
    )


def ran_out(error: BaseException) -> bool:
    """Return whether an error says that memory ran out, in the driver or in an executor."""
    texts = map(text_of, _causes(error))
    return any(
        any(name in text for name in SHORT) or SHORT_EXIT.search(text) is not None for text in texts
    )


def loss(error: BaseException) -> TransientError | None:
    """Return the transient error behind an error: the JVM is gone, or the machine is too slow; None otherwise."""
    for cause in _causes(error):
        if _is_loss(cause):
            return gone()
        if isinstance(cause, PySparkException | Py4JJavaError):
            text = text_of(cause)
            if LOST in text:
                return _lost_executors()
            if any(name in text for name in ENDS):
                return gone()
        if isinstance(cause, PySparkException) and SLOW in str(cause):
            return TransientError(
                f"a Python worker of Spark's did not start within ten seconds: {BUSY}",
                hint="type the same again: it carries on, nothing is lost or repeated. "
                "`strandline stream` with fewer tables needs less at its start.",
            )
    return None


def _causes(error: BaseException) -> Iterator[BaseException]:
    """Yield an error and what is behind it."""
    cause: BaseException | None = error
    while cause is not None:
        yield cause
        cause = cause.__cause__ or cause.__context__


def _lost_executors() -> TransientError:
    return TransientError(
        "one task lost its executor four times in a row",
        hint="type the same again: it carries on, nothing is lost or repeated. The cluster's page shows why executors ended; "
        "where memory was short, give them more (spark.executor.memory, infra/docs/cluster.md).",
    )


def text_of(error: BaseException) -> str:
    """Return the text of an error, of one of the JVM with its stack and all its causes; empty where the JVM is gone."""
    try:
        return str(error)
    except Exception:  # noqa: BLE001  # py4j asks the JVM for the text, and the JVM may be gone
        return ""


def _is_loss(error: BaseException) -> bool:
    if isinstance(error, Py4JNetworkError) or "JAVA_GATEWAY_EXITED" in str(error.args):
        return True
    frames = traceback.extract_tb(error.__traceback__)
    return isinstance(error, ConnectionError) and any("py4j" in f.filename for f in frames)


# How short the JVM's heap is: what is in use after a full collection, and the time that collecting takes.
#
# Why not the memory in use: a heap fills until it is collected, so a healthy one is often nearly full. What a full
# collection leaves is in use, and its share of the old generation says how much more a batch may need.


OLD = ("Old Gen", "Tenured Gen")
"""What collectors call the old generation: "PS Old Gen", "G1 Old Gen", "Tenured Gen"."""

FULL = ("PS MarkSweep", "G1 Old Generation", "MarkSweepCompact")


@dataclass(frozen=True, slots=True)
class _Beans:
    """What a JVM has for questions about its heap: to find it is seventy calls, and each run of a table looks at the same."""

    old: Any
    collectors: list[Any]
    full: list[Any]
    bytes: int


@lru_cache(maxsize=1)
def _beans(gateway: Any) -> _Beans:  # noqa: ANN401  # py4j's objects have no types
    factory = gateway.jvm.java.lang.management.ManagementFactory
    pools = list(factory.getMemoryPoolMXBeans())
    old = (pool for pool in pools if pool.getName().endswith(OLD))
    collectors = list(factory.getGarbageCollectorMXBeans())
    return _Beans(
        next(old, None),  # a collector without generations has none
        collectors,
        [each for each in collectors if each.getName() in FULL],
        int(factory.getMemoryMXBean().getHeapMemoryUsage().getMax()),
    )


class Heap:
    """Reads the beans of the JVM; a look is some ten calls of it, which take about 2 ms together."""

    def __init__(self, spark: SparkSession) -> None:
        """Find the beans, and begin to measure."""
        self._spark = spark
        beans = _beans(spark.sparkContext._gateway)  # noqa: SLF001  # there is no public way
        self._old, self._collectors, self._full = beans.old, beans.collectors, beans.full
        self.bytes = beans.bytes
        self._at, self._spent, self._times = 0.0, 0, 0
        self.begin()

    def begin(self) -> None:
        """Measure from here on."""
        self._at, self._spent, self._times = time.monotonic(), self._collected(), self._fully()

    def is_gone(self) -> bool:
        """Return whether the JVM has ended, or ends within a second."""
        return has_ended(self._spark)

    def ran_out(self) -> bool:
        """Return whether the JVM has ended and its exit code says that memory ran out."""
        return has_ended(self._spark) and exit_code(self._spark) == SHORT_CODE

    def held(self) -> float:
        """Return the share of the old generation in use after the last full collection; 0 without one since the beginning."""
        if self._old is None or self._fully() == self._times:
            return 0.0
        usage = self._old.getCollectionUsage()
        return float(usage.getUsed() / usage.getMax()) if usage.getMax() > 0 else 0.0

    def collecting(self) -> float:
        """Return the share of the time since the beginning that went to collecting garbage."""
        passed = max(time.monotonic() - self._at, 0.001) * 1000
        return float(min((self._collected() - self._spent) / passed, 1.0))

    def _collected(self) -> int:
        return sum(int(each.getCollectionTime()) for each in self._collectors)

    def _fully(self) -> int:
        return sum(int(each.getCollectionCount()) for each in self._full)


# Run an action of Spark and show meanwhile how many of its tasks are done.
#
# The action runs in a thread of its own, and Python's main thread waits in short steps, because one that waits inside of
# the JVM cannot be interrupted (see the facts about py4j in jobs/strandline/engine/service/stream_host.py).


T = TypeVar("T")
Show = Callable[[int, int], None]
"""Gets the number of tasks that are done, and of all that are known of."""

LOOK = 0.5
"""Seconds between two looks."""


def watched(spark: SparkSession, action: Callable[[], T], show: Show) -> T:
    """Return what an action returns.

    Args:
        spark: The session; no other job of it may run meanwhile, because its tasks would be counted too.
        action: Starts a job and waits for it.
        show: Is called every half second while tasks are under way.
    """
    with ThreadPoolExecutor(max_workers=1) as pool:
        answer: Future[T] = pool.submit(action)
        try:
            while True:
                try:
                    return answer.result(timeout=LOOK)
                except TimeoutError:
                    if answer.done():
                        raise
                    show(*_tasks(spark))
        except BaseException:
            spark.sparkContext.cancelAllJobs()
            raise


def _tasks(spark: SparkSession) -> tuple[int, int]:
    tracker = spark.sparkContext.statusTracker()
    stages = [tracker.getStageInfo(number) for number in tracker.getActiveStageIds()]
    known = [stage for stage in stages if stage is not None]
    return sum(s.numCompletedTasks for s in known), sum(s.numTasks for s in known)


# The wall time and the CPU time of a batch.

WORKS = 0.2
"""The share of a core that is work; looking whether a query is at its end takes some hundredths."""


def _jvm(spark: SparkSession) -> psutil.Process:
    gateway = spark.sparkContext._gateway  # noqa: SLF001  # the only place with the JVM's process id
    process = getattr(gateway, "proc", None)
    return psutil.Process() if process is None else psutil.Process(process.pid)


class Meter:
    """Measures from its creation on: wall time, and CPU time of the JVM, in which all of Spark runs here."""

    def __init__(self, spark: SparkSession) -> None:
        """Start measuring."""
        self._process = _jvm(spark)
        self._wall = time.monotonic()
        self._cpu = self._spent()
        self._own = Own(spark)
        self._spark, self._parts = spark, dict[str, float]()

    @contextmanager
    def part(self, name: str) -> Iterator[None]:
        """Measure what this thread and its thread of the JVM use in a block; the tasks of its jobs are in the batch alone."""
        before = self._clocks()
        try:
            yield
        finally:
            if before is not None and (after := self._clocks()) is not None:
                self._parts[name] = self._parts.get(name, 0.0) + max(0.0, after - before)

    def _clocks(self) -> float | None:
        """Return the seconds of this thread and of its thread in the JVM; None where that is gone."""
        try:
            return time.thread_time() + _ticks(self._spark)() / 1e9
        except (Py4JError, PySparkException):  # a batch does not fail for want of its cost
            return None

    def part_ms(self, name: str) -> int:
        """Return the milliseconds of CPU of a part of the batch, which are among its own."""
        return round(self._parts.get(name, 0.0) * 1000)

    def wall_ms(self) -> int:
        """Return the milliseconds since the start."""
        return int((time.monotonic() - self._wall) * 1000)

    def cpu_ms(self) -> int:
        """Return the milliseconds of CPU since the start, including queries that run beside this one."""
        return int((self._spent() - self._cpu) * 1000)

    def own_ms(self) -> int:
        """Return the milliseconds of CPU of this batch alone; what was returned once is not returned again."""
        return round(self._own.spent().total * 1000)

    def uneven_ms(self) -> tuple[int, int] | None:
        """Return the milliseconds of the longest task and of the median one, of the stage that waited most for one task."""
        found = self._own.uneven
        return (round(found.longest * 1000), round(found.median * 1000)) if found.waited else None

    def _spent(self) -> float:
        times = self._process.cpu_times()
        return float(times.user + times.system)


# What a table uses of that CPU itself: its thread of Python, the thread of the JVM that does what this one asks for, and the tasks of
# its jobs.
#
# All tables of a process share a JVM, so the CPU of the process while a batch runs is that of its neighbours too (``Meter.cpu_ms``); of
# four tables side by side it was counted four times. PySpark gives each thread of Python one of the JVM, and a query has its own, which
# calls Python from there; Spark counts the CPU of each task. So these add up over tables. What they leave is shared by
# all: compilers, garbage collection, the scheduler.


@dataclass(frozen=True, slots=True)
class Spent:
    """Seconds of CPU: of a thread of Python, of its thread in the JVM or that of a query, and of tasks."""

    python: float = 0.0
    driver: float = 0.0
    query: float = 0.0
    tasks: float = 0.0

    @property
    def total(self) -> float:
        """Return all of them."""
        return self.python + self.driver + self.query + self.tasks

    def __add__(self, other: "Spent") -> "Spent":
        """Return both."""
        return Spent(
            python=self.python + other.python,
            driver=self.driver + other.driver,
            query=self.query + other.query,
            tasks=self.tasks + other.tasks,
        )


@dataclass(frozen=True, slots=True)
class Uneven:
    """Seconds of the longest task of a stage, and of the median one."""

    longest: float = 0.0
    median: float = 0.0

    @property
    def waited(self) -> float:
        """Return for how long the stage waited for its longest task alone."""
        return self.longest - self.median


LARGE = 1.0
"""Seconds of CPU from which on a stage's tasks are looked at one by one: a look takes 10 to 16 ms for 2 to 200 tasks, which is much for a batch of 0.2 s."""


class _Thread(threading.local):
    """What is known of the thread that asks: where its counts were when they were read last."""

    python = 0.0
    driver = 0.0
    group = ""
    """The group of its jobs in Spark."""
    job = -1
    """The newest job of that group which was counted."""
    is_query = False
    """Whether it is the thread of a query, which works for one table from its begin to its end."""
    beside: Spent | None = None
    """What it has used beside batches, in a run of a table; None outside of one."""


GROUP = "spark.jobGroup.id"
QUERY = "sql.streaming.queryId"
OWN_GROUP = "strandline-batch-"
"""Begins the group of jobs of a thread that has none."""

_thread = _Thread()
_numbers = count()
_measured = Spent()
_lock = threading.Lock()


def measured() -> Spent:
    """Return all that batches of this process were found to have used, whichever tables they were of."""
    return _measured


class Own:
    """Measures what the thread that asks, its thread in the JVM and the tasks of its jobs use; begun and read in one thread."""

    def __init__(self, spark: SparkSession) -> None:
        """Begin; what a query has used since its last batch, and before its first, is of the next one."""
        self._spark, self._thread = spark, threading.get_ident()
        self.uneven = Uneven()
        """Of its stages that were large the one that waited most for one task."""
        with suppress(Py4JError, PySparkException):  # a batch does not fail for want of its cost
            self._begin()

    def _begin(self) -> None:
        context = self._spark.sparkContext
        _thread.is_query = _thread.is_query or context.getLocalProperty(QUERY) is not None
        group = context.getLocalProperty(GROUP) or ""
        if _thread.is_query:
            if group != _thread.group:
                _thread.group, _thread.job = group, -1
            return
        self.take()
        self.uneven = Uneven()  # what was before the batch is of none
        if not group or group.startswith(OWN_GROUP):
            group = f"{OWN_GROUP}{next(_numbers)}"
            context.setLocalProperty(GROUP, group)
        if group != _thread.group:
            _thread.group = group
            _thread.job = max(self._jobs(), default=-1)

    def take(self) -> None:
        """Begin to count from here; what the thread has used since the last batch is beside them."""
        used = self._clocks()
        if _thread.beside is not None:
            _thread.beside += used + Spent(tasks=self._tasks())

    def spent(self) -> Spent:
        """Return what was used since the begin, or since this was asked last."""
        global _measured  # noqa: PLW0603  # of the process
        if threading.get_ident() != self._thread:  # what another thread used is not known here
            return Spent()
        try:
            found = self._clocks() + Spent(tasks=self._tasks())
        except (Py4JError, PySparkException):  # as above
            return Spent()
        with _lock:
            _measured += found
        return found

    def _clocks(self) -> Spent:
        python, driver = time.thread_time(), _ticks(self._spark)() / 1e9
        before = _thread.driver if driver >= _thread.driver else 0.0  # the JVM's thread is another
        used, in_jvm = python - _thread.python, driver - before
        _thread.python, _thread.driver = python, driver
        if _thread.is_query:
            return Spent(python=used, query=in_jvm)
        return Spent(python=used, driver=in_jvm)

    def _jobs(self) -> list[int]:
        """Return the jobs of this thread's group that Spark remembers."""
        numbers = self._spark.sparkContext._jsc.statusTracker().getJobIdsForGroup(_thread.group)  # noqa: SLF001  # there is no public way
        # In one text: each number of a list would be a call, and Spark remembers a thousand jobs.
        text = str(jvm(self._spark).java.util.Arrays.toString(numbers)).strip("[]")
        return [int(each) for each in text.split(",") if each.strip()]

    def _tasks(self) -> float:
        """Return the CPU of the tasks of jobs that have ended; a job that is just ending is counted the next time."""
        store = self._spark.sparkContext._jsc.sc().statusStore()  # noqa: SLF001  # as above
        found = 0.0
        for job in sorted(each for each in self._jobs() if each > _thread.job):
            known = _known(store.job, job)
            if known is not None and str(known.status()) == RUNS:
                break
            _thread.job = job
            stages = str(known.stageIds().mkString(",")) if known is not None else ""
            found += sum(self._task_seconds(store, int(each)) for each in stages.split(",") if each)
        return found

    def _task_seconds(self, store: Any, stage: int) -> float:  # noqa: ANN401  # as above
        """Return the CPU of the tasks of a stage."""
        found = _known(store.lastStageAttempt, stage)
        if found is None:
            return 0.0
        seconds = float(found.executorCpuTime() + found.executorDeserializeCpuTime()) / 1e9
        if seconds >= LARGE:
            uneven = _uneven(self._spark, store, found)
            self.uneven = max(self.uneven, uneven, key=lambda each: each.waited)
        return seconds


@contextmanager
def beside_batches(spark: SparkSession, heard: Callable[[Spent], None]) -> Iterator[None]:
    """Measure what a run of a table uses in this thread beside its batches, and let it be heard at the end; of a block within it, by that alone."""
    own, outer = Own(spark), _thread.beside
    _thread.beside = Spent()
    try:
        yield
    finally:
        with suppress(Py4JError, PySparkException):  # as above
            own.take()
        used = _thread.beside
        _thread.beside = outer
        heard(used)


def _known(look: Callable[[int], Any], number: int) -> Any:  # noqa: ANN401  # as above
    """Return what Spark remembers of a job or of a stage; None where it has forgotten it, or the stage has never begun."""
    try:
        return look(number)
    except Py4JJavaError:
        return None


def _uneven(spark: SparkSession, store: Any, stage: Any) -> Uneven:  # noqa: ANN401  # as above
    """Return the times of the longest task and of the median one of a stage, as Spark has them."""
    tasks = int(stage.numCompleteTasks())
    gateway: Any = spark.sparkContext._gateway  # noqa: SLF001  # as above
    middles = (
        (tasks - 1) // 2 + 0.5,
        tasks // 2 + 0.5,
    )  # of two tasks the median lies between them
    wanted = gateway.new_array(gateway.jvm.double, 3)
    for number, share in enumerate((*(each / max(tasks, 1) for each in middles), 1.0)):
        wanted[number] = share
    known = store.taskSummary(stage.stageId(), stage.attemptId(), wanted)
    if known.isEmpty():
        return Uneven()
    times = known.get().executorRunTime()
    low, high, longest = (float(times.apply(number)) / 1000 for number in range(3))
    return Uneven(longest, (low + high) / 2)


def _ticks(spark: SparkSession) -> Callable[[], int]:
    """Return what reads the CPU of the JVM's thread that answers this one, in nanoseconds."""
    return _clock_of(spark.sparkContext._gateway)  # noqa: SLF001  # as above


@lru_cache(maxsize=2)
def _clock_of(gateway: Any) -> Callable[[], int]:  # noqa: ANN401  # as above
    # The JVM's own bean is in a module that py4j may not call; this class of Spark's metrics asks it.
    clock: Callable[[], int] = gateway.jvm.com.codahale.metrics.jvm.CpuTimeClock().getTick
    return clock


class Work:
    """Measures whether what a process has started works: the JVM, and the workers of Python that run functions of tables.

    Of Spark's own work the JVM is asked: a broker that this process has started too works for others.
    """

    def __init__(self, spark: SparkSession | None = None) -> None:
        """Start measuring: the JVM of a session with its workers, or all that this process has started."""
        self._own = psutil.Process()
        self._top = self._own
        with suppress(psutil.Error):  # the JVM has ended
            self._top = self._own if spark is None else _jvm(spark)
        self._at, self._spent = time.monotonic(), self._cpu()

    def goes_on(self) -> bool:
        """Return whether they have used more than a share of a core since the last call."""
        at, spent = time.monotonic(), self._cpu()
        seconds, work = at - self._at, spent - self._spent
        self._at, self._spent = at, spent
        return work > WORKS * seconds

    def _cpu(self) -> float:
        counted = [] if self._top == self._own else [self._top]
        with suppress(psutil.Error):
            counted += self._top.children(recursive=True)
        found = 0.0
        for each in counted:
            with suppress(psutil.Error):  # it has ended since
                times = each.cpu_times()
                found += times.user + times.system
        return found
