"""A Spark standalone cluster of one master and some workers on loopback, out of pip's pyspark, each a process of its own.

No port is fixed: the master takes one that is free and writes it to its log. A keeper starts the programs and ends
them by their process ids when its standard input ends, so none is left when the run of the tests dies.
"""

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import psutil
import pyspark

from strandline.engine.runtime.processes import family
from strandline_infra import java
from strandline_infra.programs import HOST

VARIABLE, MASTER = "TEST_MASTER", "STRANDLINE_MASTER"
"""The first makes a run of the tests set the second (tests/conftest.py)."""

HOME = Path(pyspark.__file__).parent
WORKERS = 2
PATIENCE = 90.0
STARTED = re.compile(r"Starting Spark master at (spark://\S+)")
REGISTERED = re.compile(r"Successfully registered with master (\S+)")
DEPLOY = "org.apache.spark.deploy"
OWN = ("PATH", "TZ", "LANG", "JAVA_TOOL_OPTIONS")
"""Variables of this process that the programs get; Spark gives a worker's to its executors."""


class Cluster:
    """A running cluster, as its test sees it."""

    def __init__(self, keeper: "subprocess.Popen[bytes]", folder: Path) -> None:
        """Wait until the master has all of its workers.

        Args:
            keeper: The process that keeps it.
            folder: Its logs, and below ``work`` what executors write.
        """
        self._keeper, self.folder = keeper, folder
        found = self._answer()
        self.master, self._pids = str(found["master"]), list[int](found["pids"])

    def family(self) -> list[psutil.Process]:
        """Return the processes of all programs, executors and their Pythons."""
        return [one for pid in self._pids for one in family(pid)]

    def kill_worker(self, number: int) -> None:
        """End a worker with its executors at once, as the loss of a machine does."""
        victims = family(self._pids[1 + number])
        for victim in victims:
            end(victim)
        psutil.wait_procs(victims[1:], timeout=PATIENCE)

    def start_worker(self, number: int) -> None:
        """Start a worker that was killed."""
        assert self._keeper.stdin is not None
        self._keeper.stdin.write(f"{number}\n".encode())
        self._keeper.stdin.flush()
        self._pids = list(self._answer()["pids"])

    def _answer(self) -> dict[str, Any]:
        assert self._keeper.stdout is not None
        line = self._keeper.stdout.readline()
        if not line:
            raise RuntimeError(f"no cluster started; the logs are in {self.folder}")
        found: dict[str, Any] = json.loads(line)
        return found


def end(process: psutil.Process) -> None:
    """End a process at once, unless it has ended."""
    with suppress(psutil.NoSuchProcess):
        process.send_signal(signal.SIGKILL)


@contextmanager
def running(
    folder: Path,
    *,
    cores: int = 1,
    memory: str = "1g",
    environment: Mapping[str, str] | None = None,
) -> Iterator[Cluster]:
    """Run a cluster for the length of the block.

    Args:
        folder: Where its files go.
        cores: The cores that each worker offers, whatever the machine has.
        memory: The memory that each worker offers.
        environment: Variables for the workers and their executors, such as the keys of a store.
    """
    folder.mkdir(parents=True, exist_ok=True)
    own = {name: os.environ[name] for name in OWN if name in os.environ}
    keeper = subprocess.Popen(
        [sys.executable, "-m", "tests.support.standalone", str(folder), str(cores), memory],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={**own, **(environment or {})},
        start_new_session=True,
    )
    assert keeper.stdin is not None
    assert keeper.stdout is not None
    try:
        yield Cluster(keeper, folder)
    finally:
        keeper.stdin.close()
        keeper.wait()
        keeper.stdout.close()


class _Keeper:
    """Starts the programs, a worker also again, and ends all of them."""

    def __init__(self, folder: Path, cores: str, memory: str) -> None:
        self._folder, self._cores, self._memory = folder, cores, memory
        self._programs = list[subprocess.Popen[bytes]]()
        self._master = ""

    def start(self) -> None:
        """Start all."""
        words = ("master.Master", "--host", HOST, "--port", "0")
        self._programs.append(self._program("master", *words))
        self._master = self._waited("master", self._programs[0], STARTED)
        self._programs += [self._worker(number) for number in range(WORKERS)]
        for number in range(WORKERS):
            self.await_worker(number)

    def start_again(self, number: int) -> None:
        """Start a worker that was killed."""
        self._programs[1 + number].wait()
        (self._folder / f"worker-{number}.log").unlink()
        self._programs[1 + number] = self._worker(number)
        self.await_worker(number)

    def await_worker(self, number: int) -> None:
        """Wait until the master knows a worker."""
        self._waited(f"worker-{number}", self._programs[1 + number], REGISTERED)

    def note(self) -> str:
        """Return what a test needs to know."""
        return json.dumps({"master": self._master, "pids": [each.pid for each in self._programs]})

    def end(self) -> None:
        """End all; executors are children of the workers."""
        for victim in [one for each in self._programs for one in family(each.pid)]:
            end(victim)
        for each in self._programs:
            each.wait()

    def _worker(self, number: int) -> "subprocess.Popen[bytes]":
        offered = ("--cores", self._cores, "--memory", self._memory)
        place = ("--work-dir", str(self._folder / "work" / str(number)))
        words = ("worker.Worker", "--host", HOST, *offered, *place, self._master)
        return self._program(f"worker-{number}", *words)

    def _program(self, name: str, kind: str, *words: str) -> "subprocess.Popen[bytes]":
        environment = {
            **os.environ,
            "SPARK_HOME": str(HOME),
            "JAVA_HOME": str(java.java_home()),
            "SPARK_DAEMON_MEMORY": "256m",
            "SPARK_LOCAL_IP": HOST,
            "SPARK_LOCAL_DIRS": str(self._folder / "local"),
        }
        with (self._folder / f"{name}.log").open("ab") as log:
            return subprocess.Popen(
                [HOME / "bin" / "spark-class", f"{DEPLOY}.{kind}", "--webui-port", "0", *words],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=environment,
                cwd=self._folder,
            )

    def _waited(self, name: str, process: "subprocess.Popen[bytes]", words: re.Pattern[str]) -> str:
        log = self._folder / f"{name}.log"
        deadline = time.monotonic() + PATIENCE
        while process.poll() is None and time.monotonic() < deadline:
            found = words.search(log.read_text())
            if found:
                return found[1]
            time.sleep(0.05)
        raise RuntimeError(f"{name} did not start: {log.read_text()}")


def _main() -> None:
    keeper = _Keeper(Path(sys.argv[1]), *sys.argv[2:])
    try:
        keeper.start()
        _say(keeper.note())
        for line in sys.stdin:
            keeper.start_again(int(line))
            _say(keeper.note())
    finally:
        keeper.end()


def _say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    _main()
