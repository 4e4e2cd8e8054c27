"""The page about speed: made of what runs have measured, workload by workload, each with the commit that it was measured at.

Ratios come first, because they outlive a machine; figures without a contestant's guarantee and sink are in no table.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Self

from tests.benchmarks.contestants.roster import ABSENT, KNOWN, process_of, variant_of
from tests.benchmarks.ground import OURS, Ground
from tests.benchmarks.nexmark.workload import FLINK, QUERY
from tests.benchmarks.ratios import Ratios, picture
from tests.benchmarks.report import head, line, quoted
from tests.benchmarks.samples import Samples, Spread

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "infra" / "docs" / "speed.md"
REPORTS = Path(__file__).parent / "reports"
RESULTS = REPORTS / "peers.json"
PART = "peers"
AGAINST = ("tuned", "flink", "flink/rocksdb", "flink/iceberg", "delta-rs", "bytewax", "quix")
AGAINST += ("pathway", "duckdb", "polars", "kafka-streams", "tutorial")
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
NEXMARK = "NEXMark"
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
.venv/bin/python -m tests.benchmarks all --events 1000000 --rounds 2
.venv/bin/python -m tests.benchmarks peers --events 1000000 --rows clean,whole --contestants strandline,tuned,flink
.venv/bin/python -m tests.benchmarks nexmark --events 1000000 --rounds 1
.venv/bin/python -m tests.benchmarks speed
```

The first measures all of it from an empty folder, and writes this page with its plot: what others need is fetched, topics are filled, each round is kept as soon as it is measured. A run that was interrupted goes on where it was when the command is given again. The second and the third measure some again, the fourth makes the page of [what was measured](../../tests/benchmarks/reports/peers.json). `make prove` runs all of it with a few events, and compares the rows.
Packages, jars and classes of the others are made by the benchmark in `.cache/peers`, from [pinned lists](../../tests/benchmarks/contestants); nothing of the product imports them.
The engine against jobs by hand, with small batches: [engine.md](../../tests/benchmarks/reports/engine.md). How many machines a load needs: [sizing.md](sizing.md).
"""
CLUSTER = """\
A core-second is what one core does in a second, whichever process it works for, without the broker's. A core that does nothing else carries so many events a second while it catches up; half of that is a load that leaves room for a backlog, repairs and questions. A stream pays for each batch as well, however few rows it has, so below some thousand events a second the number of batches decides ([what a core carries](sizing.md#what-a-core-carries)).
Go to a [cluster](cluster.md) when the load is more than half of what the cores of the largest machine that you can have carry, and not before: on one machine no row goes through a network, and [what distribution costs](../../tests/benchmarks/reports/cluster_size.md) is paid by every batch. Or share the tables out over [several hosts](sizing.md#several-hosts), which costs nothing by itself.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Quote:
    """A figure of another report.

    Args:
        what: What it is about.
        report: The report's name.
        under: How the heading begins below which the table is.
        row: The first cell of the row.
        columns: Which cells of it.
        commit: The commit that brought the report, where the report names none.
    """

    what: str
    report: str
    under: str
    row: str
    columns: tuple[str, ...]
    commit: str = ""


QUOTES = (
    Quote(
        what="a warm batch of a hundred rows, silver",
        report="engine.md",
        under="## A warm micro-batch",
        row="silver",
        columns=("strandline ms", "tuned ms", "wall / tuned"),
    ),
    Quote(
        what="a hundred rows through three chained tables, to the last commit",
        report="engine.md",
        under="## Three queries",
        row="three chained",
        columns=("s", "CPU s"),
    ),
    Quote(
        what="catch-up: three million events from Kafka to gold in a heap of 512 MB, a process from its start to its end",
        report="governor.md",
        under="# A backlog",
        row="governed",
        columns=("seconds", "CPU of its batches, s", "batches"),
        commit="1111085f",
    ),
    Quote(
        what="recovery: seconds from the restart after kill -9 to the first commit, bronze",
        report="recovery.md",
        under="# Recovery",
        row="bronze.device_telemetry",
        columns=("tuned", "strandline", "ratio to tuned"),
        commit="a84748ca",
    ),
    Quote(
        what="the same, silver",
        report="recovery.md",
        under="# Recovery",
        row="silver.device_telemetry",
        columns=("tuned", "strandline", "ratio to tuned"),
        commit="a84748ca",
    ),
    Quote(
        what="freshness of an alert at 200 events a second, from the event to the consumer, in milliseconds",
        report="alert_latency.md",
        under="# How long",
        row="real-time",
        columns=("p50", "p99", "max"),
        commit="c4d933f0",
    ),
    Quote(
        what="freshness of a row at 200 events a second and `--every 5s`, from the event to gold through three tables, the stream alone",
        report="freshness.md",
        under="# How old",
        row="gold, alone, 200 a second",
        columns=("p50, ms", "p99, ms", "cores"),
    ),
    Quote(
        what="the same with Dagster's daemon and the checks of all tables beside it",
        report="freshness.md",
        under="# How old",
        row="gold, with Dagster, 200 a second",
        columns=("p50, ms", "p99, ms", "cores"),
    ),
    Quote(
        what="a warm batch of a thousand rows, a table alone, with ten thousand keys in its state",
        report="costs.md",
        under="# What a batch",
        row="10,000 keys in state",
        columns=("wall, ms", "CPU, ms"),
    ),
    Quote(
        what="the same with a hundred thousand",
        report="costs.md",
        under="# What a batch",
        row="100,000 keys in state",
        columns=("wall, ms", "CPU, ms"),
    ),
    Quote(
        what="the same with a million",
        report="costs.md",
        under="# With a million",
        row="1,000,000 keys in state",
        columns=("wall, ms", "CPU, ms"),
    ),
    Quote(
        what="the same with ten million",
        report="costs.md",
        under="# With a million",
        row="10,000,000 keys in state",
        columns=("wall, ms", "CPU, ms"),
    ),
    Quote(
        what="one joined to a static side of a thousand rows",
        report="costs.md",
        under="# What a batch",
        row="1,000 rows of the static side",
        columns=("wall, ms", "CPU, ms"),
    ),
    Quote(
        what="the same joined to one of a hundred thousand",
        report="costs.md",
        under="# What a batch",
        row="100,000 rows of the static side",
        columns=("wall, ms", "CPU, ms"),
    ),
    Quote(
        what="a batch of silver after a thousand of them, each with maintenance beside it",
        report="many_batches.md",
        under="# A stream",
        row="silver.device_telemetry",
        columns=("at batch 100, ms", "last, ms", "ratio"),
        commit="69ca1c15",
    ),
    Quote(
        what="a batch of silver in a lake of fifty thousand commits, in milliseconds",
        report="old_lakes.md",
        under="# An old lake",
        row="silver.device_telemetry: median batch, ms",
        columns=("young", "old", "ratio"),
        commit="5d4810a5",
    ),
    Quote(
        what="a scheduled run by Dagster with its gates, beside `strandline run` (the first of three rounds)",
        report="share.md",
        under="# What Dagster",
        row="1",
        columns=("dagster, s", "run, s", "gates' share"),
        commit="a3d12e2d",
    ),
    Quote(
        what="a backlog on two executors that share two cores with their driver, over a store",
        report="cluster_size.md",
        under="## A backlog",
        row="store, two executors",
        columns=("whole run, s", "times the disk's, silver"),
        commit="7defc5a5",
    ),
)
"""What other benchmarks have measured; each is quoted from its report, by this program."""
UNMEASURED = """\
Idle tables: [300 of them in one stream](sizing.md#tables-in-one-stream), with the commit of each figure.
No report yet: cost by a million keys in state and more, and by a million rows of the static side.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sources:
    """What the page has beside the results of peers.

    Args:
        nexmark: The results of NEXMark.
        profiles: Of a workload where we lose, its profile and what was tried, as a text in Markdown: the files of the folder ``profiles``.
        elsewhere: Rows about what other benchmarks have measured.
    """

    nexmark: Mapping[str, Any] = field(default_factory=dict)
    profiles: Mapping[str, str] = field(default_factory=dict)
    elsewhere: tuple[str, ...] = ()

    @classmethod
    def found(cls, folder: Path) -> Self:
        """Read them from a folder of reports."""
        nexmark = folder / "nexmark.json"
        return cls(
            nexmark=json.loads(nexmark.read_text()) if nexmark.exists() else {},
            profiles={file.stem: file.read_text() for file in sorted(folder.glob("profiles/*.md"))},
            elsewhere=tuple(_quote(each) for each in QUOTES),
        )


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
        return [results, *write_page(results)]

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


def write_page(results: Path = RESULTS) -> list[Path]:
    """Make the page and its plot of what was measured; of other results than those of the repository, beside them."""
    target = PAGE if results == RESULTS else results.with_name(PAGE.name)
    plot = target.with_suffix(".svg")
    data = json.loads(results.read_text()) if results.exists() else {"workloads": {}}
    sources = Sources.found(results.parent)
    target.write_text(page(data, sources))
    plot.write_text(picture(ratios(data, sources)))
    return [target, plot]


def page(data: Mapping[str, Any], sources: Sources | None = None) -> str:
    """Return the page in Markdown."""
    found, sources = _in_order(data), sources or Sources()
    lines = [INTRO, "## Ratios", "", *_ratios(found), "", *_targets(data), ""]
    lines += [f"![Our CPU over theirs, by workload]({PAGE.with_suffix('.svg').name})", ""]
    lines += ["## Where we lose by more than half", "", *_losses(found, sources), ""]
    lines += _capacity(found)
    for row, of in found.items():
        lines += [f"## {row.capitalize()}", "", *_workload(row, of), ""]
    lines += _nexmark(sources.nexmark)
    lines += _elsewhere(sources.elsewhere)
    lines += ["## Who takes part", "", *_roster(found), ""]
    return "\n".join([*lines, REPEAT])


def ratios(data: Mapping[str, Any], sources: Sources) -> Ratios:
    """Return all ratios that the plot shows, by workload or query and by contestant."""
    shown = {
        row: {who: ratio for who in AGAINST if (ratio := _ratio(of, who)) is not None}
        for row, of in _in_order(data).items()
    }
    samples = Samples.holding(sources.nexmark.get("samples", ()))
    for query in samples.rows(QUERY):
        ratio = samples.ratio(QUERY, query, FLINK, "cpu")
        if ratio is not None:
            shown[f"{NEXMARK} {query}"] = {FLINK: ratio}
    return shown


def _in_order(data: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    return {row: data["workloads"][row] for row in WHAT if row in data["workloads"]}


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


def _losses(found: Mapping[str, Mapping[str, Any]], sources: Sources) -> list[str]:
    """Return each loss with what the other promises, and of each workload its profile and what was tried."""
    lines: list[str] = []
    losing: list[str] = []
    for row, of in found.items():
        lost = [
            f"* {row}: {ratio.median:.1f} times the CPU of {who} ({KNOWN[process_of(who)].guarantee})."
            for who in AGAINST
            if (ratio := _ratio(of, who)) is not None and ratio.median > LOSING
        ]
        lines += lost
        losing += [row] if lost else []
    queries = _lost_queries(sources.nexmark)
    lines += queries
    losing += [NEXMARK] if queries else []
    if not lines:
        return ["Nowhere in these tables."]
    profiles = sources.profiles
    for row in losing:
        if row in profiles:
            title = row if row == NEXMARK else row.capitalize()
            lines += [
                "",
                f"### {title}: the profile, and what was tried",
                "",
                profiles[row].strip(),
            ]
    without = [row for row in losing if row not in profiles]
    return (
        [*lines, "", f"Not profiled on this page yet: {', '.join(without)}."] if without else lines
    )


def _lost_queries(found: Mapping[str, Any]) -> list[str]:
    samples = Samples.holding(found.get("samples", ()))
    by_query = {query: samples.ratio(QUERY, query, FLINK, "cpu") for query in samples.rows(QUERY)}
    lost = [
        f"{query} {ratio.median:.1f}"
        for query, ratio in by_query.items()
        if ratio is not None and ratio.median > LOSING
    ]
    if not lost:
        return []
    where = "[nexmark.md](../../tests/benchmarks/reports/nexmark.md)"
    goes = f"Where ours goes, table by table, and what is left where bronze and silver are there anyway: {where}."
    return [f"* {NEXMARK}, times the CPU of Flink: {', '.join(lost)}. {goes}"]


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
    """Return what a million events cost each contestant, and what a core of ours carries."""
    if not found:
        return []
    costs = {row: _costs(row, of) for row, of in found.items()}
    whom = [who for who in AGAINST if any(who in of for of in costs.values())]
    lines = ["## What a core carries", "", CLUSTER]
    lines += head(
        "a million events, in core-seconds", "ours", *whom, "events a second and core: ours", "half"
    )
    for row, of in costs.items():
        if OURS in of:
            rate = 1e6 / of[OURS]
            cells = (f"{of[who]:.1f}" if who in of else "-" for who in (OURS, *whom))
            lines.append(line(row, *cells, f"{rate:,.0f}", f"{rate / 2:,.0f}"))
    few = [row for row, of in found.items() if of["events"] < ENOUGH]
    if few:
        lines += ["", f"Of fewer than a million events, so of their like: {', '.join(few)}. {FEW}"]
    return [*lines, ""]


def _costs(row: str, of: Mapping[str, Any]) -> dict[str, float]:
    """Return the core-seconds of a million events, by contestant."""
    samples = Samples.holding(of["samples"])
    cpu = {
        who: samples.figure(PART, row, who, "cpu")
        for who in dict.fromkeys(s.contestant for s in samples.all)
    }
    return {who: each.median * 1e6 / of["events"] for who, each in cpu.items() if each is not None}


def _nexmark(found: Mapping[str, Any]) -> list[str]:
    """Return the queries that Flink has computed as well; how all are written is in their own report."""
    samples = Samples.holding(found.get("samples", ()))
    lines = []
    for query in samples.rows(QUERY):
        ratio = samples.ratio(QUERY, query, FLINK, "cpu")
        each = [samples.figure(QUERY, query, who, "cpu") for who in (OURS, FLINK)]
        if ratio is None or None in each:
            continue
        costs = [spread.median * 1e6 / found["events"] for spread in each if spread is not None]
        figures = [f"{cost:.1f}" for cost in costs] + [f"{1e6 / cost:,.0f}" for cost in costs]
        lines.append(line(query, f"{found['rows'][query]:,}", _text(ratio, 2), *figures))
    if not lines:
        return []
    machine = found["machine"]
    about = (
        f"The queries of NEXMark over {found['events']:,} events, each from Kafka to its rows, with bronze and silver below ours and nothing "
        "below Flink's; every row compared with those of DuckDB. Sinks, what each query adds where silver is there anyway, and what "
        "Flink cannot: [nexmark.md](../../tests/benchmarks/reports/nexmark.md)."
    )
    return [
        "## NEXMark, beside Flink",
        "",
        about,
        f"Made by `{found['command']}`. Commit {machine['commit']}, {machine['processor']}, {machine['cores']} cores.",
        *([FEW] if found["events"] < ENOUGH else []),
        "",
        *head(
            "query",
            "rows, all equal",
            "our CPU over Flink's",
            "ours, µs an event",
            "flink, µs an event",
            "events a second and core: ours",
            "flink",
        ),
        *lines,
        "",
    ]


def _elsewhere(rows: tuple[str, ...]) -> list[str]:
    if not rows:
        return []
    lines = [
        "## Other workloads",
        "",
        "Each figure is that of its report, on the machine and at the commit of it.",
    ]
    return [*lines, "", *head("what", "figures", "report", "commit"), *rows, "", UNMEASURED]


def _quote(each: Quote) -> str:
    report = (REPORTS / each.report).read_text()
    cells = quoted(report, each.under, each.row)
    figures = "; ".join(f"{name}: {cells[name]}" for name in each.columns)
    of_its_part = report[report.find(each.under) :]
    named = [
        word.partition(" ")[2]
        for text in (of_its_part + report).splitlines()
        if text.startswith("Machine: ")
        for word in text.removeprefix("Machine: ").split(", ")
        if word.startswith("commit ")
    ]
    commit = named[0] if named else f"report of {each.commit}"
    link = f"[{each.report}](../../tests/benchmarks/reports/{each.report})"
    return line(each.what, figures, link, commit)


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
