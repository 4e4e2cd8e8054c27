"""Tables whose logs are cut after ten commits instead of a hundred, so that a test needs few of them."""

import pytest
from deltalake import DeltaTable

from strandline.engine.lake.commit import create_table, delta_commit
from strandline.engine.lake.log import commit_log, vacuum
from strandline.engine.lake.place import Place
from tests.engine.written import SILVER, entry, numbers, written

PACKED = 10


def small_packs(monkeypatch: pytest.MonkeyPatch, packed: int = PACKED) -> None:
    """Let a pack hold fewer commits, and let Delta write a checkpoint as often."""
    for module in (commit_log, vacuum, delta_commit, commit_log):
        monkeypatch.setattr(module, "PACKED", packed)
    monkeypatch.setitem(create_table.ALWAYS, "delta.checkpointInterval", str(packed))


def with_checkpoints(path: Place, commits: int, *, first: int = 0) -> None:
    """Commit a row at a time, each with a ledger entry, and write a checkpoint at every tenth version."""
    for version in range(first, first + commits):
        written(path, numbers(1), entry(SILVER, batch=version, read=1, good=1, written=1).encoded())
        if version and version % PACKED == 0:
            DeltaTable(str(path)).create_checkpoint()
