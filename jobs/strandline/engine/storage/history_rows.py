"""The rows of a Parquet file as payloads of JSON, with their types kept; what JSON has no value for is refused."""

from collections.abc import Callable, Iterator
from datetime import datetime
from decimal import Decimal
from typing import Any

import orjson
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from strandline.core.errors import DataError
from strandline.engine.storage.place import Place

ROWS = 5_000
"""Rows that are in memory at a time."""

NO_VALUE = (pa.ArrowException, OverflowError, UnicodeDecodeError, orjson.JSONEncodeError)
"""What a value raises that is none: a moment of no calendar, a text of no letters."""


def parquet_rows(place: Place) -> Iterator[dict[str, Any]]:
    """Yield the rows of a file.

    Raises:
        DataError: It has what no payload can hold.
    """
    with place.opened() as raw, pq.ParquetFile(raw) as file:
        _refuse_twins(place, file.schema_arrow.names)
        for field in file.schema_arrow:
            _refuse_unfit(place, field.name, field.type)
        for batch in file.iter_batches(batch_size=ROWS):
            _refuse_nan(place, batch)
            yield from _in_python(batch)


def as_json(row: dict[str, Any]) -> bytes:
    """Return a row as one line of JSON."""
    return orjson.dumps(row, default=_exactly)


def _in_python(batch: pa.RecordBatch) -> Iterator[dict[str, Any]]:
    """Yield the rows of a batch; where one of them has no value in Python, those before it."""
    try:
        rows = batch.to_pylist()
    except NO_VALUE:
        for number in range(batch.num_rows):
            yield from batch.slice(number, 1).to_pylist()
    else:
        yield from rows


def _refuse_unfit(place: Place, name: str, kind: pa.DataType) -> None:
    """Refuse a column that JSON has no value for.

    Raises:
        DataError: It is one.
    """
    if pa.types.is_dictionary(kind):
        _refuse_unfit(place, name, kind.value_type)
        return
    unfit = (
        pa.types.is_binary,
        pa.types.is_large_binary,
        pa.types.is_binary_view,
        pa.types.is_fixed_size_binary,
    )
    if pa.types.is_map(kind) or pa.types.is_duration(kind) or any(is_(kind) for is_ in unfit):
        raise DataError(
            f"column {name} of {place} is {kind}, and a payload of JSON has no such value",
            hint="write the file again without it, or with it as a text or a struct.",
            file=str(place),
        )
    if pa.types.is_struct(kind):
        _refuse_twins(place, [each.name for each in kind], f"{name}.")
    for number in range(kind.num_fields):
        _refuse_unfit(place, f"{name}.{kind.field(number).name}", kind.field(number).type)


def _refuse_twins(place: Place, names: list[str], above: str = "") -> None:
    """Refuse two columns of one name, of which an object of JSON can have one.

    Raises:
        DataError: There are two.
    """
    for name in names:
        if names.count(name) > 1:
            raise DataError(
                f"{place} has two columns {above}{name}, and an object of JSON has one value of a name",
                hint="write the file again with other names.",
                file=str(place),
            )


def _refuse_nan(place: Place, batch: pa.RecordBatch) -> None:
    for name, column in zip(batch.schema.names, batch.columns, strict=True):
        if _has_nan(column):
            raise DataError(
                f"column {name} of {place} has a number that is none (NaN or infinite), which JSON cannot say",
                hint="write the file again with NULL in its place.",
                file=str(place),
            )


def _exactly(value: Any) -> object:  # noqa: ANN401  # what orjson does not know
    if isinstance(value, Decimal):
        return orjson.Fragment(format(value, "f"))
    if isinstance(value, datetime):
        return value.isoformat()
    raise TypeError(type(value).__name__)


_NESTED: Callable[[pa.DataType], bool] = pa.types.is_nested


def _has_nan(column: pa.Array) -> bool:
    if pa.types.is_floating(column.type):
        return bool(pc.any(pc.invert(pc.is_finite(column))).as_py())
    return _NESTED(column.type) and any(map(_has_nan, _parts(column)))


def _parts(column: pa.Array) -> list[pa.Array]:
    flat = column.flatten()
    return flat if isinstance(flat, list) else [flat]
