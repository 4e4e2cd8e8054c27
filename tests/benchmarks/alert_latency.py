"""How long does an alert take, from the moment its event was to be sent to a consumer of the topic of alerts?

``python -m tests.benchmarks.alert_latency --seconds 300``. An open-loop sender, ``strandline alerts`` as a user starts
it, and a consumer, on one machine with one broker; every event raises one alert. ``floor`` is the same without Spark: the
consumer reads what the sender sends. In real-time mode events around the end of a batch are reported apart; the moments
are those at which Spark wrote its checkpoint.
"""

import argparse
import json
import re
import resource
import shlex
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from shutil import copy
from tempfile import TemporaryDirectory

import psutil
from confluent_kafka import Consumer, TopicPartition
from rich.console import Console

from strandline.alerting.alert_rule import rules_folder
from strandline.engine.kafka import broker as local_broker
from strandline.engine.kafka.broker import create_topic
from strandline.engine.lake.lake import Lake
from strandline.engine.runtime.processes import family
from tests.benchmarks import machine
from tests.benchmarks.open_loop import BILLION
from tests.cli.typed import ENVIRONMENT, PROGRAM

REAL_TIME, FLOOR = "real-time", "floor"
MODES = (REAL_TIME, "continuous", "micro-batch", FLOOR)
SOURCE, SINK, LIVE = "process-events", "alerts", "live.process_events"
STAMP = re.compile(rb"ProcessGuid\W+(\d{19})")
WARM = 20.0
"""Seconds of events before those that count: a JVM compiles what runs often."""
EDGE = 2 * BILLION
"""Nanoseconds around a checkpoint in which events are counted as at a boundary."""
PATIENCE = 300.0

screen = Console(stderr=True, highlight=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """What one combination showed; latencies in milliseconds, ascending."""

    mode: str
    rate: int
    partitions: int
    inside: list[float] = field(repr=False)
    boundary: list[float] = field(repr=False)
    boundaries: int
    missing: int
    sender: dict[str, float]
    cpu_ms: float
    """CPU of `strandline alerts` an event."""
    cores: dict[str, float]
    """Cores that each of the programs took, and those that were left."""
    noise: dict[str, float]
    seconds: float


class Ear(threading.Thread):
    """Notes when each record of a topic came."""

    def __init__(self, address: str, topic: str, partitions: int) -> None:
        """Begin at the end of the topic."""
        super().__init__(daemon=True)
        self.came: dict[int, int] = {}
        self.heard = 0
        self._end = threading.Event()
        self._consumer = Consumer(
            {
                "bootstrap.servers": address,
                "group.id": "latency",
                "enable.auto.commit": "false",
                "log_level": 0,
            }
        )
        parts = [TopicPartition(topic, number) for number in range(partitions)]
        for part in parts:
            part.offset = self._consumer.get_watermark_offsets(part, timeout=20)[1]
        self._consumer.assign(parts)

    def run(self) -> None:
        """Poll record by record: a batch would be waited for."""
        while not self._end.is_set():
            message = self._consumer.poll(0.2)
            now = time.time_ns()
            if message is None or message.error() is not None:
                continue
            self.heard += 1
            found = STAMP.search(message.value() or b"")
            if found:
                self.came.setdefault(int(found[1]), now)
        self._consumer.close()

    def since(self, moment: int) -> dict[int, int]:
        """Return when the events came that were to be sent after a moment; others may still be on their way then."""
        return {intended: at for intended, at in [*self.came.items()] if intended > moment}

    def stop(self) -> None:
        """Stop listening."""
        self._end.set()
        self.join()


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """One combination."""

    mode: str
    rate: int
    partitions: int
    seconds: float
    every: str


@contextmanager
def alerting(
    lake: Path, rules: Path, address: str, mode: str, every: str | None, *more: str
) -> Iterator[int]:
    """Run ``strandline alerts``; yield its process id."""
    words = [PROGRAM, "alerts", str(rules), "--mode", mode, "--lake", str(lake), "--json", *more]
    words += ["--every", every] if every else []
    with lake.with_suffix(".log").open("wb") as log:
        process = subprocess.Popen(
            words,
            env={**ENVIRONMENT, "STRANDLINE_KAFKA": address},
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
        try:
            yield process.pid
        finally:
            process.send_signal(signal.SIGTERM)
            try:
                code = process.wait(60)
            except subprocess.TimeoutExpired:
                for one in family(process.pid):
                    one.kill()
                code = process.wait(60)
            if code:
                sys.stderr.write(lake.with_suffix(".log").read_text()[-2000:])


def send(address: str, partitions: int, rate: int, seconds: float) -> dict[str, float]:
    """Send at a rate from another process, and return how late it was."""
    words = ["-m", "tests.benchmarks.open_loop", address, SOURCE]
    words += [str(partitions), str(rate), str(seconds)]
    done = subprocess.run([sys.executable, *words], capture_output=True, text=True, check=True)
    found: dict[str, float] = json.loads(done.stdout)
    return found


def cpu_of(pid: int) -> float:
    """Return the CPU seconds that a process and those below it have used."""
    return sum(map(_seconds, family(pid)))


def _seconds(process: psutil.Process) -> float:
    try:
        times = process.cpu_times()
    except psutil.NoSuchProcess:  # a short one, such as a worker of Python on its start
        return 0.0
    return float(times.user + times.system)


class Cores:
    """Who takes the cores of the machine: on two of them, what is measured has what the others leave."""

    def __init__(self, broker: int, alerts: int | None) -> None:
        """Begin; the sender is what this process starts and waits for."""
        each = [one for one in family(alerts) if one.is_running()] if alerts else []
        self._parts = {
            "Spark": [one for one in each if "java" in one.name()],
            "Python": [one for one in each if "java" not in one.name()],
            "broker": [psutil.Process(broker)],
            "consumer": [psutil.Process()],
        }
        self._before = self._now()

    def since(self) -> dict[str, float]:
        """Return how many cores each has taken since."""
        now = self._now()
        wall = now.pop("wall") - self._before["wall"]
        return {name: round((at - self._before[name]) / wall, 3) for name, at in now.items()}

    def _now(self) -> dict[str, float]:
        times = resource.getrusage(resource.RUSAGE_CHILDREN)
        found = {name: sum(map(_seconds, each)) for name, each in self._parts.items()}
        found["sender"] = times.ru_utime + times.ru_stime
        return {**found, "idle": float(psutil.cpu_times().idle), "wall": time.monotonic()}


def checkpoints(lake: Path) -> list[int]:
    """Return when Spark committed its batches, in nanoseconds."""
    folder = Lake(lake).root / "_checkpoints" / LIVE / "commits"
    if not folder.exists():
        return []
    return sorted(file.stat().st_mtime_ns for file in folder.local.iterdir() if file.name.isdigit())


def measure(work: Path, address: str, wanted: Wanted) -> Run:
    """Measure one combination."""
    lake = work / f"{wanted.mode}-{wanted.rate}-{wanted.partitions}"
    running = local_broker.status(Lake(work / "broker"))
    if running is None:
        raise SystemExit("the broker has ended")
    rules = work / "rules"
    rules.mkdir(exist_ok=True)
    for file in rules_folder().glob("process_*.yml"):
        copy(file, rules)
    if wanted.mode == FLOOR:
        return _heard(address, lake, running.pid, None, wanted)
    every = wanted.every if wanted.mode == REAL_TIME else None
    with alerting(lake, rules, address, wanted.mode, every) as pid:
        _await_first(address, wanted.partitions, lake)
        return _heard(address, lake, running.pid, pid, wanted)


def _await_first(address: str, partitions: int, lake: Path) -> None:
    """Send single events until some of them come out, so that start-up is not measured."""
    ear = Ear(address, SINK, 1)
    ear.start()
    deadline = time.monotonic() + PATIENCE
    while len(ear.came) < 2 * partitions:
        if time.monotonic() > deadline:
            raise SystemExit(lake.with_suffix(".log").read_text()[-3000:])
        send(address, partitions, partitions, 1)
    ear.stop()


def _heard(address: str, lake: Path, broker: int, pid: int | None, wanted: Wanted) -> Run:
    is_floor, partitions, rate = wanted.mode == FLOOR, wanted.partitions, wanted.rate
    if pid is not None:
        send(address, partitions, rate, WARM)
        time.sleep(2)  # what is still on its way is not what is measured
    ear = Ear(address, SOURCE, partitions) if is_floor else Ear(address, SINK, 1)
    ear.start()
    spent, cores = cpu_of(pid) if pid else 0.0, Cores(broker, pid)
    before = machine.Noise.now()
    since = time.time_ns()
    sender = send(address, partitions, rate, wanted.seconds)
    used = (cpu_of(pid) if pid else 0.0) - spent
    noise, taken = machine.Noise.now().since(before, own=used), cores.since()
    deadline = time.monotonic() + 30
    while len(ear.since(since)) < sender["sent"] and time.monotonic() < deadline:
        time.sleep(0.1)
    ear.stop()
    came = ear.since(since)
    edges = [at for at in checkpoints(lake) if at > since] if wanted.mode == REAL_TIME else []
    inside, boundary = list[float](), list[float]()
    for intended, at in came.items():
        is_edge = any(abs(intended - edge) < EDGE for edge in edges)
        (boundary if is_edge else inside).append((at - intended) / 1e6)
    return Run(
        mode=wanted.mode,
        rate=rate,
        partitions=partitions,
        inside=sorted(inside),
        boundary=sorted(boundary),
        boundaries=len(edges),
        missing=int(sender["sent"]) - len(came),
        sender=sender,
        cpu_ms=used / sender["sent"] * 1000,
        cores=taken,
        noise=noise,
        seconds=wanted.seconds,
    )


def main(words: Sequence[str]) -> None:
    """Measure what was asked for and write the report."""
    from tests.benchmarks.alert_latency_report import Report  # noqa: PLC0415  # it imports this module

    parser = argparse.ArgumentParser(
        prog="python -m tests.benchmarks.alert_latency", description=__doc__
    )
    parser.add_argument("--seconds", type=float, default=300, help="of each combination")
    parser.add_argument("--rates", default="200,2000", help="events a second")
    parser.add_argument("--partitions", default="1,2")
    parser.add_argument("--modes", default=",".join(MODES))
    parser.add_argument("--every", default="1m", help="from checkpoint to checkpoint in real time")
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "reports")
    asked = parser.parse_args(words)
    command = shlex.join(["python", "-m", "tests.benchmarks.alert_latency", *_without_out(words)])
    report = Report.following(asked.out, command, asked.every, machine.facts())
    for partitions in map(int, asked.partitions.split(",")):
        with (
            TemporaryDirectory(prefix="strandline-latency-") as folder,
            broker(Path(folder), partitions) as address,
        ):
            for rate in map(int, asked.rates.split(",")):
                for mode in asked.modes.split(","):
                    wanted = Wanted(
                        mode=mode,
                        rate=rate,
                        partitions=partitions,
                        seconds=asked.seconds,
                        every=asked.every,
                    )
                    run = measure(Path(folder), address, wanted)
                    screen.print(report.add(run), markup=False, soft_wrap=True)
                    report.write(asked.out)  # each time: it takes an hour, and may be interrupted
    screen.print(f"wrote {asked.out}/alert_latency.md")


def _without_out(words: Sequence[str]) -> list[str]:
    """Return the arguments without the place of the report, which is no matter of what was measured."""
    at = words.index("--out") if "--out" in words else len(words)
    return [*words[:at], *words[at + 2 :]]


@contextmanager
def broker(work: Path, partitions: int) -> Iterator[str]:
    """Start a broker with the topics of events and of alerts."""
    lake = Lake(work / "broker")
    address = local_broker.up(lake).address
    try:
        create_topic(address, SOURCE, partitions, {})
        create_topic(address, SINK, 1, {})
        yield address
    finally:
        local_broker.down(lake)


if __name__ == "__main__":
    main(sys.argv[1:])
