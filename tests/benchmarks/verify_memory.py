"""How much memory does ``strandline verify --all`` need? Five million rows, with the smallest usual heap.

A lake of device telemetry, its silver, its quarantine and its gold is filled from Kafka, then verified by the command
that people type. Every half second all its processes are weighed: the one that was typed with its JVM, and the
stream that is killed on the way, a process of the same kind with a JVM of its own. DuckDB compares inside of the first
one's Python, so what it takes is in that figure.
"""

import json
import os
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import psutil

from fleet.bronze import device_telemetry as bronze
from fleet.gold import device_signal_10m as gold
from fleet.play.domain import readings
from fleet.play.plan import Plan
from fleet.silver import device_telemetry as silver
from strandline.engine.kafka.broker import create_topic
from strandline.engine.lake.lake import Lake
from strandline.engine.proof.certificate import kept
from tests.benchmarks.feed import has_all
from tests.cli.typed import ENVIRONMENT, PROGRAM, succeeded
from tests.support.sending import send

HEAP = "2g"
SINCE = datetime(2026, 10, 1, tzinfo=UTC)
SEED = 7
EVERY = 0.5
TABLES = (bronze.TABLE, silver.TABLE, gold.TABLE)
ALL = "all together"


@dataclass(frozen=True, slots=True, kw_only=True)
class Weighed:
    """One verification.

    Args:
        events: Rows of bronze.
        rows: Rows of each table that was verified, its quarantine included.
        equal: Whether all of them were certified.
        seconds: From its start to its end.
        peaks: The most that each kind of process held at once, in MiB.
        at: The second of the verification at which it did.
        load: The machine's load average of the last quarter of an hour, at its end.
    """

    events: int
    rows: Mapping[str, int]
    equal: bool
    seconds: float
    peaks: Mapping[str, int]
    at: Mapping[str, int]
    load: float


def measure(work: Path, address: str, events: int, show: Callable[[str], None]) -> Weighed:
    """Fill the lake unless that was done, and verify it unless that was done."""
    result = work / "weighed.json"
    if result.exists():
        return Weighed(**json.loads(result.read_text()))
    lake, env = Lake(work / "lake"), {"STRANDLINE_KAFKA": address, "STRANDLINE_MEMORY": HEAP}
    _send(address, events, show)
    names = [table.id for table in TABLES]
    succeeded("run", *names, "--lake", lake.root, env=env, timeout=3600)
    show(f"filled the lake with {events:,} rows")
    found = _verified(lake, env, work / "verify.log", events)
    result.write_text(json.dumps(asdict(found)))
    return found


def _send(address: str, events: int, show: Callable[[str], None]) -> None:
    for topic in bronze.TABLE.topics:
        create_topic(address, topic.name, topic.partitions, {})
    if has_all(address, bronze.TABLE.topics, events):
        return
    plan = Plan(since=SINCE, until=SINCE + timedelta(days=1), events=events, seed=SEED)
    sent = send(plan, address, {}, parts=readings(plan))
    show(f"sent {sent.events:,} events in {sent.seconds:.1f} s")


def _verified(lake: Lake, env: Mapping[str, str], log: Path, events: int) -> Weighed:
    command = [PROGRAM, "verify", "--all", "--seed", str(SEED), "--lake", str(lake.root)]
    begun = time.monotonic()
    peaks: dict[str, int] = {}
    at: dict[str, int] = {}
    with log.open("wb") as stream:
        process = subprocess.Popen(
            command, env={**ENVIRONMENT, **env}, stdout=stream, stderr=stream
        )
        while process.poll() is None:
            for kind, held in _weigh(process.pid).items():
                if held > peaks.get(kind, 0):
                    peaks[kind], at[kind] = held, round(time.monotonic() - begun)
            time.sleep(EVERY)
    certificates = [kept(table, lake) for table in TABLES[1:]]
    found = [each for each in certificates if each is not None]
    return Weighed(
        events=events,
        rows={each.table: each.rows for each in found},
        equal=process.returncode == 0 and all(each.equal for each in found),
        seconds=round(time.monotonic() - begun, 1),
        peaks={kind: held >> 20 for kind, held in peaks.items()},
        at=at,
        load=round(os.getloadavg()[2], 1),
    )


def _weigh(pid: int) -> dict[str, int]:
    """Return the bytes that each kind of process has, and all of them; what several share is counted once."""
    found: dict[str, int] = {ALL: 0}
    for kind, process in _family(psutil.Process(pid), "verify"):
        with suppress(psutil.NoSuchProcess):
            memory = process.memory_full_info()
            found[kind] = found.get(kind, 0) + memory.rss
            found[ALL] += memory.pss
    return found


def _family(process: psutil.Process, whose: str) -> Iterator[tuple[str, psutil.Process]]:
    """Yield a process and those below it, each with its kind; one that has ended may still be listed."""
    with suppress(psutil.NoSuchProcess):
        words = process.cmdline()
        if "stream" in words:
            whose = "stream"
        is_ours = {"stream", "verify"} & {*words}
        kind = "JVM" if process.name() == "java" else "Python" if is_ours else "workers"
        yield f"{whose}, {kind}", process
        for child in process.children():
            yield from _family(child, whose)
