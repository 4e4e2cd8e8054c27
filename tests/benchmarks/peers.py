"""Beside what others would use instead: each workload with all who can do it, in turn, on the same events.

A peer that cannot be had, or whose rows are wrong, is named with the reason and does not end the benchmark; wrong rows of our
own do. What a run has measured replaces the same workloads in ``peers.json``, so that a page is made of several runs.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from fleet.play.plan import Plan
from tests.benchmarks import ad_views, catch_up, kit, machine
from tests.benchmarks.contestants.contestant import ADS, BRONZE, GOLD, SILVER
from tests.benchmarks.contestants.roster import process_of
from tests.benchmarks.ground import ROWS, Ground, Row, Show
from tests.benchmarks.samples import Samples
from tests.benchmarks.workers import workers

PART = "peers"
WORKLOADS = {
    "ingest": replace(
        ROWS["bronze"],
        name="ingest",
        contestants=(
            *("strandline", "tuned", "tutorial", "delta-rs", "bytewax", "quix", "pathway"),
            *("flink", "flink/iceberg"),
        ),
    ),
    "clean": replace(
        ROWS["silver"],
        name="clean",
        contestants=(
            *("strandline", "tuned", "delta-rs", "bytewax", "quix", "pathway", "duckdb"),
            *("flink", "flink/rocksdb", "flink/iceberg"),
        ),
        long=("quix", "pathway"),
    ),
    "windows": replace(
        ROWS["gold"],
        name="windows",
        contestants=("strandline", "tuned", "duckdb", "polars", "flink"),
    ),
    "whole": replace(
        ROWS["whole"],
        contestants=("strandline", "tuned", "delta-rs", "flink", "flink/rocksdb", "flink/iceberg"),
    ),
    "backfill": Row(
        name="backfill",
        table=GOLD,
        through=(SILVER,),
        source=BRONZE,
        contestants=("strandline", "tuned", "tutorial", "tutorial/2"),
        long=("tutorial", "tutorial/2"),
    ),
    "yahoo": Row(
        name="yahoo",
        table=ADS[-1],
        through=ADS[:-1],
        contestants=("strandline", "tuned", "flink", "flink/rocksdb", "kafka-streams"),
    ),
}


def taking_part(rows: Sequence[Row], wanted: Sequence[str]) -> tuple[list[str], dict[str, str]]:
    """Return whose processes to start, and why others cannot be had; what they need is made first."""
    names = dict.fromkeys(process_of(who) for row in rows for who in row.contestants)
    if unknown := {*wanted} - {*names}:
        raise SystemExit(
            f"no contestant {', '.join(sorted(unknown))}: there are {', '.join(names)}"
        )
    asked = [name for name in names if not wanted or name in wanted]
    reasons = {name: kit.missing(name) for name in asked}
    absent = {name: reason for name, reason in reasons.items() if reason is not None}
    return [name for name in asked if name not in absent], absent


def measure(  # noqa: PLR0913  # what, where, how often
    plan: Plan,
    work: Path,
    address: str,
    topic: str,
    rows: Sequence[Row],
    *,
    rounds: int,
    wanted: Sequence[str],
    show: Show,
) -> Iterator[tuple[Ground, dict[str, str], dict[str, object]]]:
    """Measure workloads, and after each yield what was found so far, who is absent, and on what it was measured."""
    names, absent = taking_part(rows, wanted)
    for name, reason in absent.items():
        show(f"{name} cannot be had: {reason}")
    with workers(names, work / "logs") as started:
        ground = Ground(
            work=work,
            address=address,
            topic=topic,
            plan=plan,
            workers=started,
            samples=Samples(work / "samples.jsonl"),
            show=show,
        )
        facts = {name: worker.facts for name, worker in started.items()}
        for row in rows:
            if row.name == "yahoo":
                ad_views.run(ground, rounds, row, PART, plan.events)
            else:
                catch_up.run(ground, rounds, [row], PART)
            yield ground, absent, {**machine.facts(), "contestants": facts}
