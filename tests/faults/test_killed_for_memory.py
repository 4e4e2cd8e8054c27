"""A JVM that is killed within a batch, as the kernel does for memory: the next start tries a smaller one, and the rows are the same.

A stream that is killed again and again at one commit, which cannot be smaller, goes on all the same: a kill is no sign of memory.
"""

import json
import time
from collections.abc import Callable
from pathlib import Path
from subprocess import Popen
from typing import Any

import psutil
import pytest
from strandline import catalog

from strandline.engine.lake.lake import Lake
from strandline.engine.lake.log.ledger import entries
from strandline.engine.lake.place import Place
from strandline.engine.runtime.processes import family
from tests.cli.inside import succeeded
from tests.cli.typed import start
from tests.faults.lives import PATIENCE, family_killed, kill, running

pytestmark = [pytest.mark.kafka, pytest.mark.slow, pytest.mark.timeout(900)]

BRONZE, SILVER = (catalog.find(f"{layer}.device_telemetry") for layer in ("bronze", "silver"))


def jvm_of(pid: int) -> psutil.Process:
    """Return the JVM of a program."""
    return next(each for each in family(pid) if each.name() == "java")


def begun(lake: Lake) -> Any:  # noqa: ANN401  # as it lies in the lake
    """Return the mark of silver's running batch."""
    return json.loads(lake.batch_size(SILVER).text() or "{}").get("begun")


def until(holds: Callable[[], object], process: "Popen[bytes]") -> None:
    """Wait until something holds while a process runs."""
    deadline = time.monotonic() + PATIENCE
    while not holds():
        assert process.poll() is None
        assert time.monotonic() < deadline
        time.sleep(0.01)


@pytest.mark.prove(alone="a minute and a half")
def test_a_jvm_that_is_killed_within_a_batch_is_followed_by_smaller_ones(
    fresh: Place, tmp_path: Path
) -> None:
    lake, truth = Lake(fresh), tmp_path / "truth.json"
    succeeded("produce", "--events", 60_000, "--hours", 20, "--truth", truth, "--lake", fresh)
    succeeded("run", BRONZE.id, "--max-offsets", 10_000, "--lake", fresh)
    rows = sum(entry.read for _, entry in entries(lake.table(BRONZE)))

    process = start("run", SILVER.id, "--lake", fresh, log=tmp_path / "first.log")
    until(lambda: begun(lake), process)
    assert begun(lake)["rows"] == rows
    kill(jvm_of(process.pid))
    assert process.wait(PATIENCE) == 3
    assert "JVM is gone" in (tmp_path / "first.log").read_text()
    assert not list(entries(lake.table(SILVER)))

    succeeded("run", SILVER.id, "--lake", fresh)

    found = [entry for _, entry in entries(lake.table(SILVER))]
    assert sum(entry.read for entry in found) == rows
    assert found[0].read <= rows * 0.75, "the batch that was planned is planned again, smaller"
    assert found[0].most == rows // 2 // 1_000 * 1_000
    expected = json.loads(truth.read_text())["tables"][SILVER.id]
    assert sum(entry.good for entry in found) == expected["good"]
    assert sum(entry.duplicates for entry in found) == expected["duplicates"]
    succeeded("ledger", "--lake", fresh)


@pytest.mark.prove(alone="a minute and a half")
def test_a_stream_that_is_killed_five_times_at_one_commit_goes_on_by_itself(
    fresh: Place, tmp_path: Path
) -> None:
    lake, truth = Lake(fresh), tmp_path / "truth.json"
    succeeded("produce", "--events", 15_000, "--hours", 20, "--truth", truth, "--lake", fresh)
    succeeded("run", BRONZE.id, "--max-offsets", 100_000, "--lake", fresh)
    (rows,) = (entry.read for _, entry in entries(lake.table(BRONZE)))

    for nth in range(5):
        words = ("stream", SILVER.id, "--every", "500ms", "--lake", fresh)
        with running(*words, log=tmp_path / f"{nth}.log") as process:
            until(lambda at=process.pid: (begun(lake) or {}).get("pid") == at, process)
            family_killed(process)
    assert not list(entries(lake.table(SILVER)))
    kept = json.loads(lake.batch_size(SILVER).text() or "")
    assert (kept["deaths"], kept["short"], kept["begun"]["rows"]) == (4, 0, rows)

    with running(*words, log=tmp_path / "last.log") as process:
        until(lambda: list(entries(lake.table(SILVER))), process)

    (found,) = (entry for _, entry in entries(lake.table(SILVER)))
    expected = json.loads(truth.read_text())["tables"][SILVER.id]
    assert (found.read, found.good) == (rows, expected["good"])
    assert found.most <= rows / 1.5, "no other size would make it smaller"
    succeeded("ledger", "--audit", "--lake", fresh)
