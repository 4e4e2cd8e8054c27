"""What do Dagster and the gates take of a scheduled run? The job ``catch_up`` beside ``strandline run``.

Both bring all tables of the same small lake up to date, from topics to which 100,000 events came since, each in a
process and a JVM of its own that did nothing before. The lake has been brought up to date once, because what is found
out once per version of the code, such as from which columns a column is made, no run pays for again. ``dagster`` is launched as the schedule launches it: through the queue and the
daemon of ``strandline ui``, which goes on answering its page meanwhile. What ``strandline run`` takes for the same
tables is the work; the rest is Dagster's. The time in the gates is taken within ``strandline run``, by a clock around
every function that checks a gate (tests/benchmarks/gates_timed.py).
"""

import json
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from shutil import copytree, ignore_patterns
from tempfile import mkdtemp

from strandline import catalog

from fleet.play.plan import Plan
from strandline.core.topic import Topic
from strandline.engine.accounting.balance_sheet import balance
from strandline.engine.kafka import broker
from strandline.engine.lake.lake import Lake
from strandline.engine.lake.log.ledger import entries
from tests.benchmarks.feed import has_all
from tests.benchmarks.machine import Noise
from tests.benchmarks.samples import Sample, Samples
from tests.cli.typed import ENVIRONMENT
from tests.support.console import opened
from tests.support.sending import send

PART, ROW = "share", "100,000 events"
FIRST, EVENTS, ROUNDS = 2_000, 100_000, 3
SINCE = datetime(2026, 10, 1, tzinfo=UTC)
TIMES = """
query ($id: ID!) {
  runOrError(runId: $id) {
    ... on Run { stats { ... on RunStatsSnapshot { enqueuedTime launchTime startTime endTime } } }
  }
}
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Share:
    """One run of the comparison."""

    work: Path
    address: str
    samples: Samples
    show: Callable[[str], None]

    def run(self) -> None:
        """Measure the rounds that were not measured yet."""
        self._prepare()
        for number in range(ROUNDS):
            if self.samples.has(PART, ROW, number):
                continue
            order = [self._by_hand, self._by_dagster]
            taken = [
                sample
                for one in (order if number % 2 == 0 else reversed(order))
                for sample in self._taken(one, number)
            ]
            self.samples.add(taken)

    def _taken(self, one: Callable[[Lake], dict[str, float]], number: int) -> list[Sample]:
        lake = Lake(Path(mkdtemp(dir=self.work)) / "lake")
        copytree(self._lake, lake.root, ignore=ignore_patterns("_dagster"))
        before = Noise.now()
        found = one(lake)
        noise = Noise.now().since(before, own=0.0)
        seconds_of = ", ".join(f"{name} {seconds:.1f} s" for name, seconds in found.items())
        self.show(f"round {number + 1}: {seconds_of}, steal {noise['steal']:.0f} %")
        return [
            Sample(
                part=PART,
                row=ROW,
                contestant=name,
                number=number,
                wall=round(seconds, 3),
                cpu=0.0,
                load=noise["load"],
                steal=noise["steal"],
            )
            for name, seconds in found.items()
        ]

    def _by_hand(self, lake: Lake) -> dict[str, float]:
        """Run the tables from the command line."""
        gates, log = lake.root.local.with_name("gates.json"), lake.root.local.with_name("run.log")
        words = ["-m", "tests.benchmarks.gates_timed", str(gates), "run", "--lake", str(lake.root)]
        began = time.monotonic()
        with log.open("wb") as stream:
            subprocess.run(
                [sys.executable, *words],
                env={**ENVIRONMENT, "STRANDLINE_KAFKA": self.address},
                stdout=stream,
                stderr=stream,
                check=True,
            )
        wall = time.monotonic() - began
        return {
            "run": wall,
            "run tables": self._in_tables(lake),
            "gates": json.loads(gates.read_text()),
        }

    def _by_dagster(self, lake: Lake) -> dict[str, float]:
        """Let Dagster's daemon launch the job."""
        times = self._launched(lake.root.local)
        return {
            "dagster": times["endTime"] - times["launchTime"],
            "dagster tables": self._in_tables(lake),
            "before the first step": times["startTime"] - times["launchTime"],
            "queued": times["launchTime"] - times["enqueuedTime"],
        }

    def _launched(self, lake: Path) -> dict[str, float]:
        """Bring a lake up to date from Dagster's page, and return the moments of the run."""
        with opened(lake.parent, env={"STRANDLINE_KAFKA": self.address}) as console:
            run = console.launch("catch_up")
            ended = console.ended(run)
            times: dict[str, float] = console.ask(TIMES, id=run)["runOrError"]["stats"]
        if ended != "SUCCESS":
            message = f"the run has ended with {ended}; see {lake}"
            raise SystemExit(message)
        return times

    @property
    def _lake(self) -> Path:
        return self.work / "before" / "lake"

    def _prepare(self) -> None:
        """Fill the lake and send what is new, unless that was done; events of another benchmark would be read as well."""
        if has_all(self.address, _topics(self.address), FIRST + EVENTS):
            return
        before = SINCE - timedelta(days=1)
        send(Plan(since=before, until=SINCE, events=FIRST, seed=8), self.address, {})
        self._lake.parent.mkdir(parents=True)
        self._launched(self._lake)
        plan = Plan(since=SINCE, until=SINCE + timedelta(days=1), events=EVENTS, seed=7)
        sent = send(plan, self.address, {})
        self.show(f"sent {sent.events:,} events in {sent.seconds:.1f} s")

    def _in_tables(self, lake: Lake) -> float:
        """Return the seconds that the new batches of all tables say they took, having seen that every event is in its place."""
        tables = catalog.tables()
        wrong = [fault for table in tables for fault in balance(table, lake).faults]
        assert not wrong, wrong
        return (_batches(lake) - _batches(Lake(self._lake))) / 1000


def _batches(lake: Lake) -> int:
    tables = catalog.tables()
    return sum(entry.duration_ms for table in tables for _, entry in entries(lake.table(table)))


def _topics(address: str) -> list[Topic]:
    there = broker.topics(address, {})
    own = [topic for table in catalog.tables() for topic in table.topics]
    return [topic for topic in own if topic.name in there]


def measure(work: Path, address: str, samples: Samples, show: Callable[[str], None]) -> None:
    """Measure what is not measured yet."""
    Share(work=work, address=address, samples=samples, show=show).run()
