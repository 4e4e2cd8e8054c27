"""Threshold rules raise alerts live: once, with one id through a crash, and in a new version for later events alone."""

import json
import signal
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import psutil
import pytest

from fleet.bronze import process_events, user_actions
from strandline.alerting.live import feeds
from strandline.alerting.sigma import read_folder
from strandline.core.table import Feed
from strandline.engine.lake.lake import Lake
from strandline.engine.lake.place import Place
from strandline.engine.lake.spark_checkpoint import kafka_ends
from strandline.engine.runtime.processes import family
from tests.cli.inside import succeeded
from tests.faults.alerting import TOPIC, log, raised, raising
from tests.faults.lives import PATIENCE, kill
from tests.support.feeds import records, send, start

pytestmark = [
    pytest.mark.kafka,
    pytest.mark.slow,
    pytest.mark.timeout(1200),
    pytest.mark.prove(alone="a minute and a half"),
]

(ACTIONS,) = user_actions.TABLE.topics
(STARTS,) = process_events.TABLE.topics
SPAN = 600
RULES = """
title: A log-in fails
name: failed
id: 00000000-0000-4000-8000-000000000001
logsource: {{category: authentication}}
detection: {{a: {{Action: login_failed}}, condition: a}}
---
title: Log-ins of one user fail
id: 00000000-0000-4000-8000-000000000002
correlation:
    type: event_count
    rules: [failed]
    group-by: [User]
    timespan: 10m
    condition: {{gte: {number}}}
---
title: A program starts
name: started
id: 00000000-0000-4000-8000-000000000003
logsource: {{category: process_creation}}
detection: {{a: {{Image|endswith: certutil.exe}}, condition: a}}
---
title: A program starts where a log-in failed
id: 00000000-0000-4000-8000-000000000004
correlation:
    type: temporal_ordered
    rules: [failed, started]
    group-by: [where]
    timespan: 10m
    aliases: {{where: {{failed: device_id, started: Computer}}}}
"""
OFTEN, AFTER = (f"00000000-0000-4000-8000-00000000000{n}" for n in (2, 4))


def write(folder: Path, number: int) -> Path:
    """Write the rules at once, as an editor does."""
    folder.mkdir(exist_ok=True)
    draft = folder.parent / "draft"
    draft.write_text(RULES.format(number=number))
    return draft.replace(folder / "failed.yml")


class Events:
    """Failed log-ins on one device and a program there, all within the last timespan that is over."""

    def __init__(self, address: str) -> None:
        """Send nothing yet."""
        now = datetime.now(UTC)  # noqa: TID251  # events that have just happened
        self.begin = datetime.fromtimestamp(now.timestamp() // SPAN * SPAN - SPAN, UTC)
        self._address = address
        self.sent = 0

    def failures(self, *users: str) -> None:
        """Send a failed log-in of each user."""
        for user in users:
            at = self.begin + timedelta(seconds=self.sent)
            event = {"action_id": f"a{self.sent}", "user_id": user, "action": "login_failed"}
            payload = json.dumps(
                {**event, "device_id": "ws-1", "event_at": at.isoformat()}
            ).encode()
            send(self._address, ACTIONS, [payload], at=at, partition=0)
            self.sent += 1

    def program(self) -> None:
        """Send the start of a program."""
        at = self.begin + timedelta(seconds=self.sent)
        send(self._address, STARTS, [start("p", fires=True, at=at)], at=at, partition=0)


def wait(until: Callable[[], bool], lake: Path) -> float:
    """Wait for something, and return how many seconds that took."""
    began = time.monotonic()
    while not until():
        assert time.monotonic() < began + PATIENCE, log(lake).read_text()[-3000:]
        time.sleep(0.05)
    return time.monotonic() - began


def committed(lake: Lake, feed: Feed) -> int:
    """Return how many events the feed has read for good."""
    found = kafka_ends(lake.checkpoint(feed))
    return found[1][ACTIONS.name]["0"] if found else 0


def lose_the_last_commit(lake: Lake, feed: Feed) -> None:
    """Let the checkpoint be as a crash leaves it that comes after the topic has the alerts, and before the commit."""
    epoch, _ = kafka_ends(lake.checkpoint(feed)) or (0, {})
    (lake.checkpoint(feed) / "commits" / str(epoch)).local.unlink()


def test_an_alert_has_one_id_through_a_crash_and_a_new_version_counts_later_events(
    fresh: Place, address: str, tmp_path: Path
) -> None:
    rules = write(tmp_path / "rules", 3).parent
    both, feed = feeds(read_folder(rules).thresholds)
    lake, events = Lake(fresh), Events(address)

    with raising(fresh, rules) as process:
        events.failures("ann", "bob", "ann")
        wait(lambda: committed(lake, feed) == events.sent, fresh)
        assert not raised(address)
        events.failures("ann")
        wait(lambda: committed(lake, feed) == events.sent, fresh)
        (first,) = raised(address).items()
        victims = family(process.pid)
        for one in victims:
            kill(one)
        psutil.wait_procs(victims, timeout=60)
    lose_the_last_commit(lake, feed)
    with raising(fresh, rules) as process:
        wait(lambda: raised(address).total() > 1, fresh)
        again = raised(address)
        write(rules, 2)
        took = wait(lambda: "changed" in (lake.rule_changes.text() or ""), fresh)
        events.failures("ann", "cy", "cy")
        events.program()
        wait(lambda: len(raised(address)) == len((OFTEN, OFTEN, AFTER)), fresh)
        wait(lambda: committed(lake, feed) == events.sent, fresh)
        process.send_signal(signal.SIGTERM)
        assert process.wait(120) == 0, log(fresh).read_text()[-3000:]

    assert (first[1], again) == (1, {first[0]: 2})
    print(f"the change took {took:.1f} s")  # noqa: T201  # shown when the test fails
    found = [json.loads(record.value() or b"") for record in records(address, TOPIC)]
    old, _, new = [each for each in found if each["rule_id"] == OFTEN]
    (after,) = [each for each in found if each["rule_id"] == AFTER]
    assert old["rule_version"] != new["rule_version"]
    assert [json.loads(each["event"])["events"] for each in (old, new, after)] == [
        [f"{ACTIONS}/0/{offset}" for offset in (0, 2, 3)],
        [f"{ACTIONS}/0/{offset}" for offset in (5, 6)],
        [f"{ACTIONS}/0/6", f"{STARTS}/0/0"],
    ]
    succeeded("run", "bronze.alerts", "silver.alerts", "gold.alerts", "--lake", fresh)
    rows: Any = succeeded(
        "query", "SELECT alert_id FROM gold.alerts", "--lake", fresh, "--json"
    ).json
    assert sorted(row["alert_id"] for row in rows) == sorted(raised(address))
    sheets: Any = succeeded("ledger", "--lake", fresh, "--json").json
    by_table = {sheet["table"]: sheet for sheet in sheets}
    live = [by_table[each.id] for each in (feed, both)]
    assert [(each["read"], each["rows"], each["faults"]) for each in live] == [
        (events.sent, 3, []),
        (events.sent + 1, 1, []),
    ]
    assert by_table["silver.alerts"]["duplicates"] == 1
