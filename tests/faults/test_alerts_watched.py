"""The process that raises alerts, killed in the background, is started again by Dagster's watchdog and goes on."""

import os
import signal
import time
from collections.abc import Iterator
from datetime import date
from typing import Any

import pytest
from dagster import DagsterInstance, build_sensor_context

from strandline.engine.accounting.process_lines import processes
from strandline.engine.lake.lake import Lake
from strandline.engine.lake.place import Place
from strandline.engine.service.background_stream import Always
from strandline_dagster import live_feeds as feeds_module
from strandline_dagster.definitions import DEFINITIONS
from strandline_dagster.live_feeds import live_feeds, watch_alerts
from strandline_dagster.resources import RESOURCES, LakeResource
from tests.cli.inside import succeeded
from tests.faults.alerting import Sent, raised
from tests.faults.lives import PATIENCE
from tests.support.instance import ephemeral

pytestmark = [pytest.mark.kafka, pytest.mark.slow, pytest.mark.timeout(600)]

WATCH = watch_alerts(live_feeds({}))


@pytest.fixture
def process(fresh: Place, monkeypatch: pytest.MonkeyPatch) -> Iterator[Always]:
    """Return the process that raises alerts in a lake; nothing of it is left at the end."""
    monkeypatch.setenv("STRANDLINE_LAKE", str(fresh))
    found = LakeResource().alerts("test")
    try:
        yield found
    finally:
        found.pause("the test is over")


def looked(instance: DagsterInstance) -> Any:  # noqa: ANN401  # Dagster's result
    context = build_sensor_context(instance=instance, definitions=DEFINITIONS)
    return WATCH(context, lake=LakeResource())


@pytest.mark.prove(alone="a minute")
def test_killed_in_the_background_it_is_started_again_and_goes_on(
    process: Always, fresh: Place, address: str
) -> None:
    """With the options that it was started with; paused, it stays so."""
    sent, instance = Sent(address), ephemeral()
    words = ("--mode", "micro-batch", "--from-beginning")
    succeeded("alerts", *words, "--background", "--lake", fresh)
    first = process.pid()
    assert first is not None
    assert all(each.passed for each in looked(instance).asset_events if hasattr(each, "passed"))

    os.kill(first, signal.SIGKILL)
    deadline = time.monotonic() + PATIENCE
    while not (requests := looked(instance).run_requests):  # the kernel has it for a moment more
        assert time.monotonic() < deadline
        time.sleep(0.1)
    (asked,) = requests
    done = feeds_module.revive_alerts.execute_in_process(
        run_config=asked.run_config, instance=instance, resources=RESOURCES
    )

    assert done.success
    beat = process.heartbeat()
    assert beat is not None
    assert beat["alive"]
    assert beat["pid"] == process.pid() != first
    assert beat["mode"] == "micro-batch"
    sent.some(9)
    while sent.expected - raised(address).keys():
        assert time.monotonic() < deadline, process.log.local.read_text()[-3000:]
        time.sleep(0.1)
    succeeded("alerts", "--pause", "--lake", fresh)
    found = looked(instance)
    assert process.pid() is None
    assert found.run_requests == []
    assert all(each.passed for each in found.asset_events)
    # One that is killed before its first minute is over has written nothing.
    ever = processes(Lake(fresh), date(2000, 1, 1), date(2100, 1, 1))
    assert {each.program for each in ever} == {"alerts"}
