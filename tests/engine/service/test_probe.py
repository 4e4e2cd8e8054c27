"""Whether a program is well on this host, by its heartbeat alone; a real stream is asked in faults/test_killed.py."""

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from strandline.core.errors import TransientError
from strandline.engine.lake.lake import Lake
from strandline.engine.runtime.processes import own
from strandline.engine.service.background_stream import ALERTS, STREAM, refuse_ill
from strandline.engine.service.stream_health import SILENT, STUCK, near

TABLE = "silver.device_telemetry"
NOON = datetime(2099, 11, 20, 12, tzinfo=UTC)
"""Later than the start of this process, whose heartbeat it is."""

FENCED = {
    "kind": "fenced",
    "says": "taken over",
    "since": (NOON - 2 * STUCK).isoformat(),
    "tries": 30,
}


def write(
    lake: Lake, *, ago: timedelta = timedelta(0), table: dict[str, Any] | None = None, **of: object
) -> None:
    pulse = {"lag": 0, "gate": None, "away": None, "failing": None, "behind": None, "at": None}
    usual = {**own(), "alive": True, "at": (NOON - ago).isoformat()}
    lake.heartbeat.put(json.dumps({**usual, **of, "tables": {TABLE: {**pulse, **(table or {})}}}))


def test_a_young_heartbeat_of_a_process_of_this_host_is_well(lake: Lake) -> None:
    write(lake)

    assert refuse_ill(STREAM, lake, NOON)["pid"] == own()["pid"]


@pytest.mark.whole
def test_one_that_has_rows_to_read_and_waits_for_a_gate_is_well(lake: Lake) -> None:
    """A restart would open no gate, and end no outage."""
    long_ago = (NOON - 2 * STUCK).isoformat()
    for reason in ("gate", "away"):
        write(lake, table={"lag": 7, "behind": long_ago, reason: "because"})

        assert refuse_ill(STREAM, lake, NOON)


@pytest.mark.whole
@pytest.mark.parametrize(
    ("of", "says"),
    [
        ({"alive": False}, "is not running"),
        ({"ago": SILENT + timedelta(seconds=1)}, "no heartbeat for 61 s"),
        (
            {"table": {"lag": 7, "behind": (NOON - 2 * STUCK).isoformat()}},
            "committed none for 20 minutes",
        ),
        ({"table": {"failing": FENCED}}, "is another process's since"),
        ({"pid": 2**22 + 1}, "is not running"),
        ({"started": 1.0}, "is not running"),  # the process has this number by chance
        ({"host": "the-former-pod"}, "is not running and never was"),
    ],
)
def test_what_is_not_well_is_named(lake: Lake, of: dict[str, Any], says: str) -> None:
    write(lake, **of)

    with pytest.raises(TransientError, match=says):
        refuse_ill(STREAM, lake, NOON)


def test_one_that_wrote_no_heartbeat_is_not_well(lake: Lake) -> None:
    """It still starts; and the heartbeat of the other program is not its own."""
    write(lake)

    with pytest.raises(TransientError, match=r"raises alerts.*never was"):
        refuse_ill(ALERTS, lake, NOON)


def test_a_store_that_is_away_makes_no_program_ill(
    lake: Lake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The heartbeat is read on this machine; at this address nothing would answer."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    far = Lake("s3a://lakes/away")
    write(lake)
    near(far, far.heartbeat).put_bytes(lake.heartbeat.bytes() or b"")

    assert refuse_ill(STREAM, far, NOON)["pid"] == own()["pid"]
