"""What a batch used itself is what the kernel counts for its threads, and nothing of the batch beside it."""

import threading
import time
from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import psutil
import pytest
from pyspark.sql import SparkSession

from strandline.core.stateful import AvailableNow
from strandline.engine.accounting.batch_check import Guard
from strandline.engine.flow.runner import Site, run
from strandline.engine.flow.running import states
from strandline.engine.lake.lake import Lake
from strandline.engine.lake.log.ledger import Entry
from strandline.engine.runtime import jvm
from strandline.engine.runtime.jvm import Meter, Own, Spent, pid_of
from tests.engine.written import GOLD, SILVER
from tests.support.events import readings, received
from tests.support.executions import settled
from tests.support.rows import NOON

pytestmark = pytest.mark.spark

EVENTS = """
    batch | id | device | event_at | arrived_at | value
    0     | e1 | d1     | 09:00:00 | 09:00:01   | 1.5
    0     | e2 | d1     | 09:01:00 | 09:01:01   | 2.5
    0     | e3 | d2     | 07:00:00 | 09:02:00   | 3.5
    1     | e4 | d2     | 12:00:00 | 12:00:01   | 4.5
"""


@pytest.fixture(autouse=True)
def _own_group(spark: SparkSession) -> None:
    """Leave the group of jobs that an earlier test may have given to this thread."""
    spark.sparkContext.setLocalProperty(jvm.GROUP, None)  # type: ignore[arg-type]  # None takes it back


def of_tasks(spark: SparkSession) -> Counter[str]:
    """Return the CPU of each of the JVM's threads in which tasks run, as the kernel counts it."""
    found = Counter[str]()
    for thread in Path(f"/proc/{pid_of(spark)}/task").iterdir():
        try:
            name, _, rest = (thread / "stat").read_text().rpartition(")")
        except (FileNotFoundError, ProcessLookupError):
            continue  # it ended, as a thread without a task does after a minute
        if name.partition("(")[2].startswith("Executor task"):
            user, system = rest.split()[11:13]
            found[thread.name] = (int(user) + int(system)) / 100
    return found


def works(spark: SparkSession, rows: int = 500_000) -> None:
    """Keep the cores busy with tasks for about half a second."""
    texts = "sum(crc32(sha2(cast(id AS string), 256)))"
    spark.range(0, rows, 1, 2).selectExpr(texts).collect()


def beside(*works: Callable[[], None]) -> None:
    """Do several things at the same time."""
    threads = [threading.Thread(target=each) for each in works]
    for each in threads:
        each.start()
    for each in threads:
        each.join()


def test_the_tasks_of_a_thread_are_what_the_kernel_counts(spark: SparkSession) -> None:
    """Spark measures them, /proc counts the threads that they ran in; each thread has its own part."""
    found: dict[str, Spent] = {}

    def busy() -> None:
        own = Own(spark)
        works(spark)
        settled(spark)
        found["busy"] = own.spent()

    def idle() -> None:
        own = Own(spark)
        spark.range(10).count()
        settled(spark)
        found["idle"] = own.spent()

    works(spark, 1_000)
    before, whole = of_tasks(spark), psutil.Process(pid_of(spark)).cpu_times()
    beside(busy, idle)
    after, then = of_tasks(spark), psutil.Process(pid_of(spark)).cpu_times()
    counted = (after - before).total()  # without those that ended, which had no task meanwhile

    tasks = found["busy"].tasks + found["idle"].tasks
    assert tasks == pytest.approx(counted, rel=0.15, abs=0.1)
    assert found["idle"].total < 0.4 * found["busy"].total
    used = then.user + then.system - whole.user - whole.system
    assert sum(each.driver + each.tasks for each in found.values()) < used + 0.05


def test_jobs_of_a_group_before_the_batch_are_of_no_batch(spark: SparkSession) -> None:
    """A thread of a recomputed table has the group of the thread before it, whose jobs Spark still remembers."""
    found = list[Spent]()

    def thread(rows: int) -> None:
        spark.sparkContext.setLocalProperty(jvm.GROUP, "of a table")
        own = Own(spark)
        works(spark, rows)
        settled(spark)
        found.append(own.spent())

    for rows in (500_000, 1_000):
        beside(partial(thread, rows))

    assert found[0].tasks > 0.3
    assert found[1].tasks < 0.3 * found[0].tasks


def test_a_thread_that_computes_in_python_is_measured(spark: SparkSession) -> None:
    """And what it did before is not of the batch, nor is what was returned once."""
    sum(n * n for n in range(1_000_000))
    own, began = Own(spark), time.thread_time()
    sum(n * n for n in range(1_000_000))
    used = time.thread_time() - began

    assert own.spent().python == pytest.approx(used, abs=0.05)
    assert own.spent().python < 0.05


def test_the_longest_task_of_a_large_stage_is_known_and_the_median_one(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the list of the tasks, of which this is a summary; a stage with little to do is not looked at."""
    monkeypatch.setattr(jvm, "LARGE", 0.2)
    meter = Meter(spark)
    works(spark, 1_000)
    settled(spark)
    small = meter.own_ms(), meter.uneven_ms()
    # One of five partitions has nearly all rows, as that of a heavy key has.
    rows = "explode(sequence(1L, if(id = 3, 500000L, 20000L))) AS n"
    wide = spark.range(0, 5, 1, 5).selectExpr("id", rows)
    wide.selectExpr("sum(crc32(sha2(cast(n AS string), 256)))").collect()
    settled(spark)
    own, uneven = meter.own_ms(), meter.uneven_ms()

    assert small[1] is None
    assert own >= 200
    assert uneven is not None
    longest, median = uneven
    assert (longest, median) == of_list(spark)
    assert longest > 5 * median


def of_list(spark: SparkSession) -> tuple[int, int]:
    """Return the longest task and the median one of this thread's newest stage with five tasks, which are asked one by one."""
    context = spark.sparkContext
    tracker, store = context.statusTracker(), context._jsc.sc().statusStore()
    jobs = tracker.getJobIdsForGroup(context.getLocalProperty(jvm.GROUP))
    found = [tracker.getJobInfo(each) for each in jobs]
    stages = sorted(stage for job in found if job is not None for stage in job.stageIds)
    known = [store.lastStageAttempt(each) for each in stages]
    stage = [each for each in known if each.numTasks() == 5][-1]
    tasks = store.taskList(stage.stageId(), stage.attemptId(), 100)
    each = (tasks.apply(number).taskMetrics().get() for number in range(tasks.size()))
    times = sorted(int(one.executorRunTime()) for one in each)
    return times[-1], times[2]


@pytest.mark.parametrize("tasks", [2, 4])
def test_the_median_of_two_tasks_lies_between_them(
    spark: SparkSession, tasks: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So that of two the longest is never more than twice as long as the median one."""
    monkeypatch.setattr(jvm, "LARGE", 0.2)
    meter = Meter(spark)
    rows = "explode(sequence(1L, if(id = 1, 500000L, 20000L))) AS n"
    wide = spark.range(0, tasks, 1, tasks).selectExpr("id", rows)
    wide.selectExpr("sum(crc32(sha2(cast(n AS string), 256)))").collect()
    settled(spark)
    meter.own_ms()

    longest, median = meter.uneven_ms() or (0, 0)
    assert longest > 0
    assert (longest <= 2 * median) == (tasks == 2)


def test_a_part_of_a_batch_is_what_its_threads_use_meanwhile(spark: SparkSession) -> None:
    """In Python and in the JVM; what is used outside of it is of no part."""
    meter = Meter(spark)
    sum(n * n for n in range(1_000_000))
    began = time.thread_time()
    with meter.part("gate"):
        sum(n * n for n in range(2_000_000))
    used = (time.thread_time() - began) * 1000
    with meter.part("ledger"), pytest.raises(ValueError, match="x"):
        raise ValueError("x")
    with meter.part("ledger"):
        time.sleep(0.3)
        text = "org.apache.commons.codec.digest.Sha2Crypt"  # rounds of a hash, in the thread that answers
        jvm.jvm(spark).java.lang.Class.forName(text)
        jvm.jvm(spark).org.apache.commons.codec.digest.Sha2Crypt.sha512Crypt(
            bytearray(b"a"), "$6$rounds=150000$b"
        )

    assert meter.part_ms("gate") == pytest.approx(used, abs=40)
    assert meter.part_ms("ledger") > 100
    assert meter.part_ms("gate") + meter.part_ms("ledger") < meter.own_ms()
    assert meter.part_ms("other") == 0


def test_what_a_block_within_another_uses_is_heard_once(spark: SparkSession) -> None:
    """By the inner one: a promotion, which is measured, runs a table, which is measured as well."""
    outer, inner = list[Spent](), list[Spent]()

    def work(rounds: int) -> float:
        began = time.thread_time()
        sum(n * n for n in range(rounds))
        return time.thread_time() - began

    with jvm.beside_batches(spark, outer.append):
        around = work(1_000_000)
        with jvm.beside_batches(spark, inner.append):
            within = work(3_000_000)
        around += work(1_000_000)
    work(1_000_000)

    assert [each.python for each in outer] == [pytest.approx(around, abs=0.05)]
    assert [each.python for each in inner] == [pytest.approx(within, abs=0.05)]


def test_batches_of_tables_say_what_they_used(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a stream's own thread, with its start and the batches that it ran; all of them less than the kernel counts."""
    lake = Lake(tmp_path)
    monkeypatch.setattr(jvm, "LARGE", 0.0)  # the tasks of each stage are looked at
    admit = Guard.admit

    def slowly(*of: Any, **named: Any) -> Entry:  # noqa: ANN401  # as it is called
        began = time.thread_time()
        while time.thread_time() - began < 0.4:
            pass
        return admit(*of, **named)

    monkeypatch.setattr(Guard, "admit", slowly)
    received(lake, readings(EVENTS))
    entries, besides = [], list[Spent]()
    before = jvm.measured()
    process = psutil.Process(pid_of(spark))
    began = sum(process.cpu_times()[:2]) + time.process_time()
    for table in (SILVER, GOLD):
        with jvm.beside_batches(spark, besides.append):
            run(
                table,
                AvailableNow(),
                lake,
                site=Site(spark=spark, clock=lambda: NOON),
                on_commit=entries.append,
            )
    used = sum(process.cpu_times()[:2]) + time.process_time() - began

    own = sum(each.own_ms for each in entries) / 1000
    measured = jvm.measured().total - before.total
    assert all(each.own_ms > 0 for each in entries)
    # A batch has none whose stages all had tasks of the same milliseconds; of tasks of 5 and 6 ms the median is rounded to 6.
    uneven = [each.uneven_ms for each in entries if each.uneven_ms]
    assert uneven
    assert all(longest >= median for longest, median in uneven)
    silver, gold = ([e for e in entries if e.table == table.id] for table in (SILVER, GOLD))
    assert all(400 <= each.gate_ms < 400 + each.own_ms - each.ledger_ms for each in silver)
    assert [each.gate_ms for each in gold] == [0] * len(gold)
    assert all(0 < each.ledger_ms < each.own_ms for each in silver)
    assert all(0 <= each.ledger_ms < each.own_ms for each in gold)
    assert {name: {each.operator for each in kept} for name, kept in states(lake).items()} == {
        SILVER.id: {"dedupe"},
        GOLD.id: {"stateStoreSave"},
    }
    assert own == pytest.approx(measured, abs=0.01)  # that of what is held is in its table's
    assert all(each.total > 0 for each in besides)
    assert 0.1 * used < measured + sum(each.total for each in besides) < used + 0.05
