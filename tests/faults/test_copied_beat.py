"""A lake that was copied while its stream ran, or whose container was restarted, gets a new stream on request."""

import json

import pytest

from strandline.engine.lake.lake import Lake
from strandline.engine.lake.place import Place
from strandline.engine.runtime import clock
from strandline.engine.runtime.processes import own
from tests.cli import typed
from tests.cli.inside import succeeded
from tests.faults.lives import SLICE, heartbeat

pytestmark = [pytest.mark.kafka, pytest.mark.slow, pytest.mark.timeout(600)]


@pytest.mark.prove(alone="half a minute")
def test_a_live_heartbeat_of_another_host_does_not_stop_a_start(fresh: Place) -> None:
    succeeded("produce", "--events", 500, "--hours", 3, "--lake", fresh)
    beat = {**own(), "host": "elsewhere", "alive": True, "at": clock.now().isoformat()}
    tables = {name: {} for name in SLICE}
    Lake(fresh).heartbeat.put(json.dumps({**beat, "tables": tables, "failed": None}))

    typed.succeeded("resume", *SLICE, "--lake", fresh)
    try:
        assert heartbeat(fresh)["host"] == own()["host"]
        assert heartbeat(fresh)["alive"]
    finally:
        typed.succeeded("pause", "--lake", fresh)
