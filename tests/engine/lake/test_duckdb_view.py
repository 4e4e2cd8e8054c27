"""A view of a table has the table's columns and types, and a join of views is planned by the sizes of their files."""

from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from strandline.engine.lake.duckdb_table import register, scan, session
from strandline.engine.lake.place import Place

JOIN = """
    SELECT count(*) FROM large JOIN small ON large.device = small.device
    WHERE small.until IS NULL AND NOT EXISTS (SELECT 1 FROM large l WHERE l.device = small.device AND l.value > 2000000)
"""


@pytest.fixture
def tables(tmp_path: Path) -> tuple[Place, Place]:
    """Return a large table and a small one that names some of its rows."""
    rows = 200_000
    large = pa.table({"device": [f"d{n % 10_000}" for n in range(rows)], "value": [*range(rows)]})
    small = pa.table(
        {
            "device": [f"d{n}" for n in range(10_000)],
            "until": [None if n % 2 else n for n in range(10_000)],
        }
    )
    for name, table in (("large", large), ("small", small)):
        write_deltalake(str(tmp_path / name), table)
    return Place.of(tmp_path / "large"), Place.of(tmp_path / "small")


@pytest.mark.whole
@pytest.mark.parametrize("view", [scan, register], ids=["its files", "Arrow"])
def test_a_large_table_is_joined_with_a_small_one(
    view: object, tables: tuple[Place, Place]
) -> None:
    """The small side becomes a filter of the large one, which a union with an Arrow table refuses."""
    duck = session()
    for name, place in zip(("large", "small"), tables, strict=True):
        view(duck, name, place)  # type: ignore[operator]  # one of the two

    assert duck.execute(JOIN).fetchall() == [(100_000,)]


@pytest.mark.whole
def test_the_plan_of_a_join_knows_how_large_a_table_is(tables: tuple[Place, Place]) -> None:
    """A union with an empty table would hide it: a join of three tables took 100 s instead of 0.2."""
    duck = session()
    scan(duck, "large", tables[0])

    plan = str(duck.execute("EXPLAIN FROM large").fetchall())
    assert "200,000" in plan or "200000" in plan
    assert "UNION" not in plan


def test_a_column_has_the_type_that_the_table_declares_and_is_null_in_older_files(
    tmp_path: Path,
) -> None:
    """Also in a table without a row."""
    path = tmp_path / "t"
    write_deltalake(str(path), pa.table({"a": [1]}))
    write_deltalake(str(path), pa.table({"a": [2], "b": ["x"]}), mode="append", schema_mode="merge")
    empty = tmp_path / "empty"
    write_deltalake(str(empty), pa.table({"at": pa.array([], pa.timestamp("us", tz="UTC"))}))
    duck = session()
    scan(duck, "t", Place.of(path))
    scan(duck, "empty", Place.of(empty))

    assert duck.execute("FROM t ORDER BY a").fetchall() == [(1, None), (2, "x")]
    assert [str(kind) for kind in duck.sql("FROM empty").types] == ["TIMESTAMP WITH TIME ZONE"]
    assert duck.execute("FROM empty").fetchall() == []
