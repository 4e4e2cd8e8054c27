"""The table of faults with their outcomes, tests/faults.md: what the long form of the suite saw last."""

from collections.abc import Sequence
from pathlib import Path

from tests.faults.disk.journal import Record

REPORT = Path(__file__).parents[2] / "faults.md"
HEAD = """# Faults and their outcomes

What `make prove` saw last: each fault, how often it was planted, and how that ended. "As if nothing had happened" means that
all rows, held rows, decisions, gates, rules and closed books are those of a run without the fault, and that the ledger
balances, after the same was typed again.

| fault | how often | outcome |
|---|---|---|
"""
HIT = Path(__file__).with_name("hit.txt")
"""The functions of the library before whose writes an operation was killed."""

is_long = False
"""Whether the long form runs, whose outcomes are kept."""

WELL = "as if nothing had happened"


def keep(fault: str, often: str, failed: Sequence[str], outcome: str = WELL) -> None:
    """Print how a fault ended, and keep it in place of what was known about it."""
    ended = outcome if not failed else f"**{len(failed)} wrong**"
    line = f"| {fault} | {often} | {ended} |"
    print(line, flush=True)  # noqa: T201  # shown when the test fails, or with -s
    if not is_long:
        return
    rows = REPORT.read_text().splitlines() if REPORT.exists() else []
    others = [
        row
        for row in rows
        if row.startswith("| ") and not row.startswith((f"| {fault} |", "| fault |"))
    ]
    REPORT.write_text(HEAD + "\n".join(sorted([*others, line])) + "\n")


def hit(journal: Sequence[Record]) -> None:
    """Keep the functions before whose writes an operation was killed."""
    if not is_long:
        return
    found = {each.first.partition(" < ")[2] for each in journal if each.kind == "m"}
    known = set(HIT.read_text().splitlines()) if HIT.exists() else set()
    HIT.write_text("".join(f"{name}\n" for name in sorted(found | known)))
