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
from typing import Any, NamedTuple

import psutil

from strandline.engine.runtime.processes import tied
from tests.benchmarks import kit
from tests.benchmarks.contestants import roster
from tests.benchmarks.contestants.contestant import Place

PATIENCE = 1_800.0
"""Most seconds that one step may take."""


class WorkerError(Exception):
    """A worker failed or fell silent."""


def reason(error: Exception) -> str:
    """Return what a report says of an error: without the place of a log, which is another one elsewhere."""
    return str(error).partition(" (see ")[0]


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """What something took.

    Args:
        wall: Seconds.
        cpu: Seconds of CPU of the process and all that it started.
        peak: The most memory that they had at once, in bytes: the sum of each one's most. Zero where the system does not say.
        written: Bytes that they gave to a disk, state and checkpoints included. Zero where the system does not say.
    """

    wall: float
    cpu: float
    peak: int = 0
    written: int = 0


class Used(NamedTuple):
    """The seconds of CPU of a process, and of the children for which it has waited."""

    parent: int
    own: float
    below: float


def lost(before: Mapping[int, Used], now: Mapping[int, Used]) -> float:
    """Return the seconds of processes that have ended since and are in no parent's sum."""
    gained = {
        pid: used.below - (before[pid].below if pid in before else 0.0) for pid, used in now.items()
    }
    found = 0.0
    for pid in before.keys() - now.keys():
        used = before[pid]
        spent = used.own + used.below
        if gained.get(used.parent, 0.0) >= spent:
            gained[used.parent] -= spent
        elif used.parent in now:
            found += spent
    return found


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
                env={**_environment(name), **(env or {})},
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
            )
        self._tree = psutil.Process(self._process.pid)
        self._seen: dict[int, Used] = {}
        self._lost = 0.0
        self.facts = self._answer()

    def ask(self, do: str, tables: Sequence[str], place: Place) -> Cost:
        """Have something done and say what it took."""
        command = {"do": do, "tables": list(tables), **asdict(place), "root": str(place.root)}
        before = _written(self._family())
        _forget_peaks(self._family())
        begun, spent = time.monotonic(), self.cpu()
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(command) + "\n")
        self._process.stdin.flush()
        self._answer()
        wall, cpu, family = time.monotonic() - begun, self.cpu() - spent, self._family()
        written = sum(_written(family).values()) - sum(before.values())
        return Cost(wall=wall, cpu=cpu, peak=_peak(family), written=max(written, 0))

    def cpu(self) -> float:
        """Return the seconds of CPU that the process and all that it started have used so far.

        Children that have ended count too: Hadoop's file system forks ``chmod`` many times in a batch. Of one for which its parent did not
        wait, as Spark's of its workers in Python, the parent has nothing: what was seen of it last is kept, or the sum would fall.
        """
        now: dict[int, Used] = {}
        for process in self._family():
            try:
                times, parent = process.cpu_times(), process.ppid()
            except psutil.NoSuchProcess:
                continue  # it is in its parent's sum from now on
            own, below = times.user + times.system, times.children_user + times.children_system
            now[process.pid] = Used(parent, own, below)
        self._lost += lost(self._seen, now)
        self._seen = now
        return self._lost + sum(each.own + each.below for each in now.values())

    def _family(self) -> list[psutil.Process]:
        return [self._tree, *self._tree.children(recursive=True)]

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
        assert self._process.stdout is not None
        self._process.stdout.close()

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


def _environment(name: str) -> dict[str, str]:
    """Return the environment of a process, which finds the packages that its contestant alone needs."""
    known = roster.KNOWN[name]
    given = {"PYTHONPATH": str(kit.packages(known.packages))} if known.packages else {}
    return {**tied(), **given}


def _forget_peaks(family: Sequence[psutil.Process]) -> None:
    """Let each process count its most memory from now on; Linux alone can."""
    for process in family:
        with suppress(OSError):
            Path(f"/proc/{process.pid}/clear_refs").write_text("5")


def _peak(family: Sequence[psutil.Process]) -> int:
    return sum(_number(process, "status", "VmHWM") * 1024 for process in family)


def _written(family: Sequence[psutil.Process]) -> dict[int, int]:
    return {process.pid: _number(process, "io", "write_bytes") for process in family}


def _number(process: psutil.Process, file: str, name: str) -> int:
    with suppress(OSError):
        for line in Path(f"/proc/{process.pid}/{file}").read_text().splitlines():
            if line.startswith(f"{name}:"):
                return int(line.split()[1])
    return 0


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
