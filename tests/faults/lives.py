"""Streams that are started, watched and killed."""

import json
import signal
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from subprocess import Popen
from typing import Any

import psutil
from strandline import catalog

from strandline.engine.lake.lake import Lake
from strandline.engine.lake.log.ledger import last_entry
from strandline.engine.lake.place import Place
from strandline.engine.runtime.processes import family
from tests.cli import typed
from tests.cli.inside import succeeded
from tests.cli.typed import start
from tests.support import lakes

PATIENCE = 400
SLICE = ("bronze.device_telemetry", "silver.device_telemetry", "gold.device_signal_10m")
"""What is streamed: one table of each layer; all the others differ in nothing that a kill could find."""


@contextmanager
def life(
    lake: Place, *words: object, env: Mapping[str, str] | None = None
) -> Iterator["Popen[bytes]"]:
    """Start ``strandline stream`` and see that nothing of it is left at the end."""
    command = ("stream", *SLICE, "--every", "500ms", *words, "--lake", lake)
    with running(*command, log=log(lake), env=env) as process:
        yield process


@contextmanager
def running(
    *words: object, log: Path, env: Mapping[str, str] | None = None
) -> Iterator["Popen[bytes]"]:
    """Start the program, and kill it with all that it has started at the end."""
    process = start(*words, log=log, env=env)
    try:
        yield process
    finally:
        for one in family(process.pid):
            kill(one)
        process.wait()


def log(lake: Place) -> Path:
    """Return the log of all lives of a lake's stream."""
    return lakes.beside(lake, ".stream.log")


def family_killed(process: "Popen[bytes]") -> None:
    """Kill a process and all that it has started, and wait for its end."""
    for one in family(process.pid):
        kill(one)
    process.wait()


def kill(process: psutil.Process) -> None:
    """Kill, as the kernel does when memory is short."""
    if process.is_running():
        process.send_signal(signal.SIGKILL)


def progress(lake: Place) -> tuple[int, ...]:
    """Return the version of each streamed table; -1 where there is none."""
    newest = (last_entry(Lake(lake).table(catalog.find(name))) for name in SLICE)
    return tuple(found[0] if found else -1 for found in newest)


def received(lake: Place) -> int:
    """Return how many events bronze has read."""
    newest = last_entry(Lake(lake).table(catalog.find(SLICE[0])))
    return sum(end for _, end in newest[1].offsets.values()) if newest else 0


def total(truth: Mapping[str, Any]) -> int:
    """Return how many events of what is streamed were sent."""
    counts = truth["tables"][SLICE[1]]
    return int(counts["good"] + counts["duplicates"] + sum(counts["quarantined"].values()))


def moved(
    lake: Place,
    process: "Popen[bytes]",
    since: tuple[int, ...],
    *,
    unless: Callable[[], bool] = lambda: False,
) -> tuple[int, ...]:
    """Wait until every table has committed something more, unless nothing more may come."""
    deadline = time.monotonic() + PATIENCE
    while True:
        now = progress(lake)
        if unless() or all(after > before for after, before in zip(now, since, strict=True)):
            return now
        assert process.poll() is None, log(lake).read_text()[-3000:]
        assert time.monotonic() < deadline, f"{now}: {log(lake).read_text()[-3000:]}"
        time.sleep(0.05)


def sheets(lake: Place) -> dict[str, dict[str, Any]]:
    """Return the balance sheets; the ledger must balance."""
    answer: Any = succeeded("ledger", "--lake", lake, "--json").json
    return {sheet["table"]: sheet for sheet in answer}


def finished(lake: Place, address: str, truth: Mapping[str, Any]) -> None:
    """Bring a lake up to date and see that it is what was really sent, and that the ledger balances."""
    succeeded("run", *SLICE, "--lake", lake, env={"STRANDLINE_KAFKA": address})
    silver = sheets(lake)[SLICE[1]]
    expected = truth["tables"][SLICE[1]]
    assert {name: silver[name] for name in expected} == expected


def equals_an_undisturbed_run(lake: Place, clean: Place, env: Mapping[str, str]) -> None:
    """Bring a lake that was disturbed up to date, fill another, and see that both balance and that their tables are equal."""
    for each in (lake, clean):
        typed.succeeded("run", *SLICE, "--lake", each, env=env)
        typed.succeeded("ledger", "--lake", each, env=env)
    answer: Any = typed.succeeded("compare", lake, clean, "--json", env=env).json
    rows = {found["table"]: found["left_rows"] for found in answer}
    assert all(rows[name] for name in SLICE[1:]), rows


def heartbeat(lake: Place) -> dict[str, Any]:
    """Return the last heartbeat of the stream."""
    beat: dict[str, Any] = json.loads(Lake(lake).heartbeat.text() or "")
    return beat
