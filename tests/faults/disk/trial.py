"""An operation under the recorder, and whether it ends well after a fault."""

import shutil
from pathlib import Path

from pyspark.sql import SparkSession

from strandline.engine.lake.lake import Lake
from tests.faults.disk import outcomes
from tests.faults.disk.journal import Record
from tests.faults.disk.operations import Operation, faults, state
from tests.faults.disk.recording import Recorder


def recorded(
    operation: Operation, spark: SparkSession, folder: Path
) -> tuple[Lake, Lake, list[Record]]:
    """Run an operation under the recorder; return the lake before it, the lake after it, and the journal."""
    seed, whole = seeded(operation, spark, folder), Lake(folder / "whole")
    shutil.copytree(seed.root, whole.root, symlinks=True)
    answer, journal = Recorder(lake=whole.root.local, folder=room(folder)).run(
        *operation.words, "--lake", whole.root
    )
    assert answer is not None
    assert answer.code == 0, answer.printed
    assert faults(whole) == []
    outcomes.hit(journal)
    return seed, whole, journal


def seeded(operation: Operation, spark: SparkSession, folder: Path) -> Lake:
    """Make the lake that an operation begins with."""
    return operation.seed(spark, Lake(folder / "seed").open_for_writing())


def room(folder: Path) -> Path:
    """Make a folder for a recorder's journal."""
    made = folder / "recorder"
    made.mkdir(exist_ok=True)
    return made


def wrong(operation: Operation, lake: Lake, expected: dict[str, object]) -> str:
    """Do an operation again after a fault; return what differs from a run without one."""
    try:
        operation.again(lake)
        found = state(lake)
        unbalanced = faults(lake)
    except Exception as error:  # noqa: BLE001  # every moment is tried, then all failures are shown
        return f"{type(error).__name__}: {str(error)[-1500:]}"
    differing = [name for name, value in expected.items() if found[name] != value]
    said = [
        f"{name}: {str(found[name])[:700]} is not {str(expected[name])[:700]}" for name in differing
    ]
    return "; ".join([*unbalanced, *said])
