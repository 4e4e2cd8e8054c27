"""A redeploy asks a run to end in the middle of a batch: the next run carries on, nothing is lost and nothing there twice."""

import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from strandline.engine.lake.place import Place
from strandline.engine.runtime.processes import family
from tests.cli.inside import succeeded
from tests.cli.typed import ENVIRONMENT
from tests.faults.lives import PATIENCE, SLICE, kill, progress, sheets

pytestmark = [
    pytest.mark.kafka,
    pytest.mark.slow,
    pytest.mark.prove(alone="two minutes"),
    pytest.mark.timeout(1200),
]

RUN = [sys.executable, "-m", "dagster", "job", "execute"]
JOB = ["-m", "strandline_dagster.definitions", "-j", "catch_up"]
DIMENSION = ("bronze.device_inventory", "silver.device_inventory", "silver.devices")
"""What the windows of the slice look up; the run that was terminated had it."""


def test_a_run_that_is_terminated_is_carried_on_by_the_next(
    fresh: Place, address: str, tmp_path: Path
) -> None:
    """However the next one is started; this one is typed."""
    truth = tmp_path / "truth.json"
    succeeded("produce", "--events", 12_000, "--hours", 12, "--truth", truth, "--lake", fresh)
    env = {**ENVIRONMENT, "STRANDLINE_LAKE": str(fresh), "STRANDLINE_CORES": "2"}

    with (tmp_path / "first.log").open("wb") as log:
        run = subprocess.Popen([*RUN, *JOB], env=env, stdout=log, stderr=log)
        try:
            deadline = time.monotonic() + PATIENCE
            while progress(fresh)[0] < 0:  # bronze is written, silver is about to be
                assert run.poll() is None, (tmp_path / "first.log").read_text()[-3000:]
                assert time.monotonic() < deadline
                time.sleep(0.05)
            run.send_signal(signal.SIGTERM)
            ended = run.wait(200)
        finally:
            for one in family(run.pid):
                kill(one)
    succeeded("run", *DIMENSION, *SLICE, "--lake", fresh)

    assert ended != 0
    clean = tmp_path / "clean"
    succeeded("run", *DIMENSION, *SLICE, "--lake", clean, env={"STRANDLINE_KAFKA": address})
    succeeded("compare", fresh, clean)
    found = sheets(fresh)
    assert all(sheet["balanced"] for sheet in found.values())
    sent = json.loads(truth.read_text())["tables"]
    for table in {*DIMENSION, *SLICE} & sent.keys():
        assert {name: found[table][name] for name in sent[table]} == sent[table]
