"""`stop_at` of the fixture `stream` leaves what `kill -9` leaves, and a restart makes the same of both."""

import re
import signal
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from fleet.silver.user_actions import TABLE
from strandline.core.stateful import MicroBatch
from strandline.engine.flow.runner import Site, run
from strandline.engine.lake.lake import Lake
from strandline.engine.lake.log.ledger import entries, is_table
from strandline.engine.lake.open_table import opened
from strandline.engine.lake.place import Place
from strandline.testing.ways import POINTS
from tests.architecture.tree import ROOT
from tests.faults.killed_at import begun, fatal
from tests.support.modes import has_caught_up
from tests.support.rows import NOON

OF_A_RUN = {
    *("stream", "epoch", "duration_ms", "cpu_ms", "own_ms", "uneven_ms", "gate_ms", "ledger_ms"),
}
"""Fields of an entry that no two runs have alike."""

DRAWN = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
OF_A_MOMENT = re.compile(r'"(batchTimestampMs|lastModified\w*)":\d+')


@pytest.fixture(scope="module")
def killed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of three lakes, each as a process left it that was killed at a point of a batch."""
    folder = tmp_path_factory.mktemp("killed")
    command = [sys.executable, "-m", "tests.faults.killed_at", str(folder)]
    done = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, timeout=400, check=False
    )
    assert done.returncode == -signal.SIGKILL, done.stderr[-3000:]
    return folder


@pytest.mark.slow
@pytest.mark.parametrize("point", POINTS)
def test_it_leaves_what_a_kill_leaves(
    spark: SparkSession, killed: Path, tmp_path: Path, point: str
) -> None:
    """Tables, ledgers and files of the checkpoint, before the restart and after it."""
    other = Lake(Place.of(killed / point)).open_for_writing()
    stopped = begun(spark, tmp_path / "stopped")
    stopped.stop_at(point)
    fatal(stopped)
    stopped.close()
    lakes = [stopped.lake, other]

    left = [left_in(lake) for lake in lakes]
    assert left[0] == left[1]

    for lake in lakes:
        restarted(spark, lake)

    made = [left_in(lake) for lake in lakes]
    assert made[0] == made[1]
    assert made[0] != left[0]
    assert sorted(row["action_id"] for row in made[0]["rows"]) == ["a", "b"]
    assert len(made[0]["held"]) == 1


def restarted(spark: SparkSession, lake: Lake) -> None:
    """Let the stream run on until it has read what there is."""
    site = Site(spark=spark, clock=lambda: NOON)
    mode = MicroBatch(every=0.05)
    run(TABLE, mode, lake, site=site, stopped=lambda: has_caught_up(lake, TABLE))


def left_in(lake: Lake) -> dict[str, Any]:
    """Return what a lake has of the table, without what is drawn by chance or taken from a clock."""
    return {
        "rows": everything(lake.table(TABLE)),
        "held": everything(lake.quarantine(TABLE)),
        "ledger": ledger(lake.table(TABLE)),
        "ledger of the quarantine": ledger(lake.quarantine(TABLE)),
        "checkpoint": checkpoint(lake.checkpoint(TABLE).local),
    }


def everything(path: Place) -> list[dict[str, Any]]:
    """Return all rows of a table with all columns, in an order of their own."""
    if not is_table(path):
        return []
    rows: list[dict[str, Any]] = opened(path).to_pyarrow_table().to_pylist()
    return sorted(rows, key=str)


def ledger(path: Place) -> list[dict[str, Any]]:
    if not is_table(path):
        return []
    found = [asdict(entry) for _, entry in entries(path)]
    return [{name: each[name] for name in each.keys() - OF_A_RUN} for each in found]


def checkpoint(folder: Path) -> dict[str, str]:
    """Return the files of a checkpoint; those of its two logs with what is in them."""
    found = {}
    for file in sorted(folder.rglob("*")):
        if file.is_file():
            name = DRAWN.sub("ID", str(file.relative_to(folder)))
            is_log = file.parent.name in {"offsets", "commits"} and file.name.isdigit()
            text = file.read_text() if is_log else ""
            found[name] = OF_A_MOMENT.sub("", DRAWN.sub("ID", text))
    return found
