"""A broker that is away is an outage, no failure: the stream waits for it, silver and gold go on with what bronze has, and no person is asked."""

import json
import os
import signal
import time
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from strandline.engine.lake.lake import Lake
from strandline.engine.lake.place import Place
from strandline.engine.runtime import clock
from strandline.engine.runtime.settings import environment, settings
from strandline.engine.service.background_stream import Always
from strandline.engine.service.stream_health import Act, order, watch
from strandline.engine.service.stream_health import heartbeat as alive
from tests.cli import typed
from tests.cli.inside import succeeded
from tests.faults.lives import PATIENCE, SLICE, heartbeat, progress, received, sheets, total

pytestmark = [pytest.mark.kafka, pytest.mark.slow, pytest.mark.timeout(900)]

OPTIONS = (*SLICE, "--every", "500ms")
BRONZE = SLICE[0]


def until(seen: Callable[[], bool], lake: Path) -> None:
    """Wait for a state; the end of the stream's log is shown when it does not come."""
    deadline = time.monotonic() + PATIENCE
    while not seen():
        beat, log = alive(Lake(lake), clock.now()), Lake(lake).log("stream")
        assert beat, "it was never heard of"
        assert beat["alive"], log.local.read_text()[-2000:]
        assert time.monotonic() < deadline, f"{beat} {log.local.read_text()[-2000:]}"
        time.sleep(0.2)


def status(lake: Path) -> Any:  # noqa: ANN401  # any JSON
    return succeeded("status", "--lake", lake, "--json").json


def waits(lake: Path) -> bool:
    """Return whether bronze reports that it waits for the broker."""
    return bool(heartbeat(lake)["tables"][BRONZE].get("away"))


def acts(lake: Path) -> set[Act]:
    """Return what a watchdog would do in the next half hour, were the broker away for so long."""
    asked, beat, start = order(Lake(lake)), heartbeat(lake), clock.now()
    moments = [start + timedelta(minutes=n) for n in range(31)]
    return {watch(asked, {**beat, "at": at.isoformat()}, at).act for at in moments}


def attempts(lake: Path) -> tuple[str, ...]:
    """Return how often the stream was started again."""
    asked = order(Lake(lake))
    assert asked is not None
    return asked.attempts


@pytest.mark.prove(alone="a minute")
def test_a_stream_outlives_a_broker_that_is_killed_without_a_command(
    fresh: Place, address: str, tmp_path: Path
) -> None:
    """It reads every event once: what was there before the kill, and what came after it."""
    sent = [tmp_path / "before.json", tmp_path / "after.json"]
    produce = ("produce", "--events", 1_000, "--hours", 3, "--lake", fresh)
    succeeded(*produce, "--truth", sent[0])
    typed.succeeded("resume", *OPTIONS, "--lake", fresh)
    try:
        until(lambda: progress(fresh)[1] >= 1, fresh)
        first = heartbeat(fresh)["pid"]

        os.kill(status(fresh)["broker_pid"], signal.SIGKILL)
        until(lambda: waits(fresh), fresh)
        looked = acts(fresh)
        log = Lake(fresh).log("stream")
        until(lambda: "no Kafka broker answers" in log.local.read_text(), fresh)
        succeeded("up", "--lake", fresh)
        assert status(fresh)["kafka"] == address
        succeeded(*produce, "--seed", 2, "--truth", sent[1])
        every = sum(total(json.loads(truth.read_text())) for truth in sent)
        until(lambda: received(fresh) >= every, fresh)
        until(lambda: not waits(fresh), fresh)

        assert looked == {Act.NOTHING}
        assert watch(order(Lake(fresh)), heartbeat(fresh), clock.now()).act is Act.NOTHING
        assert heartbeat(fresh)["pid"] == first
        assert attempts(fresh) == ()
    finally:
        typed.succeeded("pause", "--lake", fresh)
    assert "Traceback" not in log.local.read_text()
    succeeded("run", *SLICE, "--lake", fresh)
    assert received(fresh) == sheets(fresh)[SLICE[1]]["read"] == every


@pytest.mark.prove(alone="a minute")
def test_silver_and_gold_go_on_with_what_bronze_has(fresh: Place) -> None:
    """As after a machine was started anew, of which the stream is there before the broker."""
    succeeded("produce", "--events", 1_000, "--hours", 3, "--lake", fresh)
    succeeded("run", BRONZE, "--lake", fresh)
    succeeded("down", "--lake", fresh)
    stream = Always(
        lake=Lake(fresh), clock=clock.now, environment=environment(settings(lake=fresh)), by="test"
    )

    first = stream.resume(OPTIONS)
    try:
        until(lambda: min(progress(fresh)) >= 1, fresh)
        until(lambda: waits(fresh), fresh)
        assert attempts(fresh) == ()
        before = progress(fresh)
        succeeded("up", "--lake", fresh)
        succeeded("produce", "--events", 1_000, "--seed", 2, "--hours", 3, "--lake", fresh)
        until(lambda: progress(fresh)[0] > before[0], fresh)
        beat: Any = heartbeat(fresh)
        assert beat["pid"] == first
    finally:
        stream.pause("the test is over")
