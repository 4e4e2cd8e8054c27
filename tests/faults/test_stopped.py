"""Ctrl-C at every moment of a run: it prints that it was stopped, exits as a shell expects, and the next run carries on."""

import random
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from strandline import catalog

from strandline.engine.lake.lake import Lake
from strandline.engine.lake.place import Place
from strandline.engine.runtime.processes import family
from tests.cli.inside import succeeded
from tests.cli.typed import ENVIRONMENT, PROGRAM
from tests.faults.lives import PATIENCE, SLICE, kill, sheets
from tests.support.proofs import Times

pytestmark = [pytest.mark.kafka, pytest.mark.slow, pytest.mark.timeout(900)]

BRONZE, SILVER = (catalog.find(name) for name in SLICE[:2])


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Return a lake with a broker that has events, and no table yet."""
    lake = tmp_path_factory.mktemp("stopped") / "lake"
    succeeded("up", "--lake", lake)
    succeeded("produce", "--events", 20_000, "--hours", 12, "--lake", lake)
    yield lake
    succeeded("down", "--lake", lake)


def moments(lake: Lake) -> dict[str, Place]:
    """Return for each moment of a run what is there from then on."""
    return {
        "Java starts": lake.log("spark"),
        "Kafka is read": lake.table(BRONZE) / "_delta_log",
        "a job of Spark's runs": lake.checkpoint(SILVER) / "offsets" / "0",
        "the last table is written": lake.table(catalog.find(SLICE[2])) / "_delta_log",
    }


@pytest.mark.whole
@pytest.mark.prove
def test_it_prints_that_it_was_stopped_and_the_next_run_carries_on(
    filled: Path, tmp_path: Path, chance: random.Random, times: Times
) -> None:
    """At a moment that the seed draws; `make prove` takes each."""
    lake = Lake(filled)
    lake.log("spark").local.unlink(missing_ok=True)
    every = moments(lake)
    drawn = sorted(chance.sample(range(len(every)), min(times(1, 4), len(every))))

    ends = {
        moment: stopped(filled, seen, tmp_path / "printed")
        for number, (moment, seen) in enumerate(every.items())
        if number in drawn
    }

    assert {moment: code for moment, (code, _) in ends.items()} == dict.fromkeys(ends, 130)
    assert all(text.splitlines()[-1].startswith("stopped") for _, text in ends.values()), ends
    assert not any("JVM is gone" in text for _, text in ends.values()), ends
    succeeded("run", *SLICE, "--lake", filled)
    assert all(sheet["balanced"] for sheet in sheets(filled).values())


def stopped(lake: Path, seen: Place, log: Path) -> tuple[int, str]:
    """Run, type Ctrl-C as soon as something is there, and return how it ended and what it printed."""
    with log.open("wb") as words:
        run = subprocess.Popen(
            [PROGRAM, "run", *SLICE, "--lake", str(lake)],
            env=ENVIRONMENT,
            stdin=subprocess.DEVNULL,
            stdout=words,
            stderr=words,
            start_new_session=True,
        )
        try:
            deadline = time.monotonic() + PATIENCE
            while not seen.exists():
                assert run.poll() is None, log.read_text()
                assert time.monotonic() < deadline, log.read_text()
                time.sleep(0.02)
            run.send_signal(signal.SIGINT)
            return run.wait(PATIENCE), log.read_text()
        finally:
            for one in family(run.pid):
                kill(one)
