"""A replay that is killed with ``kill -9`` at a random moment: the ledger names it, and the next one finishes it."""

import random
import time
from pathlib import Path
from subprocess import Popen
from typing import Any

import psutil
import pytest
from pyspark.sql import SparkSession

from fleet.silver import device_telemetry as silver
from strandline.engine.lake.lake import Lake
from strandline.engine.lake.log.ledger import latest_version
from strandline.engine.runtime.processes import family
from tests.cli.inside import strandline, succeeded
from tests.cli.typed import start
from tests.faults.lives import kill
from tests.support.mistaken import computed_anew, is_same, mistaken

pytestmark = [
    pytest.mark.core,
    pytest.mark.slow,
    pytest.mark.prove(alone="two minutes"),
    pytest.mark.timeout(600),
]

REPLAY = ("quarantine", "replay", silver.TABLE.id)
PATIENCE = 200


def test_a_replay_that_was_killed_is_finished_by_the_next(
    spark: SparkSession, lake: Lake, tmp_path: Path
) -> None:
    """Python and its JVM, a little after the first commit; once silver has it, the rest may be missing."""
    mistaken(spark, lake)
    seed = random.SystemRandom().randrange(10**6)
    chance = random.Random(seed)  # noqa: S311  # a moment, no secret
    pause = chance.choice([0, 0.2, 0.5, 1, 2])
    with start(*REPLAY, "--lake", lake.root, log=tmp_path / "replay.log") as process:
        waited_for_its_first_commit(lake, process, tmp_path / "replay.log")
        time.sleep(pause)
        victims = family(process.pid)
        for one in victims:
            kill(one)
        psutil.wait_procs(victims, timeout=60)
    print(f"seed {seed}: killed {pause} s after the first commit")  # noqa: T201  # shown when the test fails

    answer = strandline("ledger", "--lake", lake.root)
    assert answer.code == 0 or "quarantine replay" in answer.err, answer.printed
    succeeded(*REPLAY, "--lake", lake.root)

    succeeded("ledger", "--lake", lake.root)
    assert is_same(lake, computed_anew(spark, lake))
    answer: Any = succeeded("quarantine", "list", "--lake", lake.root, "--json").json
    assert {pile["reason"]: pile["open"] for pile in answer} == {
        "late": 1,
        "malformed": 1,
        "missing:signal": 1,
    }


def waited_for_its_first_commit(lake: Lake, process: "Popen[bytes]", log: Path) -> None:
    """Wait until a replay has committed which rows are released; version 0 only makes the table."""
    deadline = time.monotonic() + PATIENCE
    while latest_version(lake.resolutions(silver.TABLE)) < 1:
        assert process.poll() is None, log.read_text()[-3000:]
        assert time.monotonic() < deadline, log.read_text()[-3000:]
        time.sleep(0.01)
