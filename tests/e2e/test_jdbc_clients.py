"""Twenty dashboards ask beside a running stream, which does not wait for them."""

import json
import signal
import statistics
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from strandline import catalog

from strandline.engine.lake.lake import Lake
from strandline.engine.lake.log.ledger import between, latest_version
from strandline.engine.lake.place import Place
from tests.cli import typed
from tests.cli.serving import PASSWORD, serving
from tests.support.jdbc import Driver, SqlError, driver
from tests.support.proofs import Times

CLIENTS = 20
RATE = 100
"""Events a second to all topics."""
TABLES = ("bronze.device_telemetry", "silver.device_telemetry", "gold.device_signal_10m")
WARM = 30
"""Seconds in which the JVMs compile what they do all the time."""
PAUSE = 1.0
"""Seconds between two questions of a client: a dashboard that a person looks at asks less often."""

QUESTIONS = (
    "SELECT count(*) FROM silver.device_telemetry",
    "SELECT signal, count(*), avg(value) FROM silver.device_telemetry GROUP BY signal ORDER BY 2 DESC",
    "SELECT device_id, max(event_at) FROM silver.device_telemetry GROUP BY device_id ORDER BY 2 DESC LIMIT 10",
    "SELECT reasons, count(*) FROM quarantine.device_telemetry GROUP BY reasons",
    "SELECT * FROM gold.device_signal_10m LIMIT 20",
    (
        "SELECT d.site, count(*) FROM silver.device_telemetry t JOIN silver.devices d ON t.device_id = d.device_id"
        " GROUP BY d.site"
    ),
    "SHOW TABLES IN silver",
    "SELECT 1",
)


@contextmanager
def streamed(folder: Path) -> Iterator[Lake]:
    """Run a broker, a sender of events and a stream of three tables over a lake that has some."""
    lake = Lake(Place.of(folder / "lake"))
    place = ("--lake", lake.root)
    typed.succeeded("up", *place)
    senders: list[subprocess.Popen[bytes]] = []
    try:
        typed.succeeded("produce", "--events", 20_000, "--seed", 7, *place)
        typed.succeeded(
            "run",
            "bronze.device_inventory",
            "silver.device_inventory",
            "silver.devices",
            *TABLES,
            *place,
        )
        words = ("produce", "--events", RATE * 3600, "--rate", RATE, "--seed", 8, *place)
        senders.append(typed.start(*words, log=folder / "sent.log"))
        senders.append(
            typed.start("stream", *TABLES, "--every", "2s", *place, log=folder / "stream.log")
        )
        yield lake
        senders[1].send_signal(signal.SIGINT)
        assert senders[1].wait(120) == 0, (folder / "stream.log").read_text()
    finally:
        for sender in senders:
            sender.kill()
            sender.wait()
        typed.succeeded("down", *place)


def batch_times(lake: Lake, seconds: float) -> dict[str, list[int]]:
    """Return the milliseconds of each batch that a stream commits within some seconds."""
    paths = {name: lake.table(catalog.find(name)) for name in TABLES}
    before = {name: latest_version(path) for name, path in paths.items()}
    time.sleep(seconds)
    return {
        name: [
            entry.duration_ms
            for entry in between(path, before[name] + 1, latest_version(path))
            if entry.duration_ms
        ]
        for name, path in paths.items()
    }


def ask(running: Driver, url: str, client: int, until: float) -> tuple[Counter[str], list[float]]:
    """Ask one question after another, each in the client's own order."""
    seen: Counter[str] = Counter()
    took: list[float] = []
    with running.connected(url, "ana", PASSWORD) as connection:
        number = client
        while time.monotonic() < until:
            began = time.monotonic()
            try:
                seen["rows"] += len(connection.rows(QUESTIONS[number % len(QUESTIONS)]))
                seen["answers"] += 1
            except SqlError as error:
                seen[str(error)[:200]] += 1
                seen["errors"] += 1
            took.append(time.monotonic() - began)
            number += 1
            time.sleep(PAUSE)
    return seen, took


@pytest.mark.prove(alone="minutes")
def test_twenty_clients_ask_without_an_error_and_a_stream_keeps_its_pace(
    tmp_path: Path, times: Times
) -> None:
    """Its batches take at most 1.3 times as long as before and after."""
    seconds = times(20, 300)
    with streamed(tmp_path) as lake:
        time.sleep(WARM)
        alone = batch_times(lake, min(60, seconds))
        with (
            serving(lake, tmp_path / "serve.log") as url,
            driver() as running,
            ThreadPoolExecutor(CLIENTS + 1) as threads,
        ):
            measured = threads.submit(batch_times, lake, seconds)
            until = time.monotonic() + seconds
            clients = [threads.submit(ask, running, url, each, until) for each in range(CLIENTS)]
            found = [each.result() for each in clients]
            beside = measured.result()
        after = batch_times(lake, min(60, seconds))
    seen = sum((counts for counts, _ in found), Counter[str]())
    took = sorted(second for _, each in found for second in each)
    report: dict[str, Any] = {
        "seconds": seconds,
        "seen": seen,
        "answer_seconds": {"median": statistics.median(took), "p95": took[len(took) * 95 // 100]},
        "batch_ms": {
            name: {
                "alone": _mean(alone[name] + after[name]),
                "beside": _mean(beside[name]),
                "batches": (len(alone[name] + after[name]), len(beside[name])),
            }
            for name in TABLES
        },
    }
    without = sum(each["alone"] for each in report["batch_ms"].values())
    report["ratio"] = sum(each["beside"] for each in report["batch_ms"].values()) / without
    sys.stdout.write(json.dumps(report, indent=1) + "\n")

    assert seen["errors"] == 0
    assert seen["answers"] >= CLIENTS * 2
    assert report["ratio"] <= 1.3


def _mean(found: list[int]) -> float:
    return statistics.fmean(found) if found else 0.0
