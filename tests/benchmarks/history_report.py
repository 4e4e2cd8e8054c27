"""The report on age: what a batch costs after forty others and after four hundred, table by table."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path

from tests.benchmarks.history import BATCHES, NEAR, OLD, PART, PLAN, YOUNG
from tests.benchmarks.samples import Sample, Samples

MOST = 1.30
"""Most of an old batch's time and bytes over a young one's."""

METHOD = f"""\
{PLAN.events:,} events of the whole domain over three days, in {BATCHES} parts; each table runs alone, always on, and is given a part of each of its sources at a time, by links.
What a table makes is what the tables above it are fed with.
The figures are medians of the {2 * NEAR} batches around the one named; time is from the end of one batch to the end of the next.
Bytes are what the JVM read through Hadoop's file system, whose vectored reads were switched off because it does not count them, and what Python asked the system for, whether it came from the disk or from memory.
Batch {YOUNG} is of a second, new table in the same warm process, because a JVM that compiles its code would make the young batch dear.
After each run the table's ledger must balance; where it does not, the benchmark ends.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryReport:
    """One run of the benchmark."""

    command: str
    machine: Mapping[str, object]
    samples: Samples = field(repr=False)

    def write(self, folder: Path) -> list[Path]:
        """Write ``history.json`` and ``history.md``."""
        folder.mkdir(parents=True, exist_ok=True)
        data, page = folder / "history.json", folder / "history.md"
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
        """Return every target that was not reached."""
        return [
            f"{row}: {what} grew to {ratio:.2f} of what it was, not {MOST}"
            for row in self.samples.rows(PART)
            for what, ratio in zip(("time", "bytes read"), self._ratios(row), strict=True)
            if ratio > MOST
        ]

    def page(self) -> str:
        """Return the page in Markdown."""
        machine = ", ".join(f"{name} {value}" for name, value in self.machine.items())
        head = ["table", f"ms at {YOUNG}", f"ms at {OLD}", "time", "MB at both", "bytes"]
        return "\n".join(
            [
                "# A batch of an old table against one of a young table",
                "",
                f"Made by `{self.command}`.",
                f"Machine: {machine}.",
                "",
                METHOD,
                f"The target is at most {MOST:.2f} for time and for bytes.",
                "",
                f"| {' | '.join(head)} |",
                "|---|---:|---:|---:|---:|---:|",
                *(self._line(row) for row in self.samples.rows(PART)),
                "",
            ]
        )

    def _line(self, row: str) -> str:
        young, old = self._both(row)
        time, read = (
            f"**{ratio:.2f}**" if ratio > MOST else f"{ratio:.2f}" for ratio in self._ratios(row)
        )
        name = row if old.number == OLD else f"{row} (batch {old.number})"
        return (
            f"| {name} | {young.wall * 1e3:.0f} | {old.wall * 1e3:.0f} | {time} "
            f"| {young.read / 1e6:.2f}, {old.read / 1e6:.2f} | {read} |"
        )

    def _ratios(self, row: str) -> tuple[float, float]:
        young, old = self._both(row)
        return old.wall / young.wall, old.read / young.read

    def _both(self, row: str) -> tuple[Sample, Sample]:
        young, old = sorted(self.samples.of(PART, row, "strandline"), key=lambda each: each.number)
        return young, old
