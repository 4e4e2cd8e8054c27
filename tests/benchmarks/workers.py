"""The parent's side of a worker: start it, ask it, weigh it."""

import json
import select
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import psutil

from strandline.engine.runtime.processes import tied
from tests.benchmarks.contestants.contestant import Place

PATIENCE = 540.0
"""Most seconds that one step may take."""


class WorkerError(Exception):
    """A worker failed or fell silent."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """What something took."""

    wall: float
    cpu: float


class Worker:
    """One contestant in a process of its own."""

    def __init__(self, name: str, logs: Path, env: Mapping[str, str] | None = None) -> None:
        """Start the process, with more variables where they are given, and wait until its Spark is up."""
        self.name = name
        logs.mkdir(parents=True, exist_ok=True)
        self.log = logs / f"{name}.log"
        command = [
            sys.executable,
            "-m",
            "tests.benchmarks.worker",
            name,
            str(logs / f"spark-{name}.log"),
        ]
        with self.log.open("wb") as log:
            self._process = subprocess.Popen(
                command,
                env={**tied(), **(env or {})},
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
            )
        self._tree = psutil.Process(self._process.pid)
        self.facts = self._answer()

    def ask(self, do: str, tables: Sequence[str], place: Place) -> Cost:
        """Have something done and say what it took."""
        command = {"do": do, "tables": list(tables), **asdict(place), "root": str(place.root)}
        begun, spent = time.monotonic(), self.cpu()
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(command) + "\n")
        self._process.stdin.flush()
        self._answer()
        return Cost(wall=time.monotonic() - begun, cpu=self.cpu() - spent)

    def cpu(self) -> float:
        """Return the seconds of CPU that the process and all that it started have used so far.

        Children that have ended count too: Hadoop's file system forks ``chmod`` many times in a batch.
        """
        total = 0.0
        for process in [self._tree, *self._tree.children(recursive=True)]:
            try:
                times = process.cpu_times()
            except psutil.NoSuchProcess:
                continue  # it is in its parent's sum from now on
            total += times.user + times.system + times.children_user + times.children_system
        return total

    def close(self) -> None:
        """End the process, and its JVM with it."""
        assert self._process.stdin is not None
        family = self._tree.children(recursive=True)
        with suppress(BrokenPipeError):  # it has ended by itself
            self._process.stdin.close()
        try:
            self._process.wait(30)
        except subprocess.TimeoutExpired:
            self._process.kill()
        for process in family:
            try:
                process.wait(10)
            except psutil.TimeoutExpired:
                process.kill()
            except psutil.NoSuchProcess:
                pass

    def _answer(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        # An answer is one line and nothing follows it unasked, so nothing hides in Python's buffer.
        spoke, _, _ = select.select([self._process.stdout], [], [], PATIENCE)
        line = self._process.stdout.readline() if spoke else ""
        silence = "it ended" if spoke else f"it was silent for {PATIENCE:.0f} s"
        answer: dict[str, Any] = json.loads(line) if line else {"failed": silence}
        if "failed" in answer:
            message = f"{self.name}: {answer['failed']} (see {self.log})"
            raise WorkerError(message)
        return answer


@contextmanager
def workers(
    names: Sequence[str], logs: Path, env: Mapping[str, str] | None = None
) -> Iterator[dict[str, Worker]]:
    """Run some workers for the length of the block."""
    started: dict[str, Worker] = {}
    try:
        for name in names:
            started[name] = Worker(name, logs, env)
        yield started
    finally:
        for worker in started.values():
            worker.close()
