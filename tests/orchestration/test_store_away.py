"""Dagster while the object store does not answer: what is loaded and what looks ends within seconds, with a sentence."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest
from dagster import SensorDefinition, SensorResult, SkipReason, build_sensor_context

from strandline.engine.lake.lake import Lake
from strandline.engine.lake.place import Place
from strandline.engine.runtime import clock
from strandline.engine.runtime.processes import own
from strandline.engine.service.stream_health import Order, write_desired
from strandline_dagster import resources
from strandline_dagster.definitions import DEFINITIONS
from strandline_dagster.resources import BACK, LakeResource
from strandline_dagster.watchdog import watchdog
from tests.support.away_store import LAKE, closed, environment, silent
from tests.support.instance import ephemeral
from tests.support.s3_server import S3Server

SECONDS = 25.0
"""Three are promised, of a quiet machine; each request that waited as a stream does would take thirty."""

LOADED = """
import json
from strandline_dagster.definitions import DEFINITIONS
names = [each.name for each in DEFINITIONS.sensors]
keys = [each.to_user_string() for each in DEFINITIONS.resolve_all_asset_keys()]
print(json.dumps({"sensors": names, "assets": keys}))
"""
LOOKS = {
    each.name: each
    for each in DEFINITIONS.sensors or ()
    if isinstance(each, SensorDefinition) and each.name != "alert_of_failures"
}


@pytest.fixture(params=[silent, closed], ids=["silent", "closed"])
def away(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> Iterator[None]:
    with request.param() as port:
        for name, value in environment(port, tmp_path).items():
            monkeypatch.setenv(name, value)
        monkeypatch.setenv("STRANDLINE_LAKE", LAKE)
        yield


@pytest.mark.whole
@pytest.mark.usefixtures("away")
@pytest.mark.parametrize(
    "away",
    [silent, pytest.param(closed, marks=pytest.mark.prove(alone="a quarter of a minute"))],
    ids=["silent", "closed"],
    indirect=True,
)
def test_what_dagster_has_is_loaded_while_the_store_is_away() -> None:
    """It asked the lake for its live rules, and ended with an error after half a minute: no table, no first row, no watchdog."""
    done = subprocess.run(
        [sys.executable, "-c", LOADED],
        env=os.environ,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )

    assert done.returncode == 0, done.stderr[-2000:]
    found = json.loads(done.stdout)
    assert {"watchdog", "look_whether_it_is_well"} <= {*found["sensors"]}
    assert {"_is_it_well", "gold/device_signal_10m"} <= {*found["assets"]}


@pytest.mark.whole
@pytest.mark.usefixtures("away")
@pytest.mark.parametrize("name", LOOKS)
def test_a_look_ends_within_seconds_and_names_the_store(name: str) -> None:
    """Each waited for half a minute a request, of the sixty seconds that Dagster gives, and ended with an error."""
    context = build_sensor_context(
        instance=ephemeral(), definitions=DEFINITIONS, resources={"lake": LakeResource()}
    )

    begun = time.monotonic()
    found = LOOKS[name](context)
    took = time.monotonic() - begun

    says = found.skip_message if isinstance(found, SkipReason) else _said(found)
    assert "the object store does not answer" in str(says)
    assert took < SECONDS, f"{took:.1f} s"


def test_a_stream_that_waited_for_the_store_is_not_restarted_when_it_is_back(
    s3: S3Server, bucket: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It lived, and its last heartbeat was as old as the outage was long; it has the time in which it writes the next one."""
    monkeypatch.setenv("STRANDLINE_LAKE", str(bucket))
    lake, instance = Lake(bucket), ephemeral()
    long_ago = clock.now() - timedelta(seconds=114)
    beat = {**own(), "alive": True, "at": long_ago.isoformat(), "tables": {}}
    lake.heartbeat.put(json.dumps(beat))
    write_desired(lake, Order(runs=True, at=long_ago.isoformat(), by="on-call"))

    def looked() -> SensorResult | SkipReason:
        context = build_sensor_context(instance=instance, definitions=DEFINITIONS)
        return watchdog(context, lake=LakeResource())

    with closed() as port:
        monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{port}")
        assert isinstance(looked(), SkipReason)
    monkeypatch.setenv("AWS_ENDPOINT_URL", s3.address)
    back = looked()
    assert isinstance(back, SkipReason)
    assert back.skip_message == BACK

    monkeypatch.setattr(resources, "_away", [])
    found = looked()
    assert isinstance(found, SensorResult)
    (asked,) = found.run_requests or ()
    assert asked.tags["incident"] == "silent"


def _said(found: object) -> str:
    assert isinstance(found, SensorResult)
    return "; ".join(str(getattr(each, "description", "")) for each in found.asset_events)
