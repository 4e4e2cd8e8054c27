"""Part two: what a batch costs when there is little to do. A hundred rows, then a hundred more, always warm.

Why the next hundred are given while a batch runs: a stream that waits looks for news all the time, and one whose
watermark has moved runs an empty batch; neither is what a batch of a hundred rows costs. For bronze the
plan of a batch cannot be seen from outside, so there the next hundred follow as soon as the last ones are in the table.
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from itertools import pairwise
from pathlib import Path
from statistics import median

from tests.benchmarks import oracle
from tests.benchmarks.contestants.contestant import BRONZE, GOLD, SILVER, Place
from tests.benchmarks.feed import ROWS as HUNDRED
from tests.benchmarks.feed import Events, Tail, Versions, wait_for
from tests.benchmarks.ground import ROWS, Ground, Row
from tests.benchmarks.workers import Cost, Worker

PART = "batch"
CHAIN = "chain"
SPAN = timedelta(seconds=5)
"""From the arrival of one hundred to that of the next."""

MOST = 5_000
"""Hundreds in the plan, more than all runs together take."""


@dataclass(slots=True)
class Clock:
    """The moments at which batches were seen to end."""

    worker: Worker
    warm: int
    batches: int
    moments: list[float]
    spent: float = 0.0

    def tick(self) -> None:
        """Note the end of a batch."""
        self.moments.append(time.monotonic())
        if len(self.moments) in {self.warm, self.warm + self.batches}:
            self.spent = self.worker.cpu() - self.spent

    def cost(self) -> tuple[Cost, float]:
        """Return the median batch, and the slowest."""
        ends = self.moments[self.warm - 1 :]
        walls = [after - before for before, after in pairwise(ends)]
        return Cost(wall=median(walls), cpu=self.spent / self.batches), max(walls)


class SmallBatches:
    """Feeds streams by the hundred."""

    def __init__(self, ground: Ground, warm: int, batches: int) -> None:
        """Prepare the tables that silver and gold read."""
        self._ground = ground
        self._warm, self._batches = warm, batches
        plan = ground.plan
        until = plan.since + MOST * SPAN
        self._plan = replace(plan, events=MOST * HUNDRED, until=until, rate=None)
        self._events = Events(self._plan, ground.address, f"{ground.topic}-small-{time.time_ns()}")
        self._sources = ground.work / "small"
        self._prepare(warm + batches + 2)

    def run(self, rounds: int, rows: Sequence[str]) -> None:
        """Measure each query alone."""
        for row in (ROWS[name] for name in rows):
            once = self._bronze if row.source is None else self._derived
            self._ground.measure(PART, row, rounds, lambda name, o=once, r=row: o(r, name))  # type: ignore[misc]

    def run_chain(self, rounds: int) -> None:
        """Measure three queries that feed each other: from a hundred events to their place in gold."""
        row = Row(name="three chained", table=GOLD, on_change=True, contestants=("strandline",))
        self._ground.measure(CHAIN, row, rounds, lambda name: self._chain(row, name))

    def _prepare(self, versions: int) -> None:
        topic = f"{self._ground.topic}-prepared-{time.time_ns()}"

        def make(place: Place) -> None:
            worker = self._ground.workers["strandline"]
            events = Events(self._plan, self._ground.address, topic)
            tail = Tail(place.root / "bronze" / "device_telemetry")
            worker.ask("follow", [BRONZE], place)
            for _ in range(versions):
                events.give()
                wait_for(lambda: tail.look() == events.sent, "bronze's batch")
            worker.ask("stop", [], place)
            silver = self._ground.place(place.root / "silver-of-it")
            feed = self._feed(place.root, silver, SILVER)
            self._through(Clock(worker, 1, versions - 3, []), feed, SILVER, silver)

        self._ground.prepared(f"small-{versions}", make, topic=topic)
        self._sources = self._ground.work / f"small-{versions}"

    def _bronze(self, row: Row, name: str) -> tuple[Cost, float]:
        worker = self._ground.workers[name]
        place = self._ground.fresh(row, topic=self._events.topic)
        clock = Clock(worker, self._warm, self._batches, [])
        self._events.give()
        tail = Tail(Path(place.table(BRONZE)))
        worker.ask("follow", [BRONZE], place)
        wait_for(lambda: tail.look() == self._events.sent, "bronze's first batch")
        for _ in range(self._warm + self._batches):
            self._events.give()
            wait_for(lambda: tail.look() == self._events.sent, "bronze's batch")
            clock.tick()
        worker.ask("stop", [], place)
        oracle.check_bronze(place, self._events.sent, name)
        return clock.cost()

    def _derived(self, row: Row, name: str) -> tuple[Cost, float]:
        place = self._ground.fresh(row)
        clock = Clock(self._ground.workers[name], self._warm, self._batches, [])
        is_silver = row.table == SILVER
        sources = self._sources if is_silver else self._sources / "silver-of-it"
        feed = self._feed(sources, place, row.table)
        given = self._through(clock, feed, row.table, place)
        if is_silver:
            oracle.check_silver(place, oracle.truth(self._plan, given * HUNDRED), name)
        else:
            oracle.check_gold(place, name)
        return clock.cost()

    def _feed(self, sources: Path, place: Place, table: str) -> Versions:
        source = ROWS["silver" if table == SILVER else "gold"].source
        layer, folder = str(source).split(".")
        return Versions(sources / layer / folder, place.root / layer / folder)

    def _through(self, clock: Clock, feed: Versions, table: str, place: Place) -> int:
        """Run a stream over version after version; return how many."""
        checkpoint = Path(place.checkpoint(table))
        feed.give()
        clock.worker.ask("follow", [table], place)
        total = clock.warm + clock.batches
        for number in range(total):
            wait_for((checkpoint / "offsets" / str(number)).exists, f"the plan of batch {number}")
            if number < total - 1:
                feed.give()
            wait_for((checkpoint / "commits" / str(number)).exists, f"batch {number}")
            clock.tick()
        clock.worker.ask("stop", [], place)
        return total

    def _chain(self, row: Row, name: str) -> tuple[Cost, float]:
        worker = self._ground.workers[name]
        place = self._ground.fresh(row, topic=self._events.topic)
        clock = Clock(worker, self._warm, self._batches, [])
        tails = [Tail(Path(place.table(table))) for table in (BRONZE, SILVER, GOLD)]
        self._events.give()
        for table, tail in zip((BRONZE, SILVER, GOLD), tails, strict=True):
            worker.ask("catch_up", [table], place)
            tail.look()
        worker.ask("follow", [BRONZE, SILVER, GOLD], place)
        for _ in range(self._warm + self._batches):
            self._events.give()
            for tail in tails:
                seen = tail.versions
                wait_for(lambda t=tail, s=seen: (t.look(), t.versions > s)[1], "the next hop")  # type: ignore[misc]
            clock.tick()
        worker.ask("stop", [], place)
        return clock.cost()
