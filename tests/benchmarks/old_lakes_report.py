"""The report on an old lake beside a young one: what each batch, start and question takes, and the memory of a stream."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import mean, median

YOUNG, OLD = "young", "old"
WANTED = 1.2
"""How many times what a young lake costs an old one may cost."""

REASONS = {
    "`strandline history`": "it learns from up to 2,000 batches, and the young lake has some hundred",
    "`strandline why`": "it reads the entries since the books were closed, up to 1,000 a table, and finds commits by "
    "binary search in their packs, some eighty here",
    "sensor look_at_the_stream": "it opens three tables, and Delta keeps the names of the files that were removed within a "
    "week in its checkpoint: some thousands here",
    "sensor look_at_tables": "it reads the entries since the books were closed, up to 1,000, and opens the same tables",
}
"""What costs more in an old lake, up to a bound."""

LEFT, TOP, HIGH, WIDE = 260, 34, 22, 360
METHOD = """\
Both lakes hold the rows of the same half million readings, and their streams go on from the same state; only the number of commits \
differs. Their history was written commit by commit, as a stream would have made it, with maintenance at its times; \
`ledger --audit` balances before and after. Two starts of each stream in turns (young, old, old, young); after what waited, \
a minute of 300 new readings a second with a batch every 200 ms. Batches: the time from start to commit, of all of that minute; the mean has in it the one of a hundred that writes a checkpoint of Delta's log. \
A start: from the start of the program to the first new commit of gold, 18,000 readings waiting. \
Questions: whole programs, and Dagster's sensors from an empty cursor in one process; medians of five, in turns. \
Memory: at the end of the minute.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ages:
    """How old a lake is: the commits of each table, and the files of its logs and tables on the disk."""

    commits: Mapping[str, int]
    logged: int
    files: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Lived:
    """A stream from its start to its end.

    Args:
        lake: Which.
        start: The seconds to its first commit.
        batches: The milliseconds of each batch, by table.
        python_mb: Its memory.
        java_mb: That of its JVM.
    """

    lake: str
    start: float
    batches: Mapping[str, Sequence[int]]
    python_mb: float
    java_mb: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """A figure of both lakes."""

    name: str
    unit: str
    young: float
    old: float

    @property
    def ratio(self) -> float:
        """Return how many times the young one the old one is."""
        return self.old / self.young


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """One run of the benchmark."""

    machine: Mapping[str, object]
    shape: Mapping[str, Ages]
    lived: Sequence[Lived]
    answers: Mapping[str, Mapping[str, float]]

    def write(self, folder: Path) -> None:
        """Write the page and the picture."""
        (folder / "old_lakes.md").write_text(self.page())
        (folder / "old_lakes.svg").write_text(self.picture())

    def lines(self) -> list[Line]:
        """Return all figures."""
        tables = [*self.lived[0].batches]
        return [
            *(self._batch(name, "median batch", median) for name in tables),
            *(self._batch(name, "mean batch", mean) for name in tables),
            self._of("start of the stream", "s", lambda each: each.start),
            *(
                Line(name=name, unit="s", young=each[YOUNG], old=each[OLD])
                for name, each in self.answers.items()
            ),
            self._of("memory of Python", "MB", lambda each: each.python_mb),
            self._of("memory of the JVM", "MB", lambda each: each.java_mb),
        ]

    def missed(self) -> list[str]:
        """Return the figures that are above the target without a bound that is known."""
        return [
            f"{each.name} ({each.ratio:.2f})" for each in self._above() if each.name not in REASONS
        ]

    def _above(self) -> list[Line]:
        return [each for each in self.lines() if each.ratio > WANTED]

    def page(self) -> str:
        """Return the page in Markdown."""
        missed = self.missed()
        verdict = f"Missed: {', '.join(missed)}." if missed else "Reached, or bounded:"
        bounded = [
            f"* {each.name}: {REASONS[each.name]}" for each in self._above() if each.name in REASONS
        ]
        return "\n".join(
            [
                "# An old lake beside a young one",
                "",
                "Made by `python -m tests.benchmarks.old_lakes`.",
                f"Machine: {', '.join(f'{name} {value}' for name, value in self.machine.items())}.",
                "",
                METHOD,
                f"Target: each ≤ {WANTED} times the young lake's. {verdict}",
                "",
                *bounded,
                "",
                "![What an old lake takes, against a young one](old_lakes.svg)",
                "",
                "| lake | commits of bronze, silver and gold | files in the logs | data files on the disk |",
                "|---|---|---:|---:|",
                *(
                    f"| {name} | {', '.join(f'{each:,}' for each in ages.commits.values())} "
                    f"| {ages.logged:,} | {ages.files:,} |"
                    for name, ages in self.shape.items()
                ),
                "",
                "| figure | young | old | ratio |",
                "|---|---:|---:|---:|",
                *(
                    f"| {each.name}, {each.unit} | {_number(each.young)} | {_number(each.old)} | {each.ratio:.2f} |"
                    for each in self.lines()
                ),
                "",
            ]
        )

    def picture(self) -> str:
        """Return the ratios as bars, and where the target is."""
        lines = self.lines()
        most = max(1.5, *(each.ratio for each in lines))
        shapes = [shape for number, each in enumerate(lines) for shape in _bar(number, each, most)]
        bottom = TOP + HIGH * len(lines)
        for ratio, colour in ((1.0, "#999"), (WANTED, "#c33")):
            x = LEFT + WIDE * ratio / most
            shapes += [
                f'<line x1="{x:.1f}" x2="{x:.1f}" y1="{TOP}" y2="{bottom}" stroke="{colour}"/>',
                f'<text x="{x:.1f}" y="{TOP - 8}" text-anchor="middle" fill="{colour}">{ratio}</text>',
            ]
        size = f'viewBox="0 0 {LEFT + WIDE + 60} {bottom + 12}"'
        style = 'font-family="sans-serif" font-size="12"'
        drawn = "\n".join(shapes)
        return f'<svg xmlns="http://www.w3.org/2000/svg" {size} {style}>\n{drawn}\n</svg>\n'

    def _batch(self, table: str, words: str, of: Callable[[Sequence[int]], float]) -> Line:
        return self._of(f"{table}: {words}", "ms", lambda each: of(each.batches[table]))

    def _of(self, name: str, unit: str, figure: Callable[[Lived], float]) -> Line:
        young, old = (
            mean(figure(each) for each in self.lived if each.lake == lake) for lake in (YOUNG, OLD)
        )
        return Line(name=name, unit=unit, young=young, old=old)


def _number(value: float) -> str:
    return f"{value:,.2f}" if value < 100 else f"{value:,.0f}"


def _bar(number: int, line: Line, most: float) -> Iterator[str]:
    y = TOP + HIGH * number
    wide = WIDE * line.ratio / most
    name = line.name.replace("`", "")
    yield f'<text x="{LEFT - 8}" y="{y + 15}" text-anchor="end">{name}</text>'
    yield f'<rect x="{LEFT}" y="{y + 4}" width="{wide:.1f}" height="{HIGH - 8}" fill="#36c"/>'
    yield f'<text x="{LEFT + wide + 4:.1f}" y="{y + 15}">{line.ratio:.2f}</text>'
