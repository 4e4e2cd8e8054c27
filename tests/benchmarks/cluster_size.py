"""What does a cluster give, and what does it cost? ``python -m tests.benchmarks.cluster_size``.

The same chain of three tables in four places: a disk and a store with Spark's threads on this machine, a store with one executor
of a standalone cluster, and with two. In each place the programs are those that a person types: a run reads a backlog, then a
stream follows, and a hundred readings are sent, the next when gold has those before.
"""

import argparse
import os
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory

from strandline import catalog

from fleet.bronze import device_telemetry as bronze
from fleet.play.plan import Plan
from strandline.engine.kafka import broker
from strandline.engine.lake.lake import Lake
from strandline.engine.lake.log.ledger import entries, last_entry
from strandline.engine.lake.place import Place
from tests.benchmarks import machine
from tests.benchmarks.cluster_size_report import Measured, Report
from tests.benchmarks.feed import ROWS, Events, wait_for
from tests.cli.typed import succeeded
from tests.faults import lives
from tests.faults.lives import SLICE
from tests.support import s3_server, standalone

SINCE = datetime(2026, 10, 1, tzinfo=UTC)
TABLES = [catalog.find(each) for each in SLICE]
PLACES = (
    ("disk", 0, 2),
    ("store", 0, 2),
    ("store, one executor", 1, 1),
    ("store, two executors", 1, 2),
)
"""The name of a place, whether it has a cluster, and how many cores a program may take."""


def main() -> int:
    """Measure and write the report."""
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.cluster_size")
    parser.add_argument("--backlog", type=int, default=200_000, help="events that wait for a run")
    parser.add_argument("--batches", type=int, default=20, help="of 100 events each")
    parser.add_argument("--warm", type=int, default=10, help="batches before them")
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "reports")
    wanted = parser.parse_args()
    with TemporaryDirectory(prefix="strandline-size-") as folder, ExitStack() as running:
        work = Path(folder)
        server = running.enter_context(s3_server.running(work / "s3")).server
        os.environ.update(server.environment)
        here = Lake(Place.of(work / "disk"))
        address = broker.up(here).address
        running.callback(broker.down, here)
        env = {
            **server.environment,
            "STRANDLINE_KAFKA": address,
            "XDG_STATE_HOME": str(work / "state"),
        }
        words = ("--events", wanted.backlog, "--until", f"{SINCE:%Y-%m-%d}")
        succeeded("produce", "--make-topics", *words, env=env)
        plan = Plan(
            since=SINCE,
            until=SINCE + timedelta(days=1),
            events=ROWS * (wanted.warm + wanted.batches) * len(PLACES),
            seed=7,
            devices=40,
        )
        events = Events(plan, address, bronze.NEWER.name)
        found = list[Measured]()
        for number, (name, has_cluster, cores) in enumerate(PLACES):
            at = here.root if number == 0 else Place.of(f"s3a://{s3_server.BUCKET}/{number}")
            with ExitStack() as placed:
                more = {"STRANDLINE_CORES": str(cores)}
                if has_cluster:
                    cluster = placed.enter_context(
                        standalone.running(work / name, environment=server.environment)
                    )
                    more["STRANDLINE_MASTER"] = cluster.master
                found.append(_measured(name, Lake(at), {**env, **more}, events, wanted, work))
            sys.stderr.write(f"{name}\n")
    report = Report(machine=machine.facts(), backlog=wanted.backlog, places=found)
    (wanted.out / "cluster_size.md").write_text(report.page())
    sys.stdout.write(report.page())
    return 0


def _measured(  # noqa: PLR0913, PLR0917  # where, how, with what
    name: str,
    lake: Lake,
    env: dict[str, str],
    events: Events,
    wanted: argparse.Namespace,
    work: Path,
) -> Measured:
    begun = time.monotonic()
    succeeded("run", *SLICE, "--lake", lake.root, env=env, timeout=1800)
    whole = time.monotonic() - begun
    rates = {}
    for table in TABLES:
        done = [entry for _, entry in entries(lake.table(table))]
        rates[table.id] = (
            sum(each.read for each in done) / sum(each.duration_ms for each in done) * 1000
        )
    with _streaming(lake, env, work / f"{name}.log"):
        for _ in range(wanted.warm):
            _reached_gold(lake, events)
        before = {table.id: _newest(lake, table.id) for table in TABLES}
        seconds = [_reached_gold(lake, events) for _ in range(wanted.batches)]
    batches = {
        table.id: [
            entry.duration_ms / 1000
            for version, entry in entries(lake.table(table))
            if version > before[table.id] and entry.read
        ]
        for table in TABLES
    }
    return Measured(name=name, run=whole, rates=rates, seconds=seconds, batches=batches)


@contextmanager
def _streaming(lake: Lake, env: dict[str, str], log: Path) -> Iterator[None]:
    """Run the stream for the length of the block."""
    words = ("stream", *SLICE, "--every", "200ms", "--lake", lake.root)
    with lives.running(*words, log=log, env=env) as process:
        yield
        process.send_signal(signal.SIGTERM)
        process.wait(120)


def _reached_gold(lake: Lake, events: Events) -> float:
    """Send a hundred readings; return the seconds until gold has read all that silver made of them."""
    begun, until = time.monotonic(), _received(lake) + ROWS
    events.give()
    wait_for(lambda: _received(lake) >= until and _is_level(lake), "gold", 0.02)
    return time.monotonic() - begun


def _received(lake: Lake) -> int:
    """Return how many records bronze has read."""
    newest = last_entry(lake.table(TABLES[0]))
    return sum(end for _, end in newest[1].offsets.values()) if newest else 0


def _is_level(lake: Lake) -> bool:
    """Return whether each table has read the newest commit of its source."""
    for source, table in pairwise(SLICE):
        newest = last_entry(lake.table(catalog.find(table)))
        if newest is None or newest[1].versions.get(source, (0, -1))[1] < _newest(lake, source):
            return False
    return True


def _newest(lake: Lake, name: str) -> int:
    found = last_entry(lake.table(catalog.find(name)))
    return -1 if found is None else found[0]


if __name__ == "__main__":
    raise SystemExit(main())
