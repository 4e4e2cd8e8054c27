"""Where the contestants meet: folders, a broker, a process for each, and a fair order."""

import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from jobs.play.plan import Plan
from tests.benchmarks.contestants.contestant import BRONZE, GOLD, SILVER, Place
from tests.benchmarks.machine import Noise
from tests.benchmarks.samples import Sample, Samples
from tests.benchmarks.workers import Cost, Worker

Tell = Callable[[str], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """What is compared.

    Args:
        name: As the report says it.
        table: The table that is filled.
        on_change: Gold says at once what changed.
        contestants: Who takes part.
        source: The table that it reads; bronze reads Kafka.
    """

    name: str
    table: str
    on_change: bool = False
    contestants: tuple[str, ...] = ("strandline", "tuned", "tutorial")
    source: str | None = None


ROWS = {
    "bronze": Row(name="bronze", table=BRONZE),
    "silver": Row(name="silver", table=SILVER, source=BRONZE),
    "gold": Row(name="gold", table=GOLD, source=SILVER),
    "gold on_change": Row(name="gold on_change", table=GOLD, source=SILVER, on_change=True),
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
        tell: Hears of each step.
    """

    work: Path
    address: str
    topic: str
    plan: Plan
    workers: Mapping[str, Worker]
    samples: Samples
    tell: Tell

    def place(self, root: Path, *, topic: str | None = None, on_change: bool = False) -> Place:
        """Return a place in a folder."""
        topic = topic or self.topic
        return Place(root=root, address=self.address, topic=topic, on_change=on_change)

    def fresh(self, row: Row, *, topic: str | None = None) -> Place:
        """Return a place that nobody has used; the last one is removed."""
        root = self.work / "run"
        shutil.rmtree(root, ignore_errors=True)
        root.mkdir(parents=True)
        return self.place(root, topic=topic, on_change=row.on_change)

    def prepared(self, name: str, make: Callable[[Place], None], *, topic: str) -> Path:
        """Return a folder with tables to read, made once."""
        root = self.work / name
        if not (root / "whole").exists():
            shutil.rmtree(root, ignore_errors=True)
            root.mkdir(parents=True)
            self.tell(f"preparing {name}")
            make(self.place(root, topic=topic))
            (root / "whole").touch()
        return root

    def measure(
        self, part: str, row: Row, rounds: int, once: Callable[[str], tuple[Cost, float]]
    ) -> None:
        """Warm everybody up, then measure the rounds that are missing.

        Args:
            part: Which part of the report.
            row: What.
            rounds: How many rounds there must be.
            once: Measures one contestant; returns its cost and its slowest batch.
        """
        missing = [n for n in range(rounds) if not self.samples.has(part, row.name, n)]
        for name in row.contestants if missing else ():
            cost, _ = once(name)
            self.tell(f"{part:6} {row.name:14} {name:10} warm-up  {cost.wall:7.3f} s")
        for number in missing:
            self.samples.add(
                [
                    self._sample(part, row, name, number, once)
                    for name in there_and_back(row.contestants, number)
                ]
            )

    def _sample(
        self,
        part: str,
        row: Row,
        name: str,
        number: int,
        once: Callable[[str], tuple[Cost, float]],
    ) -> Sample:
        before, spent = Noise.now(), self.workers[name].cpu()
        cost, slowest = once(name)
        noise = Noise.now().since(before, own=self.workers[name].cpu() - spent)
        self.tell(
            f"{part:6} {row.name:14} {name:10} round {number + 1}  {cost.wall:7.3f} s wall "
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
            **noise,
        )


def there_and_back(names: Sequence[str], number: int) -> Iterator[str]:
    """Yield A B C C B A, in the next round C B A A B C."""
    order = list(names) if number % 2 == 0 else list(reversed(names))
    yield from order
    yield from reversed(order)
