"""A query of NEXMark counts for whom it is right, and the report says for whom it is not."""

from pathlib import Path

import pyarrow as pa
import pytest

from tests.benchmarks.nexmark import expected
from tests.benchmarks.nexmark.expected import Oracle, WrongRowsError
from tests.benchmarks.nexmark.report import NexmarkReport
from tests.benchmarks.nexmark.workload import (
    FLINK,
    OURS,
    QUERY,
    SINCE,
    TABLE,
    Answered,
    Found,
    measure,
    played,
)
from tests.benchmarks.samples import Samples
from tests.benchmarks.workers import Cost

QUERIES = ("q2", "q8")
EVENTS = 12_000


class Reader:
    """Computes queries by DuckDB over what was sent, one of them wrongly if so asked."""

    def __init__(self, name: str, file: Path, *, cpu: float, spoilt: str = "") -> None:
        """Take the name of a contestant, and what each query is to cost."""
        self.name = name
        self._oracle = Oracle(file)
        self._cpu = cpu
        self._spoilt = spoilt

    def begin(self) -> None:
        """Forget nothing."""

    def run(self, query: str) -> Answered:
        """Return the rows, of the spoilt query one twice and another not at all."""
        rows: pa.Table = self._oracle._engine.execute(expected.QUERIES[query]).to_arrow_table()
        if query == self._spoilt:
            rows = pa.concat_tables([rows.slice(1), rows.slice(1, 1)])
        cost = Cost(wall=self._cpu, cpu=self._cpu)
        steps = {f"gold.{query}": cost} if self.name == OURS else {}
        return Answered(rows=rows, cost=cost, steps=steps)


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return what was sent, as the oracle reads it."""
    found = tmp_path_factory.mktemp("nexmark") / "sent.parquet"
    events = played(EVENTS, SINCE, rate=1_000, seed=7)
    expected.keep(((each.topic, each.arrived_ms, each.value) for each in events), found)
    return found


def measured(file: Path, work: Path, *contestants: Reader) -> tuple[Found, Samples]:
    """Measure two passes of each query."""
    samples = Samples(work / "samples.jsonl")
    found = measure(
        contestants, Oracle(file), samples, queries=QUERIES, rounds=1, show=lambda _: None
    )
    return found, samples


def test_a_query_with_other_rows_does_not_count_and_the_others_do(
    file: Path, tmp_path: Path
) -> None:
    """One row twice and one not at all leave their number as it was."""
    ours, theirs = Reader(OURS, file, cpu=3.0), Reader(FLINK, file, cpu=2.0, spoilt="q2")

    found, samples = measured(file, tmp_path, ours, theirs)

    assert list(found.refused) == [("q2", FLINK)]
    assert "1 should not be, and 1 are missing" in found.refused["q2", FLINK]
    assert {(s.row, s.contestant, s.number) for s in samples.all if s.part == QUERY} == {
        (query, who, number)
        for query, who in (("q2", OURS), ("q8", OURS), ("q8", FLINK))
        for number in (0, 1)
    }
    assert {s.row for s in samples.all if s.part == TABLE} == {"gold.q2", "gold.q8"}


def test_wrong_rows_of_our_own_end_the_benchmark(file: Path, tmp_path: Path) -> None:
    """Nothing excuses them."""
    with pytest.raises(WrongRowsError, match="strandline q8"):
        measured(file, tmp_path, Reader(OURS, file, cpu=1.0, spoilt="q8"))


def test_the_report_has_the_ratio_the_rate_and_the_refusal(file: Path, tmp_path: Path) -> None:
    """Of each query that both have; what Flink refuses is named with its reason."""
    ours, theirs = Reader(OURS, file, cpu=3.0), Reader(FLINK, file, cpu=2.0, spoilt="q2")
    found, samples = measured(file, tmp_path, ours, theirs)
    report = NexmarkReport(
        command="a command",
        events=EVENTS,
        machine={"commit": "abc1234"},
        rows=found.rows,
        refused=found.refused,
        one_plan={},
        samples=samples,
    )

    page = report.page()

    costs = "166.67 | 250.00 | 1.50 (1.50…1.50) | 1.50 | 4,000, 6,000 | 3.0, 2.0"
    assert f"| q8 | files | {costs} |" in page
    assert "* q2, flink: flink q2: of " in page
    assert "These 1 queries together" in page
