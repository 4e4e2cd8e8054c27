"""The report: figures for programs, and a page for people with what was compared and how."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path

from tests.benchmarks.catch_up import PART as EVENTS
from tests.benchmarks.samples import Samples, Spread
from tests.benchmarks.small_batches import CHAIN
from tests.benchmarks.small_batches import PART as BATCH

PER_EVENT = {"bronze": 1.10, "silver": 1.25, "gold": 1.15}
"""Most CPU per event, over the equally tuned job."""
PER_BATCH = {"bronze": 0.35, "silver": 0.40, "gold on_change": 0.50}
"""Most time for a batch of a hundred rows, over the tutorial."""
CHAIN_SECONDS = 2.0

METHOD = """\
Each contestant is a process with a JVM of its own that stays, so that its code is compiled; the first run of each is not counted.
Runs go there and back (A B C C B A, then C B A A B C); a ratio is taken within a round, and the table gives the median of the rounds and their ends.
CPU is user and system time of the whole process tree, processes that it started and that ended included, the broker not.
Each run has fresh tables and a fresh checkpoint; silver and gold read the same source tables for every contestant.
After each run its rows are counted by DuckDB and compared with the truth of the events; a run with wrong rows ends the benchmark.

* **strandline**: this engine, `run(table, AvailableNow(), …)`; its silver reads the one shape of event that is sent, as the others do.
* **tuned**: the same slice by hand in plain PySpark with the same session settings but for Spark's own cache and RocksDB for state, table properties, strict parse and reasons, but without ledger, lease, proof of completeness or a survivor that does not depend on chance.
* **tutorial**: default settings (200 shuffle partitions, default state store and file system), Delta's sink for bronze and closed windows, two appends in `foreachBatch` for silver, MERGE for `on_change`. By design it lacks a law of time and a strict parse, so it keeps late and early rows and some that are no JSON; its quarantine loses bad rows that share a NULL key.
* **tutorial/2**: the same with 2 shuffle partitions instead of 200, which most of its readers learn to set; it takes part where there is state.

The tutorial takes part in the first round only where there is state.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """One run of the benchmark."""

    command: str
    events: int
    machine: Mapping[str, object]
    samples: Samples = field(repr=False)

    def write(self, folder: Path) -> list[Path]:
        """Write ``engine.json`` and ``engine.md``."""
        folder.mkdir(parents=True, exist_ok=True)
        data, page = folder / "engine.json", folder / "engine.md"
        data.write_text(json.dumps(self._data(), indent=1) + "\n")
        page.write_text(self.page())
        return [data, page]

    def missed(self) -> list[str]:
        """Return every target that was not reached."""
        return [
            f"{part} {row}: {verdict}"
            for part, row, verdict, is_met in self._verdicts()
            if not is_met
        ]

    def page(self) -> str:
        """Return the page in Markdown."""
        machine = ", ".join(f"{name} {value}" for name, value in self.machine.items())
        others = max((s.others for s in self.samples.all), default=0.0)
        steal = max((s.steal for s in self.samples.all), default=0.0)
        noise = (
            f"Noise: other programs took up to {others:.0f} % of the machine during a run, "
            f"the hypervisor up to {steal:.1f} %."
        )
        return "\n".join(
            [
                "# The engine against hand-written jobs",
                "",
                f"Made by `{self.command}`.",
                f"Machine: {machine}.",
                noise,
                "",
                METHOD,
                f"## {self.events:,} preloaded events: CPU per event",
                "",
                *self._events(),
                "",
                "## A warm micro-batch of 100 rows: its fixed cost",
                "",
                *self._batches(),
                "",
                "## Three queries that feed each other",
                "",
                *self._chain(),
                "",
            ]
        )

    def _events(self) -> list[str]:
        lines = head(
            "row",
            "strandline µs/event",
            "tuned µs/event",
            "tutorial µs/event",
            "CPU / tuned",
            "target",
            "CPU / tutorial",
            "wall / tuned",
            "wall / tutorial",
            "strandline events/s",
        )
        for row in self.samples.rows(EVENTS):
            costs = [self._scaled(EVENTS, row, who, "cpu", 1e6 / self.events) for who in WHO]
            wall = self.samples.figure(EVENTS, row, "strandline", "wall")
            rate = f"{self.events / wall.median:,.0f}" if wall else "-"
            lines.append(
                line(
                    row,
                    *costs,
                    self._ratio(EVENTS, row, "tuned", "cpu"),
                    _target(PER_EVENT.get(row)),
                    self._ratio(EVENTS, row, "tutorial", "cpu"),
                    self._ratio(EVENTS, row, "tuned", "wall"),
                    self._ratio(EVENTS, row, "tutorial", "wall"),
                    rate,
                )
            )
        return lines

    def _batches(self) -> list[str]:
        lines = head(
            "row",
            *(f"{who} ms" for who in ALONE),
            *(f"wall / {who}" for who in ALONE[1:]),
            "target",
            *(f"CPU / {who}" for who in ALONE[1:]),
            "strandline CPU ms",
            "slowest ms",
        )
        lines += [
            line(
                row,
                *(self._scaled(BATCH, row, who, "wall", 1e3) for who in ALONE),
                *(self._ratio(BATCH, row, who, "wall") for who in ALONE[1:]),
                _target(PER_BATCH.get(row)),
                *(self._ratio(BATCH, row, who, "cpu") for who in ALONE[1:]),
                self._scaled(BATCH, row, "strandline", "cpu", 1e3),
                self._scaled(BATCH, row, "strandline", "slowest", 1e3),
            )
            for row in self.samples.rows(BATCH)
        ]
        return lines

    def _chain(self) -> list[str]:
        lines = head("from 100 events in Kafka to gold", "s", "CPU s", "slowest s", "target")
        for row in self.samples.rows(CHAIN):
            figures = [
                self.samples.figure(CHAIN, row, "strandline", w) for w in ("wall", "cpu", "slowest")
            ]
            lines.append(line(row, *(_text(f, 1.0, 2) for f in figures), f"< {CHAIN_SECONDS:.0f}"))
        return lines

    def _verdicts(self) -> list[tuple[str, str, str, bool]]:
        found = []
        for row in self.samples.rows(EVENTS):
            limits = [
                ("tuned", "cpu", PER_EVENT.get(row)),
                ("tutorial", "wall", 1.0),
                ("tutorial", "cpu", 1.0),
            ]
            found += [self._verdict(EVENTS, row, *limit) for limit in limits]
        for row in self.samples.rows(BATCH):
            for against in ALONE[2:]:
                found.append(self._verdict(BATCH, row, against, "wall", PER_BATCH.get(row)))
        for row in self.samples.rows(CHAIN):
            wall = self.samples.figure(CHAIN, row, "strandline", "wall")
            is_met = wall is None or wall.median < CHAIN_SECONDS
            found.append(
                (CHAIN, row, f"{_text(wall, 1.0, 2)} s, not under {CHAIN_SECONDS:.0f}", is_met)
            )
        return found

    def _verdict(
        self, part: str, row: str, against: str, what: str, limit: float | None
    ) -> tuple[str, str, str, bool]:
        ratio = self.samples.ratio(part, row, against, what)
        is_met = limit is None or ratio is None or ratio.median <= limit
        return part, row, f"{what} {_text(ratio, 1.0, 2)} of {against}'s, not {limit}", is_met

    def _scaled(self, part: str, row: str, who: str, what: str, scale: float) -> str:
        return _text(self.samples.figure(part, row, who, what), scale, 1 if part == EVENTS else 0)

    def _ratio(self, part: str, row: str, against: str, what: str) -> str:
        return _text(self.samples.ratio(part, row, against, what), 1.0, 2)

    def _data(self) -> dict[str, object]:
        targets = {"per_event": PER_EVENT, "per_batch": PER_BATCH, "chain_seconds": CHAIN_SECONDS}
        ratios = [
            {"part": part, "row": row, "against": against, "what": what, **asdict(ratio)}
            for part in (EVENTS, BATCH)
            for row in self.samples.rows(part)
            for against in ALONE[1:]
            for what in ("cpu", "wall")
            if (ratio := self.samples.ratio(part, row, against, what)) is not None
        ]
        return {
            "command": self.command,
            "events": self.events,
            "machine": self.machine,
            "targets": targets,
            "missed": self.missed(),
            "ratios": ratios,
            "samples": [asdict(sample) for sample in self.samples.all],
        }


WHO = ("strandline", "tuned", "tutorial")
ALONE = ("strandline", "tuned", "tutorial/2", "tutorial")


def quoted(report: str, under: str, row: str) -> dict[str, str]:
    """Return the cells of a row by their columns: of the first table with such a row below a heading that begins so.

    Raises:
        LookupError: The report has no such row.
    """
    names: list[str] = []
    is_below = False
    for text in report.splitlines():
        if text.startswith("#"):
            is_below = text.startswith(under)
        if text.startswith("|--"):
            continue
        if not is_below or not text.startswith("|"):
            names = []
            continue
        cells = [cell.strip() for cell in text.strip("| ").split(" | ")]
        if not names:
            names = cells
        elif cells[0] == row:
            return dict(zip(names, cells, strict=False))
    raise LookupError(f"no row {row!r} under {under!r}")


def line(*cells: str) -> str:
    """Return a row of a table."""
    return "| " + " | ".join(cells) + " |"


def head(*cells: str) -> list[str]:
    """Return the first two lines of a table."""
    return [line(*cells), "|" + "---|" * len(cells)]


def _target(limit: float | None) -> str:
    return "-" if limit is None else f"≤ {limit:.2f}"


def _text(found: Spread | None, scale: float, digits: int) -> str:
    if found is None:
        return "-"
    median, low, high = (
        f"{value * scale:.{digits}f}" for value in (found.median, found.low, found.high)
    )
    return f"{median} ({low}…{high})"
