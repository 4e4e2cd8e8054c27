"""Does Dagster's history stop growing when it is purged, and what does a pass cost?

``python -m tests.benchmarks.purge``. Two instances as ``strandline ui`` configures them get the same real events, round
by round: the results of all checks of all tables and an observation of each, as the sensors report them, and some runs.
One of them is purged after each round.
"""

import argparse
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from dagster import (
    AssetCheckEvaluation,
    AssetMaterialization,
    AssetObservation,
    DagsterInstance,
    OpExecutionContext,
    job,
    op,
)
from strandline import catalog

from strandline.engine.proof.day_verdicts import questions
from strandline_dagster.purge import PURGE, size
from strandline_dagster.resources import key
from strandline_infra.programs import instance as configuration
from tests.benchmarks import machine

ROUNDS = 6
LOOKS = 10
"""How often all checks are answered in a round: what the sensors do in ten minutes of a busy lake."""
RUNS = 10
POLICY = {"results": 10, "runs": 20}
FIGURES = {"lag": 12, "state": 3_400, "rows per second": 81.5, "seconds": 12.25, "share": 0.0125}
SAYS = "all of its sources were read, and what waits is younger than five minutes"


@op
def report_all(context: OpExecutionContext) -> None:
    """Report as a run that brings tables up to date."""
    for table in catalog.tables():
        context.log.info("%s is up to date", table.id)
        context.log_event(AssetMaterialization(key(table), metadata=FIGURES))


@job
def catch_up() -> None:
    """Bring nothing up to date."""
    report_all()


@dataclass(frozen=True, slots=True, kw_only=True)
class Round:
    """What both take after a round."""

    events: int
    unpurged: int
    before: int
    purged: int
    seconds: float


def main() -> int:
    """Measure and write the report."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "reports")
    out: Path = parser.parse_args().out
    with opened() as one, opened() as other:
        found = list(rounds(one, other))
    (out / "purge.md").write_text("\n".join(page(found)) + "\n")
    return 0


def rounds(one: DagsterInstance, other: DagsterInstance) -> Iterator[Round]:
    """Report to both and purge the other, round by round."""
    events = 0
    for _ in range(ROUNDS):
        events += reported(one)
        reported(other)
        before, begun = size(other), time.monotonic()
        config = {"ops": {"purge_history": {"config": POLICY}}}
        assert PURGE.execute_in_process(instance=other, run_config=config).success
        seconds = time.monotonic() - begun
        yield Round(
            events=events, unpurged=size(one), before=before, purged=size(other), seconds=seconds
        )


def reported(instance: DagsterInstance) -> int:
    """Report a round; return the number of events without a run."""
    count = 0
    for _ in range(LOOKS):
        for table in catalog.tables():
            instance.report_runless_asset_event(AssetObservation(key(table), metadata=FIGURES))
            for name in questions(table):
                answer = AssetCheckEvaluation(
                    asset_key=key(table),
                    check_name=name,
                    passed=True,
                    description=SAYS,
                    metadata=FIGURES,
                )
                instance.report_runless_asset_event(answer)
                count += 1
            count += 1
    for _ in range(RUNS):
        catch_up.execute_in_process(instance=instance)
    return count


@contextmanager
def opened() -> Iterator[DagsterInstance]:
    """Open an instance of its own."""
    with TemporaryDirectory() as home:
        (Path(home) / "dagster.yaml").write_text(configuration(in_database=False))
        with DagsterInstance.from_config(home) as made:
            yield made


def page(found: list[Round]) -> list[str]:
    """Return the report."""
    facts = ", ".join(f"{name} {value}" for name, value in machine.facts().items())
    rows = [
        f"| {each.events:,} | {each.unpurged / 1e6:,.1f} | {each.before / 1e6:,.1f} | "
        f"{each.purged / 1e6:,.1f} | {each.seconds:.1f} |"
        for each in found
    ]
    return [
        "# What Dagster's history takes when it is purged",
        "",
        "Made by `python -m tests.benchmarks.purge`.",
        f"Machine: {facts}.",
        "",
        (
            "Megabytes of the files in SQLite. "
            f"Each round reports events without a run and {RUNS} runs of a job with {len(catalog.tables())} materializations; "
            f"the purge leaves {POLICY['results']} results of each check, {POLICY['results']} events of each kind of each "
            f"asset, and {POLICY['runs']} runs."
        ),
        "",
        "| events without a run | never purged | before the purge | after it | seconds of the pass |",
        "|---:|---:|---:|---:|---:|",
        *rows,
    ]


if __name__ == "__main__":
    sys.exit(main())
