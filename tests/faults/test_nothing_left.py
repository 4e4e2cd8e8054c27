"""What a command starts ends with it, also when it is killed with SIGKILL; of a living one nothing is touched.

A verification that was killed left its stream behind, with a JVM of a gigabyte, a pin and the lease of a scratch lake.
"""

import random
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

import psutil
import pytest

from fleet.bronze import device_telemetry as bronze
from strandline.engine.kafka import broker
from strandline.engine.lake.lake import Lake
from strandline.engine.lake.open_table import pins
from strandline.engine.lake.place import Place
from strandline.engine.runtime.processes import family
from tests.cli.inside import succeeded
from tests.cli.typed import ENVIRONMENT, PROGRAM
from tests.faults.lives import SLICE, sheets
from tests.support.past import month, written

pytestmark = [
    pytest.mark.kafka,
    pytest.mark.slow,
    pytest.mark.timeout(900),
    pytest.mark.prove(alone="half a minute each, and a broker"),
]

BRONZE, SILVER, GOLD = SLICE
BEGINS = 120.0
ENDS = 30.0
"""Seconds: until a command has a JVM, and from its kill until nothing of it runs."""


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Return a lake with a broker and a table of each layer."""
    lake = tmp_path_factory.mktemp("left") / "lake"
    succeeded("up", "--lake", lake)
    succeeded("produce", "--events", 20_000, "--hours", 12, "--lake", lake)
    succeeded("run", *SLICE, "--lake", lake)
    yield lake
    succeeded("down", "--lake", lake)


def imported(lake: Path, folder: Path, chance: random.Random) -> Sequence[object]:
    """Write a month of history, and return the command that imports it."""
    since = datetime.now(UTC).replace(microsecond=0) - timedelta(days=40)  # noqa: TID251  # the broker has a clock too
    written(folder / "past", month(chance, since, days=30, a_day=2_000))
    words = ("import", BRONZE, "--topic", bronze.NEWER.name, folder / "past", "--slice", 500)
    return (PROGRAM, *words, "--lake", lake)


def hours() -> Sequence[str]:
    """Return a range that no stream owns any more."""
    end = datetime.now(UTC).replace(minute=0, second=0, microsecond=0) - timedelta(hours=6)  # noqa: TID251  # as above
    since = end - timedelta(hours=4)
    return "--since", f"{since:%Y-%m-%dT%H:%M}", "--until", f"{end:%Y-%m-%dT%H:%M}"


COMMANDS: Mapping[str, Callable[[Path, Path, random.Random], Sequence[object]]] = {
    "verify": lambda lake, _, __: (PROGRAM, "verify", SILVER, "--lake", lake),
    "rebuild": lambda lake, _, __: (PROGRAM, "rebuild", GOLD, "--lake", lake),
    "backfill": lambda lake, _, __: (PROGRAM, "backfill", GOLD, *hours(), "--lake", lake),
    "import": imported,
    "demo": lambda _, folder, __: (PROGRAM, "demo", "--lake", folder / "demo"),
    "benchmark": lambda _, folder, __: (
        *(sys.executable, "-m", "tests.benchmarks", "engine", "--events", 50_000, "--rounds", 1),
        *("--parts", "events", "--rows", "silver", "--out", folder, "--work", folder / "work"),
    ),
}


@pytest.mark.parametrize("name", COMMANDS)
def test_nothing_of_a_killed_command_runs_after_half_a_minute(
    name: str, filled: Path, tmp_path: Path, chance: random.Random
) -> None:
    lake, living = Lake(Place.of(filled)), broker.status(Lake(Place.of(filled)))
    assert living is not None
    words = [str(each) for each in COMMANDS[name](filled, tmp_path, chance)]
    log = tmp_path / "command.log"
    with log.open("wb") as out:
        command = subprocess.Popen(
            words, env=ENVIRONMENT, stdin=subprocess.DEVNULL, stdout=out, stderr=out
        )
    seen: set[psutil.Process] = set()
    deadline, jvm_at = time.monotonic() + BEGINS, 0.0
    lives_on = chance.uniform(3, 12)
    while not jvm_at or time.monotonic() < jvm_at + lives_on:
        assert command.poll() is None, log.read_text()
        assert time.monotonic() < deadline, log.read_text()
        seen |= {*family(command.pid), *mentioning(filled, tmp_path)}
        if not jvm_at and any(is_java(each) and each.pid != living.pid for each in seen):
            jvm_at = time.monotonic()
        time.sleep(0.2)

    command.kill()
    command.wait()

    killed_at = time.monotonic()
    while left := [
        each
        for each in seen | mentioning(filled, tmp_path)
        if runs(each) and each.pid != living.pid
    ]:
        assert time.monotonic() < killed_at + ENDS, [each.cmdline() for each in left]
        time.sleep(0.2)
    took = time.monotonic() - killed_at
    print(f"{name}: killed {lives_on:.1f} s on, gone after {took:.1f} s")  # noqa: T201  # the figures of the proof
    assert broker.status(lake) == living
    succeeded("maintain", "--lake", filled)
    assert not [*pins(lake.root)]
    assert lake.scratch.names() == []
    assert (lake.near / "_logs" / "scratch").names() == []
    succeeded("run", *SLICE, "--lake", filled)
    assert all(sheet["balanced"] for sheet in sheets(lake.root).values())


def mentioning(*folders: Path) -> set[psutil.Process]:
    """Return the processes that were started for something in these folders, also when their parent is gone."""
    found = set()
    for each in psutil.process_iter(["cmdline"]):
        words = each.info["cmdline"] or ()
        if each.pid != psutil.Process().pid and any(str(f) in w for f in folders for w in words):
            found.add(each)
    return found


def is_java(process: psutil.Process) -> bool:
    try:
        return "java" in process.name()
    except psutil.NoSuchProcess:
        return False


def runs(process: psutil.Process) -> bool:
    """Return whether it still runs; one that nothing has waited for holds nothing any more."""
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False
