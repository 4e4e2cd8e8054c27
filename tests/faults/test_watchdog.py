"""A stream that dies again and again is given up, and a person is asked.

How a killed one is revived under Dagster is in tests/e2e/test_ui.py.
"""

import os
import signal
import time
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
from dagster import DagsterInstance, DefaultSensorStatus, SensorResult, build_sensor_context

from strandline.engine.lake.lake import Lake
from strandline.engine.lake.place import Place
from strandline.engine.runtime import clock
from strandline.engine.service import stream_health as orders
from strandline.engine.service.background_stream import Always
from strandline.engine.service.stream_health import heartbeat
from strandline_dagster import watchdog as on_call
from strandline_dagster.definitions import DEFINITIONS
from strandline_dagster.resources import RESOURCES, LakeResource
from strandline_dagster.watchdog import watchdog
from tests.cli import typed
from tests.cli.inside import strandline, succeeded
from tests.faults.lives import PATIENCE, SLICE
from tests.support.instance import ephemeral

pytestmark = [pytest.mark.kafka, pytest.mark.slow, pytest.mark.timeout(1200)]

KILLS = 10
QUICK = tuple(timedelta(seconds=n) for n in (0, 1))
"""As the true delays grow, which are five (tests/engine/service/test_stream_health.py) and take eight minutes."""


@pytest.fixture
def asked(fresh: Place, monkeypatch: pytest.MonkeyPatch) -> Iterator[Always]:
    """Return a stream that is to run; nothing of it is left at the end."""
    monkeypatch.setenv("STRANDLINE_LAKE", str(fresh))
    monkeypatch.setattr(orders, "DELAYS", QUICK)
    stream = LakeResource().stream("test")
    try:
        yield stream
    finally:
        stream.pause("the test is over")


@pytest.mark.prove(alone="a minute")
def test_killed_again_and_again_it_backs_off_and_a_person_is_asked(
    asked: Always, fresh: Place
) -> None:
    """Each kill is answered as often as there are delays; then a person resumes it."""
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
    assert "given up" in strandline("status", "--lake", fresh).out

    typed.succeeded("restart", "--why", "the cause is gone", "--lake", fresh)
    beat = heartbeat(Lake(fresh), clock.now())
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
