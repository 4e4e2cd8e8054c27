"""Measure: ``python -m tests.benchmarks [all | engine | history | nexmark | peers | rules | share | speed | verify]``, or ``make bench``.

``engine`` compares with jobs written by hand, ``peers`` with what others would use instead, ``nexmark`` runs the queries of NEXMark beside
Flink and compares all rows with those of DuckDB; of the last two ``speed`` makes a page, and ``all`` is both and the page.
``history`` compares an old table with a young one,
``rules`` a batch with fifty rules and their gate with one that has none, ``share`` a run that Dagster launched with one from the
command line, and ``verify`` weighs the processes of a verification.
An interrupted run goes on where it was; ``--fresh`` begins anew.
"""

import argparse
import json
import shutil
import sys
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

from rich.console import Console

from fleet.play.domain import readings
from fleet.play.plan import Plan
from strandline.core.topic import Topic
from strandline.engine.kafka import broker
from strandline.engine.lake.lake import Lake
from tests.benchmarks import (
    catch_up,
    history,
    kit,
    machine,
    peers,
    rules,
    share,
    speed_page,
    verify_memory,
)
from tests.benchmarks.feed import events_in
from tests.benchmarks.ground import ROWS, Ground
from tests.benchmarks.history_report import HistoryReport
from tests.benchmarks.nexmark import takers, workload
from tests.benchmarks.nexmark.expected import Oracle
from tests.benchmarks.nexmark.report import NexmarkReport
from tests.benchmarks.report import Report
from tests.benchmarks.rules_report import RulesReport
from tests.benchmarks.samples import Samples
from tests.benchmarks.share_report import ShareReport
from tests.benchmarks.small_batches import SmallBatches
from tests.benchmarks.speed_page import PeersReport
from tests.benchmarks.verify_report import VerifyReport
from tests.benchmarks.workers import workers
from tests.support.commit import commit
from tests.support.sending import send

DAY = datetime(2026, 10, 1, tzinfo=UTC)
CONTESTANTS = ("strandline", "tuned", "tutorial")
QUERIES = tuple(workload.CHAINS)
EVENT_ROWS = ("bronze", "silver", "gold", "gold on_change")
SPEED, ALL = "speed", "all"
PAGE_OF = ("peers", "nexmark")
"""The suites of which the page is made."""
COUNTED = {"engine", *PAGE_OF, "verify"}
"""Those whose size ``--events`` sets."""
PARTS = {"engine": "events,batch,chain", "history": "age,measure"}
BATCH_ROWS = ("bronze", "silver", "gold on_change")

screen = Console(stderr=True, highlight=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """What was asked for."""

    suite: str
    events: int
    rounds: int
    batches: int
    warm: int
    parts: tuple[str, ...]
    out: Path
    work: Path
    kafka: str | None
    fresh: bool
    tables: tuple[str, ...]
    rows: tuple[str, ...] = ()
    contestants: tuple[str, ...] = ()
    queries: tuple[str, ...] = QUERIES

    @property
    def name(self) -> str:
        """Return the name of the folder in which an interrupted run is found again.

        Of the same code, but for `history`: its lakes take hours to age, and are measured by a later command.
        """
        return self.suite if self.suite == "history" else f"{self.stem}-{commit()}"

    @property
    def stem(self) -> str:
        """Return how the name begins, whichever code is measured."""
        return f"{self.suite}-{self.events}" if self.suite in COUNTED else self.suite

    @property
    def command(self) -> str:
        """Return the command that repeats it."""
        if self.suite == "verify":
            return f"python -m tests.benchmarks verify --events {self.events}"
        if self.suite in PAGE_OF:
            words = f"--events {self.events} --rounds {self.rounds}{self._chosen}"
            return f"python -m tests.benchmarks {self.suite} {words}"
        if self.suite != "engine":
            return f"python -m tests.benchmarks {self.suite}"
        return (
            f"python -m tests.benchmarks engine --events {self.events} --rounds {self.rounds} "
            f"--batches {self.batches} --parts {','.join(self.parts)}{self._chosen}"
        )

    @property
    def _chosen(self) -> str:
        chosen = f" --queries {','.join(self.queries)}" if self.queries != QUERIES else ""
        if self.rows:
            chosen += f" --rows {','.join(self.rows)!r}"
        if self.contestants:
            chosen += f" --contestants {','.join(self.contestants)}"
        return chosen


def main() -> int:
    """Measure, write the report, and fail when a target was missed."""
    wanted = _wanted(sys.argv[1:])
    missed: list[str] = []
    for suite in PAGE_OF if wanted.suite == ALL else (wanted.suite,):
        if suite != SPEED:
            missed += _measured(replace(wanted, suite=suite))
    if wanted.suite in {SPEED, ALL, *PAGE_OF}:
        for file in speed_page.write_page(wanted.out / speed_page.RESULTS.name):
            screen.print(f"wrote {file}")
    return 1 if missed else 0


def _measured(wanted: Wanted) -> list[str]:
    """Measure a suite, or what of it an earlier run has not, write its report, and return the targets that were missed."""
    work = wanted.work / wanted.name
    if wanted.fresh:
        shutil.rmtree(work, ignore_errors=True)
    for other in wanted.work.glob(f"{wanted.stem}-*"):
        if other != work and other.is_dir():  # a file beside it is what was sent
            shutil.rmtree(other)  # what other code has measured
    work.mkdir(parents=True, exist_ok=True)
    began = datetime.now(UTC)  # noqa: TID251  # the command line is where clocks are read
    lake = Lake(wanted.work)
    with ExitStack() as block:
        address = (
            wanted.kafka
            or (broker.status(lake) or block.enter_context(broker.for_this_work(lake))).address
        )
        report = MEASURES[wanted.suite](wanted, work, address)
    for file in report.write(wanted.out):
        screen.print(f"wrote {file}")
    screen.print(report.page(), markup=False)
    for missed in report.missed():
        screen.print(f"target missed: {missed}", markup=False)
    screen.print(f"took {datetime.now(UTC) - began}")  # noqa: TID251  # as above
    return report.missed()


def _engine(wanted: Wanted, work: Path, address: str) -> Report:
    plan = Plan(since=DAY, until=DAY.replace(day=2), events=wanted.events, seed=7)
    topic = Topic(name=f"benchmark-{wanted.events}")
    _preload(plan, address, topic)
    samples = Samples(work / "samples.jsonl")
    with workers(wanted.contestants or CONTESTANTS, work / "logs") as started:
        ground = Ground(
            work=work,
            address=address,
            topic=topic.name,
            plan=plan,
            workers=started,
            samples=samples,
            show=lambda line: screen.print(line, markup=False, soft_wrap=True),
        )
        if "events" in wanted.parts:
            catch_up.run(ground, wanted.rounds, [ROWS[name] for name in wanted.rows or EVENT_ROWS])
        small = {"batch", "chain"} & set(wanted.parts)
        hundreds = SmallBatches(ground, wanted.warm, wanted.batches) if small else None
        if hundreds is not None and "batch" in wanted.parts:
            hundreds.run(wanted.rounds, BATCH_ROWS)
        if hundreds is not None and "chain" in wanted.parts:
            hundreds.run_chain(wanted.rounds)
        facts = {**machine.facts(), "java": started["strandline"].facts["java"]}
    shutil.rmtree(work / "run", ignore_errors=True)
    return Report(command=wanted.command, events=wanted.events, machine=facts, samples=samples)


def _peers(wanted: Wanted, work: Path, address: str) -> PeersReport:
    plan = Plan(since=DAY, until=DAY.replace(day=2), events=wanted.events, seed=7)
    topic = Topic(name=f"benchmark-{wanted.events}")
    _preload(plan, address, topic)
    found = peers.measure(
        plan,
        work,
        address,
        topic.name,
        [peers.WORKLOADS[row] for row in wanted.rows or peers.WORKLOADS],
        rounds=wanted.rounds,
        wanted=wanted.contestants,
        show=lambda line: screen.print(line, markup=False, soft_wrap=True),
    )
    for ground, absent, facts in found:
        report = PeersReport(
            command=wanted.command,
            events=wanted.events,
            ground=ground,
            absent=absent,
            machine=facts,
        )
        report.write(wanted.out)  # at once: the next workload may be interrupted
    shutil.rmtree(work / "run", ignore_errors=True)
    return report


def _history(wanted: Wanted, work: Path, address: str) -> HistoryReport:
    samples = Samples(work / "samples.jsonl")
    show = partial(screen.print, markup=False, soft_wrap=True)
    history.measure(work, address, wanted.tables, wanted.parts, samples, show)
    return HistoryReport(command=wanted.command, machine=machine.facts(), samples=samples)


def _nexmark(wanted: Wanted, work: Path, address: str) -> NexmarkReport:
    samples = Samples(work / "samples.jsonl")
    show = partial(screen.print, markup=False, soft_wrap=True)
    file = workload.sent(address, wanted.events, wanted.work)
    asked = [
        each for each in takers.CONTESTANTS if each in (wanted.contestants or takers.CONTESTANTS)
    ]
    reasons = {name: kit.missing(name) for name in asked}
    absent = {name: reason for name, reason in reasons.items() if reason is not None}
    for name, reason in absent.items():
        show(f"{name} cannot be had: {reason}")
    with ExitStack() as block:
        here = {
            name: block.enter_context(takers.CONTESTANTS[name](address, wanted.events, work))
            for name in asked
            if name not in absent
        }
        own = here[workload.OURS]
        assert isinstance(own, takers.Ours)
        one_plan = json.loads(own.as_one_plan().read_text())
        found = workload.measure(
            list(here.values()),
            Oracle(file),
            samples,
            queries=wanted.queries,
            rounds=wanted.rounds,
            show=show,
        )
    return NexmarkReport(
        command=wanted.command,
        events=wanted.events,
        machine=machine.facts(),
        rows=found.rows,
        refused=found.refused,
        absent=absent,
        one_plan=one_plan,
        samples=samples,
    )


def _rules(wanted: Wanted, work: Path, address: str) -> RulesReport:
    samples = Samples(work / "samples.jsonl")
    rules.measure(work, address, samples, partial(screen.print, markup=False))
    return RulesReport(command=wanted.command, machine=machine.facts(), samples=samples)


def _share(wanted: Wanted, work: Path, address: str) -> ShareReport:
    samples = Samples(work / "samples.jsonl")
    share.measure(work, address, samples, partial(screen.print, markup=False))
    return ShareReport(command=wanted.command, machine=machine.facts(), samples=samples)


def _verify(wanted: Wanted, work: Path, address: str) -> VerifyReport:
    show = partial(screen.print, markup=False, soft_wrap=True)
    weighed = verify_memory.measure(work, address, wanted.events, show)
    return VerifyReport(command=wanted.command, machine=machine.facts(), weighed=weighed)


AnyReport = (
    Report | HistoryReport | NexmarkReport | PeersReport | RulesReport | ShareReport | VerifyReport
)
MEASURES: dict[str, Callable[[Wanted, Path, str], AnyReport]] = {
    "engine": _engine,
    "history": _history,
    "nexmark": _nexmark,
    "peers": _peers,
    "rules": _rules,
    "share": _share,
    "verify": _verify,
}


def _preload(plan: Plan, address: str, topic: Topic) -> None:
    """Send the events unless the topic has them."""
    there = events_in(address, topic) if topic.name in broker.topics(address, {}) else 0
    if there == plan.events:
        return
    if there:
        message = f"topic {topic.name} has {there} events instead of {plan.events}; remove its lake"
        raise SystemExit(message)
    sent = send(plan, address, {}, parts=readings(plan, topic))
    screen.print(f"preloaded {sent.events:,} events in {sent.seconds:.1f} s")


def _names(typed: str) -> tuple[str, ...]:
    return tuple(name for name in typed.split(",") if name)


def _wanted(arguments: list[str]) -> Wanted:
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks", description=__doc__)
    parser.add_argument("suite", nargs="?", default="engine", choices=[*MEASURES, ALL, SPEED])
    parser.add_argument("--events", type=int, default=1_000_000, help="preloaded events")
    parser.add_argument("--rounds", type=int, default=2, help="rounds of each comparison")
    parser.add_argument(
        "--batches", type=int, default=10, help="measured batches of a hundred rows a run"
    )
    parser.add_argument(
        "--warm", type=int, default=5, help="batches before those that are measured"
    )
    parser.add_argument(
        "--parts",
        help="what to measure: of `engine` events,batch,chain; of `history` age,measure; all when absent",
    )
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "reports")
    parser.add_argument(
        "--work", type=Path, default=Path(".lake/benchmarks"), help="tables and logs"
    )
    parser.add_argument("--kafka", help="host:port of a broker; our own when absent")
    parser.add_argument(
        "--fresh", action="store_true", help="forget what an earlier run has measured"
    )
    parser.add_argument(
        "--tables", default="", help="of `history`, only these and what they rest on"
    )
    parser.add_argument(
        "--rows",
        default="",
        help="of `engine` and `peers`, only these of their events",
    )
    parser.add_argument(
        "--contestants", default="", help="of `engine`, `nexmark` and `peers`, only these"
    )
    parser.add_argument("--queries", default=",".join(QUERIES), help="of `nexmark`, only these")
    found = parser.parse_args(arguments)
    return Wanted(
        suite=found.suite,
        events=found.events,
        rounds=found.rounds,
        batches=found.batches,
        warm=found.warm,
        parts=tuple((found.parts or PARTS.get(found.suite, "")).split(",")),
        out=found.out,
        work=found.work.absolute(),
        kafka=found.kafka,
        fresh=found.fresh,
        tables=_names(found.tables),
        rows=_names(found.rows),
        contestants=_names(found.contestants),
        queries=tuple(found.queries.split(",")),
    )


if __name__ == "__main__":
    sys.exit(main())
