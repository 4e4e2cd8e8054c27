"""A file of history gives each record its bytes and its arrival, keeps types exactly, and refuses what JSON cannot say."""

import gzip
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from strandline.core.errors import DataError, DefinitionError
from strandline.engine.lake.place import Place
from strandline.engine.lake.plain_files import HistoryFile, moment

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
        (pa.array([b"x"]).dictionary_encode(), "bad of .* is binary"),
        (pa.array([{"x": b"x"}]), "bad.x of .* is binary"),
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


@pytest.mark.whole
def test_a_flipped_byte_is_refused_with_the_row_behind_which_it_is(tmp_path: Path) -> None:
    """The decompressor has errors of its own."""
    text = bytearray(gzip.compress(b"".join(b'{"at": %d}\n' % n for n in range(99_999))))
    text[len(text) // 2 : len(text) // 2 + 9] = b"\xff" * 9
    path = tmp_path / "a.jsonl.gz"
    path.write_bytes(text)

    with pytest.raises(
        DataError, match=r"cannot be read to its end: behind [\d,]+ records, .*"
    ) as error:
        [*_file(path).records()]
    assert 1 < error.value.fields["row"] < 99_999  # type: ignore[operator]  # a number


@pytest.mark.parametrize(
    "column",
    [
        pa.array([0, 0, 253_402_300_800_000], pa.timestamp("ms", "UTC")),
        pa.array([0, 0, 1 << 30], pa.date32()),
        pa.array([b"a", b"b", b"\xff\xfe"]).view(pa.string()),
        pa.array([b"a", b"b", b"\xff\xfe"]).view(pa.string()).dictionary_encode(),
    ],
    ids=["moment", "date", "text", "dictionary"],
)
def test_a_value_that_is_none_is_refused_with_its_row(tmp_path: Path, column: Any) -> None:  # noqa: ANN401  # Arrow has no types
    """Arrow and Parquet keep numbers and bytes that are no moment, no day and no text."""
    path = _parquet(tmp_path, at=pa.array([AT] * 3), bad=column)

    with pytest.raises(DataError, match="behind 2 records") as error:
        [*_file(path).records()]
    assert error.value.fields["row"] == 3


@pytest.mark.parametrize("inside", [False, True])
def test_two_columns_of_one_name_are_refused(tmp_path: Path, *, inside: bool) -> None:
    """The second one would take the place of the first."""
    twins = [pa.array([1]), pa.array([2])]
    path = tmp_path / "a.parquet"
    if inside:
        twins, names = [pa.StructArray.from_arrays(twins, ["x", "x"])], ["outer"]
    else:
        names = ["x", "x"]
    pq.write_table(pa.table([pa.array([AT]), *twins], names=["at", *names]), path)

    with pytest.raises(DataError, match=r"two columns (outer\.)?x,"):
        [*_file(path).records()]


def test_a_line_that_is_no_line_of_cells_is_a_record_as_received(tmp_path: Path) -> None:
    """A return in a cell; and a long cell is a cell."""
    long = b"x" * 200_000 + b",2026-10-01 08:00:00.123"
    path = tmp_path / "a.csv"
    path.write_bytes(b"id,at\na\rb,2026-10-01 08:00:00\n" + long)

    found = [*HistoryFile(place=Place.of(path), column="at", header=True).records()]

    assert [(each.payload, each.arrived) for each in found] == [
        (b"a\rb,2026-10-01 08:00:00", None),
        (long, MILLIS),
    ]


def test_the_mark_of_the_byte_order_is_no_part_of_a_record(tmp_path: Path) -> None:
    """Windows writes it before the first name, and before the first record."""
    cells, lines = tmp_path / "a.csv", tmp_path / "a.jsonl"
    cells.write_bytes(b"\xef\xbb\xbfat,id\n2026-10-01 08:00:00.123,1\n")
    lines.write_bytes(b'\xef\xbb\xbf{"at":"2026-10-01T08:00:00.123Z"}\n')

    (first,) = HistoryFile(place=Place.of(cells), column="at", header=True).records()
    (second,) = _file(lines).records()

    assert (first.arrived, second.arrived) == (MILLIS, MILLIS)
    assert second.payload == b'{"at":"2026-10-01T08:00:00.123Z"}'


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


@pytest.mark.parametrize("value", ["2026-10-01", "12:00:00", "1790841600", 1790841600, None, "x-:"])
def test_a_value_that_is_no_moment_is_none(value: object) -> None:
    """A date alone could be any time of its day."""
    assert moment(value) is None


def test_a_moment_at_which_nothing_can_have_arrived_is_no_arrival(tmp_path: Path) -> None:
    """Before 1970, after the look at the file, and beyond what a calendar has in UTC; the record itself stays as it is."""
    wild = (
        "0001-01-01T00:00:00+05:00",
        "1969-12-31T23:59:59Z",
        "9999-12-31T23:59:59-05:00",
        "2099-01-01T00:00:00Z",
    )
    texts = ("1970-01-01T00:00:00Z", *wild, AT.isoformat())
    path = tmp_path / "a.jsonl"
    path.write_text("".join(f'{{"at":"{text}"}}\n' for text in texts))

    found = [*HistoryFile(place=Place.of(path), column="at", until=MILLIS).records()]

    assert [each.arrived for each in found] == [0, *[None] * len(wild), MILLIS]
    assert len({each.payload for each in found}) == len(texts)
    assert [each.arrived for each in _file(path).records()].count(None) == 3


def _file(path: Path) -> HistoryFile:
    return HistoryFile(place=Place.of(path), column="at")


def _parquet(folder: Path, **columns: Any) -> Path:  # noqa: ANN401  # Arrow has no types
    path = folder / "a.parquet"
    pq.write_table(pa.table(columns), path)
    return path
