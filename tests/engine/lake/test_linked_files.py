"""A table gets the commits of another one by one, and its files without a copy."""

from pathlib import Path

import pytest
from deltalake import DeltaTable

from strandline.engine.lake.log.ledger import latest_version
from strandline.engine.lake.place import Place
from strandline.engine.lake.snapshot_files import link_commit, link_files
from tests.engine.written import numbers, written


@pytest.mark.whole
def test_a_table_has_the_commits_that_were_linked(tmp_path: Path) -> None:
    """Each version is readable as soon as it is there."""
    source, target = Place.of(tmp_path) / "source", Place.of(tmp_path) / "target"
    for count in (2, 3):
        written(source, numbers(count))

    for version, rows in ((0, 2), (1, 5)):
        link_commit(source, target, version)

        assert latest_version(target) == version
        assert DeltaTable(str(target)).to_pyarrow_table().num_rows == rows


def test_a_file_that_was_linked_before_stays(tmp_path: Path) -> None:
    """A promotion that was killed links its files again."""
    source, target = Place.of(tmp_path) / "source", Place.of(tmp_path) / "target"
    (source / "at=1" / "file").put("rows")

    for _ in range(2):
        link_files(source, target, ["at=1/file"])

    assert (target / "at=1" / "file").local.samefile(source / "at=1" / "file")
