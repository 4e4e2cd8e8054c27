"""Part two: what a batch costs when there is little to do. A hundred rows, then a hundred more, always warm.

Why the next hundred are given while a batch runs: a stream that waits looks for news all the time, and one whose
watermark has moved runs an empty batch; neither is what a batch of a hundred rows costs. For bronze the
plan of a batch cannot be seen from outside, so there the next hundred follow as soon as the last ones are in the table.

Why no early events and no wrong types here: the tutorial's watermark follows the first clock that runs hours
ahead, whereupon it drops all that comes after and is measured at nothing.

Why a slow run ends early: two hundred partitions of state take ten seconds and more a batch on two cores.
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from itertools import pairwise
from math import inf
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

BUDGET = 30.0
"""Seconds after which a run makes do with few batches."""

FEW_BATCHES = 3
"""The fewest that are measured."""

PARTNERS = ("strandline", "tuned", "tutorial/2", "tutorial")
"""Who runs stateful rows; without state the number of shuffle partitions changes nothing."""

MOST = 5_000
"""Hundreds in the plan, more than all runs together take."""


@dataclass(slots=True, kw_only=True)
class Clock:
    """The moments at which batches were seen to end, and whether there are enough of them."""

    worker: Worker
    warm: int
    batches: int
    budget: float = BUDGET
    begun: float = field(default_factory=time.monotonic)
    ends: list[tuple[float, float]] = field(default_factory=list)

    def tick(self) -> None:
        """Note the end of a batch."""
        self.ends.append((time.monotonic(), self.worker.cpu()))

    def is_full(self, *, coming: int = 0) -> bool:
        """Return whether enough was seen, or will be when the ``coming`` batches have ended."""
        if time.monotonic() - self.begun > self.budget:
            self.warm = min(self.warm, max(len(self.ends) - 1, 1))
            self.batches = FEW_BATCHES
        return len(self.ends) + coming >= self.warm + self.batches

    def cost(self) -> tuple[Cost, float]:
        """Return the median batch, and the slowest."""
        measured = self.ends[self.warm - 1 :]
        walls = [after - before for (before, _), (after, _) in pairwise(measured)]
        spent = measured[-1][1] - measured[0][1]
        return Cost(wall=median(walls), cpu=spent / len(walls)), max(walls)


class SmallBatches:
    """Feeds streams by the hundred."""

    def __init__(self, ground: Ground, warm: int, batches: int) -> None:
        """Prepare the tables that silver and gold read."""
        self._ground = ground
        self._warm, self._batches = warm, batches
        plan = ground.plan
        until = plan.since + MOST * SPAN
        self._plan = replace(
            plan, events=MOST * HUNDRED, until=until, early_share=0.0, wrong_type=0.0
        )
        self._events = Events(self._plan, ground.address, f"{ground.topic}-small-{time.time_ns()}")
        self._sources = ground.work / "small"
        self._prepare(warm + batches + 2)

    def run(self, rounds: int, rows: Sequence[str]) -> None:
        """Measure each query alone."""
        for row in (self._row(name) for name in rows):
            once = self._bronze if row.source is None else self._derived
            self._ground.measure(PART, row, rounds, lambda name, o=once, r=row: o(r, name))  # type: ignore[misc]  # mypy cannot infer a lambda with a default

    def run_chain(self, rounds: int) -> None:
        """Measure three queries that feed each other: from a hundred events to their place in gold."""
        row = Row(name="three chained", table=GOLD, on_change=True, contestants=("strandline",))
        self._ground.measure(CHAIN, row, rounds, lambda name: self._chain(row, name))

    def _row(self, name: str) -> Row:
        row = ROWS[name]
        return row if row.source is None else replace(row, contestants=PARTNERS)

    def _prepare(self, versions: int) -> None:
        topic = f"{self._ground.topic}-prepared-{time.time_ns()}"

        def make(place: Place) -> None:
            worker = self._ground.workers["strandline"]
            events = Events(self._plan, self._ground.address, topic)
            # A stream might look while a hundred are on their way, and make two versions of them.
            for _ in range(versions):
                events.give()
                worker.ask("catch_up", [BRONZE], place)
            silver = self._ground.place(place.root / "silver-of-it", topic)
            feed = self._feed(place.root, silver, SILVER)
            self._through(
                Clock(worker=worker, warm=1, batches=versions - 3, budget=inf), feed, SILVER, silver
            )

        self._ground.prepared(f"small-{versions}", make, topic=topic)
        self._sources = self._ground.work / f"small-{versions}"

    def _bronze(self, row: Row, name: str) -> tuple[Cost, float]:
        worker = self._ground.worker(name)
        place = self._ground.fresh(row, name, topic=self._events.topic)
        clock = Clock(worker=worker, warm=self._warm, batches=self._batches)
        self._events.give()
        tail = Tail(Path(place.table(BRONZE)))
        worker.ask("follow", [BRONZE], place)
        wait_for(lambda: tail.look() == self._events.sent, "bronze's first batch")
        while not clock.is_full():
            self._events.give()
            wait_for(lambda: tail.look() == self._events.sent, "bronze's batch")
            clock.tick()
        worker.ask("stop", [], place)
        oracle.check_bronze(place, self._events.sent, name)
        return clock.cost()

    def _derived(self, row: Row, name: str) -> tuple[Cost, float]:
        place = self._ground.fresh(row, name)
        clock = Clock(worker=self._ground.worker(name), warm=self._warm, batches=self._batches)
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
        number, is_last = 0, False
        while not is_last:
            wait_for((checkpoint / "offsets" / str(number)).exists, f"the plan of batch {number}")
            is_last = clock.is_full(coming=1)
            if not is_last:
                feed.give()
            wait_for((checkpoint / "commits" / str(number)).exists, f"batch {number}")
            clock.tick()
            number += 1
        clock.worker.ask("stop", [], place)
        return number

    def _chain(self, row: Row, name: str) -> tuple[Cost, float]:
        worker = self._ground.worker(name)
        place = self._ground.fresh(row, name, topic=self._events.topic)
        clock = Clock(worker=worker, warm=self._warm, batches=self._batches)
        tails = [Tail(Path(place.table(table))) for table in (BRONZE, SILVER, GOLD)]
        self._events.give()
        for table, tail in zip((BRONZE, SILVER, GOLD), tails, strict=True):
            worker.ask("catch_up", [table], place)
            tail.look()
        worker.ask("follow", [BRONZE, SILVER, GOLD], place)
        while not clock.is_full():
            self._events.give()
            for tail in tails:
                seen = tail.versions
                wait_for(lambda t=tail, s=seen: (t.look(), t.versions > s)[1], "the next hop")  # type: ignore[misc]  # mypy cannot infer a lambda with a default
            clock.tick()
        worker.ask("stop", [], place)
        return clock.cost()
