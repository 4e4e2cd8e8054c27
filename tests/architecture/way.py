"""The way of one event: `python -m tests.architecture.way` prints the modules through which a warm batch of three hops runs.

A hundred readings a time go through bronze, silver and gold of the example, always on, over a real broker. Once some batches
have gone through all three, every function of the engine that begins to run is noted, in whatever thread: those of the tables,
and those that Spark calls for a batch. What is noted ends with the batch of gold that has the hundred. Who must change one of
these functions has their modules in the head, so modules and rooms are what is counted, and lines to say how long they are.
"""

import sys
import tempfile
import threading
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import CodeType, FrameType

from pyspark.sql import SparkSession
from strandline import catalog

from fleet.play.plan import Plan
from strandline.core.stateful import AvailableNow, MicroBatch
from strandline.core.table import Ingested, Table
from strandline.engine.flow.runner import Site, run
from strandline.engine.kafka.broker import create_topic, down, up
from strandline.engine.lake.lake import Lake
from tests.architecture.house import Module, counted
from tests.architecture.tree import PACKAGES, ROOT
from tests.benchmarks.feed import Events, Tail, wait_for
from tests.support import engine

CHAIN = ("bronze.device_telemetry", "silver.device_telemetry", "gold.device_signal_10m")
SINCE = datetime(2026, 1, 1, tzinfo=UTC)
SPAN = timedelta(hours=1)
"""Of the arrivals of one hundred: each batch of gold closes windows."""

WARM = 4
"""Hundreds before the one that is followed."""

NOTED = 2
"""Hundreds that are followed: some of what a batch does, it does at every other one."""


class Steps:
    """Notes the functions that begin to run, while it is on."""

    def __init__(self) -> None:
        """Note nothing yet."""
        self.codes: set[CodeType] = set()
        self.is_on = False

    def __call__(self, frame: FrameType, event: str, _: object) -> None:
        """Take a note; Python calls it for each call and each return."""
        if self.is_on and event == "call":
            self.codes.add(frame.f_code)

    def functions(self) -> Mapping[str, set[str]]:
        """Return the functions by the module of ours that has them."""
        found: dict[str, set[str]] = defaultdict(set)
        for code in self.codes:
            file = Path(code.co_filename)
            name = str(file.relative_to(ROOT)) if file.is_relative_to(ROOT) else ""
            if name.startswith(tuple(f"{each}/" for each in PACKAGES)):
                found[name].add(code.co_qualname)
        return dict(sorted(found.items()))


@contextmanager
def noted() -> Iterator[Steps]:
    """Watch all threads that begin from here on."""
    steps = Steps()
    threading.setprofile(steps)
    try:
        yield steps
    finally:
        threading.setprofile(None)


@contextmanager
def always_on(tables: list[Table], lake: Lake, site: Site) -> Iterator[None]:
    """Keep tables up to date, each in a thread."""
    stop = threading.Event()
    failed: list[BaseException] = []

    def keep(table: Table) -> None:
        try:
            run(table, MicroBatch(every=0.2), lake, site=site, stopped=stop.is_set)
        except BaseException as error:  # noqa: BLE001  # raised below, in the thread that waits
            failed.append(error)

    threads = [threading.Thread(target=keep, args=(table,)) for table in tables]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        stop.set()
        for thread in threads:
            thread.join()
        for error in failed:
            raise error


def followed(spark: SparkSession, lake: Lake) -> Steps:
    """Return what ran for some hundreds of events, from Kafka to gold."""
    tables = [catalog.find(name) for name in CHAIN]
    hundreds = WARM + NOTED + 2
    plan = Plan(since=SINCE, until=SINCE + hundreds * SPAN, events=hundreds * 100, early_share=0.0)
    clock = lambda: plan.until  # noqa: E731  # all events have arrived
    address = up(lake).address
    try:
        first, *others = (
            topic for table in tables if isinstance(table, Ingested) for topic in table.topics
        )
        for topic in others:
            create_topic(address, topic.name, topic.partitions, {})
        events = Events(plan, address, first.name)
        tails = [Tail(lake.table(table).local) for table in tables]

        def through() -> None:
            before = [tail.versions for tail in tails]
            events.give()
            for tail, seen in zip(tails, before, strict=True):
                wait_for(lambda t=tail, s=seen: (t.look(), t.versions > s)[1], "the next hop")  # type: ignore[misc]  # mypy cannot infer a lambda with a default
            time.sleep(1)

        site = Site(spark=spark, clock=clock, address=address)
        events.give()
        for table, tail in zip(tables, tails, strict=True):  # a stream needs what it reads
            run(table, AvailableNow(), lake, site=site)
            tail.look()
        with noted() as steps, always_on(tables, lake, site):
            for _ in range(WARM):
                through()
            steps.is_on = True
            for _ in range(NOTED):
                through()
            steps.is_on = False
        return steps
    finally:
        down(lake)


def room(module: str) -> str:
    """Return its folder: of `jobs/strandline` the two above it, such as `engine/flow`, or the package where it is in none."""
    parts = module.split("/")[1:-1]
    return "/".join(parts[1:3] if parts[0] == "strandline" and len(parts) > 1 else parts[:1])


def page(functions: Mapping[str, set[str]]) -> str:
    """Return the modules by room as Markdown, each with its lines and how many of its functions ran."""
    rooms: dict[str, list[str]] = defaultdict(list)
    for module in functions:
        rooms[room(module)].append(module)
    long = {name: counted(Module(name, (ROOT / name).read_text())) for name in functions}
    rows = [
        f"| {where} | {name.rpartition('/')[2]} | {long[name].lines} | {long[name].code} | {len(functions[name])} |"
        for where, names in sorted(rooms.items())
        for name in names
    ]
    lines, code = (sum(getattr(each, what) for each in long.values()) for what in ("lines", "code"))
    ran = sum(map(len, functions.values()))
    return "\n".join(
        [
            f"{len(functions)} modules in {len(rooms)} rooms, {lines:,} lines, {ran} functions",
            "",
            "| room | module | lines | code | functions that ran |",
            "|---|---|---:|---:|---:|",
            *rows,
            f"| {len(rooms)} rooms | {len(functions)} modules | {lines:,} | {code:,} | {ran} |",
        ]
    )


def main() -> None:
    """Print the way."""
    with tempfile.TemporaryDirectory(prefix="strandline-way-") as folder:
        here = Path(folder)
        with engine.hosted(here):
            steps = followed(engine.spark(), Lake(here / "lake").open_for_writing())
    sys.stdout.write(page(steps.functions()) + "\n")


if __name__ == "__main__":
    main()
