"""Does a batch cost more because many came before it? Every table of the domain, batch 400 against batch 40.

Each table runs alone, from versions of its sources that appear one after the other by links; what it makes is
what the tables above are fed with. Three days of events in many parts, so that windows close, holds end and devices
move as they do in life.

First all tables grow old, two at a time because this part is not timed. Then each is measured beside a new table in
the same warm JVM, because a JVM that compiles its code would make the young batch dear, and in turns, because a
machine is not as fast now as it was a minute ago: ten seconds of one stream differ from the next ten by a quarter.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta
from math import ceil
from pathlib import Path
from shutil import copytree, rmtree

from pyspark.sql import SparkSession
from strandline import catalog

from fleet.play.plan import Plan
from strandline.core.table import Ingested, Recomputed, Table
from strandline.engine.flow.runner import Site
from strandline.engine.lake.lake import Lake
from strandline.engine.runtime.settings import settings
from strandline.engine.runtime.spark_session import start
from tests.benchmarks.feed import events_in
from tests.benchmarks.life import WHOLE, Life, steps
from tests.benchmarks.samples import Sample, Samples
from tests.support.sending import send

PART = "history"
AGES = ("young", "old")
YOUNG, OLD = 40, 400
ROUNDS, STEPS = 3, 9
SPAN = ROUNDS * (STEPS + 1)
"""So many batches are run to measure; the first of each round starts a stream and does not count."""

PARTS_OF_A_DAY = WHOLE // 3
ALIKE = ", like with like"
"""What computes whole days reads more of a day the later it is, and the days beside it, of which the first has none."""

EMITS_AT = {"gold.ip_holds": 30}
"""From batch 40 to 56 no hold ends, so the young table writes nothing, and around 400 every other batch does."""

DAY = datetime(2026, 10, 1, tzinfo=UTC)
PLAN = Plan(since=DAY, until=DAY + timedelta(days=3), events=200 * WHOLE, seed=7)
"""Some 130 readings a batch, and a tenth of that or less of the others: a number of which each has about a whole
number for each part, so that no source comes to its end hours before another."""


@dataclass(frozen=True, slots=True, kw_only=True)
class History:
    """Ages each table, and measures it.

    Args:
        work: Where the lakes lie; what is whole there is not made again.
        spark: One session for all.
        address: host:port of a broker.
        names: The tables, with what they rest on; all when there is none.
        samples: What an earlier run has measured stays.
        show: Called with a line about each table.
    """

    work: Path
    spark: SparkSession
    address: str
    names: Sequence[str]
    samples: Samples
    show: Callable[[str], None]

    def age(self) -> None:
        """Let every table that has not yet grown old do so."""
        done: dict[Table, Future[None]] = {}
        with ThreadPoolExecutor(2) as two:
            for table in wanted(self.names):
                sources = [done[source] for source in table.needs]
                done[table] = two.submit(self._tried, table, sources)
        for each in done.values():
            each.result()

    def measure(self) -> None:
        """Measure every table that was not measured yet."""
        hadoop = self.spark.sparkContext._jsc.hadoopConfiguration()
        hadoop.set("parquet.hadoop.vectored.io.enabled", "false")  # such reads are not counted
        for table in wanted(self.names):
            for row, young in self._rows(table):
                if not self.samples.of(PART, row, "old"):
                    self.samples.add(self._measured(table, row, young))

    def _tried(self, table: Table, sources: Iterable[Future[None]]) -> None:
        for source in sources:
            source.result()
        try:
            self._age(table)
        except Exception as error:  # shown at once: the others go on for an hour
            self.show(f"{table.id:28} {type(error).__name__}: {error}")
            raise

    def _age(self, table: Table) -> None:
        """Let a table grow old, from where it was when an earlier run was interrupted."""
        lake, ready = self._path("old", table), self._path("ready", table)
        if (lake / "whole").exists():
            return
        life, enough = self._life("old", table), self._old(table) - SPAN // 2
        if life.age > enough and not ready.exists():  # interrupted while it was copied
            rmtree(lake)
            life = self._life("old", table)
        if not ready.exists():
            life.grow(enough - life.age)
            draft = ready.with_name(f"{ready.name}.draft")
            rmtree(draft, ignore_errors=True)
            copytree(lake, draft)
            draft.rename(ready)
        life.grow(WHOLE - life.age)
        life.prove()
        (lake / "whole").touch()
        self.show(f"{table.id:28} is {life.age} batches old")

    def _rows(self, table: Table) -> Iterator[tuple[str, int]]:
        """Yield under which names a table is measured, and how young the young one is."""
        yield table.id, YOUNG
        if computes_days(table):
            yield f"{table.id}{ALIKE}", self._old(table) - PARTS_OF_A_DAY
        if table.id in EMITS_AT:
            yield f"{table.id}{ALIKE}", EMITS_AT[table.id]

    def _measured(self, table: Table, row: str, young: int) -> list[Sample]:
        for age in AGES:
            rmtree(self._path(f"run-{age}", table), ignore_errors=True)
        copytree(self._path("ready", table), self._path("run-old", table))
        lives = {age: self._life(f"run-{age}", table) for age in AGES}
        at = {"young": young, "old": self._old(table)}
        lives["young"].grow(young - SPAN // 2)
        found = []
        for round_ in range(ROUNDS):
            for age in AGES if round_ % 2 else reversed(AGES):
                cost = lives[age].costs(STEPS + 1)
                keys = {"part": PART, "row": row, "contestant": age, "number": round_}
                found.append(Sample(**keys, **asdict(cost), at=at[age]))
        for age, life in lives.items():
            life.prove()
            rmtree(life.lake.root, ignore_errors=True)  # Spark may still tidy up there
            mine = sorted(each.wall for each in found if each.contestant == age)
            shown = ", ".join(f"{wall * 1e3:.0f}" for wall in mine)
            self.show(f"{row:28} batch {at[age]:3}: {shown} ms")
        return found

    def _old(self, table: Table) -> int:
        """Return the batch that is measured: the four hundredth, or the last one with enough behind it."""
        if isinstance(table, Ingested):
            batches = self._events(table) // self._records(table)
        else:
            batches = steps(
                [self._lake("old", source).table(source).local for source in table.needs]
            )
        return min(OLD, batches - SPAN // 2)

    def _life(self, age: str, table: Table) -> Life:
        return Life(
            table=table,
            lake=self._lake(age, table),
            site=self._site(),
            prepared=[self._path("old", source) for source in table.needs],
            records=self._records(table),
        )

    def _records(self, table: Table) -> int:
        """Return how many records of its topics make a batch."""
        return ceil(self._events(table) / WHOLE)

    def _events(self, table: Table) -> int:
        return sum(events_in(self.address, topic) for topic in table.topics)

    def _path(self, age: str, table: Table) -> Path:
        return self.work / age / table.id

    def _lake(self, age: str, table: Table) -> Lake:
        return Lake(self._path(age, table))

    def _site(self) -> Site:
        clock = lambda: datetime.now(UTC)  # noqa: E731, TID251  # the benchmark is its own composition root
        return Site(spark=self.spark, clock=clock, address=self.address)


def computes_days(table: Table) -> bool:
    """Return whether a table computes whole days again when a part of them changes."""
    return isinstance(table, Recomputed) and table.window_length >= timedelta(days=1)


def wanted(names: Sequence[str]) -> list[Table]:
    """Return the tables of these names and what they rest on, or all."""
    needed: set[Table] = set()
    coming = [table for table in catalog.tables() if table.id in names or not names]
    while coming:
        table = coming.pop()
        needed.add(table)
        coming += table.needs
    return [table for table in catalog.tables() if table in needed]


def measure(  # noqa: PLR0913, PLR0917  # where, with what, which, and what of it
    work: Path,
    address: str,
    names: Sequence[str],
    parts: Sequence[str],
    samples: Samples,
    show: Callable[[str], None],
) -> None:
    """Do what was not done yet: ``age`` the tables, ``measure`` them, or both."""
    sent = work / "sent"
    if not sent.exists():
        send(PLAN, address, {})
        sent.touch()
    spark = start(settings(lake=work), work / "spark.log")
    try:
        history = History(
            work=work, spark=spark, address=address, names=names, samples=samples, show=show
        )
        if "age" in parts:
            history.age()
        if "measure" in parts:
            history.measure()
    finally:
        spark.stop()
