"""A batch that is planned again begins as if it had never run: its offsets and the beginnings of its state are gone."""

from pathlib import Path

import pytest

from strandline.engine.lake.mend_checkpoint import unfinished, withdraw
from strandline.engine.lake.place import Place


def put(root: Path, *names: str) -> None:
    for name in names:
        file = root / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.touch()


def files(root: Path) -> set[str]:
    return {str(file.relative_to(root)) for file in root.rglob("*") if file.is_file()}


KEPT = {
    "metadata",
    "offsets/9",
    "offsets/10",
    "commits/9",
    "commits/10",
    "state/0/0/10.zip",
    "state/0/0/11.changelog",
    "state/0/1/left-keyToNumValues/11_5f2a.changelog",
    "state/0/0/SSTs/000012-6d1f.sst",
    "state/0/_metadata/v2/11",
    "state/0/_metadata/metadata",
}
"""Batch 10 is finished: it wrote version 11 of the state."""

GONE = {
    "offsets/11",
    "offsets/.11.crc",
    "state/0/0/12.changelog",
    "state/0/0/12.zip",
    "state/0/0/.12.changelog.crc",
    "state/0/0/12.changelog.crc",
    "state/0/0/.12.changelog.4a7e.tmp",
    "state/0/1/left-keyToNumValues/12_77ab.changelog",
    "state/0/1/left-keyToNumValues/12_77ab.zip",
    "state/0/1/12.delta",
}


def test_a_batch_that_is_withdrawn_leaves_nothing_behind(tmp_path: Path) -> None:
    put(tmp_path, *KEPT, *GONE)
    assert unfinished(Place.of(tmp_path)) == 11

    withdraw(Place.of(tmp_path), 11)

    assert files(tmp_path) == KEPT
    assert unfinished(Place.of(tmp_path)) is None


@pytest.mark.parametrize("number", [9, 10, 12])
def test_a_batch_that_is_finished_or_was_never_planned_is_left(tmp_path: Path, number: int) -> None:
    put(tmp_path, *KEPT, "offsets/11")

    with pytest.raises(ValueError, match=f"batch {number} "):
        withdraw(Place.of(tmp_path), number)

    assert files(tmp_path) == {*KEPT, "offsets/11"}


def test_the_first_batch_can_be_withdrawn_as_well(tmp_path: Path) -> None:
    put(tmp_path, "metadata", "offsets/0", "state/0/0/1.changelog", "state/0/_metadata/metadata")

    withdraw(Place.of(tmp_path), 0)

    assert files(tmp_path) == {"metadata"}
