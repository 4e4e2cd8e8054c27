"""A pack holds commits word for word, and a process sees one that was written again."""

from pathlib import Path

import pytest

from strandline.engine.lake.log.commit_log import PACKED, is_old, old_commit, pack_file, write_pack
from strandline.engine.lake.place import Place


def test_a_commit_comes_back_word_for_word(tmp_path: Path) -> None:
    path = Place.of(tmp_path / "table")
    texts = {n: f'{{"add":{{"path":"ü \\n {n}\u2028"}}}}\n' for n in range(PACKED, 2 * PACKED)}
    write_pack(path, texts)

    assert {version: old_commit(path, version) for version in texts} == texts
    assert not is_old(path, 0)
    assert is_old(path, PACKED)
    assert old_commit(path, 2 * PACKED) is None


@pytest.mark.whole
def test_a_pack_that_was_written_again_is_read_again(tmp_path: Path) -> None:
    path = Place.of(tmp_path / "table")
    write_pack(path, {0: "one"})
    assert old_commit(path, 0) == "one"
    pack_file(path, 0).remove()
    assert old_commit(path, 0) is None
    write_pack(path, {0: "two"})
    assert old_commit(path, 0) == "two"


def test_packs_are_found_without_a_listing(tmp_path: Path) -> None:
    path = Place.of(tmp_path / "table")
    assert pack_file(path, 1_234_567).below(path) == "_old_commits/001234/001234567.jsonl.gz"
