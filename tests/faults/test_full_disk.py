"""A disk without room stops no stream: it goes on when there is room, and nothing is lost or repeated."""

import json
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from datetime import datetime
from pathlib import Path

import pytest
from dagster import SensorResult, SkipReason, build_sensor_context
from pyspark.sql import SparkSession

from fleet.silver import device_telemetry as silver
from strandline.core.errors import LakeError
from strandline.core.stateful import MicroBatch
from strandline.engine.accounting.balance_sheet import balance
from strandline.engine.flow.runner import Site, run
from strandline.engine.lake.lake import Lake
from strandline.engine.lake.log.ledger import last_entry
from strandline.engine.runtime.processes import own
from strandline.engine.service.stream_health import Order, write_desired
from strandline_dagster.definitions import DEFINITIONS
from strandline_dagster.resources import LakeResource
from strandline_dagster.watchdog import watchdog
from tests.support.events import Event, readings, received
from tests.support.instance import ephemeral
from tests.support.rows import NOON

PATIENCE = 120
COLUMNS = "batch | id | device | event_at | arrived_at | value"


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """Return a disk of 6 MB."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mount = ["/bin/mount", "-t", "tmpfs", "-o", "size=6m", "tmpfs", str(folder)]
    if subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("only who may mount can have a disk of his own size")
    yield folder
    subprocess.run(["/bin/umount", str(folder)], check=True)


def until(seen: Callable[[], bool]) -> None:
    """Wait for a state."""
    deadline = time.monotonic() + PATIENCE
    while not seen():
        assert time.monotonic() < deadline
        time.sleep(0.1)


def event(number: int) -> list[Event]:
    return readings(f"{COLUMNS}\n{number} | e{number} | d1 | 09:00:00 | 09:00:01 | 1.5")


def test_a_stream_waits_for_room_and_goes_on(
    spark: SparkSession, tmp_path: Path, disk: Path, clock: Callable[[], datetime]
) -> None:
    lake = Lake(disk / "lake").open_for_writing()
    elsewhere = tmp_path / "bronze"  # so that something can arrive while there is no room
    elsewhere.mkdir()
    (lake.root / "bronze").local.symlink_to(elsewhere)
    received(lake, event(0))
    heard: list[LakeError | None] = []
    failed: list[BaseException] = []
    stop = threading.Event()
    site = Site(spark=spark, clock=clock)

    def stream() -> None:
        try:
            mode = MicroBatch(every=0.2)
            run(silver.TABLE, mode, lake, site=site, stopped=stop.is_set, waits=heard.append)
        except BaseException as error:  # noqa: BLE001  # shown by the test, not by its thread
            failed.append(error)

    def written() -> int:
        newest = last_entry(lake.table(silver.TABLE))
        return newest[1].batch if newest else -1

    thread = threading.Thread(target=stream)
    thread.start()
    try:
        until(lambda: bool(failed) or written() == 0)
        fill(disk / "fill")
        received(lake, event(1))
        until(lambda: bool(failed) or any(heard))
        (disk / "fill").unlink()
        until(lambda: bool(failed) or heard[-1] is None)
    finally:
        stop.set()
        thread.join()

    assert failed == []
    outages = [each for each in heard if each is not None]
    assert "no room left" in str(outages[0])
    sheet = balance(silver.TABLE, lake)
    assert (sheet.read, sheet.rows, sheet.faults) == (2, 2, [])


def test_a_watchdog_spends_no_attempt_on_a_disk_without_room(
    disk: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A heart that cannot write is silent, and a stream that is started again could not write either."""
    lake = Lake(disk / "lake").open_for_writing()
    monkeypatch.setenv("STRANDLINE_LAKE", str(lake.root))
    write_desired(lake, Order(runs=True, at=NOON.isoformat(), by="on-call"))
    long_ago = {**own(), "alive": True, "at": NOON.isoformat(), "tables": {}}
    lake.heartbeat.put(json.dumps(long_ago))

    fill(disk / "fill")
    full = looked()
    (disk / "fill").unlink()
    silent = looked()

    assert isinstance(full, SkipReason)
    assert isinstance(silent, SensorResult)
    assert silent.run_requests


def looked() -> SensorResult | SkipReason:
    """Let the watchdog look."""
    context = build_sensor_context(instance=ephemeral(), definitions=DEFINITIONS)
    found = watchdog(context, lake=LakeResource())
    assert isinstance(found, SensorResult | SkipReason)
    return found


def fill(file: Path) -> None:
    """Take all the room there is."""
    with file.open("wb", buffering=0) as stream:
        try:
            while True:
                stream.write(b"." * 4096)
        except OSError:
            return
