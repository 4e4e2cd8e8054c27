"""A file that was put together holds each row of the others, value for value, or it is not used."""

from datetime import date
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from strandline.core.errors import DataError
from strandline.engine.lake.commit import compact as module
from strandline.engine.lake.commit.compact import GROUP, merged_file
from strandline.engine.lake.place import Place

TIME = pa.timestamp("us", "UTC")
YEARS = [-62_135_596_800_000_000, 0, 1_780_000_000_123_456, 253_402_300_799_999_999, 2**62]
"""Microseconds of the years 1, 1970, 2026, 9999 and of one that Python has no date for."""


def spark_file(folder: Path, name: str, table: pa.Table, *, is_old: bool = False) -> Place:
    """Write a file as Spark does, or as it did before."""
    pq.write_table(table, folder / name, use_deprecated_int96_timestamps=is_old, store_schema=False)
    return Place.of(folder / name)


def rows(*keys: str, **others: object) -> pa.Table:
    return pa.table(
        {
            "key": pa.array(keys),
            "at": pa.array(YEARS[: len(keys)], TIME),
            "price": pa.array([Decimal("1.10")] * len(keys), pa.decimal128(38, 18)),
            "day": pa.array([date(2026, 11, 25)] * len(keys)),
            "tags": pa.array([[("a", 1)]] * len(keys), pa.map_(pa.string(), pa.int64())),
            "part": pa.array([{"x": None}] * len(keys), pa.struct([("x", pa.int16())])),
            "since": pa.array(
                [[{"a.b": at, "n": {"to": [("x", at)]}}] for at in YEARS[: len(keys)]],
                pa.list_(
                    pa.struct(
                        [("a.b", TIME), ("n", pa.struct([("to", pa.map_(pa.string(), TIME))]))]
                    )
                ),
            ),
            "raw": pa.array([b"\x00\xff"] * len(keys)),
        }
        | {name: pa.array(values) for name, values in others.items()}
    )


def read(place: Place) -> pa.Table:
    return pq.ParquetFile(place.local, coerce_int96_timestamp_unit="us").read()


@pytest.mark.parametrize("old", [(), (1,), (2,), (1, 2)])
def test_each_value_is_as_it_was(tmp_path: Path, old: tuple[int, ...]) -> None:
    """Whether its files are of today, or of before, when times were INT96."""
    keys = "c", "a", "e", "d", "b"
    one = spark_file(tmp_path, "1.parquet", rows(*keys), is_old=1 in old)
    other = spark_file(tmp_path, "2.parquet", rows("a"), is_old=2 in old)

    found = merged_file([one, other], Place.of(tmp_path), sorted_by=())

    assert read(found).equals(pa.concat_tables([rows(*keys), rows("a")]))
    schema = pq.ParquetFile(found.local).schema
    kinds = {schema.column(n).physical_type for n in range(len(schema.names))}
    assert "INT96" not in kinds, "pandas, Iceberg and DuckLake read these"


@pytest.mark.whole
def test_rows_of_a_key_lie_together(tmp_path: Path) -> None:
    one = spark_file(tmp_path, "1.parquet", rows("c", "a"))
    other = spark_file(tmp_path, "2.parquet", rows("b", "a"))
    found = merged_file([one, other], Place.of(tmp_path), sorted_by=("key", "at", "gone"))
    assert read(found)["key"].to_pylist() == ["a", "a", "b", "c"]


def test_a_column_that_older_files_lack_is_null_in_their_rows(tmp_path: Path) -> None:
    old = spark_file(tmp_path, "1.parquet", rows("a"))
    new = spark_file(tmp_path, "2.parquet", rows("b", firmware=["1.0"]))
    for order in (), ("key",):
        found = read(merged_file([old, new], Place.of(tmp_path), sorted_by=order))
        assert found["firmware"].to_pylist() == [None, "1.0"]


def test_rows_are_in_groups_that_a_reader_can_skip(tmp_path: Path) -> None:
    many = pa.table({"key": pa.array(range(GROUP * 2 + 1))})
    files = [spark_file(tmp_path, f"{n}.parquet", many.slice(n, 50_000)) for n in range(3)]
    for order in (), ("key",):
        found = pq.ParquetFile(merged_file(files, Place.of(tmp_path), sorted_by=order).local)
        assert found.metadata.num_rows == 150_000
        assert found.metadata.num_row_groups == 3


@pytest.mark.parametrize("sorted_by", [(), ("key",)])
def test_one_whose_rows_differ_is_refused_and_removed(
    tmp_path: Path, sorted_by: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    files = [spark_file(tmp_path, f"{n}.parquet", rows("a", "b")) for n in range(2)]
    monkeypatch.setattr(module, "shaped", lambda table, _: table.slice(1))

    with pytest.raises(DataError, match="the rows of the result differ") as refusal:
        merged_file(files, Place.of(tmp_path), sorted_by)

    assert refusal.value.fields == {"rows_before": 4, "rows_after": 2}
    assert sorted(each.name for each in tmp_path.iterdir()) == ["0.parquet", "1.parquet"]


def test_a_value_that_changed_is_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = [spark_file(tmp_path, f"{n}.parquet", rows("a", "b")) for n in range(2)]
    moved = pa.array(YEARS[1:3], TIME)
    monkeypatch.setattr(
        module, "shaped", lambda table, schema: table.set_column(1, schema.field("at"), moved)
    )
    with pytest.raises(DataError, match="differ"):
        merged_file(files, Place.of(tmp_path), sorted_by=("key",))


def test_a_file_that_is_torn_ends_it_and_leaves_nothing(tmp_path: Path) -> None:
    good = spark_file(tmp_path, "1.parquet", rows("a"))
    torn = tmp_path / "2.parquet"
    torn.write_bytes(good.local.read_bytes()[:-10])
    with pytest.raises(DataError, match="one cannot be read"):
        merged_file([good, Place.of(torn)], Place.of(tmp_path), sorted_by=())
    assert len([*tmp_path.iterdir()]) == 2
