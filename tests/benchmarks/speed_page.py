"""The page about speed: made of what runs have measured, workload by workload, each with the commit that it was measured at.

Ratios come first, because they outlive a machine; figures without a contestant's guarantee and sink are in no table.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from tests.benchmarks.contestants.roster import ABSENT, KNOWN, process_of, variant_of
from tests.benchmarks.ground import OURS, Ground
from tests.benchmarks.report import head, line
from tests.benchmarks.samples import Samples, Spread

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "infra" / "docs" / "speed.md"
RESULTS = Path(__file__).parent / "reports" / "peers.json"
PART = "peers"
AGAINST = ("tuned", "flink", "flink/rocksdb", "flink/iceberg", "delta-rs", "duckdb", "polars")
AGAINST += ("kafka-streams", "tutorial")
TARGETS = (
    ("clean", "tuned", "cpu", 0.60),
    ("clean", "flink/rocksdb", "cpu", 1.00),
    ("whole", "tuned", "cpu", 0.65),
    ("whole", "flink", "cpu", 1.00),
    ("yahoo", "flink", "cpu", 2.00),
    ("backfill", "tutorial", "wall", 0.50),
)
"""What must be reached: a workload, against whom, of which figure, and the highest ratio."""
ENOUGH = 1_000_000
"""Events on which a figure should rest."""
FEW = (
    "Fewer than the million that a figure should rest on: what a run costs however few events it has (the start of a job, a commit, "
    "a plan) weighs more here, on each side in its own way."
)
LOSING = 1.5
"""The ratio from which on a loss is listed."""
WHAT = {
    "ingest": "Kafka to a raw table",
    "clean": "raw records to readings: a strict parse with a reason for each record that is held, the law of time, no copy twice",
    "windows": "readings to windows of ten minutes with count, least, most, average and 95th percentile",
    "whole": "all three, from Kafka to windows, with the raw records kept",
    "yahoo": "the Yahoo streaming benchmark: events of advertisements in Kafka to views by campaign and ten seconds; "
    "[three modules](../../tests/benchmarks/yahoo) of ours with a `Static` of campaigns",
    "backfill": "readings and windows computed again from the raw records",
}
INTRO = """\
# Speed, beside what others would use

What the same work costs with this engine and with what a person would use instead: the same events in the same Kafka, in turn (A B C C B A), in one run.
A figure counts only if the rows are right. The truth is that of the generator and of DuckDB: each payload, each reading, each reason of what is held back, each window.
CPU is user and system time of all processes of a contestant, without the broker. Each process is warm: its first run is not counted.
A ratio is ours over theirs, taken within a round: below 1 we need less. It outlives the machine; seconds do not.
"""
REPEAT = """\
## How to repeat it

```text
.venv/bin/python -m tests.benchmarks peers --events 1000000 --rounds 2
.venv/bin/python -m tests.benchmarks peers --events 1000000 --rows clean,whole --contestants strandline,tuned,flink
.venv/bin/python -m tests.benchmarks speed
```

The first measures all and writes this page; a run that was interrupted goes on where it was. The second measures some again, the third makes the page of [what was measured](../../tests/benchmarks/reports/peers.json).
Packages, jars and classes of the others are made by the benchmark in `.cache/peers`, from [pinned lists](../../tests/benchmarks/contestants); nothing of the product imports them.
The engine against jobs by hand, with small batches: [engine.md](../../tests/benchmarks/reports/engine.md). How many machines a load needs: [sizing.md](sizing.md).
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class PeersReport:
    """What a run has measured, with what earlier ones have of other workloads."""

    command: str
    events: int
    ground: Ground = field(repr=False)
    absent: Mapping[str, str]
    machine: Mapping[str, object]

    def write(self, folder: Path) -> list[Path]:
        """Keep the figures in ``peers.json``, and make the page of all that is there."""
        folder.mkdir(parents=True, exist_ok=True)
        results = folder / RESULTS.name
        results.write_text(json.dumps(self._merged(results), indent=1) + "\n")
        return [results, write_page(results)]

    def page(self) -> str:
        """Return the page of this run alone."""
        return page(self._data())

    def missed(self) -> list[str]:
        """Return every target that was not reached."""
        return [sentence for sentence, is_met in verdicts(self._data()) if not is_met]

    def _merged(self, results: Path) -> dict[str, Any]:
        data = self._data()
        if results.exists():
            earlier = json.loads(results.read_text())["workloads"]
            changed = {
                row: of
                for row, of in data["workloads"].items()
                if row not in earlier or earlier[row]["samples"] != of["samples"]
            }
            data["workloads"] = {**earlier, **changed}
        return data

    def _data(self) -> dict[str, Any]:
        samples = self.ground.samples
        return {
            "workloads": {
                row: {
                    "events": self.events,
                    "command": self.command,
                    "machine": {**self.machine},
                    "absent": {**self.absent},
                    "refused": {
                        who: reason
                        for (of, who), reason in self.ground.refused.items()
                        if of == row
                    },
                    "samples": [asdict(s) for s in samples.all if s.row == row],
                }
                for row in samples.rows(PART)
            }
        }


def write_page(results: Path = RESULTS) -> Path:
    """Make the page of what was measured; of other results than those of the repository, beside them."""
    target = PAGE if results == RESULTS else results.with_name(PAGE.name)
    target.write_text(page(json.loads(results.read_text())))
    return target


def page(data: Mapping[str, Any]) -> str:
    """Return the page in Markdown."""
    found = {row: data["workloads"][row] for row in WHAT if row in data["workloads"]}
    lines = [INTRO, "## Ratios", "", *_ratios(found), "", *_targets(data), ""]
    lines += ["## Where we lose by more than half", "", *_losses(found), ""]
    for row, of in found.items():
        lines += [f"## {row.capitalize()}", "", *_workload(row, of), ""]
    lines += [*_capacity(found), "## Who takes part", "", *_roster(found), ""]
    return "\n".join([*lines, REPEAT])


def verdicts(data: Mapping[str, Any]) -> Iterator[tuple[str, bool]]:
    """Yield a sentence about each target that was measured, and whether it was reached."""
    for row, against, what, limit in TARGETS:
        ratio = _ratio(data["workloads"].get(row), against, what)
        if ratio is not None:
            figure = "CPU" if what == "cpu" else "time"
            yield (
                f"{row}: {figure} {_text(ratio, 2)} of {against}'s, to be at most {limit:.2f}",
                ratio.median <= limit,
            )


def _ratio(of: Mapping[str, Any] | None, against: str, what: str = "cpu") -> Spread | None:
    if of is None:
        return None
    samples = Samples.holding(of["samples"])
    return next((samples.ratio(PART, row, against, what) for row in samples.rows(PART)), None)


def _ratios(found: Mapping[str, Mapping[str, Any]]) -> list[str]:
    whom = [who for who in AGAINST if any(_ratio(of, who) for of in found.values())]
    lines = head("our CPU over that of", *whom, "events", "commit")
    lines += [
        line(
            row,
            *(_text(_ratio(of, who), 2) for who in whom),
            f"{of['events']:,}",
            str(of["machine"]["commit"]),
        )
        for row, of in found.items()
    ]
    return lines


def _targets(data: Mapping[str, Any]) -> list[str]:
    return [
        f"* {sentence}: {'reached' if is_met else '**missed**'}."
        for sentence, is_met in verdicts(data)
    ]


def _losses(found: Mapping[str, Mapping[str, Any]]) -> list[str]:
    losses = [
        f"* {row}: {ratio.median:.1f} times the CPU of {who} ({KNOWN[process_of(who)].guarantee})."
        for row, of in found.items()
        for who in AGAINST
        if (ratio := _ratio(of, who)) is not None and ratio.median > LOSING
    ]
    return losses or ["Nowhere in these tables."]


def _workload(row: str, of: Mapping[str, Any]) -> list[str]:
    samples, events = Samples.holding(of["samples"]), of["events"]
    noise = max((s.others for s in samples.all), default=0.0)
    loads = [s.load for s in samples.all]
    machine = of["machine"]
    lines = [
        f"{WHAT[row][0].upper()}{WHAT[row][1:]}; {events:,} events. Made by `{of['command']}`.",
        (
            f"Commit {machine['commit']}, {machine['processor']}, {machine['cores']} cores; load average "
            f"{min(loads, default=0):.1f} to {max(loads, default=0):.1f}, others took up to {noise:.0f} % of the machine."
        ),
        *([FEW] if events < ENOUGH else []),
        "",
        *head(
            "contestant",
            "CPU µs an event",
            "events a second",
            "most memory, MiB",
            "bytes written an event",
            "sink",
        ),
    ]
    for who in dict.fromkeys(s.contestant for s in samples.all):
        of_who = samples.of(PART, row, who)
        wall = samples.figure(PART, row, who, "wall")
        assert wall is not None
        lines.append(
            line(
                who,
                _text(samples.figure(PART, row, who, "cpu"), 1, 1e6 / events),
                f"{events / wall.median:,.0f}",
                f"{max(s.peak for s in of_who) / 2**20:,.0f}",
                f"{max(s.written for s in of_who) / events:,.0f}",
                KNOWN[process_of(who)].sink,
            )
        )
    wrong = [f"* {who} does not count: {reason}" for who, reason in of["refused"].items()]
    return [*lines, "", *wrong] if wrong else lines


def _capacity(found: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """Return what a core carries, from the work of all three steps."""
    of = found.get("whole", {"samples": []})
    cost = Samples.holding(of["samples"]).figure(PART, "whole", OURS, "cpu")
    if cost is None:
        return []
    each = cost.median / of["events"]
    return [
        "## What a core carries",
        "",
        (
            f"From Kafka to windows a million events cost {each * 1e6:.0f} core-seconds here, so one core that does nothing else carries "
            f"some {1 / each:,.0f} events a second while it catches up, and half of that is a load that leaves room for a backlog, "
            "repairs and questions. When a machine is no longer enough: [sizing.md](sizing.md)."
        ),
        "",
    ]


def _roster(found: Mapping[str, Mapping[str, Any]]) -> list[str]:
    there = {s["contestant"]: None for of in found.values() for s in of["samples"]}
    lines = head("contestant", "what it is", "what it promises")
    for name, known in KNOWN.items():
        if name in map(process_of, there):
            lines.append(line(name, known.about, known.guarantee))
            lines += [
                line(f"{name}/{each}", about, "as above")
                for each, about in known.variants.items()
                if any(process_of(who) == name and variant_of(who) == each for who in there)
            ]
    absent = {who: reason for of in found.values() for who, reason in of["absent"].items()}
    gone = [f"* {who}: {reason}." for who, reason in {**ABSENT, **absent}.items()]
    return [*lines, "", "Who does not take part, and why:", "", *gone]


def _text(found: Spread | None, digits: int, scale: float = 1.0) -> str:
    if found is None:
        return "-"
    median, low, high = (
        f"{value * scale:.{digits}f}" for value in (found.median, found.low, found.high)
    )
    return median if low == high else f"{median} ({low}…{high})"
