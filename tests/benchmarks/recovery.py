"""How long after ``kill -9`` until a table has its first new commit? ``python -m tests.benchmarks.recovery``.

``strandline stream`` against the same three tables written by hand and tuned (tests/benchmarks/contestants). Each reads
300 readings a second from a topic of its own; in turns each is killed with its JVM at a random moment and started again at
once. Measured is from the start of the new process to the first commit of each table, and what it does until then:
its JVM is seen among its children, its session in its log, and how long a batch took in the entry of its ledger.
"""

import argparse
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path

import psutil

from fleet.bronze import device_telemetry as bronze
from fleet.play.domain import readings
from fleet.play.plan import Plan
from strandline.core.topic import Topic
from strandline.engine.kafka import broker as local_broker
from strandline.engine.kafka.broker import create_topic
from strandline.engine.lake.lake import Lake
from strandline.engine.lake.log.ledger import entry_at, latest_version
from strandline.engine.lake.place import Place
from tests.benchmarks import machine
from tests.benchmarks.contestants.contestant import BRONZE, GOLD, SILVER
from tests.benchmarks.feed import wait_for
from tests.benchmarks.recovery_report import JVM, OURS, SESSION, Recovery, Report
from tests.cli.typed import start
from tests.support.sending import send

NAMES = (BRONZE, SILVER, GOLD)
MEASURED = (BRONZE, SILVER)
"""A job by hand commits nothing to gold until a window closes, which is after an hour."""
BY_HAND = ("tuned",)
ROUNDS = 4
RATE = 300
LIVES = (8.0, 15.0)
"""Seconds after the first commit of silver until the kill."""
LOOK = 0.02
SINCE = datetime(2026, 10, 1, tzinfo=UTC)


@dataclass(slots=True, kw_only=True)
class Contestant:
    """A stream that is killed.

    Args:
        name: Which.
        root: The folder of its lake.
        address: host:port of the broker.
        sent: How many seconds of readings its topic has.
    """

    name: str
    root: Path
    address: str
    sent: int = field(default=0)

    @property
    def topic(self) -> Topic:
        """Return the topic that it reads."""
        return (
            bronze.NEWER
            if self.name == OURS
            else Topic(name=f"{self.name}-telemetry", partitions=4)
        )

    @property
    def log(self) -> Path:
        """Return where its output goes."""
        return self.root / "stream.out"

    def start(self) -> "subprocess.Popen[bytes]":
        """Start it as a team would after a crash."""
        log = self.log
        if self.name == OURS:
            words = ("stream", *NAMES, "--every", "200ms", "--lake", self.root)
            return start(*words, log=log, env={"STRANDLINE_KAFKA": self.address})
        place = {
            "root": str(self.root),
            "address": self.address,
            "topic": self.topic.name,
            "on_change": False,
            "partitions": 200,
        }
        # The first time table by table: one cannot be read before it has its columns.
        steps = [] if self.root.joinpath("gold").exists() else [[name] for name in NAMES]
        commands = [{**place, "do": "catch_up", "tables": step} for step in steps]
        commands.append({**place, "do": "follow", "tables": NAMES})
        with log.open("ab") as stream:
            process = subprocess.Popen(
                [
                    sys.executable,
                    "-m",
                    "tests.benchmarks.worker",
                    self.name,
                    str(self.root / "spark.log"),
                ],
                stdin=subprocess.PIPE,
                stdout=stream,
                stderr=stream,
                start_new_session=True,
            )
        assert process.stdin is not None
        for command in commands:
            process.stdin.write(json.dumps(command).encode() + b"\n")
        process.stdin.flush()
        return process

    @contextmanager
    def fed(self) -> Iterator[None]:
        """Send its readings meanwhile, second by second."""
        over = threading.Event()

        def keep() -> None:
            while not over.is_set():
                self.send(1)

        thread = threading.Thread(target=keep)
        thread.start()
        try:
            yield
        finally:
            over.set()
            thread.join()

    def send(self, seconds: int) -> None:
        """Send the readings of some seconds, at their pace."""
        at = SINCE + timedelta(seconds=self.sent)
        plan = Plan(
            since=at,
            until=at + timedelta(seconds=seconds),
            events=RATE * seconds,
            seed=self.sent,
            devices=40,
        )
        send(plan, self.address, {}, parts=readings(plan, self.topic), rate=RATE)
        self.sent += seconds

    def versions(self) -> dict[str, int]:
        """Return the newest version of each table."""
        return {name: latest_version(self._place(name)) for name in MEASURED}

    def batch_seconds(self, name: str, version: int) -> float | None:
        """Return how long the batch of a version took; None of a job that keeps no ledger."""
        entry = entry_at(self._place(name), version)
        return entry.duration_ms / 1000 if entry else None

    def _place(self, name: str) -> Place:
        return Place.of(self.root.joinpath(*name.split(".")))


def main() -> int:
    """Measure, write the report, and fail where the target is missed."""
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.recovery")
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--work", type=Path, default=Path(".lake/benchmarks/recovery"))
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "reports")
    wanted = parser.parse_args()
    work: Path = wanted.work.absolute()
    shutil.rmtree(work, ignore_errors=True)
    seed = random.SystemRandom().randrange(10**6)
    sys.stderr.write(f"seed {seed}\n")
    moments = random.Random(seed)  # noqa: S311  # no secret
    broker = Lake(work / "broker")
    address = local_broker.up(broker).address
    try:
        found = [*_rounds(work, address, wanted.rounds, moments)]
    finally:
        local_broker.down(broker)
    report = Report(machine=machine.facts(), seed=seed, found=found)
    report.write(wanted.out)
    sys.stdout.write(report.page())
    shutil.rmtree(work, ignore_errors=True)
    return int(bool(report.missed()))


def _rounds(work: Path, address: str, rounds: int, moments: random.Random) -> Iterator[Recovery]:
    for topic in bronze.TABLE.topics:
        create_topic(address, topic.name, topic.partitions, {})
    contestants = []
    for name in (OURS, *BY_HAND):
        (work / name).mkdir(parents=True)
        contestants.append(Contestant(name=name, root=work / name, address=address))
        contestants[-1].send(1)
    for number in range(rounds):
        for each in contestants if number % 2 else reversed(contestants):
            found = _killed_and_started(each, moments.uniform(*LIVES))
            sys.stderr.write(f"{found}\n")
            yield found


def _killed_and_started(contestant: Contestant, life: float) -> Recovery:
    with contestant.fed():
        process = contestant.start()
        try:
            _observed(contestant, process, time.monotonic())
            time.sleep(life)
        finally:
            _kill(process)
        begun = time.monotonic()
        process = contestant.start()
        try:
            return _observed(contestant, process, begun)
        finally:
            _kill(process)


def _observed(contestant: Contestant, process: "subprocess.Popen[bytes]", begun: float) -> Recovery:
    """Return how many seconds after a start each table had a new commit, and what was seen before."""
    before = contestant.versions()
    said = contestant.log.stat().st_size
    commits, steps, first = dict[str, float](), dict[str, float](), dict[str, int]()

    def is_complete() -> bool:
        now = time.monotonic() - begun
        if process.poll() is not None:
            raise SystemExit(f"{contestant.name} ended: {contestant.log}")
        if JVM not in steps and _has_jvm(process.pid):
            steps[JVM] = now
        if SESSION not in steps and contestant.log.stat().st_size > said:
            steps[SESSION] = now
        for name, version in contestant.versions().items():
            if version > max(before[name], 0) and name not in commits:  # 0 is the creation
                commits[name], first[name] = now, max(before[name], 0) + 1
        return len(commits) == len(MEASURED)

    wait_for(is_complete, "a commit of each table", LOOK)
    batches = {name: contestant.batch_seconds(name, version) for name, version in first.items()}
    return Recovery(
        contestant=contestant.name,
        seconds=commits,
        steps=steps,
        batches={name: each for name, each in batches.items() if each is not None},
    )


def _has_jvm(pid: int) -> bool:
    children = psutil.Process(pid).children(recursive=True)
    return any(each.name() == "java" for each in children)


def _kill(process: "subprocess.Popen[bytes]") -> None:
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()


if __name__ == "__main__":
    raise SystemExit(main())
