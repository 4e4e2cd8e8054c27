"""The names of a folder's files say which of them hold history."""

from pathlib import Path

import pytest

from strandline.core.errors import DefinitionError
from strandline.engine.lake.place import Place
from strandline.engine.lake.plain_files import Format, files_of, format_of


def test_a_folder_has_the_files_that_hold_history_by_their_names(tmp_path: Path) -> None:
    """In letters of either size, also below it. What a program marks as its own is passed over, the rest is named."""
    good = {"a.jsonl", "b.parquet", "below/C.JSONL.GZ", "below/d_.csv"}
    own = {"_SUCCESS", ".c.json", "_temporary/0/a.json", "below/.cache/b.csv"}
    others = {"d.parquet.gz", "e.txt", "below/b.jsonl.zst", "below/README"}
    for name in good | own | others:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    folder, left_out = Place.of(tmp_path), []

    found = {each.below(folder) for each in files_of(folder, left_out.append)}

    assert (found, {each.below(folder) for each in left_out}) == (good, others)
    assert format_of(folder / "C.JSONL.GZ") is Format.JSON
    with pytest.raises(DefinitionError, match="neither a file nor a folder"):
        [*files_of(folder / "nothing")]


def test_the_files_of_a_delta_table_are_no_history(tmp_path: Path) -> None:
    """Some of them have rows that the table removed, and its log is JSON."""
    for name in ("a.parquet", "below/_delta_log/0.json"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()

    with pytest.raises(DefinitionError, match="has a Delta table"):
        [*files_of(Place.of(tmp_path))]
