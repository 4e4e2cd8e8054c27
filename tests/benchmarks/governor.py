"""How fast is a backlog drained by batches whose size is chosen, against every fixed size? ``python -m tests.benchmarks.governor``.

Three million readings wait in a real broker. ``strandline run`` brings bronze, silver and gold up to date in a lake of
its own, with a heap that one batch of everything exceeds: with no option, and with ``--max-offsets`` of several sizes.
Each is a process of its own, from its start to its end. The governed run is the first and the last, because what else
runs on a machine changes meanwhile. An interrupted measurement goes on where it was; ``--fresh`` begins anew.
"""

import argparse
import json
import shutil
import sys
import time
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path

from fleet.bronze import device_telemetry as bronze
from fleet.gold import device_signal_10m as gold
from fleet.play.domain import readings
from fleet.play.plan import Plan
from fleet.silver import device_telemetry as silver
from strandline.engine.kafka import broker
from strandline.engine.kafka.broker import create_topic
from strandline.engine.lake.lake import Lake
from strandline.engine.lake.log.commit_log import committed_at
from strandline.engine.lake.log.ledger import entries
from tests.benchmarks.feed import has_all
from tests.benchmarks.governor_report import GovernorReport
from tests.benchmarks.machine import Noise, facts
from tests.cli.typed import strandline
from tests.support.sending import send

TABLES = (bronze.TABLE, silver.TABLE, gold.TABLE)
SINCE = datetime(2026, 10, 1, tzinfo=UTC)
SEED = 7
HEAP = "512m"
SIZES = (50_000, 100_000, 200_000, 400_000, 800_000)
PATIENCE = 3600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """One commit of the way.

    Args:
        table: Its table.
        at: Seconds after the first commit.
        read: Its rows.
        most: The size that was chosen.
        seconds: What it took.
        cpu: Its seconds of CPU.
    """

    table: str
    at: float
    read: int
    most: int
    seconds: float
    cpu: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Drain:
    """One run over the whole backlog.

    Args:
        size: The fixed size; None where it is chosen.
        events: The size of the backlog.
        code: How the program ended.
        seconds: From its start to its end.
        good: The good rows of each table.
        said: Its last line, if it failed.
        batches: Its commits.
        noise: How busy the machine was beside it.
    """

    size: int | None
    events: int
    code: int
    seconds: float
    good: dict[str, int]
    said: str
    batches: list[Batch] = field(default_factory=list)
    noise: dict[str, float] = field(default_factory=dict)

    @property
    def cpu(self) -> float:
        """Return the seconds of CPU of its batches."""
        return sum(each.cpu for each in self.batches)


def main() -> int:
    """Measure, write the report, and fail where the target is missed."""
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.governor")
    parser.add_argument("--events", type=int, default=3_000_000)
    parser.add_argument("--heap", default=HEAP)
    parser.add_argument("--sizes", default=",".join(map(str, SIZES)))
    parser.add_argument("--work", type=Path, default=Path(".lake/benchmarks/governor"))
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "reports")
    parser.add_argument("--fresh", action="store_true")
    wanted = parser.parse_args()
    work: Path = wanted.work.absolute()
    if wanted.fresh:
        shutil.rmtree(work / "drains", ignore_errors=True)
    (work / "drains").mkdir(parents=True, exist_ok=True)
    lake = Lake(work)
    own = broker.status(lake) is None
    address = broker.up(lake).address
    try:
        _send(address, wanted.events)
        sizes = [int(size) for size in wanted.sizes.split(",")]
        order = [None, *sizes, wanted.events, None]
        drains = [
            _drained(work, address, wanted.events, wanted.heap, size, number)
            for number, size in enumerate(order)
        ]
    finally:
        if own:
            broker.down(lake)
    report = GovernorReport(heap=wanted.heap, machine=facts(), drains=drains)
    for file in report.write(wanted.out):
        sys.stderr.write(f"wrote {file}\n")
    sys.stdout.write(report.page())
    return int(bool(report.missed()))


def _send(address: str, events: int) -> None:
    for topic in bronze.TABLE.topics:
        create_topic(address, topic.name, topic.partitions, {})
    if not has_all(address, bronze.TABLE.topics, events):
        plan = Plan(since=SINCE, until=SINCE + timedelta(days=1), events=events, seed=SEED)
        send(plan, address, {}, parts=readings(plan))


def _drained(  # noqa: PLR0913, PLR0917  # what is drained, with what, and which of the runs it is
    work: Path, address: str, events: int, heap: str, size: int | None, number: int
) -> Drain:
    file = work / "drains" / f"{events}-{heap}-{number}-{size}.json"
    if file.exists():
        known = json.loads(file.read_text())
        return Drain(**{**known, "batches": [Batch(**each) for each in known["batches"]]})
    root = work / "run" / str(time.time_ns())
    most = () if size is None else ("--max-offsets", size)
    env = {"STRANDLINE_KAFKA": address, "STRANDLINE_MEMORY": heap}
    before, begun = Noise.now(), time.monotonic()
    names = [table.id for table in TABLES]
    answer = strandline("run", *names, *most, "--lake", root, "--json", env=env, timeout=PATIENCE)
    seconds = round(time.monotonic() - begun, 1)
    batches = list(_batches(Lake(root)))
    cpu = sum(each.cpu for each in batches)
    reports = json.loads(answer.out) if answer.out.startswith("[") else []
    said = [line for line in answer.err.splitlines() if line.startswith("error")]
    found = Drain(
        size=size,
        events=events,
        code=answer.code,
        seconds=seconds,
        good={each["table"]: each["good"] for each in reports},
        said=said[0] if answer.code and said else "",
        batches=batches,
        noise=Noise.now().since(before, own=cpu),
    )
    file.write_text(json.dumps(asdict(found)))
    shutil.rmtree(root.parent, ignore_errors=True)
    sys.stderr.write(
        f"{size or 'governed'}: {found.seconds} s, {cpu:.0f} s of CPU, {found.noise}\n"
    )
    return found


def _batches(lake: Lake) -> list[Batch]:
    found = []
    for table in TABLES:
        path = lake.table(table)
        for version, entry in entries(path) if lake.exists(table) else ():
            found.append((committed_at(path, version), table.id, entry))
    first = min((at for at, _, _ in found), default=None)
    return [
        Batch(
            table=name,
            at=round((at - first).total_seconds(), 2),
            read=entry.read,
            most=entry.most,
            seconds=entry.duration_ms / 1000,
            cpu=entry.cpu_ms / 1000,
        )
        for at, name, entry in sorted(found, key=lambda each: each[0])
        if at is not None and first is not None
    ]


if __name__ == "__main__":
    sys.exit(main())
