"""A log has every line, or the last ones, wherever the lake is."""

import pytest

from strandline.engine.lake import plain_files
from strandline.engine.lake.place import Place
from strandline.engine.lake.plain_files import add_line


@pytest.mark.whole
def test_lines_are_appended(either: Place) -> None:
    log = either.make() / "log.jsonl"
    add_line(log, "one")
    add_line(log, "two")

    assert log.text() == "one\ntwo\n"


def test_on_a_store_one_earlier_part_is_kept(
    bucket: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is copied with every line, so it must not grow."""
    monkeypatch.setattr(plain_files, "MOST", 6)
    for line in ("one", "two", "three"):
        add_line(bucket / "log.jsonl", line)

    assert (bucket / "log.jsonl").text() == "three\n"
    assert (bucket / "log.jsonl.1").text() == "one\ntwo\n"
