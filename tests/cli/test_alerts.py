"""``strandline alerts`` refuses what cannot run before it starts Spark, and its books are shown with the others."""

import json
import re
import threading
from dataclasses import replace
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from fleet.bronze import process_events
from strandline.core.stateful import RealTime
from strandline.engine.flow.runner import Site
from strandline.engine.lake.lake import Lake
from strandline.engine.runtime import clock
from strandline.engine.runtime.processes import own
from strandline.engine.service.feed_host import FeedHost
from strandline.engine.service.stream_health import Order, write_desired
from strandline.operate.alerts.raising import LiveRules
from tests.cli.inside import strandline, succeeded
from tests.engine.written import entry, small_lake, written
from tests.support.logged import Logged
from tests.support.rows import NOON


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (("{empty}",), "no rule of"),
        (("{empty}/none",), "there is no folder"),
        (("--every", "soon"), "no length of time"),
        (("--mode", "batch"), "Invalid value"),
        ((), "no broker runs"),
    ],
)
def test_what_cannot_run_is_refused_at_once(
    tmp_path: Path, words: tuple[str, ...], reason: str
) -> None:
    """Spark takes seconds to start; a mistake is shown before."""
    given = [word.format(empty=tmp_path) for word in words]

    answer = strandline("alerts", *given, "--lake", tmp_path / "lake")

    assert answer.code == 2, answer.printed
    assert reason in answer.err
    assert not Lake(tmp_path / "lake").feeds_beat.exists()


def test_the_ledger_shows_a_feed_by_its_name_and_beside_the_tables(tmp_path: Path) -> None:
    """It is no table, so no catalog knows it; and its faults end the command as those of a table do."""
    lake = small_lake(tmp_path)
    path = lake.root / "live" / "process_events"
    fields = {
        "source": "process-events",
        "offsets": {"process-events/0": (0, 4)},
        "read": 4,
        "good": 4,
    }
    one = replace(entry(process_events.TABLE, **fields, written=1), table="live.process_events")
    written(path, [], one.encoded())

    alone = succeeded("ledger", "live.process_events", "--lake", tmp_path, "--json").json
    together = succeeded("ledger", "--lake", tmp_path, "--json").json

    (sheet,) = alone
    assert (sheet["table"], sheet["read"], sheet["rows"]) == ("live.process_events", 4, 1)
    assert sheet in together
    assert len(together) == 4

    written(path, [], one.encoded())
    answer = strandline("ledger", "live.process_events", "--lake", tmp_path)
    assert answer.code == 4
    assert "live.process_events: epoch 0 read process-events/0 from offset 0" in answer.err


def test_the_status_of_a_process_that_is_gone_is_not_running(tmp_path: Path) -> None:
    """Its heartbeat is a file, and says that it lives."""
    lake = small_lake(tmp_path)
    beat = {**own(), "pid": 2**22 + 1, "alive": True, "at": NOON.isoformat(), "mode": "real-time"}
    lake.feeds_beat.put(json.dumps({**beat, "tables": {}, "failed": None}))

    answer = succeeded("status", "--lake", tmp_path)

    assert f"alerts  not running; last heartbeat at {NOON.isoformat()}" in answer.out


def test_the_status_has_what_was_asked_of_the_process(tmp_path: Path) -> None:
    """A process that was stopped and one that died look the same otherwise."""
    lake = small_lake(tmp_path)
    write_desired(lake, Order(runs=True, at=NOON.isoformat(), by="mo"), lake.alerts_order)

    asked = succeeded("status", "--lake", tmp_path).out
    paused = succeeded("alerts", "--pause", "--lake", tmp_path).out

    assert f"should run, by order of mo since {NOON.isoformat()}" in asked
    assert "no process in the background raised alerts" in paused
    assert "should be paused" in succeeded("status", "--lake", tmp_path).out


GOOD = """
title: {title}
id: 00000000-0000-4000-8000-00000000000{number}
logsource: {{category: process_creation}}
detection: {{a: {{CommandLine|re: '{pattern}'}}, condition: a}}
"""


def test_the_status_names_the_rule_files_that_do_not_run(
    spark: SparkSession, tmp_path: Path
) -> None:
    """One that an earlier version ran is refused alone; the others raise alerts, and only the log had it."""
    lake = small_lake(tmp_path / "lake")
    folder = tmp_path / "rules"
    folder.mkdir()
    (folder / "good.yml").write_text(GOOD.format(title="good", number=1, pattern="evil.*exe"))
    (folder / "old.yml").write_text(GOOD.format(title="old", number=2, pattern="evil(?!x)"))
    rules = LiveRules(lambda: folder, lake, spark, Logged())
    feeds = rules.feeds()
    stop, said = threading.Event(), list[str]()

    def look(_: FeedHost) -> None:
        said.append(succeeded("status", "--lake", tmp_path / "lake").out)
        stop.set()

    site = Site(spark=spark, clock=clock.now)
    FeedHost([], RealTime(every=1.0), lake, site, stop, refused=rules.refused).serve(look)

    assert len(feeds) == 1
    assert re.search(r"the rule old\.yml does not run: .*evil\(\?!x\)", said[0])
    assert "good.yml" not in said[0]
