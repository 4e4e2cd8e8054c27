"""What do fifty rules and their gate cost a batch? Silver without any, with all, and with Great Expectations as usual.

Four contestants write the same micro-batches of one silver table: ``none`` has no rule and no gate; ``rules`` has
fifty, and its gate finds nothing, so that a glance suffices; ``asked`` has the same, and something is found in every
batch (they are older than they may be, which is a warning), so that the library is asked each time; ``naive`` has none
in its plan and validates each batch in ``foreachBatch`` with fifty of Great Expectations' own expectations, the way its
manual shows, for a few batches only. All are in one JVM that has done the same before, in the order A B C C B A, and a
ratio is taken within its round.
"""

import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path
from shutil import rmtree
from statistics import mean, median
from tempfile import mkdtemp
from typing import Any

import great_expectations as gx
import great_expectations.expectations as gxe
import psutil
from pyspark.sql import DataFrame, SparkSession

from fleet.play.domain import domain
from fleet.play.plan import Plan
from fleet.silver import device_telemetry as silver
from strandline.core.stateful import AvailableNow
from strandline.core.table import Table
from strandline.core.verdict import good_rows
from strandline.engine.accounting.balance_sheet import balance
from strandline.engine.accounting.batch_check import Guard
from strandline.engine.flow.batch.batch_writer import Writer
from strandline.engine.flow.query import Write, start
from strandline.engine.flow.runner import Site, run
from strandline.engine.lake.lake import Lake
from strandline.engine.lake.log.ledger import entries
from strandline.engine.runtime.settings import settings
from strandline.engine.runtime.spark_session import start as start_spark
from strandline_quality.expectations import Within
from strandline_quality.rules import Rule, Severity, between
from strandline_quality.suite import quiet
from tests.benchmarks.feed import Versions, wait_for
from tests.benchmarks.samples import Sample, Samples
from tests.support.sending import send

PART = "rules"
SIZES = (100, 10_000)
OURS = ("none", "rules", "asked")
CONTESTANTS = (*OURS, "naive")
WARM, MEASURED, ROUNDS = 4, 10, 3
FEW = 4
"""Batches of the library as usual: each takes as long as ten of the others."""
MANY = 50
DAY = datetime(2026, 10, 1, tzinfo=UTC)
BATCHES = WARM + MEASURED
STALE = Within(name="minutes_behind", high=1, severity=Severity.WARNING)
"""What no batch of this benchmark satisfies."""


def plan(size: int) -> Plan:
    """Return a plan of as many events as make the batches, later in time than those of the sizes before.

    A topic that jumps back in time is read partition by partition, and each batch then pays for looking whether state
    refused rows that are old (jobs/strandline/engine/flow/batch/batch_accounting.py): twice the batch, with rules and without.
    """
    share = 0.62  # of the events of a plan that are telemetry
    since = DAY + timedelta(days=SIZES.index(size))
    events = int(size * BATCHES / share)
    return Plan(since=since, until=since + timedelta(hours=6), events=events, seed=7)


def fifty() -> tuple[Rule, ...]:
    """Return the table's own rules and as many more as make fifty."""
    own = silver.TABLE.rules
    more = (
        replace(between("value", -10_000 - n, 10_000, null_ok=True), name=f"range {n}")
        for n in range(MANY - len(own))
    )
    return (*own, *more)


class Naive:
    """A writer that first validates the batch as Great Expectations' manual shows."""

    def __init__(self, writer: Writer, table: Table) -> None:
        """Make a suite of fifty of the library's own expectations."""
        self._writer = writer
        context = quiet(gx.get_context(mode="ephemeral"))
        source = context.data_sources.add_spark("naive", persist=False)
        asset = source.add_dataframe_asset(name=table.id)
        self._batch = asset.add_batch_definition_whole_dataframe("batch")
        required = ("event_id", "device_id", "signal", "value", "event_at")
        found: list[Any] = [gxe.ExpectColumnValuesToNotBeNull(column=name) for name in required]
        found += [
            gxe.ExpectColumnValuesToBeBetween(
                column="value", min_value=-10_000 - n, max_value=10_000
            )
            for n in range(MANY - len(found))
        ]
        self._suite = gx.ExpectationSuite(name="naive", expectations=found)

    def __call__(self, rows: DataFrame, number: int) -> None:
        """Validate what would be believed, then write."""
        kept = rows.persist()
        self._batch.get_batch({"dataframe": good_rows(kept, silver.TABLE)}).validate(self._suite)
        self._writer(kept, number)
        kept.unpersist()


@dataclass(slots=True, kw_only=True)
class Rules:
    """One run of the comparison."""

    work: Path
    spark: SparkSession
    address: str
    samples: Samples
    show: Callable[[str], None]

    def run(self) -> None:
        """Measure the rounds that were not measured yet."""
        for size in SIZES:
            prepared = self._prepared(size)
            if not self.samples.has(PART, str(size), ROUNDS - 1):
                for who in OURS:
                    self._measured(who, prepared, size, -1)  # to compile what all will run
            for number in range(ROUNDS):
                if self.samples.has(PART, str(size), number):
                    continue
                order = [*OURS, *reversed(OURS), *(["naive"] if number == 0 else [])]
                taken = [self._measured(who, prepared, size, number) for who in order]
                self.samples.add(taken)

    def _prepared(self, size: int) -> Path:
        """Return bronze in commits of one size."""
        lake = Lake(self.work / f"bronze-{size}").open_for_writing()
        (table,) = silver.TABLE.upstream
        if not (lake.root / "done").exists():
            wanted = plan(size)
            parts = [part for part in domain(wanted) if part.topic in table.topics]
            send(wanted, self.address, {}, parts=parts)
            site = Site(spark=self.spark, clock=_clock, address=self.address)
            run(table, AvailableNow(max_offsets=size), lake, site=site)
            (lake.root / "done").put("")
        return lake.table(table).local

    def _measured(self, who: str, prepared: Path, size: int, number: int) -> Sample:
        # Not where another has just been: Spark tidies up the state of a stream that has ended a while later.
        lake = Lake(Path(mkdtemp(dir=self.work)))
        has_rules = who in {"rules", "asked"}
        table = replace(
            silver.TABLE,
            rules=fifty() if has_rules else (),
            expects=(STALE,) if who == "asked" else (),
        )
        guard = Guard(table, lake, _clock) if has_rules else None
        writer = Writer(table, lake, "micro-batch", lambda _: None, guard)
        chosen = Naive(writer, table) if who == "naive" else writer
        batches, warm = (FEW, 0) if who == "naive" else (BATCHES, WARM)
        ends = list(self._batches(table, lake, prepared, chosen, batches))
        walls = [after[0] - before[0] for before, after in pairwise(ends)]
        cpus = [after[1] - before[1] for before, after in pairwise(ends)]
        sheet = balance(table, lake)
        failed = {name for _, entry in entries(lake.table(table)) for name in entry.failed}
        if not sheet.balanced or sheet.good == 0 or bool(failed) != (who == "asked"):
            message = f"{who}: {sheet.faults[:3]} {failed}"
            raise AssertionError(message)
        rmtree(lake.root, ignore_errors=True)
        found = Sample(
            part=PART,
            row=str(size),
            contestant=who,
            number=number,
            wall=median(walls[warm:]),
            cpu=mean(cpus[warm:]),
            slowest=max(walls[warm:]),
        )
        self.show(
            f"{size:6} rows  {who:6} {found.wall * 1e3:6.0f} ms, {found.cpu * 1e3:6.0f} ms CPU"
        )
        return found

    def _batches(
        self, table: Table, lake: Lake, prepared: Path, writer: Write, batches: int
    ) -> Iterator[tuple[float, float]]:
        """Yield when each batch was done, and the CPU spent by then."""
        (source,) = table.upstream
        feed = Versions(prepared, lake.table(source).local)
        feed.give()
        query = start(self.spark, table, lake, writer, 0.0)
        commits = lake.checkpoint(table) / "commits"
        own = psutil.Process()
        try:
            for number in range(batches):
                wait_for(
                    (lake.checkpoint(table) / "offsets" / str(number)).exists, f"plan {number}"
                )
                more = feed.give()
                wait_for((commits / str(number)).exists, f"batch {number}")
                times = [each.cpu_times() for each in (own, *own.children(recursive=True))]
                yield time.monotonic(), sum(each.user + each.system for each in times)
                if not more:
                    return
        finally:
            while query.status["isTriggerActive"]:
                threading.Event().wait(0.01)
            query.stop()


def _clock() -> datetime:
    return datetime.now(UTC)  # noqa: TID251  # the benchmark is its own composition root


def measure(work: Path, address: str, samples: Samples, show: Callable[[str], None]) -> None:
    """Measure what is not measured yet."""
    spark = start_spark(settings(lake=work), work / "spark.log")
    try:
        Rules(work=work, spark=spark, address=address, samples=samples, show=show).run()
    finally:
        spark.stop()
