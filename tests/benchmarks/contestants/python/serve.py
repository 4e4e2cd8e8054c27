"""Takes commands from stdin, a line each with fields between tabs, and answers each with a line; the end of stdin is the end.

A peer in Python with an environment of its own is a script of this folder, which is the only thing of the project that it imports.
"""

import os
import platform
import sys
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq
from readings import Item, Met, good_columns, held_columns, raw_columns


class Order(NamedTuple):
    """What is to be done: the job, a folder, the broker and the topic."""

    job: str
    root: Path
    address: str
    topic: str


def serve(do: Callable[[Order], None], version: str) -> None:
    """Do each command; what libraries print goes to the log."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    answers.write(f"python {platform.python_version()}, {version}\n")
    answers.flush()
    for line in sys.stdin:
        job, root, address, topic, *_ = line.rstrip("\n").split("\t")
        try:
            do(Order(job, Path(root), address, topic))
            answer = "done"
        except Exception as error:  # noqa: BLE001  # the parent reports it
            traceback.print_exc()
            answer = f"failed {type(error).__name__}: {error}".replace("\n", " ")
        answers.write(answer + "\n")
        answers.flush()


class Files:
    """The tables of a run as Parquet files, each batch a file with a number: one that is written again replaces itself."""

    def __init__(self, root: Path, part: str, number: int = 0) -> None:
        """Go on after so many files of a part."""
        self._root = root
        self._part = part
        self.number = number

    def write_items(self, items: Sequence[Item]) -> None:
        """Write readings and what is held back."""
        good = [item for item in items if item.reason is None]
        held = [item for item in items if item.reason is not None]
        if held:
            self._write("quarantine/device_telemetry", held_columns(held))
        if good:
            self._write("silver/device_telemetry", good_columns(good))
        self.number += 1

    def write_raw(self, records: Sequence[Met]) -> None:
        """Write records as they were received."""
        self._write("bronze/device_telemetry", raw_columns(records))
        self.number += 1

    def _write(self, table: str, columns: dict[str, pa.Array]) -> None:
        folder = self._root / table
        folder.mkdir(parents=True, exist_ok=True)
        name = f"{self._part}-{self.number:05d}.parquet"
        pq.write_table(pa.table(columns), folder / name, compression="zstd")
