"""What was measured, kept at once, so that an interrupted run goes on where it was.

A round is the unit: its samples are taken in the order A B C C B A, so that a machine that grows slower or
faster during the round favours none of them, and the ratio is taken within the round.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import mean, median
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """One measurement.

    Args:
        part: ``events`` for throughput, ``batch`` for the fixed cost, ``chain`` for three together, ``peers`` for what others would use.
        row: What was done: bronze, silver, gold, and so on.
        contestant: Who.
        number: The round.
        at: The batch in the middle of those that were measured.
        wall: Seconds: of the whole run, or of one batch (median).
        cpu: Seconds of CPU of the process tree: of the whole run, or of one batch (mean).
        slowest: The slowest batch in seconds.
        read: Bytes read by one batch (mean).
        load: The machine's load average at the end.
        steal: Share of the time that the hypervisor took, in percent.
        others: Share of both cores that went to processes other than the contestant and the broker.
        peak: The most memory of the process tree, in bytes.
        written: Bytes that it gave to a disk.
    """

    part: str
    row: str
    contestant: str
    number: int
    wall: float
    cpu: float
    at: int = 0
    slowest: float = 0.0
    read: float = 0.0
    load: float = 0.0
    steal: float = 0.0
    others: float = 0.0
    peak: int = 0
    written: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Spread:
    """Several values of one thing."""

    median: float
    low: float
    high: float


class Samples:
    """All that was measured so far, in a file of one line each."""

    def __init__(self, file: Path) -> None:
        """Read what an earlier run has left."""
        self._file = file
        lines = file.read_text().splitlines() if file.exists() else []
        self.all = [Sample(**json.loads(line)) for line in lines]

    @classmethod
    def holding(cls, lines: Iterable[Mapping[str, Any]]) -> "Samples":
        """Return what a report has kept."""
        held = cls(Path("/dev/null"))
        held.all = [Sample(**line) for line in lines]
        return held

    def add(self, round_: Iterable[Sample]) -> None:
        """Keep a whole round."""
        taken = list(round_)
        with self._file.open("a") as file:
            file.writelines(json.dumps(asdict(sample)) + "\n" for sample in taken)
        self.all += taken

    def has(self, part: str, row: str, number: int) -> bool:
        """Return whether a round was measured."""
        return any((s.part, s.row, s.number) == (part, row, number) for s in self.all)

    def of(self, part: str, row: str, contestant: str) -> list[Sample]:
        """Return the samples of one contestant."""
        return [s for s in self.all if (s.part, s.row, s.contestant) == (part, row, contestant)]

    def rows(self, part: str) -> list[str]:
        """Return the rows of a part in the order of measuring."""
        return list(dict.fromkeys(s.row for s in self.all if s.part == part))

    def figure(self, part: str, row: str, contestant: str, what: str) -> Spread | None:
        """Return median and spread of one figure."""
        return spread([float(getattr(s, what)) for s in self.of(part, row, contestant)])

    def ratio(
        self, part: str, row: str, against: str, what: str, who: str = "strandline"
    ) -> Spread | None:
        """Return one's figure over another's, taken round by round."""
        ours = _by_round(self.of(part, row, who), what)
        theirs = _by_round(self.of(part, row, against), what)
        return spread([ours[n] / theirs[n] for n in ours if theirs.get(n)])


def spread(values: Sequence[float]) -> Spread | None:
    """Return the median and the ends of some values."""
    if not values:
        return None
    return Spread(median=median(values), low=min(values), high=max(values))


def _by_round(samples: Sequence[Sample], what: str) -> dict[int, float]:
    numbers = {s.number for s in samples}
    return {n: mean(float(getattr(s, what)) for s in samples if s.number == n) for n in numbers}
