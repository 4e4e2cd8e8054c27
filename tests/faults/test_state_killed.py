"""State that grows out of memory while its process is killed: each key is kept once, whichever file had it last."""

import random
import subprocess
import sys
import time
from pathlib import Path

import duckdb
import pytest

from strandline.engine.runtime.processes import family
from tests.faults.lives import PATIENCE, kill
from tests.support.proofs import Times

pytestmark = [pytest.mark.slow, pytest.mark.timeout(36000)]

FILES = 40


def done(folder: Path) -> int:
    """Return how many batches are finished."""
    commits = folder / "checkpoint" / "commits"
    return sum(each.name.isdigit() for each in commits.iterdir()) if commits.exists() else 0


def begun(folder: Path, keys: int, limit: int) -> "subprocess.Popen[bytes]":
    """Start the stream."""
    words = (str(folder), str(keys), str(FILES), str(limit))
    command = [sys.executable, "-m", "tests.faults.growing_state", *words]
    with (folder / "output.log").open("ab") as log:
        return subprocess.Popen(command, stdout=log, stderr=log, start_new_session=True)


@pytest.mark.prove(alone="four minutes")
def test_a_key_is_kept_once_however_often_its_stream_is_killed_while_its_state_moves(
    tmp_path: Path, chance: random.Random, times: Times
) -> None:
    kills, keys = times(2, 10), times(100_000, 10_000_000)
    limit = 1 << 20 if keys < 1_000_000 else 0  # ten million are too large for any heap's share
    for nth in range(kills):
        process = begun(tmp_path, keys, limit)
        try:
            target, deadline = FILES * (nth + 1) // (kills + 2), time.monotonic() + PATIENCE
            while done(tmp_path) < target:
                assert process.poll() is None, (tmp_path / "output.log").read_text()[-3000:]
                assert time.monotonic() < deadline, (tmp_path / "output.log").read_text()[-3000:]
                time.sleep(0.01)
            time.sleep(chance.random())
        finally:
            for one in family(process.pid):
                kill(one)
            process.wait()
    last = begun(tmp_path, keys, limit)
    assert last.wait(timeout=36000) == 0, (tmp_path / "output.log").read_text()[-3000:]

    kept = duckdb.read_parquet(f"{tmp_path}/out/*/*.parquet")
    found = kept.aggregate("count(*), count(DISTINCT key), min(key), max(key)").fetchone()
    assert found == (keys, keys, 0, keys - 1)
    state = [each.name for each in (tmp_path / "checkpoint/state/0").glob("[01]/*")]
    assert any(name.endswith(".changelog") for name in state), "it has moved"
