"""A replay, and a backfill, that is killed with ``kill -9`` at a random instant: the ledger names it, and the next one finishes it; moments before and after stay whole."""

import json
import random
import time
from collections.abc import Callable
from pathlib import Path
from subprocess import Popen
from typing import Any

import psutil
import pytest
from pyspark.sql import SparkSession
from strandline import catalog

from fleet.gold import device_signal_10m as gold
from fleet.silver import device_telemetry as silver
from strandline.engine.accounting.held_records import unfinished, unfollowed
from strandline.engine.ask.find_moment import Finder
from strandline.engine.ask.moments import note
from strandline.engine.lake.import_notes import backfills_to_follow
from strandline.engine.lake.lake import Lake
from strandline.engine.lake.log.ledger import latest_version
from strandline.engine.runtime.processes import family
from tests.cli.inside import strandline, succeeded
from tests.cli.typed import start
from tests.faults.disk.operations import DAY, SILVER
from tests.faults.lives import kill
from tests.support.mistaken import computed_anew, is_same, mistaken

pytestmark = [
    pytest.mark.core,
    pytest.mark.slow,
    pytest.mark.prove(alone="two minutes"),
    pytest.mark.timeout(600),
]

REPLAY = ("quarantine", "replay", silver.TABLE.id)
PATIENCE = 200
COUNTS = f"SELECT (SELECT count(*) FROM {silver.TABLE.id}) AS s, (SELECT count(*) FROM quarantine.{silver.TABLE.name}) AS q"  # noqa: S608  # our own names


def counted(lake: Lake, end: str) -> dict[str, int]:
    """Return how many rows silver and its quarantine have at a moment."""
    answer: Any = succeeded("query", f"{COUNTS} {end}", "--json", "--lake", lake.root).json
    return dict(answer[0])


def test_a_replay_that_was_killed_is_finished_by_the_next(
    spark: SparkSession, lake: Lake, tmp_path: Path
) -> None:
    """Python and its JVM, a little after the first commit; once silver has it, the rest may be missing."""
    mistaken(spark, lake)
    before = note(lake, catalog.tables(), "a test")
    assert before is not None
    then = counted(lake, f"AT MOMENT {before.number}")
    seed = random.SystemRandom().randrange(10**6)
    chance = random.Random(seed)  # noqa: S311  # a moment, no secret
    pause = chance.choice([0, 0.2, 0.5, 1, 2])
    with start(*REPLAY, "--lake", lake.root, log=tmp_path / "replay.log") as process:
        waited_for_its_first_commit(lake, process, tmp_path / "replay.log")
        time.sleep(pause)
        victims = family(process.pid)
        for one in victims:
            kill(one)
        psutil.wait_procs(victims, timeout=60)
    print(f"seed {seed}: killed {pause} s after the first commit")  # noqa: T201  # shown when the test fails

    answer = strandline("ledger", "--lake", lake.root)
    assert answer.code == 0 or "quarantine replay" in answer.err, answer.printed
    assert counted(lake, f"AT MOMENT {before.number}") == then
    found = Finder(lake).find(catalog.tables())
    if unfinished(silver.TABLE, lake) or unfollowed(silver.TABLE, lake):
        assert found is None or silver.TABLE.id in found.behind
    succeeded(*REPLAY, "--lake", lake.root)
    after = note(lake, catalog.tables(), "a test")
    assert after is not None
    assert silver.TABLE.id in after.ids
    now = counted(lake, f"AT MOMENT {after.number}")
    assert now == counted(lake, "")
    assert now["s"] > then["s"]
    assert counted(lake, f"AT MOMENT {before.number}") == then

    succeeded("ledger", "--lake", lake.root)
    assert is_same(lake, computed_anew(spark, lake))
    answer: Any = succeeded("quarantine", "list", "--lake", lake.root, "--json").json
    assert {pile["reason"]: pile["open"] for pile in answer} == {
        "late": 1,
        "malformed": 1,
        "missing:signal": 1,
    }


def waited_for_its_first_commit(lake: Lake, process: "Popen[bytes]", log: Path) -> None:
    """Wait until a replay has committed which rows are released; version 0 only makes the table."""
    waited(process, log, lambda: latest_version(lake.resolutions(silver.TABLE)) >= 1)


def waited(process: "Popen[bytes]", log: Path, until: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE
    while not until():
        assert process.poll() is None, log.read_text()[-3000:]
        assert time.monotonic() < deadline, log.read_text()[-3000:]
        time.sleep(0.01)


@pytest.mark.whole
def test_a_backfill_that_was_killed_between_two_tables_leaves_those_above_in_no_moment(
    spark: SparkSession, lake: Lake, tmp_path: Path
) -> None:
    """They have the rows of before; a moment of before is whole, and the same again ends it."""
    mistaken(spark, lake)
    before = note(lake, catalog.tables(), "a test")
    assert before is not None
    table, above = lake.table(silver.TABLE), lake.table(gold.TABLE)
    since, was = latest_version(table), latest_version(above)
    then = counted(lake, "AT MOMENT 1")
    words = ("backfill", SILVER, *DAY, "--downstream", "--lake", lake.root)
    with start(*words, log=tmp_path / "backfill.log") as process:
        waited(process, tmp_path / "backfill.log", lambda: latest_version(table) > since)
        victims = family(process.pid)
        for one in victims:
            kill(one)
        psutil.wait_procs(victims, timeout=60)

    assert latest_version(above) == was, "it was killed too late"
    found = Finder(lake).find(catalog.tables())
    assert found is not None
    assert found.behind == {
        gold.TABLE.id: f"a backfill of {SILVER} was interrupted before it was computed again"
    }
    assert SILVER in found.versions
    assert counted(lake, "AT MOMENT 1") == then
    succeeded(*words)
    assert backfills_to_follow(lake) == []
    (newest, *_) = json.loads(succeeded("moments", "--json", "--lake", lake.root).out)
    assert (newest["by"], newest["behind"]) == ("backfill", {})
    assert newest["versions"][SILVER] > before.versions[SILVER]
