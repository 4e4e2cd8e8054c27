"""A heartbeat is believed while its process is seen, or while a table's lock is held; a file alone proves nothing."""

import json
import subprocess
import sys
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest

from strandline.engine.lake.lake import Lake
from strandline.engine.runtime.processes import is_there, own
from strandline.engine.service.stream_health import SILENT, heartbeat
from tests.support.rows import NOON

TABLE = "silver.device_telemetry"
GONE = 2**22 + 1
"""No process of Linux has such a number."""
HOLD = """
import fcntl, sys
with open(sys.argv[1], "r+") as file:
    fcntl.lockf(file, fcntl.LOCK_EX)
    print(".", end="", flush=True)
    sys.stdin.read()
"""
LONG_AGO = SILENT + timedelta(seconds=1)


def lives(lake: Lake, ago: timedelta = timedelta(0), **fields: object) -> bool:
    """Write a heartbeat, and return whether it is believed."""
    beat = {**own(), "alive": True, "at": (NOON - ago).isoformat(), "tables": {TABLE: {}}, **fields}
    lake.heartbeat.put(json.dumps(beat))
    read: Any = heartbeat(lake, NOON)
    return bool(read["alive"])


@pytest.fixture
def held(lake: Lake) -> Iterator[Lake]:
    """Let another process hold the lock of the table."""
    path = lake.lease_of(TABLE)
    path.parent.local.mkdir()
    path.local.touch()
    command = [sys.executable, "-c", HOLD, str(path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as holder:
        assert holder.stdout is not None
        assert holder.stdout.read(1)
        yield lake
        holder.kill()


@pytest.mark.whole
def test_a_lake_without_a_stream_has_no_heartbeat(lake: Lake) -> None:
    assert heartbeat(lake, NOON) is None


def test_a_stream_that_wrote_its_end_is_not_alive(held: Lake) -> None:
    assert not lives(held, alive=False)


def test_of_a_process_that_is_seen_here_its_presence_decides(lake: Lake) -> None:
    assert lives(lake)
    assert lives(lake, ago=LONG_AGO), "it is silent, which is another fault"
    assert not lives(lake, pid=GONE)


def test_a_number_that_another_process_has_now_is_not_the_stream(lake: Lake) -> None:
    """In a container every program has one of the first few numbers."""
    assert not lives(lake, started=own()["started"] - 1)


@pytest.mark.parametrize("fields", [{"host": "elsewhere"}, {"started": None}])
def test_the_lock_decides_when_the_process_cannot_be_seen(
    held: Lake, fields: dict[str, object]
) -> None:
    assert lives(held, **fields)
    assert not lives(held, ago=LONG_AGO, **fields), "a heartbeat has a limit"


@pytest.mark.parametrize("fields", [{"host": "elsewhere"}, {"started": None}])
def test_a_copied_lake_has_a_young_heartbeat_and_no_lock(
    lake: Lake, fields: dict[str, object]
) -> None:
    assert not lives(lake, **fields)


def test_a_clock_that_is_ahead_does_not_keep_a_stream_alive(held: Lake) -> None:
    assert not lives(held, ago=-LONG_AGO, host="elsewhere")


def test_a_process_recognises_itself() -> None:
    assert is_there(own())
