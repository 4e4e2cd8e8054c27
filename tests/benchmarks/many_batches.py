"""Does a stream stay as quick as it was, over thousands of real micro-batches, while the lake is maintained?

``python -m tests.benchmarks.many_batches``. A real broker, a sender, ``strandline stream`` and, every minute, ``strandline
maintain``: each a program of its own, as in a team's own lake. What a batch took is in its ledger entry; files, logs and
memory are looked at between.
"""

import argparse
import signal
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from subprocess import DEVNULL, Popen, run
from tempfile import TemporaryDirectory

import psutil
from strandline import catalog

from strandline.engine.accounting.balance_sheet import balance
from strandline.engine.lake.lake import Lake
from strandline.engine.lake.log.commit_log import committed_at, log_of
from strandline.engine.lake.log.ledger import entry_at, latest_version
from tests.benchmarks import machine
from tests.benchmarks.many_batches_report import Batch, Look, Report

TABLES = ("bronze.device_telemetry", "silver.device_telemetry", "gold.device_signal_10m")
RATE = 400
EVERY = "200ms"
KEEP = "2m"
PAUSE = 60.0
BATCHES = 5_000
PATIENCE = 3.0
"""Times a second a batch; then the benchmark ends without a result."""


def main() -> int:
    """Measure, write the report, and fail where the target is missed."""
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.many_batches")
    parser.add_argument("--batches", type=int, default=BATCHES)
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "reports")
    wanted = parser.parse_args()
    with TemporaryDirectory(prefix="strandline-batches-") as folder:
        lake = Lake(Path(folder))
        looks = [*_lived(lake, wanted.batches)]
        for name in TABLES:
            sheet = balance(catalog.find(name), lake)
            if not sheet.balanced:
                raise SystemExit(f"{name}: {sheet.faults[:3]}")
        batches = {name: [*_batches(lake, name)] for name in TABLES}
    command = f"python -m tests.benchmarks.many_batches --batches {wanted.batches}"
    report = Report(
        command=command,
        machine=machine.facts(),
        batches=batches,
        looks=looks,
    )
    report.write(wanted.out)
    sys.stdout.write(report.page())
    return int(bool(report.missed()))


def _lived(lake: Lake, batches: int) -> Iterator[Look]:
    """Let the stream run so many batches of bronze, and look at the lake after each maintenance."""
    bronze = lake.table(catalog.find(TABLES[0]))
    events = int(batches * 1.5 * RATE)
    try:
        _command("up", lake)
        sender = ("produce", "--rate", RATE, "--events", events, "--hours", events / RATE / 3600)
        with _program(lake, *sender), _program(lake, "stream", *TABLES, "--every", EVERY) as stream:
            begun = time.monotonic()
            while latest_version(bronze) < batches:
                if time.monotonic() - begun > batches * PATIENCE or stream.poll() is not None:
                    raise SystemExit("the stream ended, or is too slow")
                time.sleep(PAUSE)
                since = time.time()
                _command("maintain", lake, "--keep", KEEP)
                yield _look(lake, stream, since)
    finally:
        _command("down", lake)


def _look(lake: Lake, stream: "Popen[bytes]", since: float) -> Look:
    paths = [lake.table(catalog.find(name)) for name in TABLES]
    own = psutil.Process(stream.pid)
    java = [each for each in own.children() if each.name() == "java"]
    return Look(
        batch=latest_version(paths[0]),
        since=since,
        until=time.time(),
        files=sum(1 for path in paths for _ in path.local.rglob("*.parquet")),
        logged=max(len(log_of(path).names()) for path in paths),
        log_bytes=sum(_size(log_of(path).local) for path in paths),
        packed_bytes=sum(_size((path / "_old_commits").local) for path in paths),
        python_mb=own.memory_info().rss / 2**20,
        java_mb=sum(each.memory_info().rss for each in java) / 2**20,
    )


def _size(folder: Path) -> int:
    return sum(each.stat().st_size for each in folder.rglob("*") if each.is_file())


def _batches(lake: Lake, name: str) -> Iterator[Batch]:
    path = lake.table(catalog.find(name))
    for version in range(latest_version(path) + 1):
        entry = entry_at(path, version)
        if entry is not None:
            at = committed_at(path, version).timestamp()
            yield Batch(number=version, at=at, seconds=entry.duration_ms / 1000, rows=entry.read)


def _command(verb: str, lake: Lake, *words: object) -> None:
    run(_typed(verb, lake, words), check=True, stdout=DEVNULL)


@contextmanager
def _program(lake: Lake, verb: str, *words: object) -> Iterator["Popen[bytes]"]:
    log = lake.root.local / f"{verb}.out"
    with (
        log.open("wb") as output,
        Popen(_typed(verb, lake, words), stdout=output, stderr=output) as process,
    ):
        try:
            yield process
        finally:
            process.send_signal(signal.SIGINT)
            process.wait(120)


def _typed(verb: str, lake: Lake, words: Sequence[object]) -> list[str]:
    return [
        sys.executable,
        "-m",
        "strandline.cli",
        verb,
        *map(str, words),
        "--lake",
        str(lake.root),
    ]


if __name__ == "__main__":
    raise SystemExit(main())
