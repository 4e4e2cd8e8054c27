"""The files of a table by the age of their rows, from the statistics in its log; no file is opened.

Delta cuts the largest time of a file to its millisecond, so a file counts as old a millisecond later.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from strandline.engine.storage.ledger import is_table
from strandline.engine.storage.open_table import opened, statistics
from strandline.engine.storage.place import Place

CUT = timedelta(milliseconds=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class OldFiles:
    """Files with rows that are older than a moment.

    Args:
        whole: The names of those in which all rows are.
        rows: How many rows these have.
        partly: The names of those in which some are, with the time of the oldest row of each.
    """

    whole: tuple[str, ...] = ()
    rows: int = 0
    partly: tuple[tuple[str, datetime], ...] = ()


def old_files(path: Place, column: str, before: datetime) -> OldFiles:
    """Return the files with rows whose time is before a moment; a file without a statistic counts as new.

    Args:
        path: The table.
        column: The column with the time of a row; a row without one never gets old.
        before: The moment.
    """
    if not is_table(path):
        return OldFiles()
    found = statistics(opened(path))
    lowest, highest, empty = _times(found, column)
    is_begun = pc.fill_null(pc.less(lowest, _like(lowest, before)), False)
    is_past = pc.fill_null(pc.less(highest, _like(highest, before - CUT)), False)
    is_whole = pc.and_(is_past, pc.equal(pc.fill_null(empty, 1), 0))
    is_partly = pc.and_(is_begun, pc.invert(is_whole))
    names = pa.chunked_array(found["path"])
    return OldFiles(
        whole=tuple(name.rpartition("/")[2] for name in names.filter(is_whole).to_pylist()),
        rows=pc.sum(pa.chunked_array(found["num_records"]).filter(is_whole)).as_py() or 0,
        partly=tuple(
            (name.rpartition("/")[2], at)
            for name, at in zip(
                names.filter(is_partly).to_pylist(),
                lowest.filter(is_partly).to_pylist(),
                strict=True,
            )
        ),
    )


def _times(found: Any, column: str) -> tuple[Any, Any, Any]:  # noqa: ANN401  # Arrow has no types
    """Return the smallest and the largest time of each file, and how many of its rows have none."""
    names = found.schema.names
    count = len(found["path"])
    if f"partition.{column}" in names:  # one value a file
        at = pa.chunked_array(found[f"partition.{column}"])
        return at, at, pa.array([0] * count)
    if f"min.{column}" not in names or f"max.{column}" not in names:
        none = pa.nulls(count, pa.timestamp("us", "UTC"))
        return none, none, pa.nulls(count, pa.int64())
    nulls = f"null_count.{column}"
    empty = pa.chunked_array(found[nulls]) if nulls in names else pa.nulls(count, pa.int64())
    return pa.chunked_array(found[f"min.{column}"]), pa.chunked_array(found[f"max.{column}"]), empty


def _like(times: Any, moment: datetime) -> pa.Scalar:  # noqa: ANN401  # as above
    return pa.scalar(moment, times.type)
