"""A stream that rests for a certificate is started again by the watchdog when who let it rest was killed."""

import subprocess
import sys
from collections.abc import Iterator
from datetime import datetime, timedelta

import pytest

from jobs.run.always import Always
from jobs.run.holders import own
from jobs.run.lake import Lake
from jobs.run.order import LONGEST_REST, Order, order, write
from jobs.run.watch import Act, watch
from tests.support.rows import NOON

REST = """
import sys
from datetime import datetime
from pathlib import Path
from jobs.run.always import Always
from jobs.run.lake import Lake
Always(lake=Lake(Path(sys.argv[1])), clock=lambda: datetime.fromisoformat(sys.argv[2]), environment={}, by="x").rest()
print(".", end="", flush=True)
sys.stdin.read()
"""
ASKED = Order(runs=True, at=NOON.isoformat(), by="on-call", words=("silver.a", "--every", "1s"))


@pytest.fixture
def stream(lake: Lake) -> Always:
    """Return a stream that is to run."""
    write(lake, ASKED)
    return Always(lake=lake, clock=lambda: NOON, environment={}, by="test")


@pytest.fixture
def other(stream: Always) -> Iterator["subprocess.Popen[bytes]"]:
    """Let another process have the stream rest."""
    lake = stream.lake
    command = [sys.executable, "-c", REST, str(lake.root), NOON.isoformat()]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.read(1)
        yield process
        process.kill()


def act(lake: Lake, at: datetime = NOON) -> Act:
    """Return what a watchdog does about a stream that is not there."""
    return watch(order(lake), None, at).act


def test_who_is_killed_meanwhile_leaves_a_stream_that_is_started_again(
    lake: Lake, other: "subprocess.Popen[bytes]"
) -> None:
    resting = act(lake)
    other.kill()
    other.wait()

    assert resting is Act.NOTHING
    assert act(lake) is Act.RESTART
    asked = order(lake)
    assert asked is not None
    assert asked.words == ASKED.words


def test_of_another_host_a_rest_has_a_limit(lake: Lake) -> None:
    elsewhere = {**own(), "host": "elsewhere", "at": NOON.isoformat()}
    write(lake, Order(runs=True, at=NOON.isoformat(), by="x", rest=elsewhere))

    assert act(lake, NOON + LONGEST_REST - timedelta(seconds=1)) is Act.NOTHING
    assert act(lake, NOON + LONGEST_REST) is Act.RESTART


def test_a_stream_that_is_not_to_run_has_no_rest(stream: Always) -> None:
    stream.pause("the disk is being changed")

    assert not stream.rest()


def test_what_a_person_asked_for_meanwhile_holds(lake: Lake, stream: Always) -> None:
    assert stream.rest()
    stream.pause("the disk is being changed")

    stream.rested()

    asked = order(lake)
    assert asked is not None
    assert not asked.runs
    assert stream.pid() is None
