"""The one Spark of a process of the suite, for its tests and for the command line that they type inside of it."""

import gc
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from pyspark.sql import SparkSession

from strandline.engine.runtime import spark_session
from strandline.engine.runtime.settings import settings
from strandline.engine.runtime.spark_session import Added
from tests.support import lakes

# Three workers keep both cores busy, so nothing is compiled for free: of all that the JVMs of the suite did, a third was
# the thorough compiler. With the quick one alone 406 tests of gold, silver, repairs and storage take 309 s instead of
# 371 s; but it comes with a code cache of 48 MB, which is full after minutes, and then 353 s: the JVM sweeps it and
# compiles the same again [CPU by thread].
JAVA_OPTIONS = "JAVA_TOOL_OPTIONS"
QUICK = " ".join(spark_session.QUICK)

CODE = (
    "spark.sql.codegen.wholeStage",
    "spark.sql.codegen.factoryMode",
    "spark.sql.subexpressionElimination.enabled",
)
PLAIN = ("false", "NO_CODEGEN", "false")
"""A third of what the JVM did in the suite was to write, compile and warm up code for frames of ten rows [stack samples];
without it the same tests of all modes take a sixth less. Properties, and every program that the suite starts, run with
the code that Spark generates (see ``as_in_production``)."""

UNSEEN = {
    "spark.sql.ui.explainMode": "simple",
    "spark.broadcast.compress": "false",
    "spark.shuffle.compress": "false",
}
"""Each execution writes its plan down for a page that the suite has not, and packs blocks of a few bytes that never leave
the process: with these, without common parts of expressions that are sought for ten rows, and with the names that
``jvm_names`` keeps, the backfills took 136 s of the JVM's CPU instead of 151."""

HEAP = "2g"
"""With 1 GB the JVM of a whole run spent 170 of 600 s in full collections, and on a slower machine a test of ten seconds
ended after ten minutes [jstat]: Delta keeps the log and the plans of every table of the last hour (see ``forget``)."""

start = spark_session.start
_logs: list[Path] = []
_running: list[SparkSession] = []


@contextmanager
def hosted(folder: Path) -> Iterator[None]:
    """Let Spark be started when it is wanted first, with its log out of the way, and stop it at the end."""
    _logs.append(folder / "spark.log")
    try:
        yield
    finally:
        _logs.pop()
        while _running:
            _running.pop().stop()


def place() -> Path:
    """Return the folder of what lasts as long as this process."""
    return _logs[-1].parent


def shared() -> Path:
    """Return the folder of what lasts as long as the suite; all of its workers see it."""
    is_worker = "PYTEST_XDIST_WORKER" in os.environ
    return place().parents[1] if is_worker else place().parent


def spark() -> SparkSession:
    """Return the small Spark of this process, and start it if need be."""
    if not _running:
        sizes = settings(lake=str(lakes.place(place())), cores=2, memory=HEAP, shuffle_partitions=2)
        _running.append(start(sizes, _logs[-1], added=Added(options=UNSEEN)))
        _set_code(_running[0], PLAIN)
    return _running[0]


def forget() -> None:
    """Let Delta forget the tables that it has opened; those of a test before are never opened again."""
    if not _running:
        return
    gc.collect()  # what Python still names, the JVM keeps
    _running[0]._jvm.org.apache.spark.sql.delta.DeltaLog.clearCache()


@contextmanager
def as_in_production(running: SparkSession) -> Iterator[None]:
    """Let this session, and those that are made of it, generate code as Spark does by itself."""
    _set_code(running, ())
    try:
        yield
    finally:
        _set_code(running, PLAIN)


def _set_code(running: SparkSession, values: Sequence[str]) -> None:
    """Set how code is generated, or leave it to Spark."""
    new_ones = (
        running.sparkContext._jsc.sc().conf()
    )  # what a session begins with that is made of this one
    for name in CODE:
        running.conf.unset(name)
        new_ones.remove(name)
    for name, value in zip(CODE, values, strict=False):
        running.conf.set(name, value)
        new_ones.set(name, value)
