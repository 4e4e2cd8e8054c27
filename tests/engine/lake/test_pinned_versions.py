"""What the dead have pinned holds nothing; what the living have pinned is renewed, and says for whom and since when."""

import json
import os
import time
from pathlib import Path

import pytest

from strandline.core.errors import DefinitionError, TransientError
from strandline.engine.lake import open_table
from strandline.engine.lake.lake import Lake
from strandline.engine.lake.open_table import (
    EXPIRES,
    FOLDER,
    UNRENEWED,
    pin_versions,
    pins,
)
from strandline.engine.repair.expire import refuse_needed
from strandline.engine.runtime.processes import own
from tests.cli.inside import strandline
from tests.engine.written import small_lake

GONE = {"pid": 7, "host": "stream-6f9c-gone", "started": 1.0}
NAMED = {"bronze.device_telemetry": 2}


def pinned(lake: Lake, age: float, **more: object) -> Path:
    """Leave the pin of a pod of another host, which wrote it so many seconds ago."""
    pin = lake.root / FOLDER / "abc.json"
    pin.put(json.dumps({"holder": GONE, "versions": NAMED, **more}))
    then = time.time() - age
    os.utime(pin.local, (then, then))
    return pin.local


@pytest.mark.whole
@pytest.mark.parametrize(
    ("age", "more", "holds"),
    [
        (0, {"renewed": True}, True),
        (EXPIRES - 60, {"renewed": True}, True),
        (EXPIRES + 60, {"renewed": True}, False),
        (EXPIRES + 60, {}, True),  # of an older version, which renews none
        (UNRENEWED + 60, {}, False),
        (-120, {"renewed": True}, True),  # its clock is ahead of ours
    ],
)
def test_a_pin_of_a_pod_that_is_gone_holds_for_a_while(
    tmp_path: Path,
    age: float,
    more: dict[str, object],
    holds: bool,  # noqa: FBT001  # a row of a table
) -> None:
    """Whether it runs cannot be seen from here; it held for 3,650 days."""
    lake = Lake(tmp_path)
    pin = pinned(lake, age, **more)

    assert open_table.pinned_versions(lake.root) == (NAMED if holds else {})
    assert pin.exists() is holds


def test_a_scrub_waits_for_the_living_by_name_and_not_for_the_dead(tmp_path: Path) -> None:
    """The refusal says which process, where, and since when."""
    lake = Lake(tmp_path)
    pin = pinned(lake, 0, renewed=True, since="2026-11-20T09:00:00+00:00")

    with pytest.raises(
        TransientError, match=r"process 7 on stream-6f9c-gone, since 2026-11-20T09:00"
    ) as waits:
        refuse_needed(lake, {"bronze.device_telemetry": 2})
    assert "bronze.device_telemetry from version 2 on" in waits.value.message

    os.utime(pin, (1, 1))
    refuse_needed(lake, {"bronze.device_telemetry": 2})


def test_a_pin_is_renewed_as_long_as_its_block_lasts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As long as it lasts, and not a moment longer."""
    monkeypatch.setattr(open_table, "RENEWED", 0.01)
    lake = Lake(tmp_path)
    folder = tmp_path / FOLDER

    with pin_versions(lake.root, {lake.root / "bronze" / "device_telemetry": 2}):
        (pin,) = folder.glob("[!.]*.json")
        os.utime(pin, (1, 1))
        deadline = time.monotonic() + 60
        while pin.stat().st_mtime == 1 and time.monotonic() < deadline:
            time.sleep(0.01)
        assert pin.stat().st_mtime > 1
        (found,) = pins(lake.root)
        assert (found.who.startswith(f"process {own()['pid']} on "), found.versions) == (
            True,
            NAMED,
        )

    assert [*folder.iterdir()] == []


def test_a_person_who_knows_that_a_machine_is_gone_need_not_wait(tmp_path: Path) -> None:
    lake = small_lake(tmp_path)
    pin = pinned(lake, 0, renewed=True)
    words = ("maintain", "--lake", lake.root)

    held = strandline(*words, "--gone", "another")
    assert "what process 7 on stream-6f9c-gone verifies stays: bronze.device_telemetry" in held.err
    assert "nothing of another is pinned" in held.err
    asked = strandline(*words, "--gone", "stream-6f9c-gone", "--dry-run")
    assert "would be let go: what process 7 on stream-6f9c-gone holds" in asked.err
    assert pin.exists()
    assert strandline(*words, "--gone", own()["host"]).code == DefinitionError.exit_code

    freed = strandline(*words, "--gone", "stream-6f9c-gone")
    assert "let go: what process 7 on stream-6f9c-gone held" in freed.err
    assert not pin.exists()
