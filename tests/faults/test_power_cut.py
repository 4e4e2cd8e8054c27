"""After a power cut, what was acknowledged is there, and what was not can be done again.

The disk after a cut is made from the journal of a run (tests/faults/disk/journal.py), as three kinds of file systems may
leave it. Without the library's own syncs, the same journal shows what they are for.
"""

import random
import shutil
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from strandline.engine.lake.lake import Lake
from tests.faults.disk import outcomes
from tests.faults.disk.journal import Cut, Disk, Record
from tests.faults.disk.operations import OPERATIONS, Operation, faults, state
from tests.faults.disk.trial import recorded, wrong
from tests.support import engine
from tests.support.proofs import Times

pytestmark = [pytest.mark.slow, pytest.mark.timeout(3600)]

CUTS = (Cut.NAMES_WITHOUT_BYTES, Cut.UNTIL_LAST_SYNC, Cut.ONLY_SYNCED)
KEPT = (
    "tables",
    "quarantine",
    "decisions",
    "gate",
    "order",
    "rules",
    "changes of rules",
    "entries",
)
"""What is acknowledged; a snapshot of closed books that is lost is taken again."""


def drawn(chance: random.Random, times: Times) -> list[Operation]:
    """Draw operations: in the suite one that needs no JVM."""
    brief = [each for each in OPERATIONS if each.is_brief]
    many = times(1, len(OPERATIONS))
    return chance.sample(brief if many == 1 else OPERATIONS, many)


def disk_until(journal: list[Record], whole: Lake, seed: Lake, end: int | None = None) -> Disk:
    """Return the disk before a change; without a number, after the last one."""
    disk = Disk(whole.root.local, seed.root.local)
    for each in [each for each in journal if each.kind != "m"][:end]:
        disk.apply(each)
    return disk


@pytest.mark.prove
def test_what_was_acknowledged_is_there_after_a_power_cut(
    spark: SparkSession, tmp_path: Path, chance: random.Random, times: Times
) -> None:
    """The power goes as soon as the command has answered."""
    failed: list[str] = []
    for operation in drawn(chance, times):
        if operation.name in {"maintain", "clear gate"}:
            continue  # a removal is no acknowledged writing; it is done again
        folder = tmp_path / operation.name.replace(" ", "-")
        folder.mkdir()
        seed, whole, journal = recorded(operation, spark, folder)
        disk, expected, lost = disk_until(journal, whole, seed), state(whole), []
        for cut in CUTS:
            lake = Lake(folder / cut.name)
            disk.write(lake.root.local, cut)
            lost += [f"{operation.name}, {cut.name}: {what}" for what in missing(lake, expected)]
        outcomes.keep(
            f"power cut after `{operation.name}`", "3 kinds of disks", lost, "nothing is lost"
        )
        failed += lost
        engine.forget()
    assert not failed, "\n".join(failed)


def missing(lake: Lake, expected: dict[str, object]) -> list[str]:
    """Return what is not there that was acknowledged."""
    try:
        found = state(lake)
        return [*(name for name in KEPT if found[name] != expected[name]), *faults(lake)]
    except Exception as error:  # noqa: BLE001  # an empty commit may break any reader
        return [f"cannot be read: {type(error).__name__}: {str(error)[:200]}"]


@pytest.mark.prove
def test_after_a_power_cut_at_any_moment_the_same_is_done_again(
    spark: SparkSession, tmp_path: Path, chance: random.Random, times: Times
) -> None:
    """A command that had not answered yet goes on, or says what to do."""
    failed: list[str] = []
    for operation in drawn(chance, times):
        folder = tmp_path / operation.name.replace(" ", "-")
        folder.mkdir()
        seed, whole, journal = recorded(operation, spark, folder)
        changes, expected, bad = sum(each.kind != "m" for each in journal), state(whole), []
        moments = sorted(chance.sample(range(changes), min(changes, times(1, 12))))
        for at in moments:
            cut = chance.choice(CUTS)
            lake = Lake(folder / f"cut-{at}")
            disk_until(journal, whole, seed, at).write(lake.root.local, cut)
            if found := wrong(operation, lake, expected):
                bad.append(f"{operation.name}, {cut.name} before change {at} of {changes}: {found}")
            else:
                shutil.rmtree(lake.root)
        outcomes.keep(f"power cut during `{operation.name}`", f"{len(moments)} moments", bad)
        failed += bad
        engine.forget()
    assert not failed, "\n".join(failed)


@pytest.mark.whole
def test_without_syncs_what_was_acknowledged_would_be_lost(
    spark: SparkSession, tmp_path: Path
) -> None:
    """The proof that these tests can fail: the disk of a run whose syncs did nothing."""
    operation = next(each for each in OPERATIONS if each.name == "open shut gate")
    seed, whole, journal = recorded(operation, spark, tmp_path)
    unsynced = [each for each in journal if each.kind != "s"]

    disk_until(unsynced, whole, seed).write(tmp_path / "lost", Cut.NAMES_WITHOUT_BYTES)

    assert missing(Lake(tmp_path / "lost"), state(whole))
