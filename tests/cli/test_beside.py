"""What is typed beside a stream gives way to it: half of the cores, and a lower priority; without a stream it takes all."""

import os
from pathlib import Path
from unittest.mock import patch

import pytest

from strandline.engine.lake.lake import Lake
from strandline.engine.lake.place import Place
from strandline.engine.runtime import clock, processes, spark_session
from strandline.engine.runtime.settings import Settings
from strandline.engine.service.stream_health import write_beat
from strandline.operate import session


class StartedError(Exception):
    """Spark would be started."""


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    """Return a lake in which nothing is yet."""
    return Lake(Place.of(str(tmp_path)))


def asked(lake: Lake, cores: int, *, beside: bool = True) -> tuple[int, int, list[tuple[int, int]]]:
    """Ask for Spark; return the cores that it would have, how much it would give way, and the processes that did."""
    found = Settings(cores=cores, memory="1g", shuffle_partitions=2, master=None)
    gave: list[tuple[int, int]] = []
    with (
        patch.object(spark_session, "start", side_effect=StartedError) as start,
        patch.object(session, "let_give_way", lambda pid, nice: gave.append((pid, nice))),
        pytest.raises(StartedError),
    ):
        session.site(found, lake, None, says=lambda _: None, beside=beside)
    given, how = start.call_args
    return given[0].cores, how["nice"], gave


def live(lake: Lake, *, host: str | None = None, alive: bool = True) -> None:
    """Let a stream live in a lake: this process."""
    own = processes.own()
    at = clock.now().isoformat()
    beat = {**own, "host": host or own["host"], "alive": alive, "at": at, "tables": {}}
    write_beat(lake, lake.heartbeat, beat)


@pytest.mark.parametrize(("cores", "half"), [(1, 1), (2, 1), (3, 1), (8, 4)])
def test_beside_a_stream_half_of_the_cores_are_used(lake: Lake, cores: int, half: int) -> None:
    live(lake)

    assert asked(lake, cores) == (half, session.BESIDE, [(os.getpid(), session.BESIDE)])


def test_without_a_stream_all_are(lake: Lake) -> None:
    assert asked(lake, 2) == (2, 0, [])


def test_a_stream_that_has_ended_or_lives_elsewhere_needs_no_way(lake: Lake) -> None:
    live(lake, alive=False)
    assert asked(lake, 2) == (2, 0, [])

    live(lake, host="another")
    assert asked(lake, 2) == (2, 0, [])


def test_the_stream_itself_never_gives_way(lake: Lake) -> None:
    live(lake)

    assert asked(lake, 2, beside=False) == (2, 0, [])
