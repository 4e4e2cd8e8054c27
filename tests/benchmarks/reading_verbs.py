"""What each verb that only reads costs with 25 and with 300 tables: ``python -m tests.benchmarks.reading_verbs --lake .lake/demo``.

The lake of the example as it is, and the same lake in a project with many more topics, each with bronze, silver and gold. Each verb is
a process of its own, as it is typed; the first call of all is not counted, because it compiles modules and fills the disk's cache.
CPU seconds are those of the process and of all that it starts, by the kernel's count; seconds on the clock are the least of the rounds,
because neighbours can only add to them.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from strandline.engine.lake.place import Place
from tests.architecture.tree import ROOT, search_path
from tests.benchmarks.lake_page import fill
from tests.benchmarks.machine import facts
from tests.support.many_tables import generated

SILVER, GOLD, EVENT = "silver.device_telemetry", "gold.device_signal_10m", "device-telemetry/0/17"

VERBS: dict[str, Sequence[str]] = {
    "tables": ("tables",),
    "ledger": ("ledger",),
    "ledger TABLE": ("ledger", SILVER),
    "cost": ("cost",),
    "moments": ("moments",),
    "moments show": ("moments", "show"),
    "query": ("query", "SELECT count(*) FROM silver.device_telemetry"),
    "why": ("why", EVENT),
    "diff": ("diff", GOLD),
    "drift": ("drift",),
    "history": ("history",),
    "history TABLE": ("history", SILVER),
    "report": ("report", "--json"),
    "quarantine list": ("quarantine", "list"),
    "quarantine show": ("quarantine", "show", SILVER),
    "gate": ("gate",),
    "status": ("status",),
    "probe": ("probe",),
    "logs": ("logs",),
    "radar": ("radar",),
    "preflight": ("preflight",),
    "migrate": ("migrate",),
    "expire": ("expire",),
    "catalog status": ("catalog", "status"),
    "models list": ("models", "list"),
    "serve users": ("serve", "users"),
    "contract diff": ("contract", "diff"),
    "lint": ("lint",),
    "explain": ("explain", "run"),
    "doctor": ("doctor",),
    "--help": ("--help",),
}
"""The verbs that read, as they are typed."""


def main() -> None:
    """Measure by turns, and print the figures as a table of Markdown or as JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--lake", type=Path, required=True, help="of `strandline demo`")
    parser.add_argument("--topics", type=int, default=92, help="topics of three tables each")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", help="verbs, with commas between them")
    parser.add_argument("--keep", type=Path, help="a folder in which both lakes are made, or are")
    parser.add_argument("--json", action="store_true")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="reading-verbs-") as place:
        few, many = made(asked.lake, asked.keep or Path(place), asked.topics)
        names = asked.only.split(",") if asked.only else [*VERBS]
        for each in (few, many):
            typed(VERBS["tables"], each)
        found = {name: {} for name in names}
        for name in names:
            for label, each in (("few", few), ("many", many)):
                runs = [typed(VERBS[name], each) for _ in range(asked.rounds)]
                found[name][label] = {
                    "cpu": round(min(run[0] for run in runs), 2),
                    "seconds": round(min(run[1] for run in runs), 2),
                    "code": runs[-1][2],
                }
            print(name, json.dumps(found[name]), file=sys.stderr, flush=True)  # noqa: T201  # how far it is
    if asked.json:
        print(json.dumps({**facts(), "verbs": found}, indent=2))  # noqa: T201  # the figures
    else:
        _print(found)


def made(lake: Path, folder: Path, topics: int) -> tuple[Mapping[str, str], Mapping[str, str]]:
    """Return the environments in which both lakes are asked; what is there already is not made anew."""
    small, large, copy = folder / "few", folder / "many", folder / "copy"
    if not copy.exists():
        for each in (small, large):
            shutil.copytree(lake, each)
        generated(copy, topics)
        for number in range(topics):
            fill(Place.of(large), number)
    return (
        {"STRANDLINE_LAKE": str(small), "PYTHONPATH": search_path(ROOT), "PWD": str(ROOT)},
        {"STRANDLINE_LAKE": str(large), "PYTHONPATH": search_path(copy), "PWD": str(copy)},
    )


def typed(words: Sequence[str], env: Mapping[str, str]) -> tuple[float, float, int]:
    """Return the CPU seconds, the seconds and the exit code of a verb."""
    begun = time.monotonic()
    program = subprocess.Popen(
        [sys.executable, "-m", "strandline.cli", *words],
        cwd=env["PWD"],
        env={**os.environ, **env},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    _, status, used = os.wait4(program.pid, 0)
    program.returncode = os.waitstatus_to_exitcode(status)
    return used.ru_utime + used.ru_stime, time.monotonic() - begun, program.returncode


def _print(found: Mapping[str, Mapping[str, Mapping[str, float]]]) -> None:
    print("| verb | CPU s, 25 tables | seconds | CPU s, 300 tables | seconds |")  # noqa: T201  # the figures
    print("|---|---|---|---|---|")  # noqa: T201  # as above
    for name, each in found.items():
        cells = [
            f"{each[label][key]:.2f}" for label in ("few", "many") for key in ("cpu", "seconds")
        ]
        print(f"| `{name}` | {' | '.join(cells)} |")  # noqa: T201  # as above


if __name__ == "__main__":
    main()
