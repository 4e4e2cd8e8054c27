"""A run that is ended at a commit, or between a commit of Delta and Spark's own."""

import json

import pytest

from strandline.core.table import Table
from strandline.engine.lake.commit import delta_commit
from strandline.engine.lake.lake import Lake


def kill_at(patch: pytest.MonkeyPatch, table: Table, nth: int) -> None:
    """End a run of the table when it is about to make its nth commit; those before are made."""
    made = [0]
    really = delta_commit.Commit.commit

    def commit(self: delta_commit.Commit, metadata: str) -> int:
        if json.loads(metadata)["table"] == table.id:
            if made[0] == nth:
                message = "killed"
                raise RuntimeError(message)
            made[0] += 1
        return really(self, metadata)

    patch.setattr(delta_commit.Commit, "commit", commit)


def forget(lake: Lake, table: Table, batches: int) -> None:
    """Remove the commits of the newest batches from a checkpoint, and the offsets of all but the first of them."""
    checkpoint = lake.checkpoint(table)
    done = sorted(
        int(file.name) for file in (checkpoint / "commits").local.iterdir() if file.name.isdigit()
    )
    again = done[-batches:]
    for number in again:
        (checkpoint / "commits" / str(number)).local.unlink()
    for number in again[1:]:
        (checkpoint / "offsets" / str(number)).local.unlink()
