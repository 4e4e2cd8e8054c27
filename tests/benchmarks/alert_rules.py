"""What 1, 100 and 1,000 alert rules in one plan cost an event: ``python -m tests.benchmarks.alert_rules``.

CPU seconds, because the machine may be shared: of the threads that run Spark's tasks, and of all of the JVM. They differ by
what the JVM compiles, which a thousand rules keep it busy with for the first million events; so a figure is the median of
the last runs. Spark may not give up on code that it generates: a stage or a projection that cannot be compiled is an error here. The
rules' answers are compared with those of the evaluator in Python, event by event, on a sample.
"""

import argparse
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median

import psutil
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import to_arrow_schema

from strandline.alerting.alert_rule import AlertRule
from strandline.alerting.compile import holds
from strandline.alerting.one_plan import Numbered, alerts
from strandline.engine.runtime import spark_session
from strandline.engine.runtime.jvm import jvm
from strandline.engine.runtime.settings import settings
from tests.benchmarks import machine
from tests.benchmarks.generated_rules import Maker

SIZES = (1, 100, 1_000)
TABLES = ("process", "network")
SEED = 7
RUNS, LAST = 8, 3
GROWTH = 5.0
"""Most of the cost of 1,000 rules over that of 100."""

HUGE = 8_000
"""Bytes of a method that the JVM does not compile (HugeMethodLimit of HotSpot)."""

STRICT = {
    "spark.sql.codegen.factoryMode": "CODEGEN_ONLY",
    "spark.sql.codegen.fallback": "false",
}
TASK = "Executor task"
"""What a thread that runs tasks is called."""

PER = 100_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """What so many rules about a table cost."""

    table: str
    rules: int
    guarded: int
    fired: int
    plan_seconds: float
    first: float
    all: float
    usual: float
    method: int


@dataclass(frozen=True, slots=True)
class Spent:
    """CPU seconds of the JVM: of all threads, and of those that run tasks."""

    all: float
    tasks: float

    @classmethod
    def by(cls, process: psutil.Process) -> "Spent":
        """Read the clocks of the threads."""
        clocks = {each.id: each.user_time + each.system_time for each in process.threads()}
        names = {number: Path(f"/proc/{process.pid}/task/{number}/comm") for number in clocks}
        tasks = [n for n, file in names.items() if file.exists() and TASK in file.read_text()]
        times = process.cpu_times()
        return cls(times.user + times.system, sum(clocks[number] for number in tasks))

    def __sub__(self, other: "Spent") -> "Spent":
        return Spent(self.all - other.all, self.tasks - other.tasks)


def main() -> int:
    """Measure, write the report, and fail where a target is missed."""
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.alert_rules")
    parser.add_argument("--events", type=int, default=PER)
    parser.add_argument("--compared", type=int, default=300, help="events compared with Python")
    parser.add_argument("--tables", default=",".join(TABLES))
    parser.add_argument("--work", type=Path, default=Path(".lake/benchmarks/alert_rules"))
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "reports")
    wanted = parser.parse_args()
    wanted.work.mkdir(parents=True, exist_ok=True)
    spark = spark_session.start(settings(), wanted.work / "spark.log")
    for name, value in STRICT.items():
        spark.conf.set(name, value)
    before = machine.Noise.now(), psutil.Process().cpu_times().user
    found = [
        each
        for table in wanted.tables.split(",")
        for each in _measured(spark, table, wanted.events, wanted.compared, wanted.work)
    ]
    noise = machine.Noise.now().since(before[0], own=psutil.Process().cpu_times().user - before[1])
    spark.stop()
    page = "\n".join(_page(found, wanted.events, wanted.compared, noise["load"]))
    (wanted.out / "alert_rules.md").write_text(page)
    missed = [each for each in _missed(found) if each]
    sys.stdout.write("\n".join([page, *missed]) + "\n")
    return 1 if missed else 0


def _measured(
    spark: SparkSession, table: str, events: int, compared: int, work: Path
) -> Iterator[Measured]:
    maker = Maker(SEED)
    rules = maker.rules(SIZES[-1], table)
    source = rules[0].source
    rows = [dict(zip(source.fields.names, row, strict=True)) for row in maker.events(events, table)]
    file = work / f"{table}.parquet"
    pq.write_table(
        pa.Table.from_pylist(rows, schema=to_arrow_schema(source.fields, timezone="UTC")), file
    )
    stored = spark.read.parquet(str(file))
    for size in SIZES:
        chosen = rules[-size:]
        _compare(spark, chosen, rows[:compared])
        began = time.monotonic()
        plan = alerts(stored, chosen)
        method = largest_method(spark, plan)
        planned = time.monotonic() - began
        first, *later = [_cpu(spark, plan) for _ in range(RUNS)]
        last = later[-LAST:]
        yield Measured(
            table=table,
            rules=size,
            guarded=sum(not each.is_asked_of_each for each in Numbered.of(chosen, source)),
            fired=plan.count(),
            plan_seconds=planned,
            first=first.all,
            all=median(each.all for each in last) * PER / events,
            usual=median(each.tasks for each in last) * PER / events,
            method=method,
        )


def _cpu(spark: SparkSession, plan: DataFrame) -> Spent:
    """Return the CPU seconds of the JVM for all events."""
    process = psutil.Process(spark.sparkContext._gateway.proc.pid)  # the process that was started
    before = Spent.by(process)
    plan.write.format("noop").mode("overwrite").save()
    return Spent.by(process) - before


def largest_method(spark: SparkSession, plan: DataFrame) -> int:
    """Return the bytes of the largest method of a plan's code, of whole stages and of projections.

    Raises:
        Exception: Spark cannot compile some of it.
    """
    stages = plan._jdf.queryExecution().debug().codegenToSeq()  # there is no public way
    sizes = [stages.apply(n)._3().maxMethodCodeSize() for n in range(stages.size())]  # of a tuple
    plan.limit(1).collect()  # what is no stage is compiled when it runs
    metrics = jvm(spark).org.apache.spark.metrics.source.CodegenMetrics
    seen = metrics.METRIC_GENERATED_METHOD_BYTECODE_SIZE().getSnapshot()
    return int(max(*sizes, seen.getMax()))


def _compare(
    spark: SparkSession, rules: Sequence[AlertRule], rows: Sequence[dict[str, object]]
) -> None:
    """Compare the answers of Spark with those of Python.

    Raises:
        AssertionError: They differ.
    """
    source = rules[0].source
    by_spark = {
        (row[source.table.key[0]], row["rule_id"])
        for row in alerts(spark.createDataFrame(list(rows), source.fields), rules).collect()
    }
    by_python = {
        (row[source.table.key[0]], rule.id)
        for row in rows
        for rule in rules
        if holds(rule.when, row)
    }
    if by_spark != by_python:
        raise AssertionError(f"{len(by_spark ^ by_python)} answers differ")


def _missed(found: Sequence[Measured]) -> Iterator[str]:
    cost = {(each.table, each.rules): each.usual for each in found}
    for each in found:
        if each.method > HUGE:
            yield f"{each.table}, {each.rules} rules: a method has {each.method:,} bytes"
        smaller = cost.get((each.table, each.rules // 10))
        if smaller and each.usual > GROWTH * smaller:
            yield f"{each.table}: 1,000 rules cost {each.usual / smaller:.1f} times what 100 do"


def _page(found: Sequence[Measured], events: int, compared: int, load: float) -> Iterator[str]:
    facts = ", ".join(f"{name} {value}" for name, value in machine.facts().items())
    yield from (
        "# What alert rules in one plan cost an event",
        "",
        f"Made by `python -m tests.benchmarks.alert_rules --events {events}`.",
        f"Machine: {facts}; load at the end {load:.1f}.",
        "",
        f"Generated rules and {events:,} generated events from seed {SEED} (generated_rules.py), read from Parquet, in one JVM.",
        f"CPU seconds for {PER:,} events: of the threads that run tasks, and of the whole JVM, which compiles beside them; the median of the last {LAST} of {RUNS} runs.",
        f"Spark's answers equal those of the evaluator in Python for all rules on {compared:,} events of each table.",
        f"Code that Spark cannot compile is an error here; the JVM compiles no method of more than {HUGE:,} bytes.",
        f"The targets: 1,000 rules cost at most {GROWTH:.0f} times what 100 do, and no method is larger.",
        "",
        "| table | rules | behind a guard | alerts | plan, s | first run, JVM | last runs, JVM | last runs, tasks | times fewer rules | largest method, bytes |",
        "|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|",
    )
    former: Measured | None = None
    for each in found:
        is_same = former is not None and former.table == each.table
        growth = f"{each.usual / former.usual:.1f}" if former and is_same else ""
        yield (
            f"| {each.table} | {each.rules:,} | {each.guarded:,} | {each.fired:,} | {each.plan_seconds:.1f} "
            f"| {each.first:.1f} | {each.all:.2f} | {each.usual:.2f} | {growth} | {each.method:,} |"
        )
        former = each
    yield ""


if __name__ == "__main__":
    sys.exit(main())
