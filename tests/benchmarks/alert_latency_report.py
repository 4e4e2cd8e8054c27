"""The report on latency: a table, and a picture of the whole distribution."""

import json
from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import isfinite, log10
from pathlib import Path

from tests.benchmarks.alert_latency import FLOOR, MODES, WARM, Run

COLUMNS = (
    "mode",
    "partitions",
    "events/s",
    "events",
    "p50",
    "p99",
    "p99.9",
    "max",
    "missing",
    "CPU an event",
    "sender late at most",
    "others' CPU",
)
EDGES = ("partitions", "events/s", "boundaries", "events", "p50", "p99", "max")
WANTED_P50, WANTED_P99, WANTED_RATE = 5.0, 50.0, 200
SHARES = [1 - 10 ** -(step / 10) for step in range(41)]
"""From none of the events to all but one of ten thousand, evenly by how rare the rest is."""
COLOURS = dict(zip(MODES, ("#0a7", "#06c", "#c60", "#888"), strict=True))
LEFT, TOP, WIDE, HIGH = 60, 20, 560, 260
LOWEST, HIGHEST = 0.1, 10_000.0

METHOD = """\
Latency is from the moment at which an event was to be sent to the moment at which a consumer in Python has its alert; both clocks are the machine's. \
The sender is open-loop and a process of its own: what it is late itself counts as latency. Every event raises one alert. \
The first {warm:.0f} s are not counted. \
Where `others' CPU`, what other programs took of all cores, leaves too little, events wait in the topic, and a latency is the length of that queue. `floor` is the same sender, broker and consumer without Spark. \
Events within 2 s of a checkpoint of real-time mode are in the second table; `--every {every}` makes checkpoints more frequent than the five minutes that `strandline alerts` takes by itself.
"""


@dataclass(slots=True, kw_only=True)
class Report:
    """All combinations."""

    command: str
    every: str
    machine: Mapping[str, object]
    runs: list[Run] = field(default_factory=list)

    def add(self, run: Run) -> str:
        """Add a combination, and return its line."""
        self.runs.append(run)
        return self._line(run)

    def write(self, folder: Path) -> list[Path]:
        """Write the data, the page and the picture."""
        files = [folder / f"alert_latency.{kind}" for kind in ("json", "md", "svg")]
        data = {
            "command": self.command,
            "machine": self.machine,
            "missed": self.missed(),
            "runs": [_summary(run) for run in self.runs],
        }
        texts = (json.dumps(data, indent=1) + "\n", self.page(), self.picture())
        for file, text in zip(files, texts, strict=True):
            file.write_text(text)
        return files

    def missed(self) -> list[str]:
        """Return the targets that were not reached."""
        slow = []
        for run in self.runs:
            if run.mode != "real-time" or run.rate != WANTED_RATE:
                continue
            for share, most in ((0.5, WANTED_P50), (0.99, WANTED_P99)):
                found = quantile(run.inside, share)
                if found > most:
                    slow.append(
                        f"real-time, {run.partitions} partitions: p{share * 100:g} {found:.1f} ms, not {most:g}"
                    )
        return slow

    def page(self) -> str:
        """Return the page in Markdown."""
        machine = ", ".join(f"{name} {value}" for name, value in self.machine.items())
        missed = self.missed()
        return "\n".join(
            [
                "# How long an alert takes",
                "",
                f"Made by `{self.command}`.",
                f"Machine: {machine}.",
                "",
                METHOD.format(warm=WARM, every=self.every),
                f"Targets: in real time at {WANTED_RATE} events/s p50 ≤ {WANTED_P50:g} ms and p99 ≤ {WANTED_P99:g} ms. "
                + (f"Missed: {'; '.join(missed)}." if missed else "Reached."),
                "",
                "![Latency by share of events](alert_latency.svg)",
                "",
                "In milliseconds, outside of the boundaries of real-time mode:",
                "",
                f"| {' | '.join(COLUMNS)} |",
                f"|---|{'---:|' * (len(COLUMNS) - 1)}",
                *map(self._line, self.runs),
                "",
                "At the boundaries of real-time mode:",
                "",
                f"| {' | '.join(EDGES)} |",
                f"|{'---:|' * len(EDGES)}",
                *(_edge(run) for run in self.runs if run.boundaries),
                "",
            ]
        )

    @staticmethod
    def _line(run: Run) -> str:
        figures = (f"{quantile(run.inside, share):.1f}" for share in (0.5, 0.99, 0.999, 1.0))
        cpu = "" if run.mode == FLOOR else f"{run.cpu_ms:.2f}"
        return (
            f"| {run.mode} | {run.partitions} | {run.rate:,} | {len(run.inside):,} | {' | '.join(figures)} | "
            f"{run.missing:,} | {cpu} | {run.sender['most']:.1f} | {run.noise['others']:.0f} % |"
        )

    def picture(self) -> str:
        """Return a curve for each mode, of the first rate and number of partitions that were measured."""
        first = self.runs[0]
        shown = [r for r in self.runs if (r.rate, r.partitions) == (first.rate, first.partitions)]
        parts = [*_axes(first), *(_curve(run, number) for number, run in enumerate(shown))]
        size = f'viewBox="0 0 {LEFT + WIDE + 110} {TOP + HIGH + 50}"'
        style = 'font-family="sans-serif" font-size="12"'
        return "\n".join(
            [f'<svg xmlns="http://www.w3.org/2000/svg" {size} {style}>', *parts, "</svg>", ""]
        )


def quantile(ascending: Sequence[float], share: float) -> float:
    """Return the latency that a share of the events does not exceed; NaN without events."""
    if not ascending:
        return float("nan")
    return ascending[min(int(share * len(ascending)), len(ascending) - 1)]


def _summary(run: Run) -> dict[str, object]:
    return {
        "mode": run.mode,
        "rate": run.rate,
        "partitions": run.partitions,
        "events": len(run.inside),
        "quantiles": {
            f"{share:.5f}": round(quantile(run.inside, share), 3) for share in (*SHARES, 1.0)
        },
        "boundaries": run.boundaries,
        "at boundaries": {
            f"{share:g}": round(quantile(run.boundary, share), 3) for share in (0.5, 0.99, 1.0)
        }
        if run.boundary
        else {},
        "slower than 50 ms": len(run.inside) - bisect_left(run.inside, WANTED_P99),
        "missing": run.missing,
        "sender": run.sender,
        "cpu ms an event": round(run.cpu_ms, 3),
        "noise": run.noise,
    }


def _edge(run: Run) -> str:
    figures = (f"{quantile(run.boundary, share):.1f}" for share in (0.5, 0.99, 1.0))
    return f"| {run.partitions} | {run.rate:,} | {run.boundaries} | {len(run.boundary):,} | {' | '.join(figures)} |"


def _curve(run: Run, number: int) -> str:
    points = " ".join(
        f"{_across(share):.1f},{_down(quantile(run.inside, share)):.1f}" for share in SHARES
    )
    colour = COLOURS[run.mode]
    label = f'<text x="{LEFT + WIDE + 8}" y="{TOP + 14 + 18 * number}" fill="{colour}">{run.mode}</text>'
    return f'<polyline fill="none" stroke="{colour}" stroke-width="2" points="{points}"/>{label}'


def _axes(run: Run) -> Iterator[str]:
    for power in range(-1, 5):
        y = _down(10.0**power)
        yield f'<line x1="{LEFT}" x2="{LEFT + WIDE}" y1="{y:.1f}" y2="{y:.1f}" stroke="#ddd"/>'
        yield f'<text x="{LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{10.0**power:g} ms</text>'
    for share in (0, 0.9, 0.99, 0.999, 0.9999):
        x = _across(share)
        yield f'<line x1="{x:.1f}" x2="{x:.1f}" y1="{TOP}" y2="{TOP + HIGH}" stroke="#eee"/>'
        yield f'<text x="{x:.1f}" y="{TOP + HIGH + 16}" text-anchor="middle">{share * 100:g} %</text>'
    words = f"share of events that were faster; {run.rate} events/s, {run.partitions} partition(s)"
    yield f'<text x="{LEFT + WIDE / 2}" y="{TOP + HIGH + 36}" text-anchor="middle">{words}</text>'


def _across(share: float) -> float:
    return LEFT + WIDE * -log10(1 - share) / 4


def _down(latency: float) -> float:
    bounded = min(max(latency, LOWEST), HIGHEST) if isfinite(latency) else LOWEST
    return TOP + HIGH * (1 - (log10(bounded) + 1) / 5)
