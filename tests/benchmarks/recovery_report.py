"""The report on recovery: seconds from the start after a kill to the first new commit of each table, by contestant."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median

OURS, TUNED = "strandline", "tuned"
WANTED = 1.1
"""How many times the tuned job's time ours may take."""

METHOD = """\
The same three tables of 300 readings a second: `strandline stream`, the job written by hand with all that we know about \
tuning and in the same session settings. Each is killed with its JVM at a random moment (seed {seed}) \
and started again at once, in turns. Seconds from the start of the new process to the first new commit, the median of \
{rounds} kills each, the least and the most behind it.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Recovery:
    """One kill: the seconds to the first new commit of each table."""

    contestant: str
    seconds: Mapping[str, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """One run of the benchmark."""

    machine: Mapping[str, object]
    seed: int
    found: Sequence[Recovery]

    def write(self, folder: Path) -> None:
        """Write the page."""
        (folder / "recovery.md").write_text(self.page())

    def ratios(self) -> dict[str, float]:
        """Return for each table how many times the tuned job's time ours is."""
        return {
            table: median(self._of(OURS, table)) / median(self._of(TUNED, table))
            for table in self._tables
        }

    def missed(self) -> list[str]:
        """Return the tables that miss the target."""
        return [f"{name} ({each:.2f})" for name, each in self.ratios().items() if each > WANTED]

    def page(self) -> str:
        """Return the page in Markdown."""
        names = list(dict.fromkeys(each.contestant for each in self.found))
        names.sort(key=(OURS, TUNED).__contains__, reverse=True)
        rounds = sum(each.contestant == OURS for each in self.found)
        missed = self.missed()
        verdict = f"Missed: {', '.join(missed)}." if missed else "Reached."
        return "\n".join(
            [
                "# Recovery after kill -9",
                "",
                "Made by `python -m tests.benchmarks.recovery`.",
                f"Machine: {', '.join(f'{name} {value}' for name, value in self.machine.items())}.",
                "",
                METHOD.format(seed=self.seed, rounds=rounds),
                f"Target: ≤ {WANTED} times the tuned job, for each table. {verdict}",
                "",
                f"| first commit of | {' | '.join(names)} | ratio to tuned |",
                f"|---|{'---:|' * (len(names) + 1)}",
                *(
                    f"| {table} | {' | '.join(map(_shown, (self._of(n, table) for n in names)))} | {ratio:.2f} |"
                    for table, ratio in self.ratios().items()
                ),
                "",
            ]
        )

    @property
    def _tables(self) -> list[str]:
        return [*self.found[0].seconds]

    def _of(self, contestant: str, table: str) -> list[float]:
        return [each.seconds[table] for each in self.found if each.contestant == contestant]


def _shown(values: Sequence[float]) -> str:
    return f"{median(values):.1f} ({min(values):.1f} to {max(values):.1f})"
