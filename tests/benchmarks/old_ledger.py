"""What does a look at the ledger cost a lake of 50,000 commits, against the same lake with 100?

``python -m tests.benchmarks.old_ledger``. Logs with entries and without files are written; then each question is asked
with open books, as if they were never closed, and with closed ones.
"""

import argparse
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from random import Random
from statistics import median
from tempfile import TemporaryDirectory

from strandline.engine.accounting.balance_sheet import read_until, waiting
from strandline.engine.accounting.table_books import EVERY, Books, close
from strandline.engine.lake.lake import Lake
from strandline.engine.service.backlog import OpenBooks
from tests.benchmarks import machine
from tests.engine.written import BRONZE, GOLD, SILVER
from tests.support.ledgers import histories, made

TABLES = (BRONZE, SILVER, GOLD)
SIZES = (100, 50_000)
SEED = 19
REPAIRS = 0.002
"""One of 500 batches is followed by a backfill or a replay."""
TIMES = 5
WANTED = 1.2
"""How many times what a young lake costs an old one with closed books may cost."""


def started(lake: Lake) -> None:
    """Do what a stream does with the ledgers before its first batch."""
    OpenBooks(TABLES, lake).follow()


QUESTIONS: dict[str, Callable[[Lake], object]] = {
    "books of silver": lambda lake: Books(SILVER, lake).follow(),
    "rows that wait for gold": lambda lake: waiting(GOLD, lake),
    "version read until": lambda lake: read_until(SILVER, BRONZE, lake),
    "start of a stream": started,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """One lake: the seconds to close its books, and of each question before and after."""

    commits: int
    closing: float
    opened: dict[str, float]
    closed: dict[str, float]


def main() -> int:
    """Measure, write the report, and fail where the target is missed."""
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.old_ledger")
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "reports")
    wanted = parser.parse_args()
    found = list[Measured]()
    for commits in SIZES:
        with TemporaryDirectory(prefix="strandline-ledger-") as folder:
            found.append(measure(Lake(Path(folder)), commits))
            sys.stderr.write(f"{found[-1]}\n")
    page = "\n".join([*_page(found), ""])
    (wanted.out / "old_ledger.md").write_text(page)
    sys.stdout.write(page)
    young, old = found
    return int(any(old.closed[name] > WANTED * young.opened[name] for name in QUESTIONS))


def measure(lake: Lake, commits: int) -> Measured:
    """Measure one lake, before and after its books are closed."""
    logs = histories(commits, Random(SEED), REPAIRS)  # noqa: S311  # no secret
    made(lake, logs)
    times = 1 if commits > SIZES[0] else TIMES
    opened = {name: _seconds(ask, lake, times) for name, ask in QUESTIONS.items()}
    begun = time.perf_counter()
    close(lake, TABLES, every=1)
    closing = time.perf_counter() - begun
    closed = {name: _seconds(ask, lake, TIMES) for name, ask in QUESTIONS.items()}
    return Measured(commits=commits, closing=closing, opened=opened, closed=closed)


def _seconds(ask: Callable[[Lake], object], lake: Lake, times: int) -> float:
    taken = list[float]()
    for _ in range(times):
        begun = time.perf_counter()
        ask(lake)
        taken.append(time.perf_counter() - begun)
    return median(taken)


def _page(found: list[Measured]) -> list[str]:
    young, old = found
    return [
        "# What a look at an old ledger costs",
        "",
        "Made by `python -m tests.benchmarks.old_ledger`.",
        f"Machine: {', '.join(f'{name} {value}' for name, value in machine.facts().items())}.",
        "",
        f"Milliseconds, the median of {TIMES}; {young.commits:,} and {old.commits:,} commits of bronze.",
        f"A stream closes the books of a table after {EVERY:,} commits.",
        "",
        f"| question | {young.commits:,}, open | {young.commits:,}, closed | {old.commits:,}, open | {old.commits:,}, closed |",
        "|---|---:|---:|---:|---:|",
        *(
            f"| {name} | {1000 * young.opened[name]:.1f} | {1000 * young.closed[name]:.1f} "
            f"| {1000 * old.opened[name]:,.0f} | {1000 * old.closed[name]:.1f} |"
            for name in QUESTIONS
        ),
        "",
        f"To close the books of {old.commits:,} commits for the first time took {old.closing:.1f} s.",
    ]


if __name__ == "__main__":
    raise SystemExit(main())
