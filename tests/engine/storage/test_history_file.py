"""A file of history gives each record its bytes and its arrival, keeps types exactly, and refuses what JSON cannot say."""

import gzip
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from jobs.core.errors import DataError, DefinitionError
from jobs.engine.storage.history_file import HistoryFile, files_of, moment
from jobs.engine.storage.place import Place

AT = datetime(2026, 10, 1, 8, 0, 0, 123_456, tzinfo=UTC)
MILLIS = 1_790_841_600_123


def test_a_line_is_a_payload_as_it_is_whether_or_not_it_can_be_read(tmp_path: Path) -> None:
    """Also an empty one, one that ends as on Windows, and a last one without an end."""
    lines = (b'{"at":"2026-10-01T08:00:00.123456Z"}', b"", b'{"at":"soon"}', b"\xff\xfe", b"[1]")
    path = tmp_path / "a.jsonl.gz"
    path.write_bytes(gzip.compress(lines[0] + b"\r\n" + b"\n".join(lines[1:])))

    found = [*_file(path).records()]

    assert [each.payload for each in found] == list(lines)
    assert [each.arrived for each in found] == [MILLIS, None, None, None, None]


def test_a_row_of_parquet_is_one_object_with_its_types_kept(tmp_path: Path) -> None:
    """Digits of a decimal, the zone of a moment, NULL, lists and structs."""
    path = _parquet(
        tmp_path,
        at=pa.array([AT], pa.timestamp("us", "Europe/Berlin")),
        price=pa.array([Decimal("1.10")], pa.decimal128(14, 2)),
        none=pa.array([None], pa.string()),
        inner=pa.array([{"list": [1, None], "price": Decimal("0.50")}]),
    )

    (found,) = _file(path).records()

    assert found.payload == (
        b'{"at":"2026-10-01T10:00:00.123456+02:00","price":1.10,"none":null,"inner":{"list":[1,null],"price":0.50}}'
    )
    assert found.arrived == MILLIS


@pytest.mark.parametrize(
    ("column", "named"),
    [
        (pa.array([b"x"]), "bad of .* is binary"),
        (pa.array([[("a", 1)]], pa.map_(pa.string(), pa.int64())), "bad of .* is map"),
        (pa.array([{"x": [float("nan")]}]), "a number that is none"),
        (pa.array([float("inf")]), "a number that is none"),
    ],
)
def test_what_json_cannot_say_is_refused(tmp_path: Path, column: Any, named: str) -> None:  # noqa: ANN401  # Arrow has no types
    """Nothing is turned into another value on the way."""
    path = _parquet(tmp_path, at=pa.array([AT]), bad=column)

    with pytest.raises(DataError, match=named):
        [*_file(path).records()]


def test_a_torn_file_is_refused_with_its_name(tmp_path: Path) -> None:
    """Parquet without its end, and a compressed text that stops."""
    whole = _parquet(tmp_path, at=pa.array([AT] * 1000))
    torn = tmp_path / "torn.parquet"
    torn.write_bytes(whole.read_bytes()[:-20])
    text = tmp_path / "torn.jsonl.gz"
    text.write_bytes(gzip.compress(b'{"at": 1}\n' * 1000)[:-10])

    for path in (torn, text):
        with pytest.raises(DataError, match=f"{path.name} cannot be read to its end"):
            [*_file(path).records()]


def test_the_arrival_of_a_line_of_cells_is_named_or_numbered(tmp_path: Path) -> None:
    """A header is no record; without it a cell has a number, from 1."""
    path = tmp_path / "a.csv"
    path.write_bytes(b'id,at\n"a,b",2026-10-01 08:00:00.123\n')

    (found,) = HistoryFile(place=Place.of(path), column="at", header=True).records()
    assert (found.payload, found.arrived) == (b'"a,b",2026-10-01 08:00:00.123', MILLIS)
    assert [each.arrived for each in HistoryFile(place=Place.of(path), column="2").records()] == [
        None,
        MILLIS,
    ]
    with pytest.raises(DefinitionError, match="has no cell at"):
        [*_file(path).records()]


def test_a_folder_has_the_files_that_hold_history_by_their_names(tmp_path: Path) -> None:
    """Files of other programs are no history; a folder without any is a mistake."""
    for name in ("a.jsonl", "b.parquet", "_SUCCESS", ".c.json", "d.parquet.gz", "e.txt"):
        (tmp_path / name).touch()

    assert {each.name for each in files_of(Place.of(tmp_path))} == {"a.jsonl", "b.parquet"}
    with pytest.raises(DefinitionError, match="neither a file nor a folder"):
        [*files_of(Place.of(tmp_path / "nothing"))]


@pytest.mark.parametrize("value", ["2026-10-01", "12:00:00", "1790841600", 1790841600, None, "x-:"])
def test_a_value_that_is_no_moment_is_none(value: object) -> None:
    """A date alone could be any time of its day."""
    assert moment(value) is None


def _file(path: Path) -> HistoryFile:
    return HistoryFile(place=Place.of(path), column="at")


def _parquet(folder: Path, **columns: Any) -> Path:  # noqa: ANN401  # Arrow has no types
    path = folder / "a.parquet"
    pq.write_table(pa.table(columns), path)
    return path
