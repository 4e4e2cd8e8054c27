"""What is synced, and in which order; that it survives a power cut is proven in tests/faults/test_power_cut.py."""

import os
from pathlib import Path

import pytest

from strandline.engine.lake import local_files
from strandline.engine.lake.local_files import make, sync, sync_all
from strandline.engine.lake.place import Place
from strandline.engine.lake.spark_checkpoint import keep_state


@pytest.fixture
def synced(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return the names of what is synced from now on, in order."""
    found: list[str] = []
    whole = os.fsync

    def fsync(opened: int) -> None:
        found.append(Path(f"/proc/self/fd/{opened}").readlink().name)
        whole(opened)

    monkeypatch.setattr(local_files.os, "fsync", fsync)
    return found


@pytest.mark.whole
def test_files_come_before_the_folders_that_name_them(tmp_path: Path, synced: list[str]) -> None:
    file = tmp_path / "table" / "day=1" / "rows"
    file.parent.mkdir(parents=True)
    file.write_text("rows")

    sync_all([file], within=tmp_path / "table")

    assert synced == ["rows", "day=1", "table"]


def test_a_file_is_whole_on_the_disk_before_it_has_its_name(
    tmp_path: Path, synced: list[str]
) -> None:
    Place.of(tmp_path / "gate.json").put("{}")

    draft, folder = synced
    assert draft.startswith(".gate.json.")
    assert folder == tmp_path.name


def test_new_folders_are_named_on_the_disk(tmp_path: Path, synced: list[str]) -> None:
    make(tmp_path / "one" / "two")

    assert synced == [tmp_path.name, "one"]
    assert (tmp_path / "one" / "two").is_dir()


def test_what_is_not_there_needs_no_sync(tmp_path: Path, synced: list[str]) -> None:
    sync(tmp_path / "nothing")

    assert synced == []


def test_of_the_state_only_what_is_new_is_synced(tmp_path: Path, synced: list[str]) -> None:
    """A start does not sync a hundred batches again."""
    checkpoint = Place.of(tmp_path)
    for name in ("1.changelog", "2.changelog", "3.changelog", "2.zip", "2.delta", "3.delta"):
        (checkpoint / "state" / "0" / "0" / name).put("rows")
    (checkpoint / "commits" / "1").put("v1")
    synced.clear()
    known = set[str]()

    keep_state(checkpoint, known)
    first = {name for name in synced if "." in name}
    synced.clear()
    keep_state(checkpoint, known)

    assert first == {"3.changelog", "3.delta", "2.zip"}
    assert synced == []
