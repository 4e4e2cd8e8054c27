"""Today's code migrates state that earlier code wrote; nothing of it is lost."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable
from pyspark.sql import Row, SparkSession
from pyspark.sql.streaming.stateful_processor import StatefulProcessorHandle, TimerValues

from fleet.gold import attributed_connections, ip_holds
from fleet.silver import device_inventory, devices
from strandline.core import stateful
from strandline.core.fold import Event, InMemory, Shell
from strandline.engine.lake.lake import Lake
from tests.support.literal import put
from tests.support.modes import derive
from tests.support.rows import rows, shown
from tests.support.shapes import arrived

SHOWN = ("device_id", "valid_from", "valid_until", "site")
INVENTORY = """
    batch | change_id | device_id | site   | model | owner | event_at | _arrived_at | _partition | _offset
    1     | 1         | d1        | berlin | m1    | ann   | 08:00:00 | 08:00:00    | 0          | 0
    1     | 2         | d2        | paris  | m1    | ann   | 08:30:00 | 08:30:00    | 0          | 1
    2     | 3         | d1        | lima   | m1    | bob   | 10:00:00 | 10:00:00    | 0          | 2
    3     | 4         | d1        | osaka  | m1    | cleo  | 09:20:00 | 10:10:00    | 0          | 3
"""
SECOND = 1_000_000


class Former(Shell):
    """The shell as it was when a device's state was one list of changes in one JSON value, and there was no map."""

    def init(self, handle: StatefulProcessorHandle) -> None:
        """Open the state."""
        self._handle = handle
        self._kept = handle.getValueState("kept", "state STRING, wake_ms LONG")

    def _advance(
        self,
        events: list[Event],
        timers: TimerValues,  # noqa: ARG002  # the interface of the shell
        fired: int | None = None,  # noqa: ARG002  # the same
    ) -> Iterator[Row]:
        stored = self._kept.get() if self._kept.exists() else None
        known = json.loads(stored[0])["changes"] if stored else []
        new = [devices._remembered(event) for event in events]  # what it kept has not changed
        changes = sorted([*known, *new], key=lambda each: each["at"])
        self._kept.update((json.dumps({"changes": changes}), None))
        return iter([Row(**each) for each in devices._intervals(changes)])  # the same


@pytest.mark.whole
@pytest.mark.slow
def test_a_stream_of_earlier_code_goes_on_where_it_was(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The change of 10:00 ends an interval that only the old state has, and the late one of 09:20 divides it."""
    log = {device_inventory.TABLE: (arrived(device_inventory.FIELDS), INVENTORY)}
    lake = Lake(tmp_path).open_for_writing()
    put(lake, log, "1")
    with monkeypatch.context() as patch:
        patch.setattr(stateful, "Shell", Former)
        derive(spark, lake, devices.TABLE)
    for batch in "23":
        put(lake, log, batch)
        derive(spark, lake, devices.TABLE)

    live = DeltaTable(lake.table(devices.TABLE)).to_pyarrow_table().to_pylist()
    assert shown(live, *SHOWN) == rows("""
        device_id | valid_from | valid_until | site
        d1        | 08:00:00   | 09:20:00    | berlin
        d1        | 09:20:00   | 10:00:00    | osaka
        d1        | 10:00:00   | -           | lima
        d2        | 08:30:00   | -           | paris
    """)


def act(second: int, kind: str) -> dict[str, Any]:
    arrival = {"at": second * SECOND, "arrived": second * SECOND, "part": 0, "offset": second}
    return {**arrival, "ip": "a", "kind": kind, "mac": "m", "device_id": "d", "lease": 60}


HOLD = {
    "held_us": 0,
    "until_us": None,
    "leased_us": 90 * SECOND,
    "mac": "m",
    "device_id": "d",
    "ended_by": None,
    "renewals": 0,
}


def test_a_hold_and_the_acts_that_waited_are_migrated() -> None:
    """Earlier code wrote them as one JSON value with a list."""
    before = json.dumps({"ip": "a", "hold": HOLD, "acts": [act(50, "release")]})

    memory = ip_holds.FOLD.recall(before, InMemory())
    (answers,) = ip_holds.FOLD.step(memory, [], 50 * SECOND).answers

    assert (answers["held_us"], answers["until_us"], answers["ended_by"]) == (
        0,
        50 * SECOND,
        "released",
    )
    assert memory.text() is None


def test_connections_that_waited_are_corrected_by_acts_that_waited_and_by_new_ones() -> None:
    """The renewal of second 80 was known, the release of second 85 was not."""
    waited = [
        {
            "connection_id": f"c{second}",
            "dst_ip": "x",
            "dst_port": 1,
            "bytes_out": 1,
            "bytes_in": 1,
            "ip": "a",
            "at_us": second * SECOND,
            "device_id": "d",
        }
        for second in (84, 86, 100)
    ]
    before = json.dumps({"hold": HOLD, "acts": [act(80, "renew")], "connections": waited})
    fold = attributed_connections.FOLD
    release = {**dict.fromkeys(fold.reads), **act(85, "release"), "_partition": 0, "_offset": 85}

    memory = fold.recall(before, InMemory())
    answers = fold.step(memory, [release], 70 * SECOND).answers

    assert {each["connection_id"]: each["device_id"] for each in answers} == {
        "c86": "unknown",
        "c100": "unknown",
    }
