"""The report on recovery: seconds from the start after a kill to the first new commit of each table, by contestant."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import median

OURS, TUNED = "strandline", "tuned"
JVM, SESSION = "the JVM", "the session"
"""What is seen of a start: the process of its JVM, and the first line of its log, when all is ready for the streams."""
WANTED = 1.1
"""How many times the tuned job's time ours may take."""

STEPS = (
    "Python, until its JVM begins",
    "JVM, session and pre-flight",
    "queries start, until its first batch begins",
    "its first batch",
)

METHOD = """\
The same three tables of 300 readings a second: `strandline stream`, the job written by hand with all that we know about \
tuning and in the same session settings. Each is killed with its JVM at a random moment (seed {seed}) \
and started again at once, in turns. Seconds from the start of the new process to the first new commit, the median of \
{rounds} kills each, the least and the most behind it. The job by hand consumes each batch before its idempotent writes: without that it never came back from a kill between a commit and the end of its batch, because Delta skips the write and the state of the batch is not written.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Recovery:
    """One kill.

    Args:
        contestant: Which.
        seconds: From the start to the first new commit of each table.
        steps: From the start to what was seen of it.
        batches: How long the batch of that commit took, by table.
    """

    contestant: str
    seconds: Mapping[str, float]
    steps: Mapping[str, float]
    batches: Mapping[str, float]


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
                *self._where_time_goes(),
                "",
            ]
        )

    def _where_time_goes(self) -> Iterator[str]:
        """Yield the seconds of each step of ours, the median of all kills."""
        ours = [each for each in self.found if each.contestant == OURS]

        def middle(of: Callable[[Recovery], float]) -> str:
            return f"{median(map(of, ours)):.1f}"

        yield "## Where the time goes"
        yield ""
        yield f"| until the first commit of | {' | '.join(STEPS)} |"
        yield f"|---|{'---:|' * len(STEPS)}"
        for table in self._tables:
            parts = (
                middle(lambda each: each.steps[JVM]),
                middle(lambda each: each.steps[SESSION] - each.steps[JVM]),
                middle(partial(_waited, table=table)),
                middle(lambda each, table=table: each.batches[table]),  # type: ignore[misc]  # mypy cannot infer a lambda with a default
            )
            yield f"| {table} | {' | '.join(parts)} |"
        jvm = median(each.steps[JVM] for each in self.found if each.contestant == TUNED)
        yield ""
        yield (
            "A warm batch of these tables takes 0.3 s (bronze) and 1 s (silver, many_batches.md): most of a first one is a "
            "JVM that loads classes and compiles, on two cores for which three queries compete. "
            f"The tuned job's JVM is there after {jvm:.1f} s; what it does then is not in its log."
        )

    @property
    def _tables(self) -> list[str]:
        return [*self.found[0].seconds]

    def _of(self, contestant: str, table: str) -> list[float]:
        return [each.seconds[table] for each in self.found if each.contestant == contestant]


def _waited(each: Recovery, table: str) -> float:
    """Return how long a first batch was waited for, with the session ready."""
    return each.seconds[table] - each.batches[table] - each.steps[SESSION]


def _shown(values: Sequence[float]) -> str:
    return f"{median(values):.1f} ({min(values):.1f} to {max(values):.1f})"
