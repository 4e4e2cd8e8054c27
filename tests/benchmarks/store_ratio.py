"""What does a warm micro-batch take on an object store, against a local disk, and where? ``python -m tests.benchmarks.store_ratio``.

One process and one Spark, so that both are as warm: bronze, silver and gold of a lake in a folder and of a lake on a real S3
server follow a real broker in turns. A hundred readings are sent, and the next when gold has them. The server is on loopback, where
a request takes a millisecond or two; so a third turn has a relay before the server that waits before each request, as a network does.
"""

import argparse
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from unittest.mock import patch

from pyspark.sql.streaming.query import StreamingQuery
from strandline import catalog

from fleet.bronze import device_telemetry as bronze
from fleet.play.plan import Plan
from strandline.core.stateful import MicroBatch
from strandline.core.table import Table
from strandline.engine.flow import runner
from strandline.engine.flow.runner import Site, run
from strandline.engine.kafka import broker
from strandline.engine.kafka.broker import create_topic
from strandline.engine.lake.commit.delta_commit import Commit
from strandline.engine.lake.lake import Lake
from strandline.engine.lake.log.ledger import Entry
from strandline.engine.lake.place import Place
from strandline.engine.runtime.settings import settings
from strandline.engine.runtime.spark_session import start
from tests.benchmarks import machine
from tests.benchmarks.feed import ROWS, Events, wait_for
from tests.benchmarks.store_ratio_report import DISK, FAR, NEAR, STEPS, Batch, Report
from tests.support import s3_server
from tests.support.relay import relaying

NAMES = ("bronze.device_telemetry", "silver.device_telemetry", "gold.device_signal_10m")
TURNS = (DISK, NEAR, FAR, FAR, NEAR, DISK)
SINCE = datetime(2026, 10, 1, tzinfo=UTC)
EVERY = 0.2
DEVICES = 40


class Watch:
    """How long the steps of a batch took, by the thread that works on it."""

    def __init__(self) -> None:
        """Begin without a batch."""
        self._spent = threading.local()
        self.queries: list[StreamingQuery] = []
        """Spark's queries, in the order in which they were started."""

    def taken(self) -> dict[str, float]:
        """Return the steps of the batch of this thread, and begin anew."""
        found: dict[str, float] = getattr(self._spent, "steps", {})
        self._spent.steps = {}
        return found

    @contextmanager
    def on(self) -> Iterator[None]:
        """Watch for the length of the block."""
        with ExitStack() as patched:
            for step in STEPS:
                patched.enter_context(
                    patch.object(Commit, step, self._timed(step, getattr(Commit, step)))
                )
            patched.enter_context(patch.object(runner, "start", self._seen(runner.start)))
            yield

    def _timed(self, step: str, work: Callable[..., Any]) -> Callable[..., Any]:
        def timed(*words: object, **named: object) -> Any:  # noqa: ANN401  # as it is
            begun = time.monotonic()
            try:
                return work(*words, **named)
            finally:
                known: dict[str, float] = getattr(self._spent, "steps", {})
                spent = known.get(step, 0.0) + time.monotonic() - begun
                self._spent.steps = {**known, step: spent}

        return timed

    def _seen(self, begin: Callable[..., StreamingQuery]) -> Callable[..., StreamingQuery]:
        def seen(*words: object, **named: object) -> StreamingQuery:
            query = begin(*words, **named)
            self.queries.append(query)
            return query

        return seen


class Delay:
    """What a network adds to each request."""

    def __init__(self, seconds: float) -> None:
        """Begin without any."""
        self._seconds = seconds
        self.is_on = False

    def wait(self, _: str) -> bool:
        """Wait, and let the request pass."""
        if self.is_on:
            time.sleep(self._seconds)
        return True


class Followed:
    """A lake whose three tables follow the topic, one turn after the other."""

    def __init__(self, name: str, lake: Lake, site: Site, watch: Watch) -> None:
        """Prepare; nothing runs."""
        self._name = name
        self._lake = lake
        self._site = site
        self._watch = watch
        self._tables = [catalog.find(each) for each in NAMES]
        self._found: dict[str, list[tuple[Entry, dict[str, float]]]] = {each: [] for each in NAMES}
        self._errors: list[BaseException] = []

    def turn(self, events: Events, warm: int, batches: int) -> list[Batch]:
        """Let them follow, and return the batches after the first ones."""
        stop = threading.Event()
        self._watch.queries.clear()
        threads = [
            threading.Thread(target=self._follow, args=(each, stop)) for each in self._tables
        ]
        try:
            for table, thread in zip(self._tables, threads, strict=True):
                wait_for(lambda table=table: self._can_begin(table), "a source", 0.2)  # type: ignore[misc]  # called at once
                thread.start()
            self._give(events, warm)
            before = {name: len(found) for name, found in self._found.items()}
            self._give(events, batches)
            progress = {
                (query.name, each["batchId"]): {
                    step: ms / 1000 for step, ms in each["durationMs"].items()
                }
                for query in self._watch.queries
                for each in query.recentProgress
            }
        finally:
            stop.set()
            for thread in threads:
                thread.join(60)
        return [
            Batch(
                lake=self._name,
                table=name,
                before=entry.duration_ms / 1000,
                ours=steps,
                spark=progress.get((name, entry.batch), {}),
            )
            for name, found in self._found.items()
            for entry, steps in found[before[name] :]
        ]

    def _can_begin(self, table: Table) -> bool:
        return bool(self._errors) or all(self._lake.exists(each) for each in table.upstream)

    def _follow(self, table: Table, stop: threading.Event) -> None:
        try:
            run(
                table,
                MicroBatch(every=EVERY),
                self._lake,
                site=self._site,
                on_commit=lambda entry: self._found[table.id].append((entry, self._watch.taken())),
                stopped=stop.is_set,
            )
        except BaseException as error:  # noqa: BLE001  # raised where it is waited for
            self._errors.append(error)

    def _give(self, events: Events, batches: int) -> None:
        for _ in range(batches):
            events.give()
            wait_for(lambda: bool(self._errors) or self._is_level(events.sent), "gold", 0.005)
            if self._errors:
                raise self._errors[0]

    def _is_level(self, sent: int) -> bool:
        bronze_, silver, gold = ([each for each, _ in self._found[name]] for name in NAMES)
        ends = [(sent, bronze_), (_written(bronze_), silver), (_written(silver), gold)]
        return all(wanted == sum(each.read for each in entries) for wanted, entries in ends)


def main() -> int:
    """Measure and write the report."""
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.store_ratio")
    parser.add_argument("--batches", type=int, default=20, help="of a turn")
    parser.add_argument("--warm", type=int, default=10, help="batches before them")
    parser.add_argument("--delay", type=float, default=20.0, help="milliseconds of the third turn")
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "reports")
    wanted = parser.parse_args()
    with TemporaryDirectory(prefix="strandline-ratio-") as folder, ExitStack() as running:
        work, delay = Path(folder), Delay(wanted.delay / 1000)
        server = running.enter_context(s3_server.running(work)).server
        relay = running.enter_context(relaying(server.address, delay.wait))
        os.environ.update(server.environment, AWS_ENDPOINT_URL=relay.address)
        os.environ["XDG_STATE_HOME"] = str(work / "state")
        lakes = {
            DISK: Lake(Place.of(work / "disk")),
            NEAR: Lake(Place.of(f"s3a://{s3_server.BUCKET}/near")),
            FAR: Lake(Place.of(f"s3a://{s3_server.BUCKET}/far")),
        }
        address = broker.up(lakes[DISK]).address
        running.callback(broker.down, lakes[DISK])
        for topic in {topic for table in catalog.tables() for topic in table.topics}:
            create_topic(address, topic.name, topic.partitions, {})
        spark = start(settings(lake=str(lakes[NEAR].root)), work / "spark.log")
        site = Site(spark=spark, clock=partial(datetime.now, UTC), address=address)  # noqa: TID251  # the command line is where clocks are read
        plan = Plan(
            since=SINCE,
            until=SINCE + timedelta(days=1),
            events=ROWS * (wanted.warm + wanted.batches) * len(TURNS),
            seed=7,
            devices=DEVICES,
        )
        events, watch = Events(plan, address, bronze.NEWER.name), Watch()
        followed = {name: Followed(name, lake, site, watch) for name, lake in lakes.items()}
        batches = list[Batch]()
        with watch.on():
            for turn in TURNS:
                delay.is_on = turn == FAR
                batches += followed[turn].turn(events, wanted.warm, wanted.batches)
                sys.stderr.write(f"{turn}\n")
        spark.stop()
    report = Report(machine=machine.facts(), delay=wanted.delay, batches=batches)
    report.write(wanted.out)
    sys.stdout.write(report.page())
    return 0


def _written(entries: Sequence[Entry]) -> int:
    return sum(each.written for each in entries)


if __name__ == "__main__":
    raise SystemExit(main())
