"""A stream that is suspended for a certificate is restarted by the watchdog when the suspending process was killed."""

import subprocess
import sys
from collections.abc import Iterator
from datetime import datetime, timedelta

import pytest

from strandline.engine.lake.lake import Lake
from strandline.engine.runtime.processes import own
from strandline.engine.service.background_stream import Always
from strandline.engine.service.stream_health import (
    LONGEST_SUSPENSION,
    Act,
    Order,
    order,
    watch,
    write_desired,
)
from tests.support.rows import NOON

SUSPEND = """
import sys
from datetime import datetime
from pathlib import Path
from strandline.engine.service.background_stream import Always
from strandline.engine.lake.lake import Lake
Always(lake=Lake(Path(sys.argv[1])), clock=lambda: datetime.fromisoformat(sys.argv[2]), environment={}, by="x").suspend()
print(".", end="", flush=True)
sys.stdin.read()
"""
ASKED = Order(runs=True, at=NOON.isoformat(), by="on-call", words=("silver.a", "--every", "1s"))


@pytest.fixture
def stream(lake: Lake) -> Always:
    """Return a stream that is to run."""
    write_desired(lake, ASKED)
    return Always(lake=lake, clock=lambda: NOON, environment={}, by="test")


@pytest.fixture
def other(stream: Always) -> Iterator["subprocess.Popen[bytes]"]:
    """Let another process suspend the stream."""
    lake = stream.lake
    command = [sys.executable, "-c", SUSPEND, str(lake.root), NOON.isoformat()]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.read(1)
        yield process
        process.kill()


def act(lake: Lake, at: datetime = NOON) -> Act:
    """Return what a watchdog does about a stream without a heartbeat."""
    return watch(order(lake), None, at).act


@pytest.mark.whole
def test_the_stream_of_a_killed_process_is_restarted(
    lake: Lake, other: "subprocess.Popen[bytes]"
) -> None:
    suspended = act(lake)
    other.kill()
    other.wait()

    assert suspended is Act.NOTHING
    assert act(lake) is Act.RESTART
    asked = order(lake)
    assert asked is not None
    assert asked.words == ASKED.words


def test_a_suspension_by_another_host_has_a_limit(lake: Lake) -> None:
    elsewhere = {**own(), "host": "elsewhere", "at": NOON.isoformat()}
    write_desired(lake, Order(runs=True, at=NOON.isoformat(), by="x", rest=elsewhere))

    assert act(lake, NOON + LONGEST_SUSPENSION - timedelta(seconds=1)) is Act.NOTHING
    assert act(lake, NOON + LONGEST_SUSPENSION) is Act.RESTART


def test_a_paused_stream_is_not_suspended(stream: Always) -> None:
    stream.pause("the disk is being changed")

    assert not stream.suspend()


def test_a_request_during_the_suspension_wins(lake: Lake, stream: Always) -> None:
    assert stream.suspend()
    stream.pause("the disk is being changed")

    stream.end_suspension()

    asked = order(lake)
    assert asked is not None
    assert not asked.runs
    assert stream.pid() is None
