"""How many requests does a micro-batch cost on an object store? ``python -m tests.benchmarks.store_requests``.

A real S3 server and a real broker. Bronze, silver and gold are a stream each, in a program of its own, which reaches the server
through a relay that counts: so a request belongs to the layer that made it. Every some seconds a hundred readings are sent. The
same is measured over a lake of a hundred commits and over one of five thousand (tests/support/aged_lake.py), which are copied
to the server, and while no reading comes.

``--as before`` measures what later measurements are compared with.
"""

import argparse
import os
import shutil
import signal
import sys
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from datetime import timedelta
from pathlib import Path

from strandline import catalog

from fleet.bronze import device_telemetry as bronze
from fleet.play.domain import readings
from fleet.play.plan import Plan
from strandline.engine.kafka import broker
from strandline.engine.kafka.broker import create_topic
from strandline.engine.lake.lake import Lake
from strandline.engine.lake.log.ledger import latest_version
from strandline.engine.lake.place import Place
from tests.benchmarks import machine
from tests.benchmarks.feed import ROWS, events_in
from tests.benchmarks.old_lakes import DEVICES, NAMES, SEED, SINCE, SPAN, aged, read_all
from tests.benchmarks.store_requests_report import (
    AFTER,
    BEFORE,
    Counted,
    Kind,
    Measurement,
    Report,
)
from tests.cli.typed import start
from tests.support import s3_server
from tests.support.commit import commit
from tests.support.counted_requests import Requests, counting
from tests.support.s3_server import S3Server
from tests.support.sending import send

AGES = (100, 5_000)
EVENTS = 50_000
LARGEST = 2_000
"""Records of a batch of the lake that reads them all, so that Spark writes its state as a whole now and then."""
BATCHES = 20
WARM = 5
EVERY = 5.0
IDLE = 30.0
SETTLED = 10.0
PATIENCE = 900.0


def main() -> int:
    """Measure, write the report after each lake, and fail where an old lake takes more requests than a young one."""
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.store_requests")
    parser.add_argument("--commits", default=",".join(map(str, AGES)), help="of each lake")
    parser.add_argument("--batches", type=int, default=BATCHES)
    parser.add_argument("--as", dest="name", choices=(BEFORE, AFTER), default=AFTER)
    parser.add_argument("--fresh", action="store_true", help="make the lakes anew")
    parser.add_argument("--work", type=Path, default=Path(".lake/benchmarks/store_requests"))
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "reports")
    wanted = parser.parse_args()
    work: Path = wanted.work.absolute()
    if wanted.fresh:
        shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True, exist_ok=True)
    whole, report = Lake(work / "whole"), Report.read(wanted.out)
    address = broker.up(whole).address
    try:
        ages = [int(age) for age in wanted.commits.split(",")]
        for age, lake in _made(whole, work, address, ages).items():
            with s3_server.running(work / "s3" / str(time.time_ns())) as found:
                counted = [*measured(found.server, lake, age, address, work, wanted.batches)]
            taken = Measurement(
                name=wanted.name,
                commit=commit(),
                machine=machine.facts(),
                every=EVERY,
                warm=WARM,
                counted=counted,
            )
            report = report.having(taken)
            report.write(wanted.out)
    finally:
        broker.down(whole)
        shutil.rmtree(work / "s3", ignore_errors=True)
    sys.stdout.write(report.page())
    return int(bool(report.missed()))


def _made(whole: Lake, work: Path, address: str, ages: Sequence[int]) -> dict[int, Lake]:
    """Return a lake of each age in a folder; what is missing is made."""
    for topic in {topic for table in catalog.tables() for topic in table.topics}:
        create_topic(address, topic.name, topic.partitions, {})
    if not (work / "read").exists():
        read_all(whole, address, EVENTS, LARGEST)
        (work / "read").touch()
    lakes = {age: Lake(work / f"aged-{age}") for age in ages}
    for age, lake in lakes.items():
        mark = work / f"aged-{age}.made"
        if not mark.exists():
            shutil.rmtree(lake.root.local, ignore_errors=True)
            aged(whole, lake, age, 1)
            mark.touch()
    return lakes


def measured(  # noqa: PLR0913, PLR0917  # where the lake lies, what serves it, and how much is sent
    server: S3Server, lake: Lake, age: int, address: str, work: Path, batches: int
) -> Iterator[Counted]:
    """Copy a lake to the server, let the streams go on with it, and count what each asks."""
    os.environ.update(server.environment)
    there = Lake(Place.of(f"s3a://{s3_server.BUCKET}/{age}"))
    for file in lake.root.files():
        if file.name.endswith(".lock"):  # a lock of a folder
            continue
        (there.root / file.below(lake.root)).put_bytes(file.bytes() or b"")
    paths = {name: there.table(catalog.find(name)) for name in NAMES}
    with ExitStack() as running:
        counts = {
            name: running.enter_context(_stream(server, there, name, address, work))
            for name in NAMES
        }
        begun = {name: latest_version(path) for name, path in paths.items()}
        for name, path in paths.items():
            send_rows(address)
            _await_commit(path, begun[name])
        for _ in range(WARM):
            send_rows(address)
            time.sleep(EVERY)
        time.sleep(SETTLED)
        before, first, since = _now(counts), _versions(paths), time.monotonic()
        for number in range(batches):
            send_rows(address)
            time.sleep(max(0.0, since + (number + 1) * EVERY - time.monotonic()))
        time.sleep(3 * EVERY)  # silver and gold follow a trigger later each
        busy, last, until = _now(counts), _versions(paths), time.monotonic()
        time.sleep(IDLE)
        idle, over = _now(counts), time.monotonic()
    for name in NAMES:
        yield Counted(
            table=name,
            age=age,
            batches=last[name] - first[name],
            seconds=until - since,
            requests=busy[name] - before[name],
            idle_seconds=over - until,
            idle=idle[name] - busy[name],
        )


def _await_commit(path: Place, version: int) -> None:
    """Wait until a stream has started and committed; a start closes the books of the whole history first."""
    deadline = time.monotonic() + PATIENCE
    while latest_version(path) <= version:
        if time.monotonic() > deadline:
            raise SystemExit(f"{path} got no commit within {PATIENCE:.0f} s")
        time.sleep(0.5)


def _now(counts: Mapping[str, Requests]) -> dict[str, Counter[Kind]]:
    return {name: each.now() for name, each in counts.items()}


def _versions(paths: Mapping[str, Place]) -> dict[str, int]:
    return {name: latest_version(path) for name, path in paths.items()}


def send_rows(address: str) -> None:
    """Send a hundred readings, each time later than all before."""
    done = events_in(address, bronze.NEWER) // ROWS
    at = SINCE + SPAN + timedelta(seconds=10 * done)
    plan = Plan(
        since=at,
        until=at + timedelta(seconds=10),
        events=ROWS,
        seed=SEED + 1 + done,
        devices=DEVICES,
    )
    send(plan, address, {}, parts=readings(plan))


@contextmanager
def _stream(
    server: S3Server, lake: Lake, name: str, address: str, work: Path
) -> Iterator[Requests]:
    with counting(server.address) as found:
        env = {
            **server.environment,
            "AWS_ENDPOINT_URL": found.address,
            "STRANDLINE_KAFKA": address,
            "STRANDLINE_MEMORY": "1g",
            "XDG_STATE_HOME": str(work / "state" / name),
        }
        typed = ("stream", name, "--every", f"{EVERY:.0f}s", "--lake", lake.root)
        process = start(*typed, log=work / f"{name}.log", env=env)
        try:
            yield found
        finally:
            process.send_signal(signal.SIGINT)
            process.wait(120)


if __name__ == "__main__":
    raise SystemExit(main())
