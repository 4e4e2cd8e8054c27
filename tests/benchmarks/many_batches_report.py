"""The report on thousands of batches: their time from the first to the last, and what the lake holds meanwhile."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median

YOUNG = 100
"""The batch whose neighbours are compared with the last ones."""
AROUND = 50
MOST = 1.2
LEFT, TOP, WIDE, HIGH = 60, 20, 560, 150
METHOD = """\
A sender of {rate:.0f} readings a second, a broker, a stream of three tables, and `strandline maintain` every minute, each a program of its own on two cores.
The time of a batch is from its start to its commit, as its ledger entry says. Compared are the medians of {around} batches on either side of batch {young} and of the last {twice}.
Files are those on the disk, replaced ones until they are deleted (here after two minutes, by default after a day). Files that are younger than ten minutes are not put together, so their number is that of the last twelve minutes: it follows the batches a second, not the age of the lake. A log is what Delta lists.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """A batch: its commit, when it was, how long it took, and how many rows it read."""

    number: int
    at: float
    seconds: float
    rows: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """The lake after a maintenance that lasted from one time to another."""

    batch: int
    since: float
    until: float
    files: int
    logged: int
    log_bytes: int
    packed_bytes: int
    python_mb: float
    java_mb: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """One run of the benchmark."""

    command: str
    machine: Mapping[str, object]
    batches: Mapping[str, Sequence[Batch]] = field(repr=False)
    looks: Sequence[Look] = field(repr=False)

    def write(self, folder: Path) -> None:
        """Write the page and the plot."""
        (folder / "many_batches.md").write_text(self.page())
        (folder / "many_batches.svg").write_text(self.picture())

    def missed(self) -> list[str]:
        """Return the targets that were not reached."""
        found = [
            f"{name}: a batch takes {ratio:.2f} times what it took at batch {YOUNG}"
            for name, ratio in self._ratios().items()
            if ratio > MOST
        ]
        halves = self.looks[len(self.looks) // 2 :]
        if halves and max(each.logged for each in halves) > 2 * halves[0].logged:
            found.append("a log grows")
        return found

    def page(self) -> str:
        """Return the page in Markdown."""
        rows = sum(each.rows for each in next(iter(self.batches.values())))
        first, *_, last = next(iter(self.batches.values()))
        missed = self.missed()
        return "\n".join(
            [
                "# A stream of thousands of batches, maintained",
                "",
                f"Made by `{self.command}`.",
                f"Machine: {', '.join(f'{name} {value}' for name, value in self.machine.items())}.",
                "",
                METHOD.format(
                    rate=rows / (last.at - first.at), around=AROUND, young=YOUNG, twice=2 * AROUND
                ),
                f"Target: ≤ {MOST}. " + (f"Missed: {'; '.join(missed)}." if missed else "Reached."),
                "",
                "![Time of batches, files and logs](many_batches.svg)",
                "",
                f"| table | batches | at batch {YOUNG}, ms | last, ms | ratio | beside maintenance | otherwise |",
                "|---|---:|---:|---:|---:|---:|---:|",
                *map(self._line, self.batches),
                "",
                "| at batch | maintained in, s | files | files of the longest log | logs, KB | packed commits, KB | Python, MB | JVM, MB |",
                "|---:|---:|---:|---:|---:|---:|---:|---:|",
                *map(_look, self.looks[:: max(1, len(self.looks) // 12)]),
                "",
                "Each ledger balances.",
                "",
            ]
        )

    def picture(self) -> str:
        """Return the time of batches, the files and the longest log, each over the number of the batch."""
        name, batches = next((n, b) for n, b in self.batches.items() if n.startswith("silver"))
        pieces = [batches[at : at + 25] for at in range(0, len(batches), 25)]
        times = [(each[0].number, 1000 * median(b.seconds for b in each)) for each in pieces]
        files = [(each.batch, float(each.files)) for each in self.looks]
        logs = [(each.batch, float(each.logged)) for each in self.looks]
        panels = [
            (f"time of a batch of {name}, ms (median of 25)", times),
            ("files on the disk", files),
            ("files in the longest log", logs),
        ]
        shapes = "\n".join(
            shape
            for number, (words, points) in enumerate(panels)
            for shape in _panel(number, words, points)
        )
        size = f'viewBox="0 0 {LEFT + WIDE + 20} {len(panels) * (HIGH + 50)}"'
        style = 'font-family="sans-serif" font-size="12"'
        return f'<svg xmlns="http://www.w3.org/2000/svg" {size} {style}>\n{shapes}\n</svg>\n'

    def _ratios(self) -> dict[str, float]:
        return {
            name: _last(batches) / _young(batches)
            for name, batches in self.batches.items()
            if len(batches) > YOUNG + 4 * AROUND
        }

    def _line(self, name: str) -> str:
        batches = self.batches[name]
        ratio = self._ratios().get(name)
        beside = [each.seconds for each in batches if self._is_beside(each)]
        apart = [each.seconds for each in batches if not self._is_beside(each)]
        known = (
            f"{1000 * _young(batches):.0f} | {1000 * _last(batches):.0f} | {ratio:.2f}"
            if ratio
            else "| |"
        )
        both = " | ".join(f"{1000 * median(each):.0f}" if each else "" for each in (beside, apart))
        return f"| {name} | {len(batches):,} | {known} | {both} |"

    def _is_beside(self, batch: Batch) -> bool:
        return any(each.since <= batch.at <= each.until for each in self.looks)


def _young(batches: Sequence[Batch]) -> float:
    return median(each.seconds for each in batches[YOUNG - AROUND : YOUNG + AROUND])


def _last(batches: Sequence[Batch]) -> float:
    return median(each.seconds for each in batches[-2 * AROUND :])


def _look(each: Look) -> str:
    figures = (
        f"{each.until - each.since:.1f}",
        f"{each.files:,}",
        f"{each.logged:,}",
        f"{each.log_bytes / 1024:,.0f}",
        f"{each.packed_bytes / 1024:,.0f}",
        f"{each.python_mb:,.0f}",
        f"{each.java_mb:,.0f}",
    )
    return f"| {each.batch:,} | {' | '.join(figures)} |"


def _panel(number: int, words: str, points: Sequence[tuple[int, float]]) -> Iterator[str]:
    top = TOP + number * (HIGH + 50)
    widest, highest = max(x for x, _ in points), max(y for _, y in points) or 1.0
    yield f'<text x="{LEFT}" y="{top - 6}">{words}</text>'
    for share in (0, 0.5, 1):
        y = top + HIGH * (1 - share)
        yield f'<line x1="{LEFT}" x2="{LEFT + WIDE}" y1="{y}" y2="{y}" stroke="#ddd"/>'
        yield f'<text x="{LEFT - 6}" y="{y + 4}" text-anchor="end">{highest * share:,.0f}</text>'
        x = LEFT + WIDE * share
        yield f'<text x="{x}" y="{top + HIGH + 16}" text-anchor="middle">{widest * share:,.0f}</text>'
    path = " ".join(
        f"{LEFT + WIDE * x / widest:.1f},{top + HIGH * (1 - y / highest):.1f}" for x, y in points
    )
    yield f'<polyline fill="none" stroke="#36c" stroke-width="1.5" points="{path}"/>'
