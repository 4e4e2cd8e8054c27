"""The report on shares: what of a scheduled run is neither Kafka's, nor Spark's, nor Delta's."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path

from tests.benchmarks.samples import Samples, Spread, spread
from tests.benchmarks.share import EVENTS, PART, ROUNDS, ROW

MOST = 0.25
"""Most that Dagster and the gates together may take of the run."""

METHOD = f"""\
{EVENTS:,} new events of all topics, into a lake that was brought up to date once before, all tables to gold; {ROUNDS} rounds, `strandline run` first in the first, Dagster's run first in the second, and so on.
`dagster` is the run of the job catch_up as the schedule launches it, from the moment at which the daemon launches its process to the moment at which the run is marked as done; `run` is `strandline run`, from the start of its process to its end. Both pay for their imports and their JVM.
Dagster's share is what its run takes longer than `run`, of its run; that of the gates is the time within their functions, taken inside of `run`, of Dagster's run as well. What rules cost inside of the plan of a batch is not in it: rules.md has that.
"""
COLUMNS = (
    "round",
    "dagster, s",
    "run, s",
    "in tables, s (dagster, run)",
    "before the first step, s",
    "queued, s",
    "gates, s",
    "Dagster's share",
    "gates' share",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareReport:
    """One run of the comparison."""

    command: str
    machine: Mapping[str, object]
    samples: Samples = field(repr=False)

    def write(self, folder: Path) -> list[Path]:
        """Write ``share.json`` and ``share.md``."""
        folder.mkdir(parents=True, exist_ok=True)
        data, page = folder / "share.json", folder / "share.md"
        found = {
            "command": self.command,
            "machine": self.machine,
            "most": MOST,
            "missed": self.missed(),
            "samples": [asdict(sample) for sample in self.samples.all],
        }
        data.write_text(json.dumps(found, indent=1) + "\n")
        page.write_text(self.page())
        return [data, page]

    def missed(self) -> list[str]:
        """Return the target if it was not reached."""
        found = self._both()
        if found.median <= MOST:
            return []
        return [f"Dagster and the gates take {found.median:.0%} of the run, not {MOST:.0%}"]

    def page(self) -> str:
        """Return the page in Markdown."""
        machine = ", ".join(f"{name} {value}" for name, value in self.machine.items())
        both = self._both()
        return "\n".join(
            [
                "# What Dagster and the gates take of a scheduled run",
                "",
                f"Made by `{self.command}`.",
                f"Machine: {machine}.",
                "",
                METHOD,
                f"Together they take {both.median:.1%} ({both.low:.1%} to {both.high:.1%}).",
                f"The target is at most {MOST:.0%}.",
                "",
                f"| {' | '.join(COLUMNS)} |",
                f"|{'---:|' * len(COLUMNS)}",
                *(self._line(number) for number in range(ROUNDS)),
                "",
            ]
        )

    def _line(self, number: int) -> str:
        def seconds(name: str) -> str:
            return f"{self._wall(name, number):.1f}"

        return (
            f"| {number + 1} | {seconds('dagster')} | {seconds('run')} | "
            f"{seconds('dagster tables')}, {seconds('run tables')} | {seconds('before the first step')} | "
            f"{seconds('queued')} | {self._wall('gates', number):.2f} | "
            f"{self._dagsters(number):.1%} | {self._gates(number):.1%} |"
        )

    def _dagsters(self, number: int) -> float:
        return 1 - self._wall("run", number) / self._wall("dagster", number)

    def _gates(self, number: int) -> float:
        return self._wall("gates", number) / self._wall("dagster", number)

    def _both(self) -> Spread:
        found = spread([self._dagsters(n) + self._gates(n) for n in range(ROUNDS)])
        assert found is not None
        return found

    def _wall(self, name: str, number: int) -> float:
        (sample,) = (s for s in self.samples.of(PART, ROW, name) if s.number == number)
        return sample.wall
