"""A change of a checkpoint that is killed before any write, and done again, leaves the checkpoint of one that was not killed.

A wrong offset would be worse than a lost one: the stream would start, and read rows twice or never.
"""

from pathlib import Path

import pytest

from strandline.engine.lake.lake import Lake
from strandline.engine.lake.mend_checkpoint import FORMER
from tests.faults.disk import outcomes
from tests.faults.disk.edits import EDITS, checkpoint
from tests.faults.disk.journal import Disk
from tests.faults.disk.recording import Recorder
from tests.faults.disk.trial import room

pytestmark = [pytest.mark.prove, pytest.mark.timeout(300)]


def files(lake: Lake) -> dict[str, bytes]:
    """Return every file of the checkpoint that Spark reads."""
    root = checkpoint(lake).local
    found = (path for path in root.rglob("*") if path.is_file() and path.name != FORMER)
    return {str(p.relative_to(root)): p.read_bytes() for p in found if p.name[0] != "."}


@pytest.mark.parametrize("name", EDITS)
def test_a_change_of_a_checkpoint_that_is_killed_is_done_again(name: str, tmp_path: Path) -> None:
    edit, seed, whole = EDITS[name], Lake(tmp_path / "seed"), Lake(tmp_path / "whole")
    for lake in (seed, whole):
        edit.make(checkpoint(lake))
    recorder = Recorder(lake=whole.root.local, folder=room(tmp_path))
    answer, journal = recorder.run("program", name, "--lake", whole.root)
    assert answer is not None
    assert answer.code == 0, answer.printed
    outcomes.hit(journal)

    expected, failed = files(whole), []
    assert expected != files(seed)
    changes = [each for each in journal if each.kind != "m"]
    disk = Disk(whole.root.local, seed.root.local)
    for number, change in enumerate(changes):
        lake = Lake(tmp_path / f"killed-{number}")
        disk.write(lake.root.local)
        edit.change(checkpoint(lake))
        found = files(lake)
        if found != expected:
            failed.append(
                f"{name}, before change {number}: {sorted(found.items() ^ expected.items())}"
            )
        disk.apply(change)
    outcomes.keep(
        f"killed before a change of `{name.replace('_', ' ')}`", f"{len(changes)} moments", failed
    )
    assert not failed, "\n".join(failed)
