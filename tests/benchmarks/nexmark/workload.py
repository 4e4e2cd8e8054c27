"""NEXMark: queries over an auction house, by tables of a project as a user writes it, and by others over the same topics.

A contestant computes one query after the other from the topics. Its rows are compared with those of an oracle before its cost counts.
Costs are those of whole processes, the broker's left out; a pass runs every query once, in the order of the contestants and then back.
"""

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import product
from pathlib import Path
from typing import Protocol
from zlib import crc32

import pyarrow as pa
from confluent_kafka import Producer

from strandline.core.topic import Topic
from strandline.engine.kafka import broker
from tests.benchmarks.feed import has_all
from tests.benchmarks.machine import Noise
from tests.benchmarks.nexmark import expected
from tests.benchmarks.nexmark.expected import Oracle, WrongRowsError
from tests.benchmarks.nexmark.project.nexmark import play
from tests.benchmarks.samples import Sample, Samples
from tests.benchmarks.workers import Cost, WorkerError, reason

SINCE = datetime(2026, 10, 1, tzinfo=UTC)
RATE, SEED = 1_000, 7
"""Events a second of event time, and the seed of them."""

PERSONS = ("bronze.persons", "silver.persons")
AUCTIONS = ("bronze.auctions", "silver.auctions")
BIDS = ("bronze.bids", "silver.bids")
WINNERS = (*AUCTIONS, *BIDS, "gold.winning_bids")
CHAINS: Mapping[str, tuple[str, ...]] = {
    "q0": (*BIDS, "gold.q0"),
    "q1": (*BIDS, "gold.q1"),
    "q2": (*BIDS, "gold.q2"),
    "q3": (*PERSONS, *AUCTIONS, "gold.q3"),
    "q4": (*WINNERS, "gold.q4"),
    "q5": (*BIDS, "gold.q5"),
    "q6": (*WINNERS, "gold.q6"),
    "q7": (*BIDS, "gold.highest_10s", "gold.q7"),
    "q8": (*PERSONS, *AUCTIONS, "gold.q8"),
    "q9": (*WINNERS, "gold.q9"),
    "q11": (*BIDS, "gold.q11"),
    "q12": (*BIDS, "gold.arrivals", "gold.q12"),
    "q18": (*BIDS, "gold.q18"),
    "q19": (*BIDS, "gold.q19"),
}
"""The tables of each query, each after those that it reads; the last has the answer."""

OURS, FLINK = "strandline", "flink"
QUERY, TABLE = "query", "table"
"""The parts of samples: a query from the topics to its answer, and a table of ours by itself."""

Show = Callable[[str], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Answered:
    """A query that was computed.

    Args:
        rows: Its rows, with the columns that the query has in NEXMark.
        cost: What it took, from the topics on.
        steps: What each part took that has a name, where there are several.
    """

    rows: pa.Table
    cost: Cost
    steps: Mapping[str, Cost] = field(default_factory=dict)


class Contestant(Protocol):
    """Who computes queries; it lives as long as the benchmark, so that its code is warm."""

    name: str

    def begin(self) -> None:
        """Forget what was computed, before a pass."""

    def run(self, query: str) -> Answered:
        """Compute a query over all that is in the topics."""


def suffix(events: int) -> str:
    """Return how the names of the topics end that have so many events of this generator."""
    made_by = (inspect.getsource(play), SINCE, RATE, SEED)
    return f"-{events}-{crc32(repr(made_by).encode()):08x}"


def played(events: int, since: datetime, *, rate: int, seed: int) -> Iterator[play.Sent]:
    """Yield so many events, and those that move time on behind them."""
    yield from play.drawn(events, since, rate=rate, seed=seed)
    yield from play.clocks(since + timedelta(seconds=events / rate))


def sent(address: str, events: int, folder: Path) -> Path:
    """Send the events to their topics, unless they are there; return the file in which the oracle finds them."""
    ends = suffix(events)
    file = folder / f"nexmark{ends}.parquet"
    topics = [Topic(name=f"{name}{ends}", partitions=2) for name in play.TOPICS]
    known = broker.topics(address, {})
    there = [topic for topic in topics if topic.name in known]
    is_sent = bool(there) and has_all(address, there, events + play.CLOCKS * len(topics))
    if is_sent and file.exists():
        return file
    for topic in topics:
        broker.create_topic(address, topic.name, topic.partitions, {})
    producer = Producer({"bootstrap.servers": address, "log_level": 0, "linger.ms": 50})

    def given() -> Iterator[tuple[str, int, bytes]]:
        for number, each in enumerate(played(events, SINCE, rate=RATE, seed=SEED)):
            if not is_sent:  # else only the file was removed
                if number % 10_000 == 0:
                    producer.flush()
                name = f"{each.topic}{ends}"
                producer.produce(name, each.value, each.key, timestamp=each.arrived_ms)
            yield each.topic, each.arrived_ms, each.value

    expected.keep(given(), file)
    producer.flush()
    return file


@dataclass(slots=True)
class Found:
    """What passes have shown.

    Args:
        rows: How many rows each query has.
        refused: Why a contestant's figure of a query does not count, by query and contestant. Nothing excuses our own.
    """

    rows: dict[str, int] = field(default_factory=dict)
    refused: dict[tuple[str, str], str] = field(default_factory=dict)


def measure(  # noqa: PLR0913  # who, what, how often, and where it is kept
    contestants: Sequence[Contestant],
    oracle: Oracle,
    samples: Samples,
    *,
    queries: Sequence[str],
    rounds: int,
    show: Show,
) -> Found:
    """Warm everybody up, then measure the passes that are missing."""
    found = Found()
    missing = [n for n in range(2 * rounds) if not samples.has(QUERY, queries[-1], n)]
    for number in [-1, *missing]:
        order = list(contestants) if number % 2 == 0 else list(reversed(contestants))
        for each in order:
            each.begin()
        costs: dict[tuple[str, str, str], Cost] = {}
        before = Noise.now()
        for query, each in product(queries, order):
            if (query, each.name) in found.refused:
                continue
            try:
                answer = each.run(query)
                rows = oracle.demand(query, answer.rows, each.name)
            except (WorkerError, WrongRowsError) as error:
                if each.name == OURS:
                    raise
                found.refused[query, each.name] = reason(error)
                show(f"{query:4} {each.name:12} refused: {error}")
                continue
            found.rows[query] = rows
            costs[QUERY, query, each.name] = answer.cost
            costs |= {(TABLE, name, each.name): cost for name, cost in answer.steps.items()}
            show(
                f"{query:4} {each.name:12} pass {number + 1}  {answer.cost.wall:7.2f} s wall "
                f"{answer.cost.cpu:7.2f} s CPU  {rows:9,} rows, equal"
            )
        noise = Noise.now().since(before, own=_spent(costs))
        if number >= 0:
            samples.add(
                Sample(
                    part=part,
                    row=row,
                    contestant=who,
                    number=number,
                    wall=cost.wall,
                    cpu=cost.cpu,
                    **noise,
                )
                for (part, row, who), cost in costs.items()
            )
    return found


def _spent(costs: Mapping[tuple[str, str, str], Cost]) -> float:
    """Return the CPU of a pass: what has steps is counted by these, because several queries share some."""
    stepped = {who for part, _, who in costs if part == TABLE}
    counted = (
        cost for (part, _, who), cost in costs.items() if (part == TABLE) == (who in stepped)
    )
    return sum(cost.cpu for cost in counted)
