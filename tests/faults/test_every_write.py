"""Killed before any change of the disk, an operation is done again and ends as if nothing had happened.

An operation runs once under a recorder of its changes, Python's and the JVM's. For each of them the disk is made as a
kill before it leaves it, the same is typed again, and the lake must be that of the run that was not killed.
"""

import random
import shutil
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from strandline.engine.lake.lake import Lake
from tests.faults.disk import outcomes
from tests.faults.disk.journal import Disk, Record
from tests.faults.disk.operations import OPERATIONS, Operation, state
from tests.faults.disk.trial import recorded, wrong
from tests.support import engine
from tests.support.proofs import Times

pytestmark = [pytest.mark.slow, pytest.mark.timeout(3600), pytest.mark.whole]

LONG = tuple(each for each in OPERATIONS if not each.is_brief)
NAMING = "rlu"
"""Renames, links and removals."""

BRIEF = tuple(each for each in OPERATIONS if each.is_brief)


def files(folder: Path) -> dict[str, bytes]:
    """Return every file of a lake, without the logs of programs."""
    paths = [path for path in sorted(folder.rglob("*")) if path.is_file()]
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in paths
        if "_logs" not in path.parts
    }


@pytest.mark.prove(alone="an hour")
def test_a_run_that_is_killed_before_any_change_ends_like_one_that_is_not(
    spark: SparkSession, tmp_path: Path, chance: random.Random, times: Times
) -> None:
    """All operations that need Spark; what the suite has of them is in test_crash_points.py."""
    failed: list[str] = []
    for operation in chance.sample(LONG, times(1, len(LONG))):
        folder = tmp_path / operation.name.replace(" ", "-")
        folder.mkdir()
        failed += ends_alike(operation, spark, folder, chance, times(3, 10_000))
    assert not failed, "\n".join(failed)


@pytest.mark.prove
def test_what_needs_no_spark_is_killed_before_any_change(
    spark: SparkSession, tmp_path: Path, chance: random.Random, times: Times
) -> None:
    """Gates, rules, the desired state, closed books, orphans."""
    failed: list[str] = []
    for operation in chance.sample(BRIEF, times(2, len(BRIEF))):
        folder = tmp_path / operation.name.replace(" ", "-")
        folder.mkdir()
        failed += ends_alike(operation, spark, folder, chance, 10_000)
    assert not failed, "\n".join(failed)


@pytest.mark.whole("thin notes")
@pytest.mark.parametrize("name", ["note moment", "thin notes", "keep moment", "drop moment"])
def test_a_moment_is_there_or_is_not_whenever_it_is_killed(
    spark: SparkSession, tmp_path: Path, chance: random.Random, name: str
) -> None:
    """Also one with a name, of which a kill leaves no room that is never free again."""
    (operation,) = (each for each in BRIEF if each.name == name)
    assert not ends_alike(operation, spark, tmp_path, chance, 10_000)


def ends_alike(
    operation: Operation, spark: SparkSession, folder: Path, chance: random.Random, most: int
) -> list[str]:
    """Kill an operation before some of its changes; return where its second run leaves something else."""
    seed, whole, journal = recorded(operation, spark, folder)
    changes = [each for each in journal if each.kind != "m"]
    expected, number = state(whole), len(changes)
    every = moments(changes, chance)
    chosen = set(chance.sample(every, min(most, len(every))))
    disk = Disk(whole.root.local, seed.root.local)
    failed = []
    for at in range(number + 1):
        if at in chosen:
            lake = Lake(folder / f"killed-{at}")
            disk.write(lake.root.local)
            if found := wrong(operation, lake, expected):
                failed.append(f"{operation.name}, before change {at} of {number}: {found}")
            else:
                shutil.rmtree(lake.root)
        if at < number:
            disk.apply(changes[at])
    disk.write(folder / "all")
    assert files(folder / "all") == files(whole.root.local), "the journal is not the whole truth"
    engine.forget()
    outcomes.keep(
        f"killed before a change of `{operation.name}`",
        f"{len(chosen)} of {len(every)} moments in {number} changes",
        failed,
    )
    return failed


def moments(changes: list[Record], chance: random.Random) -> list[int]:
    """Return the numbers of the changes before which a kill may differ: each change of a name, and one of each row of others.

    What is written to a file before it gets its name is seen by no reader, so of these changes one is drawn.
    """
    found, others = [len(changes)], list[int]()
    for number, change in enumerate(changes):
        if change.kind in NAMING:
            found += [number, *([chance.choice(others)] if others else [])]
            others = []
        else:
            others.append(number)
    return sorted([*found, *([chance.choice(others)] if others else [])])
