"""A version of a table is held with every commit and file that it has, and without what came after."""

import random

import pytest
from deltalake import DeltaTable

from strandline.engine.lake.lake import Lake
from strandline.engine.lake.log.commit_log import (
    PACKED,
    commit_file,
    commit_text,
    log_of,
    write_pack,
)
from strandline.engine.lake.log.ledger import entries, latest_version
from strandline.engine.lake.place import Place
from strandline.engine.lake.snapshot_files import LAST, Held, freeze_checkpoint, freeze_table
from tests.engine.written import BRONZE, numbers, written
from tests.support.ledgers import histories, write_log

VERSION = PACKED + 20


@pytest.mark.whole
def test_commits_that_left_their_log_come_with_it(lake: Lake, chance: random.Random) -> None:
    """Maintenance packs them beside the table, and the ledger is these commits."""
    path, held = lake.table(BRONZE), Held(lake.root, lake.root / "held")
    into = held.there(path)
    write_log(path, histories(VERSION + 20, chance)[BRONZE])
    known = [each for each in entries(path) if each[0] <= VERSION]
    write_pack(path, {number: commit_text(path, number) or "" for number in range(PACKED)})
    for number in range(PACKED):
        commit_file(path, number).remove()

    freeze_table(path, held, VERSION)

    assert latest_version(into) == VERSION
    assert list(entries(into)) == known


def test_a_checkpoint_of_a_later_version_is_not_named(lake: Lake) -> None:
    """Delta would look for it, and for a version that is not there."""
    path, held = lake.table(BRONZE), Held(lake.root, lake.root / "held")
    into = held.there(path)
    for _ in range(3):
        written(path, numbers(2))
    DeltaTable(path).create_checkpoint()
    assert (log_of(path) / LAST).exists()

    freeze_table(path, held, 1)

    assert not (log_of(into) / LAST).exists()
    assert latest_version(into) == 1
    assert len(list(into.local.glob("*.parquet"))) == 2


def test_a_file_that_is_being_written_is_not_held(lake: Lake) -> None:
    path, held = lake.table(BRONZE), Held(lake.root, lake.root / "held")
    into = held.there(path)
    written(path, numbers(2))
    (path / "part-00007.snappy.parquet").put("half")
    checkpoint = Place.of(lake.root.local / "_checkpoints" / "x")
    for name in ("0", ".1.abc.tmp"):
        (checkpoint / "offsets" / name).put("plan")

    freeze_table(path, held, 0)
    freeze_checkpoint(checkpoint, held)

    assert len(list(into.local.glob("*.parquet"))) == 1
    assert (held.there(checkpoint) / "offsets").names() == ["0"]
