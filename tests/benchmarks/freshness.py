"""How old is an event when gold has it? A stream of three tables under load, alone and with Dagster and its checks beside it.

``python -m tests.benchmarks.freshness --seconds 120``. An open-loop sender gives the bids of NEXMark's auction house at a rate, each with
the moment at which it was to be sent; ``strandline stream`` takes them to bronze, silver and a gold table that has a row for each. A layer
has an event when the commit with its row is a file in Delta's log. With Dagster, ``strandline ui`` runs beside it: its daemon asks the
checks of all tables again and again, and its page answers.
"""

import argparse
import json
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from strandline.engine.kafka import broker as local_broker
from strandline.engine.kafka.broker import create_topic
from strandline.engine.lake.lake import Lake
from strandline.engine.runtime.processes import family
from tests.benchmarks import machine
from tests.benchmarks.feed import adds
from tests.benchmarks.nexmark.project.nexmark.play import BIDS
from tests.benchmarks.nexmark.takers import PROJECT
from tests.benchmarks.open_loop import BILLION, paced
from tests.benchmarks.report import head, line
from tests.cli.typed import start
from tests.support.console import Console, opened

TABLES = {"bronze": ("bids", "_arrived_at"), "silver": ("bids", "bid_at"), "gold": ("q1", "bid_at")}
"""Of each layer the table, and the column with the moment at which an event was to be sent."""
NAMES = [f"{layer}.{table}" for layer, (table, _) in TABLES.items()]
WARM = 60.0
"""Seconds of events before those that count: a JVM compiles what runs often, and for half a minute that takes a core of two."""
PATIENCE = 300.0
PARTS = 2
WITH, ALONE = "with Dagster", "alone"

METHOD = """\
Age is from the moment at which an event was to be sent to the moment at which the commit with its row is a file in Delta's log; both clocks are the machine's. \
`with Dagster` has `strandline ui` beside the stream: the daemon asks the checks of all tables, and the page answers. \
Every event has a row in each layer, and a run with fewer or more rows ends the benchmark. The first {warm:.0f} s are not counted. \
`others' CPU` is all but the stream and Dagster: the sender and the broker are in it. Bronze begins a batch at every tick; a table above it looks five times in a tick whether the one below has a new commit. \
Gold is a table with a row for each event: one that closes windows is older by its window and by the lateness that its tables allow.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """What one combination showed; ages in milliseconds."""

    layer: str
    beside: str
    rate: int
    every: str
    events: int
    p50: float
    p99: float
    most: float
    cores: float
    """Cores that all but sender and broker took."""
    others: float


def bid(intended: int) -> bytes:
    """Return a bid of the auction house at a moment."""
    at = datetime.fromtimestamp(intended / BILLION, tz=UTC).isoformat(timespec="microseconds")
    words = {"auction": intended % 1_000, "bidder": intended % 777, "price": intended % 10_000}
    more = {"channel": "web", "url": "an auction", "bid_at": at, "extra": "x" * 40}
    return json.dumps({**words, **more}).encode()


def ages(table: Path, column: str, since: int) -> list[float]:
    """Return the age of each row at its commit, in milliseconds, ascending; of events from a moment on, in nanoseconds."""
    found = list[float]()
    for log in sorted((table / "_delta_log").glob("*.json")):
        committed = log.stat().st_mtime_ns
        for add in adds(table, int(log.stem)):
            times = pq.read_table(table / add["path"], columns=[column])[column]
            micros = pc.cast(pc.cast(times, pa.timestamp("us", "UTC")), pa.int64()).to_pylist()
            found += [(committed - at * 1_000) / 1e6 for at in micros if at * 1_000 >= since]
    return sorted(found)


def measure(  # noqa: PLR0913, PLR0917  # a combination
    work: Path, address: str, rate: int, seconds: float, every: str, beside: str
) -> list[Run]:
    """Measure one combination on a new lake."""
    folder = work / f"{rate}-{beside.rsplit(maxsplit=1)[-1]}"
    folder.mkdir()
    env = {"STRANDLINE_KAFKA": address, "STRANDLINE_PROJECT": str(PROJECT)}
    page = opened(folder, env=env) if beside == WITH else nullcontext()
    with page as console, _streaming(folder, every, env) as pid:
        first = _sent(address, 1, 1)
        _until(folder / "lake", first)
        first += _sent(address, rate, WARM)
        own = _processes(pid, console)
        before, spent, begun = machine.Noise.now(), _cpu(own), time.time_ns()
        sent = _sent(address, rate, seconds)
        used = _cpu(_processes(pid, console)) - spent
        noise = machine.Noise.now().since(before, own=used)
        wall = (time.time_ns() - begun) / BILLION
        _until(folder / "lake", first + sent)
    of = {"beside": beside, "rate": rate, "every": every}
    of |= {"cores": round(used / wall, 2), "others": noise["others"]}
    return [_run(folder / "lake", layer, begun, sent, of) for layer in TABLES]


def _run(lake: Path, layer: str, since: int, sent: int, of: dict[str, object]) -> Run:
    name, column = TABLES[layer]
    found = ages(lake / layer / name, column, since)
    if len(found) != sent:
        message = f"{layer}.{name} has {len(found):,} of {sent:,} events"
        raise SystemExit(message)
    p50, p99 = (found[int(len(found) * share)] for share in (0.5, 0.99))
    figures = {"p50": p50, "p99": p99, "most": found[-1]}
    return Run(layer=layer, events=sent, **figures, **of)  # type: ignore[arg-type]  # as named above


@contextmanager
def _streaming(folder: Path, every: str, env: dict[str, str]) -> Iterator[int]:
    log = folder / "stream.log"
    words = ("stream", *NAMES, "--every", every, "--json", "--lake", folder / "lake")
    process = start(*words, log=log, env=env)
    try:
        yield process.pid
    finally:
        process.send_signal(signal.SIGTERM)
        if process.wait(120):
            sys.stderr.write(log.read_text()[-2000:])


def _processes(stream: int, console: Console | None) -> list[int]:
    programs = [stream, *([console.program.pid] if console else [])]
    return [one.pid for pid in programs for one in family(pid)]


def _cpu(pids: Sequence[int]) -> float:
    return sum(
        float(times.user + times.system)
        for pid in pids
        for one in family(pid)
        if one.pid == pid
        for times in [one.cpu_times()]
    )


def _sent(address: str, rate: int, seconds: float) -> int:
    """Send at a rate from another process, and return how many were sent."""
    words = ["-m", "tests.benchmarks.freshness", "--send", address, str(rate), str(seconds)]
    done = subprocess.run([sys.executable, *words], capture_output=True, text=True, check=True)
    return int(json.loads(done.stdout)["sent"])


def _until(lake: Path, rows: int) -> None:
    """Wait until gold has so many rows."""
    name, column = TABLES["gold"]
    deadline = time.monotonic() + PATIENCE
    while len(ages(lake / "gold" / name, column, 0)) < rows:
        if time.monotonic() > deadline:
            raise SystemExit((lake.parent / "stream.log").read_text()[-3000:])
        time.sleep(0.5)


def page(command: str, facts: dict[str, object], found: Sequence[Run]) -> str:
    """Return the report."""
    about = ", ".join(f"{name} {value}" for name, value in facts.items())
    columns = ("layer", "beside", "events/s", "every", "events", "p50, ms", "p99, ms", "max, ms")
    lines = [
        "# How old an event is when a layer has it",
        "",
        f"Made by `{command}`.",
        f"Machine: {about}.",
        "",
        METHOD.format(warm=WARM),
        *head(*columns, "cores", "others' CPU"),
    ]
    for run in found:
        figures = (f"{each:,.0f}" for each in (run.p50, run.p99, run.most))
        named = f"{run.layer}, {run.beside}, {run.rate:,} a second"
        cells = (named, run.beside, f"{run.rate:,}", run.every, f"{run.events:,}", *figures)
        lines.append(line(*cells, f"{run.cores:.2f}", f"{run.others:.0f} %"))
    return "\n".join([*lines, ""])


def main(words: Sequence[str]) -> None:
    """Measure what was asked for and write the report."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.benchmarks.freshness", description=__doc__
    )
    parser.add_argument("--seconds", type=float, default=120, help="of each combination")
    parser.add_argument("--rates", default="200,2000", help="events a second")
    parser.add_argument("--every", default="5s", help="from batch to batch")
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "reports")
    parser.add_argument("--send", nargs=3, help=argparse.SUPPRESS)
    asked = parser.parse_args(words)
    if asked.send:
        address, rate, seconds = asked.send
        found = paced(address, BIDS, PARTS, float(rate), float(seconds), bid)
        sys.stdout.write(json.dumps(found))
        return
    runs = list[Run]()
    for rate in map(int, asked.rates.split(",")):
        for beside in (ALONE, WITH):
            with TemporaryDirectory(prefix="strandline-fresh-") as folder, _broker(folder) as at:
                new = measure(Path(folder), at, rate, asked.seconds, asked.every, beside)
            runs += new
            for run in new:
                sys.stderr.write(f"{asdict(run)}\n")
    command = shlex.join(["python", "-m", "tests.benchmarks.freshness", *words])
    (asked.out / "freshness.md").write_text(page(command, machine.facts(), runs))


@contextmanager
def _broker(folder: str) -> Iterator[str]:
    lake = Lake(Path(folder) / "broker")
    address = local_broker.up(lake).address
    try:
        create_topic(address, BIDS, PARTS, {})
        yield address
    finally:
        local_broker.down(lake)


if __name__ == "__main__":
    main(sys.argv[1:])
