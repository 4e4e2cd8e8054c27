"""A stream that is killed is running again soon, one writer at a time; one that dies again and again is given up, and a person is asked."""

import json
import os
import signal
import time
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from dagster import DagsterInstance, DefaultSensorStatus, SensorResult, build_sensor_context

from jobs.cli.place import now
from jobs.engine.service import desired_state as orders
from jobs.engine.service.background_stream import Always
from jobs.engine.service.heartbeat import heartbeat
from jobs.engine.storage.lake import Lake
from orchestration import on_call
from orchestration.definitions import DEFINITIONS
from orchestration.resources import RESOURCES, LakeResource
from orchestration.watchdog import EVERY, watchdog
from tests.cli import typed
from tests.cli.inside import succeeded
from tests.faults.lives import PATIENCE, SLICE, finished
from tests.faults.lives import heartbeat as beat_of
from tests.support.console import opened
from tests.support.instance import ephemeral

pytestmark = [pytest.mark.kafka, pytest.mark.slow, pytest.mark.timeout(1200)]

KILLS = 10
QUICK = tuple(timedelta(seconds=n) for n in (0, 1, 2, 3, 4))
"""As the true delays grow, in a test that does not take eight minutes."""


def test_killed_under_dagster_it_runs_again_within_two_looks(tmp_path: Path) -> None:
    """And the run that started it is in the list, where a person on call reads what happened."""
    truth = tmp_path / "truth.json"
    with opened(tmp_path) as page:
        lake = page.lake
        address = str(status(lake)["kafka"])
        produce = ("produce", "--events", 6_000, "--hours", 12, "--truth", truth, "--lake", lake)
        succeeded(*produce)
        typed.succeeded("resume", *SLICE, "--every", "500ms", "--max-offsets", 700, "--lake", lake)
        first = beat_of(lake)["pid"]

        os.kill(first, signal.SIGKILL)
        died = time.monotonic()
        second = revived(lake, first)
        took = time.monotonic() - died

        incidents = until_ended(lambda: page.runs("revive"))
        refused = typed.strandline("stream", *SLICE, "--lake", lake)
        pulse = status(lake)["stream"]["pid"]
        typed.succeeded("pause", "--why", "the test is over", "--lake", lake)
        rests = status(lake)
        finished(lake, address, json.loads(truth.read_text()))
        clean = tmp_path / "clean"
        finished(clean, address, json.loads(truth.read_text()))
        succeeded("compare", lake, clean)

    # Two looks, and what a run and a JVM take to start on a machine that does other things as well.
    assert took < 2 * EVERY + 60
    assert incidents == ["SUCCESS"]
    assert refused.code == 3
    assert "has a writer already" in refused.err
    assert pulse == second
    assert rests["order"]["runs"] is False
    assert rests["stream"]["alive"] is False


@pytest.fixture
def asked(fresh: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Always]:
    """Return a stream that is to run; nothing of it is left at the end."""
    monkeypatch.setenv("STRANDLINE_LAKE", str(fresh))
    monkeypatch.setattr(orders, "DELAYS", QUICK)
    stream = LakeResource().stream("test")
    try:
        yield stream
    finally:
        stream.pause("the test is over")


def test_killed_again_and_again_it_backs_off_and_a_person_is_asked(
    asked: Always, fresh: Path
) -> None:
    """Ten kills in a row, of which five are answered; then a person resumes it."""
    succeeded("produce", "--events", 500, "--hours", 3, "--lake", fresh)
    asked.resume([*SLICE, "--every", "500ms"])
    instance, kills, ends = ephemeral(), 0, []
    deadline = time.monotonic() + PATIENCE
    while kills < KILLS and time.monotonic() < deadline:
        pid = asked.pid()
        if pid is not None:
            os.kill(pid, signal.SIGKILL)
            kills += 1
        for run_config in requested(instance):
            done = on_call.revive.execute_in_process(
                run_config=run_config, instance=instance, resources=RESOURCES, raise_on_error=False
            )
            ends.append(done.success)
        given_up = orders.order(Lake(fresh))
        if given_up and given_up.gave_up and asked.pid() is None:
            break
        time.sleep(0.2)

    assert ends == [*([True] * len(QUICK)), False]
    assert kills == len(QUICK) + 1
    assert requested(instance) == []
    assert "given up" in succeeded("status", "--lake", fresh).out

    typed.succeeded("restart", "--why", "the cause is gone", "--lake", fresh)
    beat = heartbeat(Lake(fresh), now())
    assert beat is not None
    assert beat["alive"]
    assert requested(instance) == []


def requested(instance: DagsterInstance) -> list[Any]:
    """Let the watchdog look, and return the configuration of the runs that it asks for."""
    context = build_sensor_context(instance=instance, definitions=DEFINITIONS)
    found = watchdog(context, lake=LakeResource())
    asked = (found.run_requests or ()) if isinstance(found, SensorResult) else ()
    return [each.run_config for each in asked]


def test_the_watchdog_is_awake_from_the_start() -> None:
    assert watchdog.default_status is DefaultSensorStatus.RUNNING


def status(lake: Path) -> Any:  # noqa: ANN401  # any JSON
    return succeeded("status", "--lake", lake, "--json").json


def revived(lake: Path, first: int) -> int:
    """Wait for another process that lives."""
    deadline = time.monotonic() + PATIENCE
    while True:
        beat = heartbeat(Lake(lake), now())
        if beat and beat["alive"] and beat["pid"] != first:
            return int(beat["pid"])
        assert time.monotonic() < deadline
        time.sleep(0.2)


def until_ended(runs: Any) -> list[str]:  # noqa: ANN401  # a function
    """Wait until all runs have ended."""
    deadline = time.monotonic() + PATIENCE
    while not (found := runs()) or {"STARTED", "STARTING", "QUEUED"} & set(found):
        assert time.monotonic() < deadline, found
        time.sleep(1)
    return list(found)
