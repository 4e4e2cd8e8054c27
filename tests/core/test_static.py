"""A static table's declaration and its content are refused with what to write instead, before Spark starts."""

from dataclasses import replace
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import parquet

from fleet.silver import user_actions
from strandline.core.errors import DefinitionError
from strandline.core.static import Static
from strandline.engine.lake import static_versions

PLAIN: dict[str, Any] = {
    "name": "products",
    "columns": "product string, price decimal(10,2), since timestamp",
    "key": ("product",),
}
MISTAKES: tuple[tuple[dict[str, Any], str], ...] = (
    ({"name": "The products"}, "has a name that is no name of a folder"),
    ({}, "declares nothing to read"),
    ({"file": "a.csv", "delta": "b"}, "declares file and delta to read"),
    ({"columns": "product string, price money"}, "cannot be read: 'price money'"),
    ({"columns": "product"}, "cannot be read: 'product'"),
    ({"columns": "product string, product int"}, "has product twice"),
    ({"columns": "product string"}, "has no column beside its key"),
    ({"key": "product"}, "has the key 'product'"),
    ({"key": ()}, "has the key ()"),
    ({"key": ("article",)}, "has no column article"),
    ({"default": {"colour": "red"}}, "has no column colour"),
    ({"rows": (("a", Decimal(1)),)}, "has rows that are no tuples of 3 values"),
    ({"rows": ["a"]}, "has rows that are no tuples of 3 values"),
    ({"file": "a.csv", "holds_from": datetime(2026, 1, 1)}, "which names no zone"),  # noqa: DTZ001  # the mistake
    ({"holds_from": "2026-01-01"}, "holds from 2026-01-01, which is no moment"),
    ({"holds_from": date(2026, 1, 1)}, "holds from 2026-01-01, which is no moment"),
    ({"file": Path("a.csv")}, "which is no text"),
    ({"delta": Path("folder")}, "which is no text"),
    ({"file": "ftp://shop/a.csv"}, "reads ftp://shop/a.csv, which is neither a path nor"),
    ({"columns": "product string, Product int"}, "has product twice"),
    ({"columns": "product string, price decimal(40,2)"}, "'price decimal(40,2)'"),
    ({"columns": "product string, price decimal(4,5)"}, "'price decimal(4,5)'"),
    ({"columns": "product double, price int"}, "has product as double in its key"),
    ({"default": {"product": "none"}}, "has a default for product of its key"),
    ({"default": {"price": "free"}}, "the default 'free' for price, which is decimal(10,2)"),
    ({"default": {"price": True}}, "the default True for price"),
    ({"default": {"since": date(2026, 1, 1)}}, "for since, which is timestamp"),
    ({"rows": (("a", Decimal(1), [2]),)}, "has rows with a value that is no single one"),
)


@pytest.mark.parametrize(("change", "message"), MISTAKES, ids=[each[1] for each in MISTAKES])
def test_a_mistake_in_a_declaration_has_a_sentence(change: dict[str, Any], message: str) -> None:
    """It begins with the name."""
    source = {} if {"file", "delta", "rows"} & change.keys() or not change else {"file": "a.csv"}
    with pytest.raises(DefinitionError) as refused:
        Static(**{**PLAIN, **source, **change})

    assert message in refused.value.message
    assert refused.value.message.startswith("static.")
    assert refused.value.hint


@pytest.mark.parametrize(
    ("static", "message"),
    [
        (("products",), "has 'products' among its static tables"),
        ("products", "declares static=products, which is no tuple"),
        (
            (Static(**PLAIN, file="a.csv"), Static(**PLAIN, file="a.csv")),
            "names static.products twice",
        ),
    ],
)
def test_a_table_names_static_tables(static: Any, message: str) -> None:  # noqa: ANN401  # the mistakes
    """And nothing else."""
    with pytest.raises(DefinitionError, match=message):
        replace(user_actions.TABLE, static=static)


CONTENTS = (
    ("price,product,since\nx,a,\n", "The string 'x' is not a valid decimal"),
    ("price,product,since\n1,a,2026-01-01 00:00:00\n", "expected a zone offset"),
    ("price,product\n1,a\n", "Column 'since' in include_columns does not exist"),
    (
        "price,product,since\n1,a,\n2,a,\n3,a,\n",
        "has 2 rows too many in .*, such as two of product='a'",
    ),
    ('price,product,since\n1,,\n2,"",\n', "has 1 rows whose key \\(product\\) is NULL"),
    ("", "Empty CSV file"),
    (b"price,product,since\n1,\xff,\n", "invalid UTF8"),
)


@pytest.mark.parametrize(("text", "message"), CONTENTS, ids=[each[1] for each in CONTENTS])
def test_a_content_that_is_none_is_refused(tmp_path: Path, text: str | bytes, message: str) -> None:
    """With the value, or the key."""
    (tmp_path / "a.csv").write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(DefinitionError, match=message):
        static_versions.read(Static(**PLAIN, file=str(tmp_path / "a.csv")))


def test_a_file_of_csv_and_literal_rows_are_the_same_content(tmp_path: Path) -> None:
    """Whatever order its columns and lines have; an empty field is NULL, and a quoted one is a text."""
    (tmp_path / "a.csv").write_text(
        'more,since,price,product\n1,2026-01-01T00:00:00Z,,b\n2,,1.5,""\n'
    )
    rows = (
        ("", Decimal("1.50"), None),
        ("b", None, datetime.fromisoformat("2026-01-01T00:00:00Z")),
    )
    found = [
        static_versions.read(Static(**PLAIN, **each))
        for each in ({"file": str(tmp_path / "a.csv")}, {"rows": rows})
    ]

    assert found[0] is not None
    assert found[1] is not None
    assert found[0].content == found[1].content == {row[:1]: row[1:] for row in rows}
    assert static_versions.read(Static(**PLAIN, rows=rows), unless=found[1].text) is None


def test_values_that_a_column_or_python_does_not_have_are_refused(tmp_path: Path) -> None:
    """A reader of Parquet takes them in, and only who asks for them as values of Python sees an error."""
    days = pa.array([3_000_000], pa.int32()).cast(pa.date32())
    texts = pa.Array.from_buffers(
        pa.string(), 1, [None, pa.py_buffer(b"\0\0\0\0\1\0\0\0"), pa.py_buffer(b"\xff")]
    )
    for kind, values in (("date", days), ("string", texts)):
        file = tmp_path / f"{kind}.parquet"
        parquet.write_table(pa.table({"product": ["a"], "more": values}), file)
        columns = f"product string, more {kind}"
        static = Static(name="products", columns=columns, key=("product",), file=str(file))
        with pytest.raises(DefinitionError, match=rf"cannot be read from .*{kind}\.parquet: "):
            static_versions.read(static)
    wide = Static(
        name="products", columns="product string, n int", key=("product",), rows=(("a", 2**70),)
    )
    with pytest.raises(DefinitionError, match="cannot be read from rows of its declaration: "):
        static_versions.read(wide)


def test_a_text_in_quotes_has_line_ends_also_in_a_large_file(tmp_path: Path) -> None:
    """Arrow cuts a file of a megabyte into blocks, and looks for line ends without quotes unless it is asked."""
    text, count = "two\nlines " * 100, 2_000
    lines = [f'{number},"{text}"' for number in range(count)]
    (tmp_path / "a.csv").write_text("\n".join(["n,said", *lines, ""]))
    static = Static(
        name="texts", columns="n int, said string", key=("n",), file=str(tmp_path / "a.csv")
    )
    found = static_versions.read(static)

    assert found is not None
    assert found.content == {(number,): (text,) for number in range(count)}


def test_a_content_of_too_many_rows_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """It would be sent to each task with each batch."""
    monkeypatch.setattr(static_versions, "MOST", 1)
    static = Static(
        name="products",
        columns="product string, price int",
        key=("product",),
        rows=(("a", 1), ("b", 2)),
    )
    with pytest.raises(DefinitionError, match="has 2 rows, and a static table has at most 1"):
        static_versions.read(static)
