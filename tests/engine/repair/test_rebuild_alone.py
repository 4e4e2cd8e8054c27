"""Two rebuilds of a table at once would share a folder: the second is refused before anything is deleted."""

import subprocess
import sys

import pytest

from fleet.silver import device_telemetry, dhcp_events
from strandline.core.errors import TransientError
from strandline.engine.flow.shadow_lake import Shadow, alone
from strandline.engine.lake.lake import Lake

pytestmark = pytest.mark.core

HOLD = """
import sys
from strandline.engine.lake.lake import Lake
from strandline.engine.flow.shadow_lake import alone
from fleet.silver.device_telemetry import TABLE
with alone(TABLE, Lake(sys.argv[1])):
    print(".", end="", flush=True)
    sys.stdin.read()
"""
TABLE = device_telemetry.TABLE


def test_a_second_rebuild_is_refused_and_names_the_first(lake: Lake) -> None:
    kept = Shadow.of(TABLE, lake).root / "what the first has made"
    command = [sys.executable, "-c", HOLD, str(lake.root)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as first:
        assert first.stdout is not None
        assert first.stdout.read(1)
        kept.put("")

        with (
            pytest.raises(TransientError, match=f"already: process {first.pid}"),
            alone(TABLE, lake),
        ):
            pass
        with alone(dhcp_events.TABLE, lake):
            pass
        first.kill()
        first.wait()

    with alone(TABLE, lake):
        assert kept.exists(), "a killed rebuild blocks no other"
