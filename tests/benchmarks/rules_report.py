"""The report on rules: what they cost a batch, beside none and beside the library's usual way."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path

from tests.benchmarks.rules import CONTESTANTS, FEW, MANY, MEASURED, PART, ROUNDS
from tests.benchmarks.samples import Samples, Spread

MOST = 1.25
"""Most of a batch's time with all rules and the gate over that of a batch with none."""

METHOD = f"""\
Micro-batches of silver.device_telemetry, always on, given to the stream one by one by links, in one warm JVM.
`none` has no rule and no gate; `rules` has {MANY} rules, counted, and a gate that finds nothing; `asked` has the same, and in each batch something is found, which is put to Great Expectations' suite before the commit; `naive` has no rule in its plan and validates each batch in foreachBatch with {MANY} of the library's own expectations.
A figure is the median of {MEASURED} batches; {2 * ROUNDS} such runs each of the first three, in the order A B C C B A, after one of each that does not count; `naive` once, of {FEW} batches. Ratios are taken within a round.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class RulesReport:
    """One run of the comparison."""

    command: str
    machine: Mapping[str, object]
    samples: Samples = field(repr=False)

    def write(self, folder: Path) -> list[Path]:
        """Write ``rules.json`` and ``rules.md``."""
        folder.mkdir(parents=True, exist_ok=True)
        data, page = folder / "rules.json", folder / "rules.md"
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
            f"{row} rows: a batch with {MANY} rules takes {ratio.median:.2f} of one with none, not {MOST}"
            for row in self.samples.rows(PART)
            if (ratio := self._ratio(row, "rules")) and ratio.median > MOST
        ]

    def page(self) -> str:
        """Return the page in Markdown."""
        machine = ", ".join(f"{name} {value}" for name, value in self.machine.items())
        head = [
            "rows a batch",
            *(f"{who}, ms" for who in CONTESTANTS),
            *(f"{who} / none" for who in CONTESTANTS[1:]),
        ]
        return "\n".join(
            [
                "# What fifty rules and their gate cost a batch",
                "",
                f"Made by `{self.command}`.",
                f"Machine: {machine}.",
                "",
                METHOD,
                f"The target is at most {MOST:.2f} for rules over none.",
                "",
                f"| {' | '.join(head)} |",
                f"|{'---:|' * len(head)}",
                *(self._line(row) for row in self.samples.rows(PART)),
                "",
            ]
        )

    def _line(self, row: str) -> str:
        figures = [self.samples.figure(PART, row, who, "wall") for who in CONTESTANTS]
        times = [f"{each.median * 1e3:.0f}" if each else "-" for each in figures]
        ratios = [self._ratio(row, who) for who in CONTESTANTS[1:]]
        spreads = [f"{r.median:.2f} ({r.low:.2f} to {r.high:.2f})" if r else "-" for r in ratios]
        return f"| {' | '.join([f'{int(row):,}', *times, *spreads])} |"

    def _ratio(self, row: str, who: str) -> Spread | None:
        return self.samples.ratio(PART, row, "none", "wall", who)
