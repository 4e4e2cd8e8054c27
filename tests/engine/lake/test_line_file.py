"""Lines of a file are whole, also after one that was cut off, and a file that cannot be written is tried again."""

import pytest

from strandline.core.errors import TransientError
from strandline.engine.lake.lake import Lake
from strandline.engine.lake.plain_files import append_line, takes_lines


def test_a_line_begins_anew_after_one_that_was_cut_off(lake: Lake) -> None:
    """A full disk takes a part of a line; the next one must not be its end."""
    file = lake.root / "below" / "lines"

    append_line(file, b"one")
    with file.local.open("ab") as stream:
        stream.write(b"tw")
    append_line(file, b"three")
    append_line(file, b"four")

    assert file.bytes() == b"one\ntw\nthree\nfour\n"


def test_a_folder_takes_no_lines(lake: Lake) -> None:
    assert not takes_lines(lake.root)
    assert takes_lines(lake.root / "file")

    with pytest.raises(TransientError, match="cannot be written"):
        append_line(lake.root, b"one")
