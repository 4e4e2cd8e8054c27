"""In how many files rows are written again, and which of them lie together.

Files that are written again stay files of a short time. One file instead of all that were touched would be touched
by whatever comes next, and grow: of a table whose static side spoke every ten minutes for three days, each word
rewrote half a megabyte in the end, and whoever followed the table read it.

What still holds lies apart from what has ended. Whoever asks what holds now must open every file with a row that has
no end; together with those, all that ever ended would be read at each batch, and ever more of it.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from jobs.run.fork import SMALL
from jobs.run.rows import OPEN
from jobs.run.stock import span_of

Add = Mapping[str, Any]
"""A file that the log adds."""

HOUR = 3_600_000_000
"""Files that together hold no longer time than this, in microseconds, become one."""


def divided(rows: DataFrame, at: str, ends: str | None, instead_of: Sequence[Add]) -> DataFrame:
    """Return rows in as many pieces as files are to be written, each of a time of its own.

    Folders that the table is divided into keep times apart by themselves.

    Args:
        rows: What is written.
        at: The column with the time of a row.
        ends: That with the end of what it says, where that is longer than a moment.
        instead_of: The files that it stands in the place of.
    """
    if any(add["partitionValues"] for add in instead_of):
        return apart(rows, ends)
    pieces = _pieces(instead_of, at)
    if pieces > 1:
        return rows.repartitionByRange(pieces, at)
    return rows.coalesce(1) if sum(map(_rows, instead_of)) <= SMALL else rows


def apart(rows: DataFrame, ends: str | None) -> DataFrame:
    """Return rows in two pieces, what has ended and what still holds; in one where nothing lasts."""
    if ends is None:
        return rows.coalesce(1)
    return rows.repartitionById(2, F.col(ends).isNull().cast("int"))


def _pieces(files: Sequence[Add], at: str) -> int:
    """Return how many files are left when those of an hour become one."""
    pieces, begun = 0, -OPEN
    for first, last in sorted(span_of(file, at) for file in files):
        if not pieces or last - begun > HOUR:
            pieces, begun = pieces + 1, first
    return pieces


def _rows(add: Add) -> int:
    return int(json.loads(add["stats"])["numRecords"])
