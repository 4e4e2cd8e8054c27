"""The report on latency: a table, and a picture of the whole distribution."""

import json
from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import isfinite, log10
from pathlib import Path
from typing import Any, Self

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
    "seconds",
    "commit",
)
EDGES = ("partitions", "events/s", "boundaries", "events", "p50", "p99", "max", "commit")
TAKEN = ("Spark", "Python", "broker", "sender", "consumer", "idle")
CORES = ("mode", "partitions", "events/s", *TAKEN)
WANTED_P50, WANTED_P99, WANTED_RATE = 5.0, 50.0, 200
WANTED_ANYWHERE = 100.0
"""Milliseconds of p99 at the higher rate, and of the events at boundaries at the lower one."""
SHARES = [1 - 10 ** -(step / 10) for step in range(41)]
"""From none of the events to all but one of ten thousand, evenly by how rare the rest is."""
COLOURS = dict(zip(MODES, ("#0a7", "#06c", "#c60", "#888"), strict=True))
LEFT, TOP, WIDE, HIGH = 60, 20, 560, 260
LOWEST, HIGHEST = 0.1, 10_000.0

METHOD = """\
Latency is from the moment at which an event was to be sent to the moment at which a consumer in Python has its alert; both clocks are the machine's. \
The sender is open-loop and a process of its own: what it is late itself counts as latency. Every event raises one alert. \
The first {warm:.0f} s are not counted. Each row has the commit of the code that it is a figure of: a run of some combinations leaves the others as they are. \
Where `others' CPU`, what other programs took of all cores, leaves too little, events wait in the topic, and a latency is the length of that queue. `floor` is the same sender, broker and consumer without Spark. \
Events within 2 s of a checkpoint of real-time mode are in the second table; `--every {every}` makes checkpoints more frequent than the five minutes that `strandline alerts` takes by itself.
"""


@dataclass(slots=True, kw_only=True)
class Report:
    """All combinations."""

    command: str
    every: str
    machine: Mapping[str, object]
    runs: list[Mapping[str, Any]] = field(default_factory=list)

    @classmethod
    def following(
        cls, folder: Path, command: str, every: str, machine: Mapping[str, object]
    ) -> Self:
        """Begin with the rows of the report that is there: a combination that is not measured again keeps its figures and their commit."""
        file = folder / "alert_latency.json"
        known = json.loads(file.read_text()) if file.exists() else {"runs": []}
        return cls(command=command, every=every, machine=machine, runs=known["runs"])

    def add(self, run: Run) -> str:
        """Add a combination, in the place of the same one of before, and return its line."""
        summary = {**_summary(run), "commit": self.machine["commit"]}
        others = [each for each in self.runs if _place(each) != _place(summary)]
        self.runs = sorted([*others, summary], key=_place)
        return _line(summary)

    def write(self, folder: Path) -> list[Path]:
        """Write the data, the page and the picture."""
        files = [folder / f"alert_latency.{kind}" for kind in ("json", "md", "svg")]
        data = {
            "command": self.command,
            "machine": self.machine,
            "missed": self.missed(),
            "runs": self.runs,
        }
        texts = (json.dumps(data, indent=1) + "\n", self.page(), self.picture())
        for file, text in zip(files, texts, strict=True):
            file.write_text(text)
        return files

    def missed(self) -> list[str]:
        """Return the targets that were not reached."""
        slow = []
        for run in self.runs:
            if run["mode"] != "real-time":
                continue
            name = f"real-time, {run['rate']:,} events/s, {run['partitions']} partition(s)"
            is_slow = run["rate"] == WANTED_RATE
            wanted = {0.5: WANTED_P50, 0.99: WANTED_P99} if is_slow else {0.99: WANTED_ANYWHERE}
            slow += [
                f"{name}: p{share * 100:g} {found:.1f} ms, not {most:g}"
                for share, most in wanted.items()
                if (found := at_share(run, share)) > most
            ]
            edge = run["at boundaries"].get("0.99", 0.0)
            if is_slow and edge > WANTED_ANYWHERE:
                slow.append(f"{name}: p99 at boundaries {edge:.1f} ms, not {WANTED_ANYWHERE:g}")
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
                f"Targets: in real time at {WANTED_RATE} events/s p50 ≤ {WANTED_P50:g} ms and p99 ≤ {WANTED_P99:g} ms, at its boundaries and at higher rates p99 ≤ {WANTED_ANYWHERE:g} ms. "
                + (f"Missed: {'; '.join(missed)}." if missed else "Reached."),
                "",
                "![Latency by share of events](alert_latency.svg)",
                "",
                "In milliseconds, outside of the boundaries of real-time mode:",
                "",
                f"| {' | '.join(COLUMNS)} |",
                f"|---|{'---:|' * (len(COLUMNS) - 1)}",
                *map(_line, self.runs),
                "",
                "At the boundaries of real-time mode:",
                "",
                f"| {' | '.join(EDGES)} |",
                f"|{'---:|' * len(EDGES)}",
                *(_edge(run) for run in self.runs if run["boundaries"]),
                "",
                "Cores that each program took, and those that were left:",
                "",
                f"| {' | '.join(CORES)} |",
                f"|---|{'---:|' * (len(CORES) - 1)}",
                *(_cores(run) for run in self.runs if "cores" in run),
                "",
            ]
        )

    def picture(self) -> str:
        """Return a curve for each mode, of the first rate and number of partitions that were measured."""
        first = self.runs[0]
        shown = [r for r in self.runs if _place(r)[:2] == _place(first)[:2]]
        parts = [*_axes(first), *(_curve(run, number) for number, run in enumerate(shown))]
        size = f'viewBox="0 0 {LEFT + WIDE + 110} {TOP + HIGH + 50}"'
        style = 'font-family="sans-serif" font-size="12"'
        return "\n".join(
            [f'<svg xmlns="http://www.w3.org/2000/svg" {size} {style}>', *parts, "</svg>", ""]
        )


def _place(run: Mapping[str, Any]) -> tuple[int, int, int]:
    """Return the place of a combination among the others."""
    return run["partitions"], run["rate"], MODES.index(run["mode"])


def _line(run: Mapping[str, Any]) -> str:
    figures = (f"{at_share(run, share):.1f}" for share in (0.5, 0.99, 0.999, 1.0))
    cpu = "" if run["mode"] == FLOOR else f"{run['cpu ms an event']:.2f}"
    return (
        f"| {run['mode']} | {run['partitions']} | {run['rate']:,} | {run['events']:,} | {' | '.join(figures)} | "
        f"{run['missing']:,} | {cpu} | {run['sender']['most']:.1f} | {run['noise']['others']:.0f} % | "
        f"{run['seconds']:g} | {run['commit']} |"
    )


def _cores(run: Mapping[str, Any]) -> str:
    figures = (f"{run['cores'][name]:.2f}" for name in TAKEN)
    return f"| {run['mode']} | {run['partitions']} | {run['rate']:,} | {' | '.join(figures)} |"


def at_share(run: Mapping[str, Any], share: float) -> float:
    """Return the latency that a share of the events of a combination does not exceed, to the next of the shares that are kept."""
    kept = {float(each): latency for each, latency in run["quantiles"].items()}
    return float(kept[min(kept, key=lambda each: abs(each - share))])


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
            f"{share:.5f}": round(quantile(run.inside, share), 3)
            for share in sorted((*SHARES, 0.5, 1.0))
        },
        "boundaries": run.boundaries,
        "events at boundaries": len(run.boundary),
        "at boundaries": {
            f"{share:g}": round(quantile(run.boundary, share), 3) for share in (0.5, 0.99, 1.0)
        }
        if run.boundary
        else {},
        "slower than 50 ms": len(run.inside) - bisect_left(run.inside, WANTED_P99),
        "missing": run.missing,
        "sender": run.sender,
        "cpu ms an event": round(run.cpu_ms, 3),
        "cores": run.cores,
        "noise": run.noise,
        "seconds": run.seconds,
    }


def _edge(run: Mapping[str, Any]) -> str:
    figures = (f"{latency:.1f}" for latency in run["at boundaries"].values())
    events = run.get("events at boundaries", "")
    return f"| {run['partitions']} | {run['rate']:,} | {run['boundaries']} | {events:,} | {' | '.join(figures)} | {run['commit']} |"


def _curve(run: Mapping[str, Any], number: int) -> str:
    points = " ".join(f"{_across(share):.1f},{_down(at_share(run, share)):.1f}" for share in SHARES)
    mode = run["mode"]
    colour = COLOURS[mode]
    label = (
        f'<text x="{LEFT + WIDE + 8}" y="{TOP + 14 + 18 * number}" fill="{colour}">{mode}</text>'
    )
    return f'<polyline fill="none" stroke="{colour}" stroke-width="2" points="{points}"/>{label}'


def _axes(run: Mapping[str, Any]) -> Iterator[str]:
    for power in range(-1, 5):
        y = _down(10.0**power)
        yield f'<line x1="{LEFT}" x2="{LEFT + WIDE}" y1="{y:.1f}" y2="{y:.1f}" stroke="#ddd"/>'
        yield f'<text x="{LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{10.0**power:g} ms</text>'
    for share in (0, 0.9, 0.99, 0.999, 0.9999):
        x = _across(share)
        yield f'<line x1="{x:.1f}" x2="{x:.1f}" y1="{TOP}" y2="{TOP + HIGH}" stroke="#eee"/>'
        yield f'<text x="{x:.1f}" y="{TOP + HIGH + 16}" text-anchor="middle">{share * 100:g} %</text>'
    words = f"share of events that were faster; {run['rate']} events/s, {run['partitions']} partition(s)"
    yield f'<text x="{LEFT + WIDE / 2}" y="{TOP + HIGH + 36}" text-anchor="middle">{words}</text>'


def _across(share: float) -> float:
    return LEFT + WIDE * -log10(1 - share) / 4


def _down(latency: float) -> float:
    bounded = min(max(latency, LOWEST), HIGHEST) if isfinite(latency) else LOWEST
    return TOP + HIGH * (1 - (log10(bounded) + 1) / 5)
