"""What do moments cost a stream, and how often do they come?

``python -m tests.benchmarks.moments --seconds 90``. A thousand events a second go through bronze, silver, two gold tables over it and one
over one of these, all in one process: without moments, with a look every ten seconds, and with bronze that waits wherever none has come.
An event is as old, when a table commits it, as the time since it was sent; taken is the newest event of each commit. CPU is that of this
process with its JVM and the sender.
"""

import argparse
import sys
import time
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from secrets import token_hex
from statistics import median
from tempfile import TemporaryDirectory

import psutil

from strandline.core.table import Ingested, Table
from strandline.core.topic import Topic
from strandline.engine.ask.moments import noted
from strandline.engine.kafka import broker
from strandline.engine.lake.lake import Lake
from strandline.engine.lake.log.commit_log import committed_at
from strandline.engine.lake.log.ledger import entries
from strandline.engine.runtime.settings import settings
from strandline.engine.runtime.spark_session import start
from tests.support.paced import RATE, Beside, World, beside

WARM = 20.0
WAYS = {"none": (0.0, 0.0), "looked for every 10 s": (10.0, 0.0), "and bronze waits": (2.0, 0.01)}
"""How often a moment is looked for, and after how long without one bronze waits."""


@dataclass(frozen=True, kw_only=True)
class Figures:
    """What was measured of one way."""

    way: str
    moments: int
    longest: float
    cores: float
    ages: dict[str, tuple[float, float]]


def ages(stream: Beside, since: float) -> dict[str, tuple[float, float]]:
    """Return for each table the age of the newest event of each commit: the median and the 95th percentile, in seconds."""
    found, ends = dict[str, tuple[float, float]](), dict[str, dict[int, int]]()
    for table in stream.tables:
        own, seen, last = ends.setdefault(table.id, {}), list[float](), None
        for version, entry in entries(stream.lake.table(table)):
            # A batch that only lets windows go has read what the one before had.
            end = _end(table, entry.offsets, entry.versions, ends) or last
            if end is None:
                continue
            own[version] = last = end
            at = committed_at(stream.lake.table(table), version).timestamp()
            if at > since:
                seen.append(at - (stream.sender.begun + end / RATE))
        seen.sort()
        found[table.id] = (median(seen), seen[int(0.95 * len(seen))]) if seen else (0.0, 0.0)
    return found


def _end(
    table: Table,
    offsets: object,
    versions: object,
    ends: dict[str, dict[int, int]],
) -> int | None:
    """Return the offset up to which a commit has read."""
    if isinstance(table, Ingested):
        return max((end for _, end in dict(offsets).values()), default=None)  # type: ignore[call-overload]  # an entry's
    (source,) = table.upstream
    read = dict(versions).get(source.id)  # type: ignore[call-overload]  # an entry's
    return None if read is None else ends[source.id].get(read[1])


def measured(world: World, way: str, seconds: float) -> Figures:
    """Measure one way on a lake of its own."""
    every, within = WAYS[way]
    process = psutil.Process()
    with beside(world, every, within) as stream:
        time.sleep(WARM)
        since, before, first = time.time(), _cpu(process), len(noted(world.lake))
        time.sleep(seconds)
        used, made = _cpu(process) - before, noted(world.lake)
        found = ages(stream, since)
    times = [since, *(each.at.timestamp() for each in made[first:]), since + seconds]
    longest = max(b - a for a, b in pairwise(times)) if every else 0.0
    return Figures(
        way=way, moments=len(made) - first, longest=longest, cores=used / seconds, ages=found
    )


def _cpu(process: psutil.Process) -> float:
    family = (process, *process.children(recursive=True))
    return sum(each.cpu_times().user + each.cpu_times().system for each in family)


def main() -> None:
    """Measure, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=90.0)
    seconds = parser.parse_args().seconds
    with TemporaryDirectory() as folder:
        home = Lake(Path(folder) / "home").open_for_writing()
        spark = start(settings(lake=str(home.root), cores=2), home.program_log("spark"))
        address = broker.up(home).address
        try:
            for number, way in enumerate(WAYS):
                lake = Lake(Path(folder) / f"lake-{number}").open_for_writing()
                topic = Topic(name=f"paced-{token_hex(3)}", partitions=1)
                sys.stdout.write(shown(measured(World(spark, lake, topic, address), way, seconds)))
                sys.stdout.flush()
        finally:
            spark.stop()
            broker.down(home)


def shown(found: Figures) -> str:
    """Return the figures as a line."""
    old = ", ".join(f"{name} {p50:.1f} / {p95:.1f}" for name, (p50, p95) in found.ages.items())
    return (
        f"{found.way}: {found.moments} moments, the longest without one {found.longest:.0f} s; {found.cores:.2f} cores; "
        f"seconds from sent to committed, median / 95 %: {old}\n"
    )


if __name__ == "__main__":
    main()
