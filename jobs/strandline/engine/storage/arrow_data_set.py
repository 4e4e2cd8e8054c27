"""A Delta table as a data set of Arrow, with times of any year.

Spark writes times as INT96, which Arrow reads in nanoseconds by default: with one event of the year 9999 in a
quarantine, `strandline quarantine` ended with "would lose data".
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from strandline.engine.storage.open_table import opened
from strandline.engine.storage.place import Place

if TYPE_CHECKING:
    from deltalake import DeltaTable
    from pyarrow.dataset import Dataset, Expression


def rows_where(
    path: Place, condition: "Expression", columns: Sequence[str] | None = None
) -> list[dict[str, Any]]:
    """Return the rows of a table that meet a condition of Arrow, with all columns or some."""
    names = None if columns is None else [*columns]
    found = data_set(opened(path)).to_table(columns=names, filter=condition)
    return list(found.to_pylist())


def data_set(table: "DeltaTable") -> "Dataset":
    """Return the rows of a version of a table; nothing is read before it is scanned."""
    from pyarrow.dataset import ParquetReadOptions  # noqa: PLC0415  # imports pandas, which takes longer than an answer

    times = ParquetReadOptions(coerce_int96_timestamp_unit="us")
    return table.to_pyarrow_dataset(parquet_read_options=times)
