"""The disk is full from a random change on: a command says so, and when there is room the same ends as if it had never been full."""

import errno
import random
import shutil
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from strandline.engine.lake.lake import Lake
from tests.faults.disk import outcomes
from tests.faults.disk.operations import OPERATIONS, PROGRAM, Operation, state
from tests.faults.disk.recording import FOREVER, Recorder, changed
from tests.faults.disk.trial import recorded, room, wrong
from tests.support import engine
from tests.support.proofs import Times

pytestmark = [pytest.mark.slow, pytest.mark.timeout(3600)]


@pytest.mark.prove
def test_a_disk_that_is_full_from_any_change_on_stops_with_a_hint_and_spoils_nothing(
    spark: SparkSession, tmp_path: Path, chance: random.Random, times: Times
) -> None:
    """Python's writes and the JVM's; a change that takes no room (a removal) still works."""
    brief = [each for each in OPERATIONS if each.is_brief]
    others = [each for each in OPERATIONS if not each.is_brief]
    failed: list[str] = []
    for operation in [
        *chance.sample(brief, times(1, len(brief))),
        *chance.sample(others, times(0, len(others))),
    ]:
        folder = tmp_path / operation.name.replace(" ", "-")
        folder.mkdir()
        seed, whole, journal = recorded(operation, spark, folder)
        expected, number, bad = state(whole), changed(journal), []
        moments = sorted(chance.sample(range(number), min(number, times(2, 4))))
        for at in moments:
            lake = Lake(folder / f"full-{at}")
            shutil.copytree(seed.root, lake.root, symlinks=True)
            found = full(operation, lake, folder, at) or wrong(operation, lake, expected)
            if found:
                bad.append(f"{operation.name}, full from change {at} of {number}: {found}")
        outcomes.keep(f"disk full during `{operation.name}`", f"{len(moments)} moments", bad)
        failed += bad
        engine.forget()
    assert not failed, "\n".join(failed)


def full(operation: Operation, lake: Lake, folder: Path, at: int) -> str:
    """Run an operation on a disk that is full from a change on; return what is wrong with its answer."""
    recorder = Recorder(
        lake=lake.root.local, folder=room(folder), fault=errno.ENOSPC, failing=(at, FOREVER)
    )
    answer, _ = recorder.run(*operation.words, "--lake", lake.root)
    assert answer is not None
    is_program = operation.words[0] == PROGRAM  # a function, whose error no verb explains
    if answer.code in {0, 3} or is_program or "no room left" in answer.printed:
        return ""
    return f"{answer.code}: {answer.printed[-600:]}"
