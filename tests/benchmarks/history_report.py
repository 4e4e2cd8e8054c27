"""The report on age: what a batch costs after forty others and after four hundred, table by table."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path

from tests.benchmarks.history import ALIKE, OLD, PART, PLAN, ROUNDS, STEPS, WHOLE, YOUNG
from tests.benchmarks.samples import Samples, Spread

MOST = 1.30
"""Most of an old batch's time and bytes over a young one's."""

METHOD = f"""\
{PLAN.events:,} events of the whole domain over three days, in {WHOLE} parts; each table runs alone, always on, and is given a part of each of its sources at a time, by links.
What a table makes is what the tables above it are fed with.
When all have grown old, each goes on in turns with a new table in the same warm process: {ROUNDS} rounds of {STEPS} batches each, those around batch {OLD} and those around batch {YOUNG}, the order changing from round to round.
Time is from the end of one batch to the end of the next, the median of a round; bytes are the mean of a round; a ratio is taken within its round, and its median and its ends are shown.
Bytes are what the JVM read through Hadoop's file system, whose vectored reads were switched off because it does not count them, and what Python asked the system for, whether it came from the disk or from memory.
Once in a hundred commits Delta writes a checkpoint of a table's log and reads all of it for that; a round in which that falls costs more, in a young table as in an old one.
Two tables have a second row, for which the target is: one that computes whole days again is measured against the same hour of the day before, because it reads more of its day the later the hour, and of the days beside it; and one that emits nothing around batch 40, and much around 400, against batches that emit.
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
            f"{row}: {what} grew to {ratio.median:.2f} of what it was, not {MOST}"
            for row in self._judged()
            for what in ("wall", "read")
            if (ratio := self._ratio(row, what)).median > MOST
        ]

    def _judged(self) -> list[str]:
        """Return the rows for which the target is: of a table with two, the one that compares like with like."""
        rows = self.samples.rows(PART)
        return [row for row in rows if row + ALIKE not in rows]

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
        (young, young_read), (old, old_read) = (self._both(row, age) for age in ("young", "old"))
        time, read = (self._ratio(row, what) for what in ("wall", "read"))
        young_at, old_at = (self.samples.of(PART, row, age)[0].at for age in ("young", "old"))
        name = row if (young_at, old_at) == (YOUNG, OLD) else f"{row} ({young_at} and {old_at})"
        return (
            f"| {name} | {young * 1e3:.0f} | {old * 1e3:.0f} | {_shown(time)} "
            f"| {young_read / 1e6:.2f}, {old_read / 1e6:.2f} | {_shown(read)} |"
        )

    def _both(self, row: str, age: str) -> tuple[float, float]:
        time, read = (self.samples.figure(PART, row, age, what) for what in ("wall", "read"))
        return (time.median, read.median) if time and read else (0.0, 0.0)

    def _ratio(self, row: str, what: str) -> Spread:
        found = self.samples.ratio(PART, row, "young", what, who="old")
        return found or Spread(median=0.0, low=0.0, high=0.0)


def _shown(ratio: Spread) -> str:
    middle = f"**{ratio.median:.2f}**" if ratio.median > MOST else f"{ratio.median:.2f}"
    return f"{middle} ({ratio.low:.2f} to {ratio.high:.2f})"
