"""Which files of a table hold which times, followed commit by commit.

To answer a question about a table Delta lists its log and puts its whole state together anew at every version, so
what a question costs grows with the number of files. Who asks at every batch remembers what was there, and reads the
new commits only.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from jobs.core.table import Table
from jobs.run import delta
from jobs.run.lake import Lake
from jobs.run.ledger import commit_file
from jobs.run.rows import OPEN
from jobs.run.shelf import micros

MILLISECOND = 1_000
"""Delta cuts the times in its statistics to milliseconds."""


@dataclass(frozen=True, slots=True)
class _File:
    """A file as the log says it, and the microseconds between which its rows say something."""

    told: str
    first: int
    last: int


class Stock:
    """The files of a table that grows; one for the life of a run."""

    def __init__(self, spark: SparkSession, path: Path, begins: str, ends: str | None) -> None:
        """Know nothing yet.

        Args:
            spark: The session.
            path: The table.
            begins: The column with the moment from which a row says something.
            ends: That with the moment until which it does, open when NULL; only of that one moment when absent.
        """
        self._spark = spark
        self._path = path
        self._begins = begins
        self._ends = ends
        self._version = -1
        self._files: dict[str, _File] = {}
        self._is_other = False

    @classmethod
    def of(cls, spark: SparkSession, table: Table, lake: Lake) -> "Stock":
        """Return that of a table, whose declaration says from when until when a row speaks."""
        return cls(spark, lake.table(table), str(table.event_at), table.valid_until)

    def files(self, version: int, first: int = -OPEN, last: int = OPEN) -> list[str]:
        """Return the files of a version whose rows may reach into a span, each as the log says it."""
        self._follow(version)
        return [f.told for f in self._files.values() if f.first <= last and f.last >= first]

    def rows(self, version: int, first: int = -OPEN, last: int = OPEN) -> DataFrame:
        """Return what those files hold; whoever asks chooses among the rows."""
        found = self.files(version, first, last)
        rows = delta.rows_of(self._spark, self._path, found, is_other=self._is_other)
        self._is_other = False
        return rows

    def _follow(self, version: int) -> None:
        if version < self._version:
            self._files, self._version = {}, -1
        for number in range(self._version + 1, version + 1):
            with commit_file(self._path, number).open() as log:
                for line in log:
                    self._read(line.strip())
        self._version = version

    def _read(self, line: str) -> None:
        if line.startswith('{"add":'):
            add = json.loads(line)["add"]
            self._files[add["path"]] = _File(line, *span_of(add, self._begins, self._ends))
        elif line.startswith('{"remove":'):
            self._files.pop(json.loads(line)["remove"]["path"], None)
        elif line.startswith('{"metaData":'):
            self._is_other = True


def span_of(add: Mapping[str, Any], begins: str, ends: str | None = None) -> tuple[int, int]:
    """Return the microseconds between which the rows of a file say something; all time where the log does not tell.

    Args:
        add: The file, as the log says it.
        begins: The column with the moment from which a row says something.
        ends: That with the moment until which it does.
    """
    told = json.loads(add.get("stats") or "{}")
    lowest, highest = (
        {**told.get(name, {}), **add["partitionValues"]} for name in ("minValues", "maxValues")
    )
    first = micros(lowest[begins]) if begins in lowest else -OPEN
    if ends is None:
        return first, _until(highest, begins)
    is_open = told.get("nullCount", {}).get(ends, 1) > 0
    return first, OPEN if is_open else _until(highest, ends)


def _until(highest: Mapping[str, str], name: str) -> int:
    return micros(highest[name]) + MILLISECOND if name in highest else OPEN
