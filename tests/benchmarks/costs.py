"""What does a batch cost by what its table holds? By keys in state, by rows of the static side, by its own rows.

``python -m tests.benchmarks.costs``. A million keys are a million sums of a day that are open: each batch changes a thousand of them,
drawn at random. A static side of 100,000 rows, the most that one may have, is joined by each batch to a thousand events. All in one warm JVM, a stream
of one table alone, its source given version by version (tests/benchmarks/life.py); after each case the ledger must balance.
"""

import argparse
import json
import random
import shlex
import sys
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from shutil import rmtree
from tempfile import TemporaryDirectory

import polars as pl
from confluent_kafka import Producer
from deltalake import write_deltalake
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import LongType, StructType
from strandline import (
    CARRIED,
    PLACE,
    Appended,
    Ingested,
    Judged,
    Static,
    Topic,
    Windowed,
    parse_json,
)

from strandline.core.stateful import AvailableNow
from strandline.core.table import Table
from strandline.engine.flow.runner import Site, run
from strandline.engine.kafka import broker
from strandline.engine.lake.lake import Lake
from strandline.engine.runtime.settings import settings
from strandline.engine.runtime.spark_session import start
from tests.benchmarks import machine
from tests.benchmarks.life import Life, steps
from tests.benchmarks.report import head, line

SINCE_MS = 1_790_812_800_000
"""The first event, in milliseconds: 1 October 2026, so that ten million of them, a millisecond each, are within one day."""
FILL, BATCH, BATCHES, WARM = 1_000, 1_000, 12, 3
KEYS = (10_000, 100_000, 1_000_000, 10_000_000)
SIDES = (1_000, 10_000, 100_000)
ROWS = (100, 1_000, 10_000, 100_000)
SEED = 7

METHOD = """\
A batch is what its stream does from one commit to the next while the next version of its source is there already; the median of {batches} \
batches after {warm}. CPU is that of the JVM and of Python. Everything is warm, and in one process, one case after the other.
`keys in state`: a table of sums by key and day, all open; a batch has {batch:,} events, each of a key drawn at random. \
`rows of the static side`: a table that joins {batch:,} events a batch with a static side. \
`rows a batch`: the sums, with {fill:,} keys.
"""

BRONZE = Ingested(name="costs", reads=(Topic(name="costs", partitions=2),))


FIELDS = StructType()
for _name in ("who", "worth", "at"):
    FIELDS.add(_name, LongType())


def costs(events: DataFrame) -> DataFrame:
    """Read each event."""
    found = parse_json(events, FIELDS)
    return found.select(*CARRIED, "who", "worth", F.timestamp_millis("at").alias("at"))


SILVER = Judged(name="costs", reads=(BRONZE,), transform=costs, key=PLACE, event_at="at")


def sums(events: DataFrame) -> DataFrame:
    """Sum what each key was worth on a day."""
    summed = events.groupBy("who", F.window("at", "1 day").alias("w")).agg(
        F.sum("worth").alias("worth")
    )
    return summed.selectExpr("who", "w.start AS day_from", "w.end AS day_until", "worth")


SUMS = Windowed(
    name="sums",
    reads=(SILVER,),
    transform=sums,
    key=("who", "day_from"),
    window="1 day",
    window_from="day_from",
    closes_at="day_until",
)


def joined(side: Static) -> Appended:
    """Return a table that joins each event with a static side."""

    def names(events: DataFrame) -> DataFrame:
        with_names = side.joined(events, at="at")
        return with_names.select(*PLACE, "who", "name", "at")

    return Appended(
        name="names", reads=(SILVER,), transform=names, key=PLACE, event_at="at", static=(side,)
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One row of the report."""

    by: str
    number: int
    keys: int = FILL
    rows: int = BATCH
    side: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """What a batch took in the middle: milliseconds on the clock and of CPU."""

    case: Case
    wall: float
    cpu: float
    others: float


@dataclass(slots=True, kw_only=True)
class Costs:
    """Measures case after case."""

    work: Path
    site: Site
    address: str
    sent: int = field(default=0, init=False)
    _bronze: Ingested = field(default=BRONZE, init=False)
    chance: random.Random = field(default_factory=lambda: random.Random(SEED))  # noqa: S311  # no secret

    def measured(self, case: Case) -> Measured:
        """Measure a case on new lakes, and a topic of its own."""
        topic = f"costs-{case.by.replace(' ', '-')}-{case.number}"
        broker.create_topic(self.address, topic, 2, {})
        self._bronze, self.sent = replace(BRONZE, reads=(Topic(name=topic),)), 0
        # Folders of its own: Spark keeps the state of a place that it has seen, also when its files are gone.
        folder = self.work / topic
        sources, lake = Lake(folder / "sources"), Lake(folder / "lake")
        self._give(range(case.keys), sources)
        filled = steps([sources.table(SILVER).local])
        for _ in range(WARM + BATCHES):
            drawn = (int(self.chance.random() * case.keys) for _ in range(case.rows))
            self._give(drawn, sources)
        table: Table = joined(self._side(case.side)) if case.side else SUMS
        life = Life(table=table, lake=lake, site=self.site, prepared=[sources.root.local])
        life.grow(filled + WARM)
        before = machine.Noise.now()
        cost = life.costs(BATCHES)
        noise = machine.Noise.now().since(before, own=cost.cpu * BATCHES)
        life.prove()
        rmtree(folder, ignore_errors=True)
        return Measured(case=case, wall=cost.wall * 1e3, cpu=cost.cpu * 1e3, others=noise["others"])

    def _give(self, keys: Iterable[int], sources: Lake) -> None:
        """Send an event for each key, and bring bronze and silver to them."""
        (topic,) = (each.name for each in self._bronze.topics)
        producer = Producer({"bootstrap.servers": self.address, "linger.ms": 20, "log_level": 0})
        for key in keys:
            at = SINCE_MS + self.sent
            value = f'{{"who": {key}, "worth": {key % 97}, "at": {at}}}'
            while True:
                try:
                    producer.produce(topic, value, partition=self.sent % 2, timestamp=at)
                    break
                except BufferError:
                    producer.poll(0.1)
            self.sent += 1
        producer.flush()
        for table in (self._bronze, SILVER):
            run(table, AvailableNow(), sources, site=self.site)

    def _side(self, rows: int) -> Static:
        """Make a static side of so many rows, the keys of the events among them."""
        folder = self.work / f"side-{rows}"
        frame = pl.DataFrame({"who": pl.int_range(rows, eager=True)})
        named = frame.with_columns(name=pl.format("name of {}", pl.col("who")))
        write_deltalake(str(folder), named, mode="overwrite")
        return Static(
            name=f"side_{rows}", columns="who bigint, name string", key=("who",), delta=str(folder)
        )


def cases(keys: Sequence[int], sides: Sequence[int], rows: Sequence[int]) -> list[Case]:
    """Return what is measured."""
    return [
        *(Case(by="rows a batch", number=each, rows=each) for each in rows),
        *(Case(by="rows of the static side", number=each, side=each) for each in sides),
        *(Case(by="keys in state", number=each, keys=each) for each in keys),
    ]


def page(command: str, facts: dict[str, object], found: Sequence[Measured]) -> str:
    """Return the report."""
    about = ", ".join(f"{name} {value}" for name, value in facts.items())
    method = METHOD.format(batches=BATCHES, warm=WARM, batch=BATCH, fill=FILL)
    lines = ["# What a batch costs", "", f"Made by `{command}`.", f"Machine: {about}.", "", method]
    lines += head("a batch by", "wall, ms", "CPU, ms", "others' CPU")
    lines += [
        line(
            f"{each.case.number:,} {each.case.by}",
            f"{each.wall:,.0f}",
            f"{each.cpu:,.0f}",
            f"{each.others:.0f} %",
        )
        for each in found
    ]
    return "\n".join([*lines, ""])


def _listed(text: str) -> list[int]:
    return [int(each) for each in text.split(",") if each]


def main(words: Sequence[str]) -> None:
    """Measure what was asked for and write the report."""
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.costs", description=__doc__)
    parser.add_argument("--keys", type=_listed, default=[*KEYS], help="numbers of keys in state")
    parser.add_argument("--sides", type=_listed, default=[*SIDES], help="rows of the static side")
    parser.add_argument("--rows", type=_listed, default=[*ROWS], help="rows a batch")
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "reports")
    asked = parser.parse_args(words)
    command = shlex.join(["python", "-m", "tests.benchmarks.costs", *words])
    facts, found = machine.facts(), list[Measured]()
    with TemporaryDirectory(prefix="strandline-costs-") as folder:
        work = Path(folder)
        lake = Lake(work / "broker")
        address = broker.up(lake).address
        try:
            spark = start(settings(lake=work), work / "spark.log")
            clock = lambda: datetime.now(UTC)  # noqa: E731, TID251  # the benchmark is its own composition root
            costs_ = Costs(
                work=work, site=Site(spark=spark, clock=clock, address=address), address=address
            )
            for case in cases(asked.keys, asked.sides, asked.rows):
                found.append(costs_.measured(case))
                sys.stderr.write(f"{json.dumps(asdict(found[-1]))}\n")
                (asked.out / "costs.md").write_text(page(command, facts, found))
            spark.stop()
        finally:
            broker.down(lake)


if __name__ == "__main__":
    main(sys.argv[1:])
