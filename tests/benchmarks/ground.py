"""Where the contestants meet: folders, a broker, a process for each, and a fair order."""

import shutil
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from fleet.play.plan import Plan
from tests.benchmarks.contestants.contestant import BRONZE, GOLD, SILVER, Place
from tests.benchmarks.contestants.roster import process_of, variant_of
from tests.benchmarks.machine import Noise
from tests.benchmarks.oracle import WrongRowsError
from tests.benchmarks.samples import Sample, Samples
from tests.benchmarks.workers import Cost, Worker, WorkerError, reason

Show = Callable[[str], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """What is compared.

    Args:
        name: In the report.
        table: The table that is filled, the last one of several.
        through: The tables that are filled on the way to it.
        on_change: Gold emits a window on each change.
        contestants: Who takes part.
        source: The table that it reads; what has none reads Kafka.
        slow: Those who take part in the first round only, because they would take hours otherwise.
        long: Those whose first run counts and who run once: in minutes of work nothing is left of how it began.
    """

    name: str
    table: str
    through: tuple[str, ...] = ()
    on_change: bool = False
    contestants: tuple[str, ...] = ("strandline", "tuned", "tutorial")
    source: str | None = None
    slow: tuple[str, ...] = ("tutorial",)
    long: tuple[str, ...] = ()

    @property
    def tables(self) -> tuple[str, ...]:
        """Return all that are filled, each after those that it reads."""
        return (*self.through, self.table)


OURS = "strandline"
FEW = "/2"
"""Ends the name of a contestant who runs with 2 shuffle partitions and is otherwise the same."""

ROWS = {
    "bronze": Row(name="bronze", table=BRONZE, slow=()),
    "silver": Row(name="silver", table=SILVER, source=BRONZE),
    "gold": Row(name="gold", table=GOLD, source=SILVER),
    "gold on_change": Row(name="gold on_change", table=GOLD, source=SILVER, on_change=True),
    "whole": Row(name="whole", table=GOLD, through=(BRONZE, SILVER)),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Ground:
    """Everything that a measurement needs.

    Args:
        work: A folder for tables, logs and samples.
        address: host:port of a broker.
        topic: A topic with the plan's events in it.
        plan: Those events.
        workers: The contestants.
        samples: What was measured so far.
        show: Called with a line about each step.
        refused: Why a contestant's figure in a row does not count, by row and contestant. Nothing excuses our own.
    """

    work: Path
    address: str
    topic: str
    plan: Plan
    workers: Mapping[str, Worker]
    samples: Samples
    show: Show
    refused: dict[tuple[str, str], str] = field(default_factory=dict)

    def worker(self, name: str) -> Worker:
        """Return the process of a contestant."""
        return self.workers[process_of(name)]

    def place(self, root: Path, topic: str) -> Place:
        """Return a place in a folder."""
        return Place(root=root, address=self.address, topic=topic)

    def fresh(self, row: Row, name: str, *, topic: str | None = None) -> Place:
        """Return a new place; the last one is removed."""
        runs = self.work / "run"
        shutil.rmtree(runs, ignore_errors=True)
        # Never the same folder again: a state store of the run before may still write to it.
        root = runs / str(time.time_ns())
        root.mkdir(parents=True)
        place = self.place(root, topic or self.topic)
        partitions = 2 if name.endswith(FEW) else place.partitions
        return replace(
            place, on_change=row.on_change, partitions=partitions, variant=variant_of(name)
        )

    def prepared(self, name: str, make: Callable[[Place], None], *, topic: str) -> Path:
        """Return a folder with tables to read, made once."""
        root = self.work / name
        if not (root / "whole").exists():
            shutil.rmtree(root, ignore_errors=True)
            root.mkdir(parents=True)
            self.show(f"preparing {name}")
            make(self.place(root, topic))
            (root / "whole").touch()
        return root

    def measure(
        self, part: str, row: Row, rounds: int, once: Callable[[str], tuple[Cost, float]]
    ) -> None:
        """Warm all of them up, then measure the rounds that are missing.

        Args:
            part: Which part of the report.
            row: What.
            rounds: How many rounds there must be.
            once: Measures one contestant; returns its cost and its slowest batch.
        """
        missing = [n for n in range(rounds) if not self.samples.has(part, row.name, n)]
        here = [who for who in row.contestants if process_of(who) in self.workers]
        for name in [who for who in here if who not in row.long] if missing else ():
            try:
                cost, _ = once(name)
            except (WrongRowsError, WorkerError) as error:
                if name == OURS:
                    raise
                self.refused[row.name, name] = reason(error)
                here.remove(name)
                self.show(f"{part:6} {row.name:14} {name:14} refused: {error}")
                continue
            self.show(f"{part:6} {row.name:14} {name:14} warm-up  {cost.wall:7.3f} s wall")
        for number in missing:
            takers = [who for who in here if number == 0 or who not in row.slow]
            order = [*there_and_back(takers, number)]
            for name in row.long:
                if name in order:
                    order.remove(name)  # the other of its two turns stays
            self.samples.add([self._sample(part, row, name, number, once) for name in order])

    def _sample(
        self,
        part: str,
        row: Row,
        name: str,
        number: int,
        once: Callable[[str], tuple[Cost, float]],
    ) -> Sample:
        before, spent = Noise.now(), self.worker(name).cpu()
        cost, slowest = once(name)
        noise = Noise.now().since(before, own=self.worker(name).cpu() - spent)
        self.show(
            f"{part:6} {row.name:14} {name:14} round {number + 1}  {cost.wall:7.3f} s wall "
            f"{cost.cpu:7.3f} s CPU, others {noise['others']:.0f} %"
        )
        return Sample(
            part=part,
            row=row.name,
            contestant=name,
            number=number,
            wall=cost.wall,
            cpu=cost.cpu,
            slowest=slowest,
            peak=cost.peak,
            written=cost.written,
            **noise,
        )


def there_and_back(names: Sequence[str], number: int) -> Iterator[str]:
    """Yield A B C C B A, in the next round C B A A B C."""
    order = list(names) if number % 2 == 0 else list(reversed(names))
    yield from order
    yield from reversed(order)
