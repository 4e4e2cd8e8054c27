"""Who computes the queries of NEXMark: the tables of the project, and Flink SQL.

Flink's text of each query is in contestants/jvm/flink/Nexmark.java. Of its answers those whose rows are final are Parquet files; one
whose rows change is a topic, of which the last row of each key counts.
"""

import json
import shutil
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from strandline.engine.kafka import broker
from strandline.engine.lake.open_table import opened
from strandline.engine.lake.place import Place as Folder
from tests.benchmarks.ad_views import changes, forget
from tests.benchmarks.contestants.contestant import Place, files
from tests.benchmarks.contestants.nexmark import ONE_PLAN
from tests.benchmarks.nexmark.workload import CHAINS, FLINK, OURS, Answered, Contestant, suffix
from tests.benchmarks.workers import Cost, Worker, workers

PROJECT = Path(__file__).parent / "project"
CHANGING = {"q4", "q6", "q9", "q18", "q19"}
"""The queries whose rows change in Flink, whose files take final rows alone."""


class Ours:
    """The tables of the project, in a lake of their own for each pass; what several queries read is computed once and counted for each."""

    name = OURS

    def __init__(self, worker: Worker, address: str, topics: str, work: Path) -> None:
        """Begin with a process that knows the project; the names of the topics have an end more."""
        self._worker = worker
        self._address = address
        self._topics = topics
        self._work = work
        self._passes = 0
        self._costs: dict[str, Cost] = {}

    @property
    def place(self) -> Place:
        """Return the lake of this pass."""
        return self._place(f"pass-{self._passes}")

    def begin(self) -> None:
        """Begin a new lake."""
        self._passes += 1
        self._costs = {}
        self.place.root.mkdir(parents=True)

    def run(self, query: str) -> Answered:
        """Run the tables of a query that have not run in this pass."""
        chain = CHAINS[query]
        for table in chain:
            if table not in self._costs:
                self._costs[table] = self._worker.ask("catch_up", [table], self.place)
        steps = {table: self._costs[table] for table in chain}
        cost = Cost(
            wall=sum(e.wall for e in steps.values()), cpu=sum(e.cpu for e in steps.values())
        )
        rows = opened(Folder.of(self.place.table(chain[-1]))).to_pyarrow_table()
        return Answered(rows=rows, cost=cost, steps=steps)

    def as_one_plan(self) -> Path:
        """Ask Spark for its verdict of each query as one plan; return the file that has it."""
        place = self._place("one plan")
        place.root.mkdir(parents=True, exist_ok=True)
        self._worker.ask("catch_up", [ONE_PLAN], place)
        return place.root / "as_one_plan.json"

    def _place(self, name: str) -> Place:
        return Place(root=self._work / name, address=self._address, topic=self._topics)


@contextmanager
def ours(address: str, events: int, work: Path) -> Iterator[Ours]:
    """Run a process with the project for the length of the block."""
    runs = work / "run"
    shutil.rmtree(runs, ignore_errors=True)
    with workers(["nexmark"], work / "logs", {"STRANDLINE_PROJECT": str(PROJECT)}) as started:
        # Never the same folder again: a state store of the run before may still write to it.
        yield Ours(started["nexmark"], address, suffix(events), runs / str(time.time_ns()))
    shutil.rmtree(runs, ignore_errors=True)


class Flink:
    """Flink SQL in one JVM with a cluster that stays, a job for each query."""

    name = FLINK

    def __init__(self, worker: Worker, address: str, topics: str, work: Path) -> None:
        """Begin with its process; the names of the topics have an end more."""
        self._worker = worker
        self._address = address
        self._topics = topics
        self._work = work

    def begin(self) -> None:
        """Forget nothing: each job reads the topics from their beginning, and has a folder of its own."""

    def run(self, query: str) -> Answered:
        """Compute a query over all that is in the topics."""
        root = self._work / str(time.time_ns())
        root.mkdir(parents=True)
        place = Place(root=root, address=self._address, topic=self._topics)
        if query not in CHANGING:
            cost = self._worker.ask("catch_up", [query], place)
            rows = _files(place)
        else:
            broker.create_topic(self._address, place.counted, 2, {})
            try:
                cost = self._worker.ask("catch_up", [query], place)
                rows = _last_rows(place)
            finally:
                forget(place)
        shutil.rmtree(root, ignore_errors=True)
        return Answered(rows=rows, cost=cost)


@contextmanager
def flink(address: str, events: int, work: Path) -> Iterator[Flink]:
    """Run its process for the length of the block."""
    runs = work / "run-flink"
    shutil.rmtree(runs, ignore_errors=True)
    with workers([FLINK], work / "logs") as started:
        yield Flink(started[FLINK], address, suffix(events), runs)
    shutil.rmtree(runs, ignore_errors=True)


def _files(place: Place) -> pa.Table:
    # Flink's times are of twelve bytes, which have no unit of their own.
    found = (
        pq.ParquetFile(file, coerce_int96_timestamp_unit="us").read()
        for file in files(str(place.root / "answer"))
    )
    return pa.concat_tables(found)


def _last_rows(place: Place) -> pa.Table:
    """Return the last row of each key; one without a value takes it away."""
    last = {record.key(): record.value() for record in changes(place)}
    return pa.Table.from_pylist([json.loads(value) for value in last.values() if value])


CONTESTANTS: Mapping[str, Callable[[str, int, Path], AbstractContextManager[Contestant]]] = {
    OURS: ours,
    FLINK: flink,
}
"""Who takes part, by name: a function of the broker's address, the number of events and a folder, which gives a contestant for a block.

Another is a line here: it reads the topics ``nexmark-…`` with ``suffix``, and answers with the columns that the query has in
``expected.QUERIES``.
"""
