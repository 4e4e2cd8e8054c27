"""A lake that was copied while its stream lived, or whose container starts anew, has a stream again when one is asked for."""

import json
from pathlib import Path

import pytest

from jobs.cli.place import now
from jobs.run.holders import own
from jobs.run.lake import Lake
from jobs.run.notes import put
from tests.cli.typed import succeeded
from tests.faults.lives import SLICE, heartbeat

pytestmark = [pytest.mark.kafka, pytest.mark.slow, pytest.mark.timeout(600)]


def test_a_live_heartbeat_of_another_host_does_not_stop_a_start(fresh: Path) -> None:
    succeeded("produce", "--events", 500, "--hours", 3, "--lake", fresh)
    beat = {**own(), "host": "elsewhere", "alive": True, "at": now().isoformat()}
    tables = {name: {} for name in SLICE}
    put(Lake(fresh).heartbeat, json.dumps({**beat, "tables": tables, "failed": None}))

    succeeded("resume", *SLICE, "--lake", fresh)
    try:
        assert heartbeat(fresh)["host"] == own()["host"]
        assert heartbeat(fresh)["alive"]
    finally:
        succeeded("pause", "--lake", fresh)
