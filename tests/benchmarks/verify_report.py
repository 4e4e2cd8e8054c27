"""The report on the memory of a verification."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from tests.benchmarks.verify_memory import ALL, HEAP, Weighed

PYTHON = "verify, Python"
MOST = 1024
"""Most MiB that the Python of a verification may need, DuckDB in it, however many rows there are."""

METHOD = f"""\
A lake of device telemetry, silver and gold, filled from Kafka by `strandline run`; then `strandline verify --all` with its usual five splits and two kills, `STRANDLINE_MEMORY={HEAP}`.
Every half second each process is weighed. A process counts with all that it has in memory (RSS); all together count with what they share counted once (PSS).
DuckDB works within the first Python, which is why it has no line of its own; its limit is 512 MB (jobs/strandline/engine/lake/duckdb_spill.py). `stream` is the stream that is killed on the way, a process of its own with a JVM of its own; the other JVM waits meanwhile.
A JVM holds more than its heap: state of streams lies in RocksDB, outside of it.
"""
BEFORE = """\
The same two steps in Python at commit 5a5cd94, and now, each in a process of its own, with the most that it held. \
The log is one commit of 5,000,051 rows; silver has 4,499,963 rows and 350,007 that are held, and is compared with itself.

| step | rows | before, MiB | now, MiB | before, s | now, s |
|---|---:|---:|---:|---:|---:|
| cutting the log | 342,391 | 254 | 244 | 5 | 7 |
| cutting the log | 5,000,051 | 912 | 250 | 10 | 10 |
| comparing silver | 332,154 | 677 | 257 | 25 | 8 |
| comparing silver | 4,849,970 | 5,217 | 266 | 267 | 27 |
"""
"""Taken by hand with ``resource.getrusage``, so it does not change with a run of the benchmark."""


@dataclass(frozen=True, slots=True, kw_only=True)
class VerifyReport:
    """One verification."""

    command: str
    machine: Mapping[str, object]
    weighed: Weighed

    def write(self, folder: Path) -> list[Path]:
        """Write ``verify.json`` and ``verify.md``."""
        folder.mkdir(parents=True, exist_ok=True)
        data, page = folder / "verify.json", folder / "verify.md"
        found = {
            "command": self.command,
            "machine": self.machine,
            "most": MOST,
            "missed": self.missed(),
            **asdict(self.weighed),
        }
        data.write_text(json.dumps(found, indent=1) + "\n")
        page.write_text(self.page())
        return [data, page]

    def missed(self) -> list[str]:
        """Return what was not reached."""
        wrong = [] if self.weighed.equal else ["not every table was certified"]
        held = self.weighed.peaks[PYTHON]
        if held > MOST:
            wrong.append(f"Python held {held:,} MiB, not {MOST:,}")
        return wrong

    def page(self) -> str:
        """Return the page in Markdown."""
        machine = ", ".join(f"{name} {value}" for name, value in self.machine.items())
        found = self.weighed
        rows = ", ".join(f"{table} {rows:,}" for table, rows in found.rows.items())
        certified = "all certified" if found.equal else "NOT ALL CERTIFIED"
        kinds = [*sorted(kind for kind in found.peaks if kind != ALL), ALL]
        return "\n".join(
            [
                "# What memory a verification needs",
                "",
                f"Made by `{self.command}`.",
                f"Machine: {machine}.",
                "",
                METHOD,
                f"{found.events:,} rows of bronze ({rows}, what is held included), {certified} in {found.seconds:,.0f} s at a load of {found.load}.",
                f"The target is at most {MOST:,} MiB in Python.",
                "",
                "| what | at most, MiB | at second |",
                "|---|---:|---:|",
                *(f"| {kind} | {found.peaks[kind]:,} | {found.at[kind]:,} |" for kind in kinds),
                "",
                BEFORE,
            ]
        )
