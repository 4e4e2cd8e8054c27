"""A cluster loses a worker, or the driver is killed, in the middle of batches; the rows are those of a run without a fault."""

import random
import time
from collections.abc import Callable
from datetime import date, timedelta
from pathlib import Path
from subprocess import Popen

import psutil
import pytest

from strandline.engine.kafka import broker
from strandline.engine.lake.lake import Lake
from strandline.engine.lake.place import Place
from strandline.engine.runtime.processes import family
from tests.cli import inside
from tests.cli.typed import start
from tests.faults.lives import PATIENCE, SLICE, equals_an_undisturbed_run, kill, progress
from tests.support.proofs import Times
from tests.support.s3_server import S3Server
from tests.support.standalone import WORKERS, Cluster

pytestmark = [pytest.mark.kafka, pytest.mark.slow, pytest.mark.timeout(1200)]

EVENTS = 1_500
FIRST = date(2026, 8, 1)


class Stream:
    """A stream on the cluster that is started again where it was killed."""

    def __init__(self, lake: Place, log: Path, env: dict[str, str]) -> None:
        """Begin without one."""
        self._lake, self._log, self._env = lake, log, env
        self._process: Popen[bytes] | None = None

    def running(self) -> "Popen[bytes]":
        """Return its process, a new one where there is none."""
        if self._process is None:
            words = ("stream", *SLICE, "--every", "500ms", "--max-offsets", 300)
            lake = ("--lake", self._lake)
            self._process = start(*words, *lake, log=self._log, env=self._env)
        return self._process

    def moves(self, since: tuple[int, ...]) -> None:
        """Wait until some table has committed more; the stream must live."""
        process = self.running()
        deadline = time.monotonic() + PATIENCE
        while progress(self._lake) == since:
            assert process.poll() is None, self._log.read_text()[-3000:]
            assert time.monotonic() < deadline, self._log.read_text()[-3000:]
            time.sleep(0.05)

    def kill(self) -> None:
        """Kill it with its JVM."""
        if self._process is not None:
            victims = family(self._process.pid)
            for one in victims:
                kill(one)
            self._process.wait()
            psutil.wait_procs(victims[1:], timeout=60)
            self._process = None


@pytest.mark.prove(alone="each round is a start of Spark, or the loss of a machine")
def test_workers_and_drivers_that_are_killed_change_nothing(  # noqa: PLR0913, PLR0917  # fixtures
    s3: S3Server,
    cluster: Cluster,
    bucket: Place,
    tmp_path: Path,
    chance: random.Random,
    times: Times,
) -> None:
    """A stream outlives each worker; after the driver's death the next one takes over its lease."""
    disk = Lake(Place.of(tmp_path / "disk"))
    env = {
        **s3.environment,
        "STRANDLINE_KAFKA": broker.up(disk).address,
        "STRANDLINE_LEASE": "5",
        "XDG_STATE_HOME": str(tmp_path / "state"),
    }
    stream = Stream(bucket, tmp_path / "stream.log", {**env, "STRANDLINE_MASTER": cluster.master})

    def worker(number: int) -> None:
        cluster.kill_worker(number % WORKERS)
        stream.moves(progress(bucket))
        cluster.start_worker(number % WORKERS)

    faults: tuple[Callable[[int], None], ...] = (worker, lambda _: stream.kill())
    try:
        for number in range(times(2, 50)):
            before = progress(bucket)
            _send(2 * number, env)
            stream.moves(before)
            time.sleep(chance.uniform(0, 3))
            # A stream that has read all has nothing to show that it goes on.
            _send(2 * number + 1, env)
            faults[number % 2](number // 2)
        stream.kill()
        equals_an_undisturbed_run(bucket, disk.root, env)
    finally:
        stream.kill()
        broker.down(disk)


def _send(number: int, env: dict[str, str]) -> None:
    """Send some minutes of a later day: a lake that reads all of them later knows the same of each arrival.

    They are fewer than what counts as disorder (jobs/strandline/core/kind.py), because the stream may read in the middle of them.
    """
    until = FIRST + timedelta(days=number)
    words = ("--events", EVENTS, "--seed", number, "--hours", 0.15, "--until", until)
    inside.succeeded("produce", "--make-topics", *words, env=env)
