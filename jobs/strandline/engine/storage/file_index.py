"""An index of a table's files by event time, updated commit by commit.

Delta lists the log and rebuilds the table's whole state for each new version, so a look-up costs more the more files
there are. This index is kept for the life of a run and reads only the new commits; of a table with many files it keeps
the newest (jobs/strandline/engine/storage/recent_files.py).
"""

import json
from collections.abc import Mapping
from functools import partial
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from strandline.core.table import Computed
from strandline.engine.storage import delta_commit
from strandline.engine.storage.lake import Lake
from strandline.engine.storage.place import Place
from strandline.engine.storage.read_version import OPEN
from strandline.engine.storage.recent_files import KEPT, RecentFiles
from strandline.engine.storage.window_index import micros

MILLISECOND = 1_000
"""In microseconds; Delta truncates the times in its statistics to it."""


class FileIndex:
    """The files of a growing table; one for the life of a run."""

    def __init__(
        self, spark: SparkSession, path: Place, begins: str, ends: str | None, *, kept: int = KEPT
    ) -> None:
        """Begin empty; the first look-up reads the log.

        Args:
            spark: The session.
            path: The table.
            begins: The column with the start of a row's validity.
            ends: The column with its end, open when NULL; without one, a row is valid at its start only.
            kept: How many files stay in memory at least.
        """
        self._spark = spark
        self._path = path
        self._files = RecentFiles(path, partial(span_of, begins=begins, ends=ends), kept=kept)

    @classmethod
    def of(cls, spark: SparkSession, table: Computed, lake: Lake) -> "FileIndex":
        """Return the index of a table by the validity that its declaration names."""
        return cls(spark, lake.table(table), table.event_at, table.valid_until)

    def files(self, version: int, first: int = -OPEN, last: int = OPEN) -> list[str]:
        """Return the files of a version that may hold rows valid in a range, each as its line in the log."""
        read_all = partial(delta_commit.files_at, self._spark, self._path)
        return [each.line for each in self._files.within(version, first, last, read_all)]

    def rows(self, version: int, first: int = -OPEN, last: int = OPEN) -> DataFrame:
        """Return all rows of those files; the caller filters them."""
        found = self.files(version, first, last)
        is_other, self._files.is_shaped = self._files.is_shaped, False
        return delta_commit.rows_of(self._spark, self._path, found, is_other=is_other)


def span_of(add: Mapping[str, Any], begins: str, ends: str | None = None) -> tuple[int, int]:
    """Return the range in which the rows of a file are valid, in microseconds; unbounded without statistics.

    Args:
        add: The file, as in the log.
        begins: The column with the start of a row's validity.
        ends: The column with its end.
    """
    stats = json.loads(add.get("stats") or "{}")
    lowest, highest = (
        {**stats.get(name, {}), **add["partitionValues"]} for name in ("minValues", "maxValues")
    )
    first = micros(lowest[begins]) if begins in lowest else -OPEN
    if ends is None:
        return first, _until(highest, begins)
    is_open = stats.get("nullCount", {}).get(ends, 1) > 0
    return first, OPEN if is_open else _until(highest, ends)


def _until(highest: Mapping[str, str], name: str) -> int:
    return micros(highest[name]) + MILLISECOND if name in highest else OPEN
