"""A row is found by the files' statistics, and no file is opened that cannot hold it."""

from datetime import timedelta
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from strandline.core.errors import DefinitionError
from strandline.engine.lake.find_rows import Where, look, look_at, look_in, typed
from strandline.engine.lake.open_table import kinds
from strandline.engine.lake.place import Place
from tests.support.rows import NOON

SCHEMA = pa.schema(
    [
        ("id", pa.string()),
        ("n", pa.int64()),
        ("at", pa.timestamp("us", "UTC")),
        ("raw", pa.binary()),
    ]
)


@pytest.fixture
def table(tmp_path: Path) -> Place:
    """Return a table of three files."""
    for number in range(3):
        rows = [
            {
                "id": f"{number}'{each}",
                "n": 10 * number + each,
                "at": NOON + timedelta(hours=number, microseconds=each),
                "raw": f'{{"id": "{number}-{each}"}}'.encode() + b"\xff",
            }
            for each in range(2)
        ]
        write_deltalake(tmp_path / "t", pa.Table.from_pylist(rows, schema=SCHEMA), mode="append")
    return Place.of(tmp_path / "t")


@pytest.mark.whole
@pytest.mark.parametrize(
    ("where", "numbers"),
    [
        (Where(equal={"n": 11}), [11]),
        (Where(equal={"id": "1'0"}), [10]),
        (Where(equal={"id": None}), []),
        (Where(equal={"at": NOON}), [0]),
        (Where(within={"at": (NOON + timedelta(microseconds=1), None)}), [1, 10, 11, 20, 21]),
        (Where(within={"at": (None, NOON)}), [0]),
        (Where(names={"raw": "2-1"}), [21]),
        (Where(named=(("id",), b"\x00 it is 2'1 \xff")), [21]),
        (Where(), [0, 1, 10, 11, 20, 21]),
    ],
)
def test_the_rows_that_were_meant_are_found(table: Place, where: Where, numbers: list[int]) -> None:
    """Texts with quotes, bytes that are no text, times to the microsecond."""
    assert sorted(each.row["n"] for each in look(table, where)) == numbers


def test_a_row_comes_with_its_file_and_its_own_zone(table: Place) -> None:
    """Evidence names the file, and its times need a zone."""
    (found,) = look(table, Where(equal={"n": 20}))

    assert found.file.parent == table
    assert found.row["at"] == NOON + timedelta(hours=2)
    assert found.row["at"].tzinfo is not None
    assert found.row["raw"] == b'{"id": "2-0"}\xff'


def test_files_that_cannot_hold_a_row_are_not_opened(table: Place) -> None:
    """The other files here hold rubbish."""
    keep = look(table, Where(equal={"n": 0}))[0].file
    for file in table.local.glob("*.parquet"):
        if file != keep.local:
            file.write_bytes(b"rubbish")

    assert len(look(table, Where(equal={"n": 0}))) == 1
    assert len(look(table, Where(within={"at": (None, NOON)}))) == 1


def test_some_files_and_an_earlier_version_can_be_asked_for(table: Place) -> None:
    """A file that was deleted by hand holds no row."""
    (found,) = look(table, Where(equal={"n": 0}))

    assert look(table, Where(equal={"n": 10}), version=0) == []
    assert len(look(table, Where(), among=[str(found.file)])) == 2
    found.file.local.unlink()
    assert look(table, Where(equal={"n": 0})) == []
    assert look(table.parent / "none", Where()) == []
    assert kinds(table.parent / "none") == {}


def test_a_column_that_was_added_since_is_null_in_rows_of_older_files(table: Place) -> None:
    """Also where all files that can hold the row are older, so that none has the column."""
    more = pa.table({"n": pa.array([99], pa.int64()), "added": ["x"]})
    write_deltalake(str(table), more, mode="append", schema_mode="merge")
    old = look(table, Where(equal={"n": 0}), ("n", "added"))
    (new,) = look(table, Where(equal={"n": 99}), ("n", "added"))

    assert [each.row for each in old] == [{"n": 0, "added": None}]
    assert new.row == {"n": 99, "added": "x"}
    assert look(table, Where(equal={"n": 0, "added": None}), ("n",)) != []
    assert look(table, Where(equal={"n": 0, "added": "x"}), ("n",)) == []
    files: dict[str, dict[str, str]] = {str(each.file): {} for each in old}
    assert look_in(files, Where(equal={"added": "x"}), ("n", "added")) == []


def test_rows_at_many_places_are_found_in_one_look(table: Place) -> None:
    """By several columns together, and not by the values of each."""
    rows = look(table, Where(places=(("n", "raw"), [(0, b"none")])), ("n",))
    found = look(table, Where(places=(("n",), [(0,), (10,), (21,), (77,)])), ("n",))

    assert rows == []
    assert sorted(each.row["n"] for each in found) == [0, 10, 21]


@pytest.mark.parametrize(
    ("text", "kind", "value"),
    [
        ("2026-11-20T12:00", "timestamp", NOON),
        ("2026-11-20T13:00+01:00", "timestamp", NOON),
        ("7", "long", 7),
        ("1.50", "decimal(9,2)", Decimal("1.50")),
        ("a'b", "string", "a'b"),
        ("", "string", None),
    ],
)
def test_a_text_is_parsed_as_a_value_of_its_column(text: str, kind: str, value: object) -> None:
    """Times without a zone are in UTC."""
    assert typed("x", text, kind) == value


@pytest.mark.parametrize(
    ("text", "kind"), [("noon", "timestamp"), ("x", "long"), ("x", "decimal(9,2)")]
)
def test_what_is_no_value_of_a_column_is_refused(text: str, kind: str) -> None:
    """The hint shows how to write a time."""
    with pytest.raises(DefinitionError, match="is no value of x"):
        typed("x", text, kind)


def test_the_last_microseconds_of_a_file_are_searched(table: Place) -> None:
    """The statistics hold the largest time without its microseconds."""
    log = table / "_delta_log" / f"{0:020d}.json"

    assert "12:00:00.000001Z" not in log.local.read_text()
    assert len(look(table, Where(equal={"at": NOON + timedelta(microseconds=1)}))) == 1


def test_of_places_far_apart_only_their_own_files_are_opened(table: Place) -> None:
    """Those between them hold rubbish here; of 50,000 files that is all but a few."""
    wanted = {
        (each.row["n"], each.row["id"]) for each in look(table, Where()) if each.row["n"] in {0, 21}
    }
    keep = {look(table, Where(equal={"n": number}))[0].file.local for number in (0, 21)}
    spoilt = [file for file in table.local.glob("*.parquet") if file not in keep]
    for file in spoilt:
        file.write_bytes(b"rubbish")

    found = look_at(table, ("n", "id"), wanted, ("n", "id", "raw"))

    assert spoilt
    assert {(each.row["n"], each.row["id"]) for each in found} == wanted
    assert look_at(table.parent / "none", ("n",), {(0,)}, ("n",)) == []
