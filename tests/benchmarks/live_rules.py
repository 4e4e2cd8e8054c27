"""What do 1, 100 and 1,000 rules cost an event that ``strandline alerts`` reads in real time?

``python -m tests.benchmarks.live_rules``. Generated events (generated_rules.py) wait in a topic; the program is started as a
user starts it, reads them from the beginning, and as fast as it can. Between two of them that raise an alert of a rule
of their own are those that count; before the first of the two the JVM warms up.
"""

import argparse
import json
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory

import yaml
from confluent_kafka import Producer

from fleet.silver.process_events import FIELDS
from tests.benchmarks import machine
from tests.benchmarks.alert_latency import (
    PATIENCE,
    REAL_TIME,
    SINK,
    SOURCE,
    Ear,
    alerting,
    broker,
    cpu_of,
)
from tests.benchmarks.generated_rules import Document, Maker

SEED = 7
SIZES = (1, 100, 1_000)
WARM = 60_000
MARKS = [10**18 + number for number in range(3)]
"""The identities of the events at the beginning, between warming up and counting, and at the end."""
PROGRAM = "C:\\Windows\\strandline-mark.exe"
MARK: Document = {
    "title": "Mark",
    "id": "00000000-0000-4000-9000-000000000000",
    "logsource": {"category": "process_creation"},
    "detection": {"a": {"Image": PROGRAM}, "condition": "a"},
}
WANTED = 5
"""How many times the CPU of 100 rules 1,000 may take."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """What one number of rules showed."""

    rules: int
    seconds: float
    cpu: float
    alerts: int
    noise: float


def main() -> int:
    """Measure, write the report, and fail where the target is missed."""
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.live_rules")
    parser.add_argument("--events", type=int, default=200_000)
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "reports")
    wanted = parser.parse_args()
    found = list[Measured]()
    for size in SIZES:
        with TemporaryDirectory(prefix="strandline-live-") as folder:
            found.append(measure(Path(folder), size, wanted.events))
            sys.stderr.write(f"{found[-1]}\n")
    page = "\n".join(_page(found, wanted.events))
    (wanted.out / "live_rules.md").write_text(page)
    sys.stdout.write(page)
    return int(found[-1].cpu > WANTED * found[-2].cpu)


def measure(work: Path, size: int, events: int) -> Measured:
    """Let one process read all events with a number of rules."""
    maker, rules = Maker(SEED), work / "rules"
    rules.mkdir()
    documents = maker.documents(SIZES[-1])[-size:]
    for number, document in enumerate([MARK, *documents]):
        (rules / f"{number}.yml").write_text(yaml.safe_dump(document))
    with broker(work, 1) as address:
        fill(address, maker, events)
        ear = Ear(address, SINK, 1)
        ear.start()
        before = machine.Noise.now()
        with alerting(
            work / "lake", rules, address, REAL_TIME, None, "--from-beginning"
        ) as process:
            spent = [_when(mark, ear, process, work) for mark in MARKS[1:]]
            noise = machine.Noise.now().since(before, own=cpu_of(process))
        ear.stop()
        (began, cpu_before), (ended, cpu_after) = spent
        return Measured(
            rules=size,
            seconds=ended - began,
            cpu=cpu_after - cpu_before,
            alerts=ear.heard - len(MARKS),
            noise=noise["load"],
        )


def fill(address: str, maker: Maker, events: int) -> None:
    """Send the events and the marks around those that count."""
    producer = Producer({"bootstrap.servers": address, "log_level": 0, "linger.ms": 50})
    for payload in _payloads(maker, events):
        producer.produce(SOURCE, payload, partition=0)
        producer.poll(0)
        if len(producer) > 50_000:
            producer.flush()
    producer.flush()


def _payloads(maker: Maker, events: int) -> Iterator[bytes]:
    now = datetime.fromtimestamp(time.time(), tz=UTC).isoformat()
    at = {0: MARKS[0], WARM: MARKS[1], WARM + events: MARKS[2]}
    for number, row in enumerate(maker.events(WARM + events + 1)):
        event = {**dict(zip(FIELDS.fieldNames(), row, strict=True)), "UtcTime": now}
        if number in at:
            event |= {"ProcessGuid": str(at[number]), "Image": PROGRAM}
        yield json.dumps(event).encode()


def _when(mark: int, ear: Ear, process: int, work: Path) -> tuple[float, float]:
    """Wait for a mark, and return the time and the CPU that was used by then, both in seconds."""
    deadline = time.monotonic() + PATIENCE
    while mark not in ear.came:
        if time.monotonic() > deadline:
            raise SystemExit((work / "lake.log").read_text()[-3000:])
        time.sleep(0.005)
    return ear.came[mark] / 1e9, cpu_of(process)


def _page(found: list[Measured], events: int) -> Iterator[str]:
    facts = ", ".join(f"{name} {value}" for name, value in machine.facts().items())
    yield "# What alert rules cost an event in real time\n"
    yield f"Made by `python -m tests.benchmarks.live_rules --events {events}`.\nMachine: {facts}.\n"
    yield (
        f"Generated rules and {events:,} generated events from seed {SEED}, in one partition; `strandline alerts` reads them from a "
        f"topic in real-time mode, after {WARM:,} others. CPU is that of the whole program: Python and the JVM, which "
        "compiles beside. The same rules in a batch: [alert_rules.md](alert_rules.md), with the size of the compiled methods.\n"
    )
    yield f"The target: 1,000 rules cost at most {WANTED} times what 100 do.\n"
    yield "| rules | alerts, with those of warming up | events/s | CPU of an event, µs | times fewer rules | load at the end |"
    yield "|---:|---:|---:|---:|---:|---:|"
    for one, fewer in zip(found, [None, *found], strict=False):
        times = f"{one.cpu / fewer.cpu:.1f}" if fewer else ""
        yield (
            f"| {one.rules:,} | {one.alerts:,} | {events / one.seconds:,.0f} | {one.cpu / events * 1e6:,.0f} | {times} | {one.noise:.1f} |"
        )
    yield ""


if __name__ == "__main__":
    sys.exit(main())
