"""Versions of a static table, and the Delta tables elsewhere that one is read from, without Spark."""

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from strandline.core.errors import DefinitionError
from strandline.core.static import FROM, Static
from strandline.engine.lake import static_versions
from strandline.engine.lake.lake import Lake
from strandline.engine.lake.log.commit_log import commit_file
from strandline.engine.lake.log.ledger import latest_version
from strandline.engine.lake.place import Place
from tests.support import by_hand

PRODUCTS = Static(
    name="products",
    columns="product string, shop string, weight double",
    key=("product",),
    rows=(("a", "x", 1.0), ("b", "x", float("nan"))),
)


def versions_of(static: Static, lake: Lake, properties: dict[str, str]) -> None:
    """Keep a static table's content as its first version."""
    path, source = lake.table(static), static_versions.read(static)
    assert source is not None
    by_hand.create(path, static_versions.schema_of(static), properties)
    rows = static_versions.kept(
        static, static_versions.changes(static, lake, source.content), None, 1
    )
    by_hand.commit(path, [rows], "{}")


@pytest.mark.parametrize("key", [("product", "shop"), ("shop",)])
def test_another_key_is_refused_also_where_all_its_columns_are_known(
    lake: Lake, key: tuple[str, ...]
) -> None:
    """The intervals of rows that were known by another key would end where another row begins."""
    before = PRODUCTS
    after = replace(before, key=key)
    versions_of(before, lake, static_versions.properties_of(before))
    static_versions.refuse_other_shape(before, lake)
    with pytest.raises(DefinitionError, match=f"has the key {', '.join(key)}, and its versions"):
        static_versions.refuse_other_shape(after, lake)


def test_a_value_column_that_was_of_the_key_is_refused_and_an_order_is_none(lake: Lake) -> None:
    """A table of before its key was kept passes."""
    both = replace(PRODUCTS, key=("product", "shop"))
    versions_of(both, lake, static_versions.properties_of(both))
    static_versions.refuse_other_shape(replace(both, key=("shop", "product")), lake)
    with pytest.raises(DefinitionError, match="key product, and its versions have product, shop"):
        static_versions.refuse_other_shape(PRODUCTS, lake)
    old = replace(both, name="old")
    versions_of(old, lake, {})
    static_versions.refuse_other_shape(replace(old, key=("product",)), lake)


def test_a_value_that_is_no_number_is_no_change(lake: Lake) -> None:
    """NaN is not equal to itself, and a row with one would be a version at each look."""
    versions_of(PRODUCTS, lake, {})
    again = static_versions.read(PRODUCTS)
    assert again is not None

    assert static_versions.changes(PRODUCTS, lake, again.content) == []


def test_versions_of_before_and_of_now_are_read_together(lake: Lake) -> None:
    """Their times are INT96 and INT64: no stream that joins the table could read it after its first version by new code."""
    static = Static(
        name="offers",
        columns="product string, ends timestamp",
        key=("product",),
        rows=(("a", datetime(9999, 1, 1, tzinfo=UTC)),),
    )
    later = replace(static, rows=(("a", datetime(2030, 1, 1, tzinfo=UTC)),))
    path = lake.table(static)
    versions_of(static, lake, {})
    as_it_was = static_versions.intervals(static, lake, latest_version(path)).to_pylist()
    by_hand.as_before(path)
    assert static_versions.intervals(static, lake, latest_version(path)).to_pylist() == as_it_was
    source = static_versions.read(later)
    assert source is not None
    begins = datetime(2026, 11, 29, tzinfo=UTC)
    changed = static_versions.changes(later, lake, source.content)
    assert len(changed) == 1
    by_hand.commit(path, [static_versions.kept(later, changed, begins, 2)], "{}")
    assert set(by_hand.written_as(path)) == {"INT96", "INT64"}

    held = static_versions.intervals(later, lake, latest_version(path)).to_pylist()

    assert [
        (each[FROM], each["ends"].year) for each in sorted(held, key=lambda each: each[FROM])
    ] == [
        (static_versions.FIRST, 9999),
        (begins, 2030),
    ]
    assert static_versions.changes(later, lake, source.content) == []
    assert static_versions.rows_of(later, lake, latest_version(path)) == 1
    elsewhere = replace(static, name="other", rows=None, delta=str(path))
    with pytest.raises(DefinitionError, match="has 1 rows too many"):
        static_versions.read(elsewhere)  # read as a whole: the product has two rows there


def source(folder: Path, **more: Any) -> Static:  # noqa: ANN401  # what delta-rs takes
    """Return the static table over a Delta table elsewhere that is made now."""
    rows = pa.table({"product": ["a"], "shop": ["x"], "weight": [1.0]})
    write_deltalake(str(folder), more.pop("rows", rows), **more)
    return replace(PRODUCTS, rows=None, delta=str(folder))


def empty(folder: Path) -> Static:
    """Return one whose rows were all deleted."""
    static = source(folder)
    write_deltalake(
        str(folder),
        pa.table({"product": ["a"], "shop": ["x"], "weight": [1.0]})[:0],
        mode="overwrite",
    )
    return static


def torn(folder: Path) -> Static:
    """Return one whose newest commit is half."""
    static, path = source(folder), Place.of(folder)
    commit_file(path, latest_version(path)).put('{"add":{"path":"a')
    return static


def mapped(folder: Path) -> Static:
    """Return one whose columns have other names in the files."""
    return source(folder, configuration={"delta.columnMapping.mode": "name"})


def in_folders(folder: Path) -> Static:
    """Return one whose rows lie in folders by a column."""
    return source(folder, partition_by=["shop"])


@pytest.mark.parametrize(
    ("made", "message"),
    [
        (empty, "which has no rows"),
        (torn, "cannot be read from .* is damaged"),
        (mapped, "cannot be read without Spark: it has columns that have other names"),
        (in_folders, "is partitioned by shop"),
    ],
)
def test_a_delta_table_elsewhere_that_cannot_be_a_content_is_refused(
    tmp_path: Path, made: Callable[[Path], Static], message: str
) -> None:
    """As the source of this table, so that its last version goes on; no hint is about a table of the lake."""
    with pytest.raises(DefinitionError, match=message) as refused:
        static_versions.read(made(tmp_path / "source"))

    assert "strandline mend" not in str(refused.value)
    assert "static.products" in refused.value.message
