"""The wall time and the CPU time of a batch, and the hash of the code that computed it."""

import time
from contextlib import suppress
from functools import cache
from importlib.metadata import version

import psutil
from pyspark.sql import SparkSession

from strandline.core.model import Model
from strandline.core.table import Table
from strandline.engine.runtime.code_files import (
    version_of,
    version_of_model,
    version_of_queries,
    version_of_vocabulary,
    was_code_of,
)

WORKS = 0.2
"""The share of a core that is work; looking whether a query is at its end takes some hundredths."""


def _jvm(spark: SparkSession) -> psutil.Process:
    gateway = spark.sparkContext._gateway  # noqa: SLF001  # the only place with the JVM's process id
    process = getattr(gateway, "proc", None)
    return psutil.Process() if process is None else psutil.Process(process.pid)


class Meter:
    """Measures from its creation on: wall time, and CPU time of the JVM, in which all of Spark runs here."""

    def __init__(self, spark: SparkSession) -> None:
        """Start measuring."""
        self._process = _jvm(spark)
        self._wall = time.monotonic()
        self._cpu = self._spent()

    def wall_ms(self) -> int:
        """Return the milliseconds since the start."""
        return int((time.monotonic() - self._wall) * 1000)

    def cpu_ms(self) -> int:
        """Return the milliseconds of CPU since the start, including queries that run beside this one."""
        return int((self._spent() - self._cpu) * 1000)

    def _spent(self) -> float:
        times = self._process.cpu_times()
        return float(times.user + times.system)


class Work:
    """Measures whether what a process has started works: the JVM, and the workers of Python that run functions of tables.

    Of Spark's own work the JVM is asked: a broker that this process has started too works for others.
    """

    def __init__(self, spark: SparkSession | None = None) -> None:
        """Start measuring: the JVM of a session with its workers, or all that this process has started."""
        self._own = psutil.Process()
        self._top = self._own
        with suppress(psutil.Error):  # the JVM has ended
            self._top = self._own if spark is None else _jvm(spark)
        self._at, self._spent = time.monotonic(), self._cpu()

    def goes_on(self) -> bool:
        """Return whether they have used more than a share of a core since the last call."""
        at, spent = time.monotonic(), self._cpu()
        seconds, work = at - self._at, spent - self._spent
        self._at, self._spent = at, spent
        return work > WORKS * seconds

    def _cpu(self) -> float:
        counted = [] if self._top == self._own else [self._top]
        with suppress(psutil.Error):
            counted += self._top.children(recursive=True)
        found = 0.0
        for each in counted:
            with suppress(psutil.Error):  # it has ended since
                times = each.cpu_times()
                found += times.user + times.system
        return found


@cache
def code_version(table: Table) -> str:
    """Return a hash of the statements that decide a table's rows, computed once per process (jobs/strandline/engine/runtime/code_files.py)."""
    return version_of(table)


def is_code_of(table: Table, code: str) -> bool:
    """Return whether a hash that is kept in a lake is of today's code: of its statements, or of the files that had the same once."""
    return code == code_version(table) or was_code_of(table, code)


@cache
def model_version(model: Model) -> str:
    """Return a hash of the statements that decide a table's rows, and of those of the model that learns from them."""
    return version_of_model(model)


@cache
def vocabulary_version() -> str:
    """Return a hash of what decides the rows of every table beside its own statements."""
    return version_of_vocabulary()


@cache
def query_version() -> str:
    """Return a hash of what turns a table's function into a query: those modules of ours, and the versions of Spark and Delta."""
    return version_of_queries(*map(version, ("pyspark", "delta-spark")))
