"""The report on NEXMark: each query with its rows, how it is written, and what it costs; and what Spark says of it as one plan."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path

from tests.benchmarks.nexmark.takers import CHANGING
from tests.benchmarks.nexmark.workload import CHAINS, FLINK, OURS, QUERY, RATE, SEED, TABLE
from tests.benchmarks.report import head, line
from tests.benchmarks.samples import Samples, Spread

ASKS = {
    "q0": "pass through",
    "q1": "a price in euros",
    "q2": "bids on some auctions",
    "q3": "join without a bound of time",
    "q4": "average winning price of a category",
    "q5": "auctions with the most bids in 10 s, each 2 s",
    "q6": "average of a seller's last ten winning prices",
    "q7": "highest bids of 10 s",
    "q8": "new persons who sold within 10 s",
    "q9": "winning bid of each auction",
    "q11": "bids in sessions of 10 s",
    "q12": "bids by 10 s of arrival",
    "q18": "last bid of a person on an auction",
    "q19": "ten highest bids of an auction",
}
METHOD = f"""\
Events are those of NEXMark in kind and proportion (1 person, 3 auctions, 46 bids), drawn by [play.py](../nexmark/project/nexmark/play.py) with the seed {SEED}, {RATE:,} a second of event time, up to a second out of order, as JSON in three topics of two partitions.
[The project](../nexmark/project/nexmark) is one as `strandline init` makes it; silver is strict, with its quarantine, and every table has its ledger and lease.
Each pass begins with an empty lake; a process that stays runs the tables as `strandline run` does. Behind the events come twelve, an hour apart, that move time on, so every window is over at the end; their own rows are not compared. The first pass warms the process up and is not counted.
CPU is user and system time of the whole process tree, the broker's left out. µs an event are of *all* events that were sent, as NEXMark counts, also where a query reads bids alone.
Some 0.6 s of CPU of each table are its start and its commits, however few events there are (the same with 20,000 and 300,000): of 100,000 events that is 6 µs each for every table of a chain, of a million 0.6.
*own* is the query's own tables, from silver on; *from Kafka* has bronze and silver of what it reads as well, as if no other query shared them.
All rows of every pass are compared with those that [DuckDB](../nexmark/expected.py) computes from the bytes that were sent; one row other, and the figure does not count.
"""
DIFFERENCES = """\
* **q4, q9, q6**: no auction is open for more than a minute, which a rule of silver holds and the join says; from `expires_at` alone Spark takes no bound, and the engine refuses the table.
* **q4, q6, q9, q7, q12** are chains: `row_number`, an average over averages of all time and a second event time are not for one plan. q4 and q6 keep what they read of a table that is there anyway, q9.
* **q5, q8** and the winners are one table each, with several stateful operators in it.
* **q6**: of the last ten auctions that closed, by when they closed. (NEXMark's own text for Flink has no such query.)
* **q11**: a session is closed by ten seconds without a bid. Two that touch are one in Spark, so its gap is a microsecond less.
* **q12**: by the arrival in Kafka, which is in each row. The clock of the process is in none, and a second computation by it has other rows; so no engine has expected rows for it.
* **q18, q19**: a table of the latest rows needs no end of time; `window_from`, by which it is partitioned, is a shelf of a thousand auctions.
* **q3** keeps all persons and auctions that pass its filter for ever, as it is asked.
* Of equal prices the first bid wins. An average of whole numbers is cut to a whole number, as Flink does.
"""
BESIDE = """\
The same topics, the same broker, the same expected rows, in one run and in turn (each query by one, then by the other; the next pass the other way round).
Flink SQL 2.3.0 in one JVM of 3 GB: a session's cluster that stays, two slots, a job for each query, checkpoints every 10 s, exactly once, state in the heap, objects reused, mini-batches of a second. [Its text of each query](../contestants/jvm/flink/Nexmark.java).
*Flink* reads the topics itself, parses JSON loosely and keeps neither what it read nor what it could not read; *from Kafka* has two durable layers below the answer, a strict parse with its quarantine, and the ledger. *own* is what the query adds where the lake has silver anyway.
An answer whose rows are final is Parquet files. One whose rows change is a Kafka topic, an upsert for each change, because Flink's files take no changes; the broker's work for it is counted to neither.
"""
FLINKS = """\
* **q4, q9** know that no auction is open for more than a minute, as ours do: an interval join, whose state ends with it.
* **q4, q9, q18, q19** answer with changes, of which the last of each key is compared; a reader of the topic sees the earlier ones too.
* **q11**: two sessions that touch are one in Flink, so its gap is a millisecond less than ten seconds.
* **q12**: by the arrival in Kafka as well, and not by `PROCTIME()`, whose rows no oracle has.
* **Late rows**: the watermark stays 4 s behind, a row comes up to 1 s late, so nothing is dropped. Where one came later Flink would drop it without a word, and ours holds it with its reason.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class NexmarkReport:
    """One run of the queries."""

    command: str
    events: int
    machine: Mapping[str, object]
    rows: Mapping[str, int]
    refused: Mapping[tuple[str, str], str] = field(default_factory=dict)
    absent: Mapping[str, str] = field(default_factory=dict)
    one_plan: Mapping[str, Mapping[str, str]]
    samples: Samples = field(repr=False)

    def write(self, folder: Path) -> list[Path]:
        """Write ``nexmark.json`` and ``nexmark.md``."""
        folder.mkdir(parents=True, exist_ok=True)
        data, page = folder / "nexmark.json", folder / "nexmark.md"
        found = {
            "command": self.command,
            "events": self.events,
            "machine": self.machine,
            "rows": self.rows,
            "refused": [
                {"query": query, "contestant": who, "reason": reason}
                for (query, who), reason in self.refused.items()
            ],
            "absent": self.absent,
            "as_one_plan": self.one_plan,
            "samples": [asdict(sample) for sample in self.samples.all],
        }
        data.write_text(json.dumps(found, indent=1) + "\n")
        page.write_text(self.page())
        return [data, page]

    def missed(self) -> list[str]:
        """Return nothing: a query whose rows are other ends the run."""
        return []

    def page(self) -> str:
        """Return the page in Markdown."""
        machine = ", ".join(f"{name} {value}" for name, value in self.machine.items())
        others = max((s.others for s in self.samples.all), default=0.0)
        load = max((s.load for s in self.samples.all), default=0.0)
        lines = [
            "# NEXMark",
            "",
            f"Made by `{self.command}`.",
            f"Machine: {machine}.",
            f"Noise: other programs took up to {others:.0f} % of the machine during a pass; load average up to {load:.1f}.",
            "",
            METHOD,
            f"## {self.events:,} events",
            "",
            *self._queries(),
            "",
            *self._beside(),
            "## How a query differs from NEXMark's text",
            "",
            DIFFERENCES,
            "## Each table by itself",
            "",
            *self._tables(),
            "",
            "## As one plan of Spark's",
            "",
            "What Spark answers when the query is started as a whole, in mode append; in mode update where that is other.",
            "",
            *self._one_plan(),
            "",
        ]
        return "\n".join(lines)

    def _queries(self) -> list[str]:
        lines = head(
            "query",
            "asks for",
            "written as",
            "rows, all equal",
            "own, µs/event",
            "from Kafka, µs/event",
            "events/s and core",
            "s on the wall",
        )
        for query in self.samples.rows(QUERY):
            wall = self.samples.figure(QUERY, query, OURS, "wall")
            whole = self._cost(QUERY, query, OURS)
            lines.append(
                line(
                    query,
                    ASKS[query],
                    _written(query),
                    f"{self.rows[query]:,}" if query in self.rows else "-",
                    f"{self._own(query):.2f}",
                    f"{whole:.2f}",
                    f"{1e6 / whole:,.0f}" if whole else "-",
                    f"{wall.median:.1f}" if wall else "-",
                )
            )
        return lines

    def _beside(self) -> list[str]:
        gone = [f"{who} does not take part: {reason}" for who, reason in self.absent.items()]
        measured = [q for q in self.samples.rows(QUERY) if self._cost(QUERY, q, FLINK)]
        if not measured:
            return [*gone, ""] if gone else []
        lines = ["## Beside Flink", "", BESIDE]
        lines += head(
            "query",
            "Flink's answer",
            "flink, µs/event",
            "ours from Kafka, µs/event",
            "ours / flink",
            "own / flink",
            "events/s and core: ours, flink",
            "s on the wall: ours, flink",
        )
        for query in measured:
            theirs, whole = self._cost(QUERY, query, FLINK), self._cost(QUERY, query, OURS)
            walls = [self.samples.figure(QUERY, query, who, "wall") for who in (OURS, FLINK)]
            lines.append(
                line(
                    query,
                    "changes in a topic" if query in CHANGING else "files",
                    f"{theirs:.2f}",
                    f"{whole:.2f}",
                    _ratio(self.samples.ratio(QUERY, query, FLINK, "cpu", OURS)),
                    f"{self._own(query) / theirs:.2f}",
                    f"{1e6 / whole:,.0f}, {1e6 / theirs:,.0f}",
                    ", ".join(f"{each.median:.1f}" if each else "-" for each in walls),
                )
            )
        lines += ["", self._together(measured), ""]
        refused = [f"* {query}, {who}: {reason}" for (query, who), reason in self.refused.items()]
        lines += ["What does not count, and why:", "", *refused, ""] if refused else []
        return [*lines, *gone, "### How Flink's text differs from NEXMark's", "", FLINKS]

    def _together(self, measured: list[str]) -> str:
        """Return the cost of all these queries, each table of ours computed once."""
        tables = dict.fromkeys(table for query in measured for table in CHAINS[query])
        ours = sum(self._cost(TABLE, table, OURS) for table in tables)
        theirs = sum(self._cost(QUERY, query, FLINK) for query in measured)
        return (
            f"These {len(measured)} queries together, where ours share bronze, silver and winners and Flink's are jobs of their own: "
            f"{ours:.0f} µs an event beside {theirs:.0f}, {ours / theirs:.2f} times."
        )

    def _tables(self) -> list[str]:
        lines = head("table", "µs/event", "from … to", "s on the wall")
        for table in self.samples.rows(TABLE):
            cpu = self.samples.figure(TABLE, table, OURS, "cpu")
            wall = self.samples.figure(TABLE, table, OURS, "wall")
            if cpu is None or wall is None:
                continue
            scale = 1e6 / self.events
            ends = f"{cpu.low * scale:.2f} … {cpu.high * scale:.2f}"
            lines.append(line(table, f"{cpu.median * scale:.2f}", ends, f"{wall.median:.2f}"))
        return lines

    def _one_plan(self) -> list[str]:
        lines = head("query", "Spark")
        for query, verdicts in self.one_plan.items():
            append, update = map(_short, (verdicts["append"], verdicts["update"]))
            says = append or "takes it"
            if bool(append) != bool(update) or (append and update and append != update):
                says += f"; in mode update: {update or 'takes it'}"
            lines.append(line(query, says.replace("|", "\\|")))
        return lines

    def _own(self, query: str) -> float:
        own = [table for table in CHAINS[query] if _is_own(table)]
        return sum(self._cost(TABLE, table, OURS) for table in own)

    def _cost(self, part: str, row: str, who: str) -> float:
        found = self.samples.figure(part, row, who, "cpu")
        return found.median * 1e6 / self.events if found else 0.0


def _short(sentence: str) -> str:
    """Return what Spark says without its advice; the JSON has all of it."""
    return sentence.partition(" Please refer")[0]


def _ratio(found: Spread | None) -> str:
    return f"{found.median:.2f} ({found.low:.2f}…{found.high:.2f})" if found else "-"


def _is_own(table: str) -> bool:
    return table.startswith("gold.")


def _written(query: str) -> str:
    own = [each.removeprefix("gold.") for each in CHAINS[query] if _is_own(each)]
    return "one table" if len(own) == 1 else f"a chain of {len(own)}: {' → '.join(own)}"
