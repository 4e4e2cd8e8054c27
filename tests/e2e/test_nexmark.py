"""The queries of NEXMark (tests/benchmarks/nexmark), tables as a user writes them: in each mode their rows are those that DuckDB computes.

The long form has all queries and more events; the suite has those that are written in the most different ways.
"""

import json
import sys
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from importlib import import_module
from pathlib import Path
from zlib import crc32

import pytest
from pyspark import cloudpickle
from pyspark.sql import SparkSession

from strandline.core.stateful import AvailableNow, Batch
from strandline.core.table import Ingested, Table
from strandline.engine.accounting.balance_sheet import balance
from strandline.engine.flow.runner import Site, run
from strandline.engine.kafka.send_records import GivenTopics
from strandline.engine.lake.lake import Lake
from strandline.engine.lake.open_table import opened
from tests.benchmarks.nexmark.expected import Oracle, keep
from tests.benchmarks.nexmark.project.nexmark import play
from tests.benchmarks.nexmark.takers import PROJECT
from tests.benchmarks.nexmark.workload import CHAINS, played
from tests.support.proofs import Times

SINCE = datetime(2026, 11, 20, 9, tzinfo=UTC)
RATE, PARTS = 100, 2
"""Events a second, and in how many parts they come."""
FEW = ("q4", "q5", "q6", "q7", "q11", "q19")
"""Keys without a window above windows of a join, two aggregates, a fold, a join with windows, sessions, a top ten."""


@pytest.fixture
def tables(times: Times) -> Iterator[list[tuple[str, list[Table]]]]:
    """Give each query with the tables that it needs beside those before it."""
    queries = [*CHAINS] if times(1, 2) > 1 else FEW
    sys.path.insert(0, str(PROJECT))
    try:
        known: set[str] = set()
        chains = []
        # Workers of Spark's know no such package: what they run of it comes with the plan.
        cloudpickle.register_pickle_by_value(import_module("nexmark"))
        for query in queries:
            new = [name for name in CHAINS[query] if name not in known]
            known |= {*new}
            chains.append((query, [import_module(f"nexmark.{name}").TABLE for name in new]))
        yield chains
    finally:
        cloudpickle.unregister_pickle_by_value(import_module("nexmark"))
        sys.path.remove(str(PROJECT))
        for name in [each for each in sys.modules if each.partition(".")[0] == "nexmark"]:
            del sys.modules[name]


def sent(given: GivenTopics, events: Sequence[play.Sent]) -> None:
    """Send events, as one slice of their topics."""
    for each in events:
        at = datetime.fromtimestamp(each.arrived_ms / 1_000, UTC)
        given.send(each.topic, each.value, at=at, key=each.key, partition=crc32(each.key) % 2)
    given.cut()


def touching(events: Sequence[play.Sent]) -> list[play.Sent]:
    """Return them with two more bids of a person, exactly ten seconds apart: two sessions that touch."""
    model = next(each for each in events if each.topic == play.BIDS)
    more = []
    for seconds in (1, 11):
        at = SINCE + timedelta(seconds=seconds)
        value = json.loads(model.value) | {"bidder": 999_999, "bid_at": at.isoformat()}
        arrived = int(at.timestamp() * 1_000)
        more.append(model._replace(arrived_ms=arrived, value=json.dumps(value).encode()))
    return sorted([*events, *more], key=lambda each: each.arrived_ms)


@pytest.mark.whole("stream")
@pytest.mark.prove
@pytest.mark.parametrize("mode", ["batch", "stream"])
def test_each_query_has_the_rows_that_duckdb_computes(
    spark: SparkSession,
    tmp_path: Path,
    tables: list[tuple[str, list[Table]]],
    times: Times,
    mode: str,
) -> None:
    """Whether tables are computed at once, or events come in parts and each part is read by its own batches."""
    given, lake = GivenTopics(), Lake(tmp_path / "lake").open_for_writing()
    site = Site(spark=spark, clock=lambda: SINCE + timedelta(days=1), given=given)
    chain = [table for _, own in tables for table in own]
    topics = [topic for table in chain if isinstance(table, Ingested) for topic in table.reads]
    given.know(topics)
    count = times(3_000, 50_000)
    events = touching([*played(count, SINCE, rate=RATE, seed=11)])
    keep([(each.topic, each.arrived_ms, each.value) for each in events], tmp_path / "sent.parquet")
    events = [each for each in events if each.topic in map(str, topics)]

    for part in range(PARTS):
        sent(given, events[part * len(events) // PARTS : (part + 1) * len(events) // PARTS])
        for table in chain if mode == "stream" else ():
            run(table, AvailableNow(), lake, site=site)
    for table in chain if mode == "batch" else ():
        at_once = AvailableNow() if isinstance(table, Ingested) else Batch()
        run(table, at_once, lake, site=site)

    assert [fault for table in chain for fault in balance(table, lake).faults] == []
    oracle = Oracle(tmp_path / "sent.parquet")
    for query, own in tables:
        oracle.demand(query, opened(lake.table(own[-1])).to_pyarrow_table(), mode)
