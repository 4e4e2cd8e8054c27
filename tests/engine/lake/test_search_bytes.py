"""A text is found wherever a file holds it as a word, also compressed; what cannot be read is named."""

import json
import re
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from strandline.engine.lake import forgotten as module
from strandline.engine.lake.forgotten import BLOCK, Hit, search
from strandline.engine.lake.lake import Lake
from strandline.engine.lake.place import Place

OTHERS = ["d-170", "xd-17", "d-17-b"]


def hits(lake: Lake, text: str = "d-17") -> list[tuple[str, str]]:
    return [(hit.file, hit.how) for hit in search(lake, text)]


@pytest.mark.parametrize(
    "values",
    [
        pa.array([*OTHERS, "d-17"]),
        pa.array([b'{"id":"d-170"}', b'{"id":"d-17"}']),
        pa.array([[{"key": "a", "value": b"d-17"}], []]),
        pa.array([{"id": "d-17"}, {"id": "x"}]),
        pa.array([[("id", "d-17")], []], pa.map_(pa.string(), pa.string())),
        pa.array(["d-17", "x", "x"]).dictionary_encode(),
        pa.array([*OTHERS, "d-17"], pa.large_string()),
        pa.array([*OTHERS, "d-17"], pa.string_view()),
        pa.array([b"d-170", b"d-17"], pa.large_binary()),
        pa.array([b"d-170", b"d-17"], pa.binary_view()),
        pa.array([b"d-17", b"d-18"], pa.binary(4)),
        pa.array([["d-17", "x"]], pa.list_(pa.large_string(), 2)),
    ],
    ids=[
        "text",
        "bytes",
        "headers",
        "struct",
        "map",
        "dictionary",
        "large text",
        "view of text",
        "large bytes",
        "view of bytes",
        "fixed bytes",
        "fixed list",
    ],
)
def test_values_are_found_in_compressed_columns(lake: Lake, values: pa.Array) -> None:
    """Parquet's own search by statistics would miss what is in the middle."""
    file = lake.root.local / "bronze" / "x" / "part.parquet"
    file.parent.mkdir(parents=True)
    pq.write_table(pa.table({"column": values}), file, compression="zstd")

    assert hits(lake) == [("bronze/x/part.parquet", "values of column")]
    assert hits(lake, "d-19") == []


@pytest.mark.parametrize("name", ["Jörg", "d-17", 'O"Neill', "a\\b", "🐟 & co", "Ann\nLee"])
@pytest.mark.parametrize("depth", [1, 2, 3])
def test_what_json_has_escaped_is_found(lake: Lake, name: str, depth: int) -> None:
    """In a payload, in a file, and where JSON is a text of another JSON, as in the statistics of a log."""
    text = name
    for _ in range(depth):
        text = json.dumps({"name": text, "n": 1})
    capitals = re.sub(r"\\u([0-9a-f]{4})", lambda found: f"\\u{found[1].upper()}", text)
    units = name.encode("utf-16-be").hex()
    every = "".join(f"\\u{units[at : at + 4]}" for at in range(0, len(units), 4))
    root = lake.root.local
    pq.write_table(pa.table({"payload": [b"{}", text.encode()]}), root / "a.parquet")
    (root / "b.json").write_text(capitals)
    (root / "c.json").write_text(f'"{every}"')
    (root / "d.json").write_text(json.dumps("another"))

    found = [file for file, _ in hits(lake, name)]

    assert found == ["a.parquet", "b.json", "c.json"]


def test_a_column_that_cannot_be_searched_is_no_clean_one() -> None:
    """A type that the search does not know counts as not searched."""
    column = pa.array([{"a": 1}]), pa.array(["d-17"])
    with pytest.raises(OSError, match="cannot be searched"):
        module._within(
            pa.UnionArray.from_dense(pa.array([0], pa.int8()), pa.array([0], pa.int32()), [*column])
        )


def test_another_name_that_contains_it_is_another(lake: Lake) -> None:
    """Neither in values nor in a text."""
    root = lake.root.local
    pq.write_table(pa.table({"id": OTHERS}), root / "part.parquet")
    (root / "log.json").write_text(json.dumps(OTHERS))

    assert hits(lake) == []


@pytest.mark.whole
def test_it_is_found_across_two_blocks_and_behind_an_escaped_line_end(lake: Lake) -> None:
    """A file is read block by block."""
    root = lake.root.local
    (root / "a.json").write_bytes(b" " * (BLOCK - 2) + b"d-17 ")
    (root / "b.json").write_text(json.dumps("one\nd-17"))

    assert hits(lake) == [("a.json", "bytes"), ("b.json", "bytes")]


@pytest.mark.whole
def test_it_is_found_on_a_store_and_near_its_programs(
    bucket: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a column, across blocks, and in a log of this machine."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    lake = Lake(bucket)
    pq.write_table(pa.table({"id": [*OTHERS, "d-17"]}), tmp_path / "part.parquet")
    (bucket / "silver" / "x" / "part.parquet").put_bytes((tmp_path / "part.parquet").read_bytes())
    (bucket / "a.json").put_bytes(b" " * (BLOCK - 2) + b"d-17 ")
    (bucket / "b.json").put(json.dumps(OTHERS))
    lake.log("stream").put("d-17")

    assert hits(lake) == [
        ("a.json", "bytes"),
        ("silver/x/part.parquet", "values of id"),
        ("_logs/stream.log", "bytes"),
    ]


def test_integers_are_compared(lake: Lake) -> None:
    """An identifier may be a number."""
    pq.write_table(pa.table({"id": [17, 4]}), lake.root.local / "part.parquet")

    assert hits(lake, "17") == [("part.parquet", "values of id")]
    assert hits(lake, "7") == []


def test_what_cannot_be_read_is_named_and_is_not_taken_for_clean(lake: Lake) -> None:
    """A torn file and a stream's state."""
    root = lake.root.local
    state = root / "_checkpoints" / "gold.x" / "state" / "0" / "0"
    state.mkdir(parents=True)
    (state / "1.changelog").write_bytes(b"\x00\x01")
    (root / "part.parquet").write_bytes(b"PAR1")

    found = list(search(lake, "d-17"))

    assert [(hit.file, hit.is_certain) for hit in found] == [
        ("_checkpoints/gold.x/state/0/0/1.changelog", False),
        ("part.parquet", False),
    ]
    assert "watermark" in found[0].kind


def test_a_link_leads_to_no_file_twice(lake: Lake, tmp_path: Path) -> None:
    """What it names is searched where it is."""
    (tmp_path / "else").write_text("d-17")
    (lake.root.local / "link").symlink_to(tmp_path / "else")

    assert list[Hit](search(lake, "d-17")) == []
