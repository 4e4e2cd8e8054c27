"""What ``status`` says of a stream that is ill: to a person in a sentence, to a program by its exit code."""

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path

import pytest

from strandline.core.errors import TransientError
from strandline.core.table import Table
from strandline.engine.lake.lake import Lake
from strandline.engine.runtime import clock
from strandline.engine.runtime.processes import own
from strandline.engine.runtime.settings import settings
from strandline.engine.service.background_stream import STARTING
from strandline.engine.service.stream_health import Act, Order, failing, order, watch, write_desired
from strandline.operate.stream import always
from tests.cli.inside import strandline
from tests.engine.written import BRONZE, GOLD, SILVER


def beats(
    lake: Lake, *, seconds_ago: int, alive: bool = True, of: Table = GOLD, **pulse: object
) -> None:
    """Write what a stream of this very process would, and that it should run."""
    at = clock.now() - timedelta(seconds=seconds_ago)
    write_desired(lake, Order(runs=True, at=at.isoformat(), by="on-call"))
    none = {"lag": None, "behind_rows": None, "falls": None, "at": None}
    tables = {of.id: {**none, **pulse}, SILVER.id: {**none, "gate": "the gate is shut"}}
    beat = {**own(), "alive": alive, "at": at.isoformat(timespec="seconds"), "tables": tables}
    lake.heartbeat.put(json.dumps(beat))


@pytest.mark.parametrize(
    ("seconds_ago", "state", "code"), [(1, "alive", 0), (1, "dead", 3), (72, "alive", 3)]
)
def test_a_stream_that_should_run_and_does_not_is_seen_by_the_exit_code(
    tmp_path: Path, seconds_ago: int, state: str, code: int
) -> None:
    """It was 0 for one that is dead, and no word was said of one that is silent."""
    beats(Lake(tmp_path), seconds_ago=seconds_ago, alive=state == "alive")

    done = strandline("status", "--lake", tmp_path)

    assert done.code == code
    assert code in {0, TransientError.exit_code}
    assert ("silent: no heartbeat for 7" in done.out) == (seconds_ago == 72)
    assert strandline("status", "--lake", tmp_path, "--json").code == code


def test_the_time_of_the_next_attempt_and_all_that_wait_are_named(tmp_path: Path) -> None:
    """``run it again`` was all that it said, for ten minutes after it was repaired."""
    lake = Lake(tmp_path)
    error = TransientError("no broker answers", hint="start it.")
    fifth = failing(error, GOLD, lake, before=None, at="2026-11-20T12:00:00+00:00")
    beats(lake, seconds_ago=1, failing={name: getattr(fifth, name) for name in fifth.__slots__})

    done = strandline("status", "--lake", tmp_path)

    assert "retried since 2026-11-20T12:00:00+00:00, tried again at 2026-11-20T12:00:05+00:00" in (
        done.out
    )
    assert f"{SILVER.id} waits: the gate is shut" in done.out


def test_a_batch_that_does_not_move_is_named(tmp_path: Path) -> None:
    beats(Lake(tmp_path), seconds_ago=1, running="batch 7", unmoved=75)

    assert f"{GOLD.id}: batch 7 has not moved for 75 s" in (
        strandline("status", "--lake", tmp_path).out
    )


def test_of_a_first_large_batch_of_bronze_it_is_not_said_that_it_has_not_moved(
    tmp_path: Path,
) -> None:
    """Its rows are counted when it commits; it moved, and was said not to beside *all is well*."""
    beats(Lake(tmp_path), seconds_ago=1, of=BRONZE, running="a batch", unmoved=75)

    found = strandline("status", "--lake", tmp_path).out

    assert "has not moved" not in found
    assert (
        f"{BRONZE.id}: a batch works, or waits for Spark, and has committed nothing for 75 s"
        in (found)
    )


def test_a_disk_that_is_nearly_full_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One gigabyte is much for a laptop and nothing for a lake of terabytes, so it is a share."""
    lake = Lake(tmp_path)
    (tmp_path / "anything").touch()
    beats(lake, seconds_ago=1)
    monkeypatch.setattr("strandline.engine.lake.lake.SHORT", 1.0)

    status = strandline("status", "--lake", tmp_path)
    doctor = strandline("doctor", "--lake", tmp_path, "--json")

    assert "disk    " in status.out
    assert doctor.code == 2
    assert "room" in {each["name"] for each in json.loads(doctor.out) if not each["ok"]}


@pytest.mark.parametrize(
    ("table", "remedy"),
    [(GOLD, f"`strandline rebuild {GOLD.id}`"), (BRONZE, "only a copy can replace it")],
)
def test_a_file_that_is_gone_has_a_remedy_that_is_not_refused(
    tmp_path: Path, table: Table, remedy: str
) -> None:
    """A rebuild was named for bronze as well, which refuses it."""
    beats(Lake(tmp_path), seconds_ago=1, of=table, broken="its file part-0 is gone, or was cut")

    done = strandline("status", "--lake", tmp_path)

    assert remedy in done.out
    assert (f"strandline rebuild {table.id}" in done.out) == (table == GOLD)


@pytest.mark.whole
def test_a_stream_that_starts_is_not_taken_for_a_dead_one(tmp_path: Path) -> None:
    """``status`` ended with 3 in the seconds from ``resume`` to the first heartbeat."""
    lake = Lake(tmp_path)
    write_desired(lake, Order(runs=True, at=clock.now().isoformat(), by="on-call"))
    assert strandline("status", "--lake", tmp_path).code == TransientError.exit_code
    with silent_process(lake):
        done = strandline("status", "--lake", tmp_path)

    assert done.code == 0
    assert "stream  starts" in done.out
    assert "well    yes" in done.out


@pytest.mark.parametrize("hangs", ["in its start", "in its end"])
def test_a_stream_that_hangs_starts_for_three_minutes_and_not_for_ever(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, hangs: str
) -> None:
    """``all is well; the stream runs`` was said for nine hours, with 0, and the watchdog waited as long."""
    lake = Lake(tmp_path)
    write_desired(lake, Order(runs=True, at=clock.now().isoformat(), by="on-call"))
    with silent_process(lake) as pid:
        if hangs == "in its end":
            beat = {
                **own(),
                "pid": pid,
                "alive": False,
                "at": clock.now().isoformat(),
                "tables": {},
            }
            lake.heartbeat.put(json.dumps(beat))
        later = clock.now() + timedelta(seconds=STARTING + 1)
        monkeypatch.setattr(clock, "now", lambda: later)

        done = strandline("status", "--lake", tmp_path)
        stream = always(settings(lake=str(tmp_path)), lake)
        found = watch(stream.order(), stream.heartbeat(), later, starting=stream.is_starting())

    assert done.code == TransientError.exit_code
    assert "well    no: the stream is not running" in done.out
    assert found.act is Act.RESTART


def test_a_stream_that_was_suspended_starts_though_its_order_is_old(tmp_path: Path) -> None:
    """No new order is given when a promotion lets it go on."""
    lake = Lake(tmp_path)
    write_desired(
        lake, Order(runs=True, at=(clock.now() - timedelta(hours=9)).isoformat(), by="on-call")
    )
    with silent_process(lake):
        done = strandline("status", "--lake", tmp_path)

    assert done.code == 0
    assert "stream  starts" in done.out


@pytest.mark.whole
@pytest.mark.parametrize(("minutes", "is_well"), [(4, False), (6, True)])
def test_a_stream_that_was_restarted_is_well_after_five_minutes_without_a_watchdog_too(
    tmp_path: Path, minutes: int, *, is_well: bool
) -> None:
    """It was said for nine days that it counts as well after five minutes: only a watchdog forgets attempts."""
    lake = Lake(tmp_path)
    beats(lake, seconds_ago=1)
    asked = order(lake)
    assert asked is not None
    write_desired(lake, asked.tried(clock.now() - timedelta(minutes=minutes)))

    done = strandline("status", "--lake", tmp_path)

    assert done.code == 0
    assert ("had died and was restarted" in done.out) == (not is_well)


@contextmanager
def silent_process(lake: Lake) -> Iterator[int]:
    """Have a process of a stream that writes no heartbeat for the length of the block."""
    words = ["-X", f"strandline-stream={lake.root}", "-c", "import time; time.sleep(600)"]
    with subprocess.Popen([sys.executable, *words]) as process:
        try:
            while always(settings(lake=str(lake.root)), lake).pid() is None:
                assert process.poll() is None
            yield process.pid
        finally:
            process.kill()


def test_a_lake_that_is_not_there_is_not_well(tmp_path: Path) -> None:
    """A mistyped name must not calm who is on call; and the question leaves no folder of that name behind."""
    done = strandline("status", "--lake", tmp_path / "lakke")

    assert done.code == 2
    assert f"there is no lake at {tmp_path}/lakke" in done.err
    assert list(tmp_path.iterdir()) == []
