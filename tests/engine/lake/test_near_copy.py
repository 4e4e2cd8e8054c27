"""What reads paths finds the files of a folder of a lake as they are, wherever the lake is."""

from pathlib import Path

from strandline.engine.lake.place import Place
from strandline.engine.lake.shelves import near_copy


def test_a_copy_follows_what_is_added_changed_and_removed(either: Place, tmp_path: Path) -> None:
    """In a folder there is no copy."""
    at = Place.of(tmp_path / "copy")
    (either / "below" / "a.yml").put("a")
    (either / "b.yml").put("b")
    first = _read(near_copy(either, at))
    (either / "b.yml").put("changed")
    (either / "c.yml").put("c")
    (either / "below" / "a.yml").remove()

    assert first == {"below/a.yml": "a", "b.yml": "b"}
    assert _read(near_copy(either, at)) == {"b.yml": "changed", "c.yml": "c"}
    assert at.exists() is not either.is_local


def test_what_has_not_changed_is_not_fetched_again(bucket: Place, tmp_path: Path) -> None:
    """A reader of the copy sees changes by the times of its files."""
    at = Place.of(tmp_path / "copy")
    (bucket / "a.yml").put("a")
    file = near_copy(bucket, at) / "a.yml"
    before = file.stat()

    near_copy(bucket, at)

    assert file.stat() == before


def _read(folder: Path) -> dict[str, str]:
    files = (file for file in folder.rglob("*") if file.is_file())
    return {str(file.relative_to(folder)): file.read_text() for file in files}
