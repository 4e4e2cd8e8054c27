"""Is a lake of 50,000 commits as quick as one of a hundred? ``python -m tests.benchmarks.old_lakes``.

A stream reads half a million readings from a real broker. Their rows are then laid out twice (tests/support/aged_lake.py): in
a hundred commits, and in 50,000 of bronze with 10,000 of silver, its quarantine and gold, over days in which the lake was
maintained. Both lakes have the same rows and the same state, and their streams go on with the same new readings, in turns.
What a person or Dagster asks is asked of both in turns as well. The old lake is kept for the next measurement; ``--fresh``
begins anew.
"""

import argparse
import shutil
import signal
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from subprocess import Popen

import psutil
from strandline import catalog

from fleet.bronze import device_telemetry as bronze
from fleet.gold import device_signal_10m as gold
from fleet.play.domain import readings
from fleet.play.plan import Plan
from fleet.silver import device_telemetry as silver
from strandline.core.table import Table
from strandline.engine.accounting.balance_sheet import waiting
from strandline.engine.kafka import broker
from strandline.engine.kafka.broker import create_topic
from strandline.engine.lake.lake import Lake
from strandline.engine.lake.log.commit_log import log_of
from strandline.engine.lake.log.ledger import between, latest_version
from tests.benchmarks import machine
from tests.benchmarks.feed import events_in
from tests.benchmarks.old_lakes_asked import asked
from tests.benchmarks.old_lakes_report import Ages, Lived, Report
from tests.cli.typed import start, succeeded
from tests.support.aged_lake import Aged
from tests.support.history import Age
from tests.support.moved_checkpoint import has_snapshots
from tests.support.sending import send

TABLES = (bronze.TABLE, silver.TABLE, gold.TABLE)
NAMES = tuple(table.id for table in TABLES)
EVENTS = 500_000
YOUNG, OLD = (100, 1), (50_000, 5)
"""Commits of bronze, and how many of them a batch of silver reads."""
SPAN = timedelta(days=6)
SINCE = datetime(2026, 10, 1, tzinfo=UTC)
SEED = 19
DEVICES = 40
RATE = 300
SECONDS = 60
TURNS = ("young", "old", "old", "young")
PATIENCE = 600.0
LARGEST = 10_000
"""Records of a batch of the lake that reads them all, so that Spark writes its state as a whole now and then."""


def main() -> int:
    """Measure, write the report, and fail where the target is missed."""
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.old_lakes")
    parser.add_argument("--commits", type=int, default=OLD[0])
    parser.add_argument("--events", type=int, default=EVENTS)
    parser.add_argument("--fresh", action="store_true")
    parser.add_argument("--work", type=Path, default=Path(".lake/benchmarks/old_lakes"))
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "reports")
    wanted = parser.parse_args()
    work: Path = wanted.work.absolute()
    made = work / "made"
    if wanted.fresh or not made.exists():
        shutil.rmtree(work, ignore_errors=True)
    whole = Lake(work / "whole")
    address = broker.up(whole).address
    try:
        for topic in {topic for table in catalog.tables() for topic in table.topics}:
            create_topic(address, topic.name, topic.partitions, {})
        if not made.exists():
            read_all(whole, address, wanted.events)
            aged(whole, Lake(work / "ready"), wanted.commits, OLD[1])
            made.touch()
        lakes = {name: Lake(work / name) for name in ("young", "old")}
        for lake in lakes.values():
            shutil.rmtree(lake.root, ignore_errors=True)
        shutil.copytree(work / "ready", lakes["old"].root)
        aged(whole, lakes["young"], *YOUNG)
        shape = {name: _shape(lake) for name, lake in lakes.items()}
        lived = [_lived(name, lakes[name], address, wanted.events) for name in TURNS]
        for lake in lakes.values():
            succeeded("maintain", "--lake", lake.root)  # as every quarter of an hour
        answers = asked(lakes, address)
        for lake in lakes.values():
            succeeded("ledger", "--audit", *NAMES, "--lake", lake.root)
    finally:
        broker.down(whole)
    report = Report(machine=machine.facts(), shape=shape, lived=lived, answers=answers)
    report.write(wanted.out)
    sys.stdout.write(report.page())
    return int(bool(report.missed()))


def read_all(lake: Lake, address: str, events: int, largest: int = LARGEST) -> None:
    """Let a stream read all that was sent, and stop it when it has."""
    plan = Plan(since=SINCE, until=SINCE + SPAN, events=events, seed=SEED, devices=DEVICES)
    send(plan, address, {}, parts=readings(plan))
    with _stream(lake, address, "--max-offsets", largest) as stream:
        _until(stream, lambda: _has_committed(lake, gold.TABLE), "a batch of gold")
        _until(stream, lambda: _is_level(lake) and _is_read(lake, events), "the end of the records")
        checkpoints = [lake.checkpoint(table).local for table in TABLES[1:]]
        _until(stream, lambda: all(map(has_snapshots, checkpoints)), "a whole state on the disk")


def _is_read(lake: Lake, events: int) -> bool:
    """Return whether bronze has so many records."""
    path = lake.table(bronze.TABLE)
    return sum(each.read for each in between(path, 0, latest_version(path))) >= events


def _has_committed(lake: Lake, table: Table) -> bool:
    return latest_version(lake.table(table)) > 0


def _is_level(lake: Lake) -> bool:
    return not any(waiting(table, lake) for table in TABLES)


def aged(whole: Lake, lake: Lake, commits: int, each: int) -> None:
    begun = time.monotonic()
    age = Age(commits=commits, each=each, until=SINCE + SPAN, every=SPAN / commits)
    Aged(whole=whole, lake=lake.open_for_writing(), tables=TABLES, age=age).write()
    succeeded("ledger", "--audit", *NAMES, "--lake", lake.root)
    sys.stderr.write(f"{commits:,} commits in {time.monotonic() - begun:.0f} s\n")


def _shape(lake: Lake) -> Ages:
    """Return how many commits the lake has, and what its folders hold."""
    paths = [path for table in TABLES for path in lake.books(table)]
    return Ages(
        commits={table.id: latest_version(lake.table(table)) for table in TABLES},
        logged=sum(len(log_of(path).names()) for path in paths),
        files=sum(1 for path in paths for _ in path.local.rglob("*.parquet")),
    )


def _lived(name: str, lake: Lake, address: str, history: int) -> Lived:
    """Start a stream, let it read what waits and then a minute of new readings, and stop it."""
    paths = {table.id: lake.table(table) for table in TABLES}
    env = {"STRANDLINE_KAFKA": address}
    succeeded("run", *NAMES, "--lake", lake.root, env=env)  # what the other lake was measured with
    _send(address, history, rate=None)  # what waits when the stream starts
    before = {table: latest_version(path) for table, path in paths.items()}
    begun = time.monotonic()
    with _stream(lake, address) as stream:
        _until(
            stream,
            lambda: latest_version(paths[gold.TABLE.id]) > before[gold.TABLE.id],
            "a start",
        )
        ready = time.monotonic() - begun
        _until(stream, lambda: _is_level(lake), "what waited")
        time.sleep(1)
        steady = {table: latest_version(path) for table, path in paths.items()}
        _send(address, history, rate=RATE)
        batches = {
            table: [
                each.duration_ms for each in between(path, steady[table] + 1, latest_version(path))
            ]
            for table, path in paths.items()
        }
        python, java = _memory(stream)
    found = Lived(lake=name, start=ready, batches=batches, python_mb=python, java_mb=java)
    sys.stderr.write(f"{found}\n")
    return found


def _send(address: str, history: int, rate: float | None) -> None:
    """Send the readings of a minute; each minute is later than all that were sent before, as in life."""
    events = RATE * SECONDS
    minutes = (events_in(address, bronze.NEWER) - history) // events
    at = SINCE + SPAN + timedelta(minutes=minutes)
    plan = Plan(
        since=at,
        until=at + timedelta(minutes=1),
        events=events,
        seed=SEED + 1 + minutes,
        devices=DEVICES,
    )
    send(plan, address, {}, parts=readings(plan), rate=rate)


@contextmanager
def _stream(lake: Lake, address: str, *words: object) -> Iterator["Popen[bytes]"]:
    log = lake.root.local / "stream.out"
    env = {"STRANDLINE_KAFKA": address}
    typed: Sequence[object] = ("stream", *NAMES, "--every", "200ms", *words, "--lake", lake.root)
    process = start(*typed, log=log, env=env)
    try:
        yield process
    finally:
        process.send_signal(signal.SIGINT)
        process.wait(120)


def _memory(process: "Popen[bytes]") -> tuple[float, float]:
    """Return the megabytes of Python and of the JVM."""
    own = psutil.Process(process.pid)
    java = [each for each in own.children(recursive=True) if each.name() == "java"]
    return own.memory_info().rss / 2**20, sum(each.memory_info().rss for each in java) / 2**20


def _until(stream: "Popen[bytes]", happened: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + PATIENCE
    while not happened():
        if stream.poll() is not None or time.monotonic() > deadline:
            raise SystemExit(f"{what} did not come within {PATIENCE:.0f} s")
        time.sleep(0.05)


if __name__ == "__main__":
    raise SystemExit(main())
