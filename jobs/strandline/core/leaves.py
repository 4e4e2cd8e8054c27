"""The leaf fields of a payload: nested fields by their path; lists and maps are leaves."""

from collections.abc import Iterator
from functools import reduce
from itertools import chain
from typing import TypeAlias

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql.types import DataType, StringType, StructType

Path: TypeAlias = tuple[str, ...]


def leaves(fields: StructType, within: Path = ()) -> Iterator[tuple[Path, DataType]]:
    """Yield the path of each leaf, and its type."""
    return chain.from_iterable(
        leaves(f.dataType, (*within, f.name))
        if isinstance(f.dataType, StructType)
        else [((*within, f.name), f.dataType)]
        for f in fields.fields
    )


def texts(fields: StructType) -> Iterator[Path]:
    """Yield the path of each text field."""
    return (path for path, kind in leaves(fields) if isinstance(kind, StringType))


def at(value: Column, path: Path) -> Column:
    """Return the field at a path inside a value."""
    return reduce(lambda inner, name: inner[name], path, value)


def named(path: Path) -> Column:
    """Return the field at a path that begins with a column."""
    return at(F.col(f"`{path[0]}`"), path[1:])
