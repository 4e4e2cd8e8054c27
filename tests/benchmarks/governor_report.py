"""The report on the catch-up: a table of all sizes, and a picture of how long each took and what was chosen."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from math import log10
from pathlib import Path
from statistics import mean
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.benchmarks.governor import Drain

WANTED = 1.2
"""How many times the best fixed size the governed run may take."""

QUIET, FEWEST = 30.0, 3
"""The most per cent of the machine that others may take, and the fewest fixed sizes that must end."""

TARGET = f"Target: drained without dying in ≤ {WANTED} times the time of the best fixed size."

LEFT, TOP, WIDE, HIGH, BETWEEN = 60, 24, 340, 240, 70
COLOURS = ("#a60", "#06c", "#0a7")
COLUMNS = ("size", "ended", "seconds", "CPU of its batches, s", "batches", "largest", "others' CPU")

METHOD = """\
`strandline run` brings bronze, silver and gold of device telemetry up to date, from an empty lake, with a heap of {heap}; \
each line is a process of its own, from its start to its end, JVM and all. \
Fixed is `--max-offsets`, which bounds the batches of all three tables; governed is no option. \
`others' CPU` is what other programs took of all cores meanwhile: where it is large, compare the CPU, not the seconds.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class GovernorReport:
    """All runs."""

    heap: str
    machine: Mapping[str, object]
    drains: Sequence["Drain"]

    def write(self, folder: Path) -> list[Path]:
        """Write the data, the page and the picture."""
        files = [folder / f"governor.{kind}" for kind in ("json", "md", "svg")]
        data = {
            "machine": self.machine,
            "heap": self.heap,
            "missed": self.missed(),
            "drains": [asdict(each) for each in self.drains],
        }
        texts = (json.dumps(data, indent=1) + "\n", self.page(), self.picture())
        for file, text in zip(files, texts, strict=True):
            file.write_text(text)
        return files

    @property
    def governed(self) -> list["Drain"]:
        """Return the runs whose sizes were chosen."""
        return [each for each in self.drains if each.size is None]

    @property
    def fixed(self) -> list["Drain"]:
        """Return the runs of a fixed size."""
        return [each for each in self.drains if each.size is not None]

    def ratios(self) -> tuple[float, float]:
        """Return the time and the CPU of the governed runs, each by that of the best fixed size that ended."""
        ended = [each for each in self.fixed if each.code == 0]
        seconds = mean(each.seconds for each in self.governed)
        cpu = mean(each.cpu for each in self.governed)
        return (
            seconds / min(each.seconds for each in ended),
            cpu / min(each.cpu for each in ended),
        )

    def missed(self) -> list[str]:
        """Return what was not reached."""
        wrong = [f"a governed run ended with {each.code}" for each in self.governed if each.code]
        if all(each.code == 0 for each in self.fixed):
            wrong.append("no fixed size died, so the heap was not too small for any")
        rows = {json.dumps(each.good, sort_keys=True) for each in self.drains if each.code == 0}
        if len(rows) > 1:
            wrong.append("not all runs gave the same number of rows")
        if sum(each.code == 0 for each in self.fixed) < FEWEST:
            wrong.append("too few fixed sizes were measured to call one of them the best")
        # Of a run that died the CPU is unknown, because it is in the entries of its commits; it would count as others'.
        busiest = max(each.noise.get("others", 0.0) for each in self.drains if each.code == 0)
        if busiest > QUIET:
            wrong.append(
                f"other programs took up to {busiest:.0f} % of the machine, so the times cannot be compared"
            )
        ratio, _ = self.ratios()
        if ratio > WANTED:
            wrong.append(f"the governed run took {ratio:.2f} times the best fixed size")
        return wrong

    def page(self) -> str:
        """Return the page in Markdown."""
        machine = ", ".join(f"{name} {value}" for name, value in self.machine.items())
        missed = self.missed()
        seconds, cpu = self.ratios()
        result = f"Missed: {'; '.join(missed)}." if missed else "Reached."
        best = f"Governed (mean of {len(self.governed)}) against the best fixed size"
        died = [each for each in self.fixed if each.code]
        return "\n".join(
            [
                "# A backlog, drained by batches whose size is chosen",
                "",
                "Made by `python -m tests.benchmarks.governor`.",
                f"Machine: {machine}.",
                "",
                METHOD.format(heap=self.heap),
                f"A backlog of {self.drains[0].events:,} events. {TARGET} {result}",
                f"{best}: **{seconds:.2f} times its time**, {cpu:.2f} times its CPU.",
                "",
                "![Time by size of a batch, and the sizes that were chosen](governor.svg)",
                "",
                f"| {' | '.join(COLUMNS)} |",
                f"|---|---|{'---:|' * (len(COLUMNS) - 2)}",
                *map(_line, self.drains),
                "",
                *(f"{each.size:,} rows at once: {each.said}" for each in died if each.size),
                "",
            ]
        )

    def picture(self) -> str:
        """Return the picture."""
        width = 2 * (LEFT + WIDE) + BETWEEN + 20
        size = f'viewBox="0 0 {width} {TOP + HIGH + 60}"'
        style = 'font-family="sans-serif" font-size="12"'
        return "\n".join(
            [
                f'<svg xmlns="http://www.w3.org/2000/svg" {size} {style}>',
                *self._times(),
                f'<g transform="translate({LEFT + WIDE + BETWEEN},0)">',
                *self._sizes(),
                "</g>",
                "</svg>",
                "",
            ]
        )

    def _times(self) -> Iterator[str]:
        """Draw the time of each fixed size, and as a line that of the governed runs."""
        longest = 1.1 * max(each.seconds for each in self.drains)
        sizes = [each.size for each in self.fixed if each.size]
        low, high = log10(min(sizes)) - 0.1, log10(max(sizes)) + 0.1
        yield from _frame("rows in a batch (fixed)", "seconds for the whole backlog", longest)
        for each in self.fixed:
            x = LEFT + WIDE * (log10(each.size or 1) - low) / (high - low)
            y = TOP + HIGH * (1 - each.seconds / longest)
            yield _middle(x, TOP + HIGH + 16, _short(each.size or 0))
            if each.code:
                yield f'<path d="M{x - 6:.1f} {y - 6:.1f}l12 12m0 -12l-12 12" stroke="#c00" stroke-width="2"/>'
                yield _middle(x, y - 10, "died", "#c00")
            else:
                yield f'<circle cx="{x:.1f}" cy="{y:.1f}" r="5" fill="#06c"/>'
                yield _middle(x, y - 10, f"{each.seconds:.0f}")
        for each in self.governed:
            y = TOP + HIGH * (1 - each.seconds / longest)
            yield (
                f'<line x1="{LEFT}" x2="{LEFT + WIDE}" y1="{y:.1f}" y2="{y:.1f}" stroke="#0a7" '
                f'stroke-width="2" stroke-dasharray="6 4"/>'
            )
        last = TOP + HIGH * (1 - self.governed[0].seconds / longest)
        yield f'<text x="{LEFT + 6}" y="{last + 16:.1f}" fill="#0a7">governed, {len(self.governed)} runs</text>'

    def _sizes(self) -> Iterator[str]:
        """Draw the rows of each batch of the first governed run, over time."""
        batches = [each for each in self.governed[0].batches if each.read]
        ends = max((each.at for each in batches), default=1.0) or 1.0
        most = 1.1 * max((each.read for each in batches), default=1)
        yield from _frame("seconds", "rows in a batch (governed)", most)
        names = list(dict.fromkeys(each.table for each in batches))
        for number, name in enumerate(names):
            colour = COLOURS[number % len(COLOURS)]
            points = [
                (LEFT + WIDE * each.at / ends, TOP + HIGH * (1 - each.read / most))
                for each in batches
                if each.table == name
            ]
            line = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
            yield f'<polyline fill="none" stroke="{colour}" stroke-width="1.5" points="{line}"/>'
            yield from (
                f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" fill="{colour}"/>' for x, y in points
            )
            yield f'<text x="{LEFT + 8}" y="{TOP + 14 + 16 * number}" fill="{colour}">{name}</text>'
        for share in (0, 0.25, 0.5, 0.75, 1):
            yield _middle(LEFT + WIDE * share, TOP + HIGH + 16, f"{ends * share:.0f}")


def _line(each: "Drain") -> str:
    size = "governed" if each.size is None else f"{each.size:,}"
    ended = "yes" if each.code == 0 else f"died ({each.code})"
    largest = max((batch.read for batch in each.batches), default=0)
    others = f"{each.noise.get('others', 0.0):.0f} %" if each.code == 0 else "unknown"
    return (
        f"| {size} | {ended} | {each.seconds:,.1f} | {each.cpu:,.1f} | {len(each.batches)} | {largest:,} | "
        f"{others} |"
    )


def _frame(across: str, up: str, most: float) -> Iterator[str]:
    for share in (0, 0.25, 0.5, 0.75, 1):
        y = TOP + HIGH * (1 - share)
        yield f'<line x1="{LEFT}" x2="{LEFT + WIDE}" y1="{y:.1f}" y2="{y:.1f}" stroke="#ddd"/>'
        yield f'<text x="{LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{_short(most * share)}</text>'
    yield _middle(LEFT + WIDE / 2, TOP + HIGH + 38, across)
    yield f'<text x="{LEFT - 40}" y="{TOP - 8}">{up}</text>'


def _middle(x: float, y: float, words: str, colour: str = "#000") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="middle" fill="{colour}">{words}</text>'


def _short(value: float) -> str:
    if value >= 1_000_000:
        return f"{value / 1_000_000:.3g}M"
    return f"{value / 1000:.3g}k" if value >= 1000 else f"{value:.0f}"
