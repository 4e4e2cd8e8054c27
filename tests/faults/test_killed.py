"""Killed at any moment, it carries on: nothing is lost, nothing is there twice."""

import json
import random
import signal
import time
from pathlib import Path
from subprocess import Popen

import psutil
import pytest
from strandline import catalog

from strandline.engine.lake.lake import Lake
from strandline.engine.lake.place import Place
from strandline.engine.runtime.processes import family
from tests.cli import inside, typed
from tests.cli.inside import succeeded
from tests.faults.lives import (
    PATIENCE,
    SLICE,
    finished,
    heartbeat,
    kill,
    life,
    log,
    moved,
    progress,
    received,
    total,
)
from tests.support.modes import has_caught_up
from tests.support.proofs import Times

pytestmark = [pytest.mark.core, pytest.mark.kafka, pytest.mark.slow, pytest.mark.timeout(1200)]


@pytest.mark.prove
def test_kills_at_random_moments_change_nothing_and_the_last_stream_ends_cleanly(
    fresh: Place, address: str, anywhere: Place, tmp_path: Path, times: Times
) -> None:
    """Its JVM first, then Python, its JVM, or both, between slices of a backlog.

    The kernel takes the largest process when memory is short, and that is the JVM; so its error is read.
    The seed is printed, though the moments depend on the machine too.
    """
    kills = times(1, 200)
    seed = random.SystemRandom().randrange(10**6)
    chance = random.Random(seed)  # noqa: S311  # moments, not secrets
    truth = tmp_path / "truth.json"
    words = ("--events", 6_000 + 2_000 * kills, "--hours", 12, "--seed", seed, "--truth", truth)
    succeeded("produce", *words, "--lake", fresh)
    sent = json.loads(truth.read_text())
    reached = progress(fresh)
    for number in range(kills):
        with life(fresh, "--max-offsets", 300) as process:
            # The first life fills all tables; a later one may find little for gold to emit, and nothing at all
            # when those before it have read everything.
            if number == 0:
                reached = moved(fresh, process, reached)
                keeps_others_out(fresh, process)
            else:
                no_more = lambda: received(fresh) == total(sent)  # noqa: E731  # shorter than a function
                reached = moved(fresh, process, (*reached[:2], -2), unless=no_more)
            time.sleep(chance.uniform(0, 1.5))
            victims = family(process.pid)
            chosen = chance.choice([victims[:1], victims[1:], victims]) if number else victims[1:]
            print(f"seed {seed}, life {number + 1}: killing {[one.name() for one in chosen]}")  # noqa: T201  # shown when the test fails
            for one in chosen:
                kill(one)
            if number == 0:  # before psutil takes its exit code
                ended_for_its_jvm(process.wait(PATIENCE), log(fresh).read_text())
            psutil.wait_procs(victims, timeout=60)

    catches_up_and_ends_cleanly(fresh)
    clean = anywhere / "clean"
    for lake in (fresh, clean):
        finished(lake, address, sent)
    succeeded("compare", fresh, clean)


def ended_for_its_jvm(code: int, words: str) -> None:
    """See that a stream whose JVM is gone ends with what to type, said once.

    The kernel may take more than a second to end a killed JVM on a busy machine; each table has failed for itself by then.
    """
    assert code == 3, words[-3000:]
    _, is_there, ending = words.rpartition("Spark's JVM is gone")
    assert is_there, words[-3000:]
    assert ending.count("hint:") == 1, words[-6000:]
    assert "Traceback" not in words, words[-3000:]


def keeps_others_out(lake: Place, process: "Popen[bytes]") -> None:
    """See that no second writer starts while the stream lives."""
    assert heartbeat(lake)["alive"]
    second = typed.strandline("run", *SLICE, "--lake", lake)
    assert second.code == 3, second.printed
    assert f"has a writer already: process {process.pid}" in second.err
    assert "hint:" in second.err


def catches_up_and_ends_cleanly(lake: Place) -> None:
    """Let a last stream read the rest, and send it what every deploy sends; Ctrl-C is seen by tests/e2e/test_sequence.py.

    What a probe of Kubernetes says is asked as well: of one that was killed, of one that lives, of one that has ended.
    """
    probe = ("probe", "stream", "--lake", lake)
    assert inside.strandline(*probe).code == 3
    there = len(log(lake).read_text())
    with life(lake) as process:
        quiet(lake, process)
        assert f"process {process.pid}" in succeeded(*probe).out
        process.send_signal(signal.SIGTERM)
        assert process.wait(PATIENCE) == 0
    words = log(lake).read_text()[there:]
    assert "Traceback" not in words, words[-3000:]
    assert "Error" not in words, words[-3000:]
    assert heartbeat(lake)["alive"] is False
    assert inside.strandline(*probe).code == 3
    assert "not running" in succeeded("status", "--lake", lake).out


def quiet(lake: Place, process: "Popen[bytes]") -> None:
    """Wait until a stream runs and has nothing more to commit, of what was sent before it began."""
    deadline = time.monotonic() + PATIENCE
    while heartbeat(lake)["pid"] != process.pid or not all(
        has_caught_up(Lake(lake), catalog.find(name)) for name in SLICE[1:]
    ):
        assert time.monotonic() < deadline, log(lake).read_text()[-3000:]
        time.sleep(0.2)
