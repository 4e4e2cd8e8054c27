"""Rules are added, changed, muted and removed under load: no event is unseen, and none is alerted on twice."""

import json
import random
import signal
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from strandline.alerting.rule_folder import MUTED
from strandline.engine.lake.lake import Lake
from strandline.engine.lake.place import Place
from tests.faults.alerting import EVENTS, TOPIC, log, raising
from tests.faults.lives import PATIENCE
from tests.support.feeds import records, send, start
from tests.support.proofs import Times

pytestmark = [pytest.mark.kafka, pytest.mark.slow, pytest.mark.timeout(1200)]

ALWAYS, ADDED, CHANGED, COUNTED = (f"00000000-0000-4000-8000-00000000000{n}" for n in range(4))
RULE = """
title: {id}
id: {id}
logsource: {{category: process_creation}}
detection: {{a: {{Image|endswith: {words}}}, condition: a}}
strandline:
    fires_on: [{{Image: 'C:\\certutil.exe'}}]
    quiet_on: [{{Image: 'C:\\cmd.exe'}}]
"""


COUNT = """
title: A program starts
name: started
logsource: {{category: process_creation}}
detection: {{a: {{Image|endswith: certutil.exe}}, condition: a}}
---
title: {id}
id: {id}
correlation:
    type: event_count
    rules: [started]
    group-by: [Computer]
    timespan: 10m
    condition: {{gte: {number}}}
"""


def write(folder: Path, name: str, words: str = "certutil.exe") -> None:
    """Write a rule at once, as an editor does; other words make another version."""
    draft = folder.parent / "draft"
    draft.write_text(RULE.format(id=name, words=words))
    draft.replace(folder / f"{name}.yml")


def write_count(folder: Path, number: int) -> None:
    """Write a rule that counts; another number makes another version."""
    draft = folder.parent / "draft"
    draft.write_text(COUNT.format(id=COUNTED, number=number))
    draft.replace(folder / f"{COUNTED}.yml")


class Load(threading.Thread):
    """Sends an event every few milliseconds, to one partition and the other, on which every rule fires."""

    def __init__(self, address: str) -> None:
        """Send nothing yet."""
        super().__init__(daemon=True)
        self._address = address
        self._end = threading.Event()
        self.sent = 0

    def run(self) -> None:
        """Send until it is stopped."""
        while not self._end.wait(0.02):
            now = datetime.now(UTC)  # noqa: TID251  # an event that just happened
            payload = start(f"g{self.sent}", fires=True, at=now)
            send(self._address, EVENTS, [payload], at=now, partition=self.sent % 2)
            self.sent += 1

    def stop(self) -> None:
        """Stop sending."""
        self._end.set()
        self.join()


@contextmanager
def load(address: str) -> Iterator[Load]:
    found = Load(address)
    found.start()
    try:
        yield found
    finally:
        found.stop()


def alerts(address: str) -> list[dict[str, Any]]:
    return [json.loads(record.value() or b"") for record in records(address, TOPIC)]


def changes(lake: Path) -> list[dict[str, Any]]:
    """Return what was recorded about the rules."""
    text = Lake(lake).rule_changes.text() or ""
    return [json.loads(line) for line in text.splitlines()]


def wait(until: Callable[[], bool], lake: Path) -> float:
    """Wait for something, and return how many seconds that took."""
    began = time.monotonic()
    while not until():
        assert time.monotonic() < began + PATIENCE, log(lake).read_text()[-3000:]
        time.sleep(0.1)
    return time.monotonic() - began


@pytest.mark.prove(alone="half a minute")
def test_each_event_meets_the_rules_of_its_offset_and_each_rule_once(
    fresh: Place, address: str, tmp_path: Path, times: Times
) -> None:
    """Every change is live within ten seconds; the short form only prints how long that took, on a machine that is shared."""
    rules = tmp_path / "rules"
    rules.mkdir()
    write(rules, ALWAYS)
    write(rules, CHANGED)
    limit = 10 if times(0, 1) else PATIENCE
    took: dict[str, float] = {}

    def is_recorded(kind: str) -> bool:
        return any(kind in line for line in changes(fresh))

    def is_raised(name: str, version: str) -> bool:
        return any(a["rule_id"] == name and a["rule_version"] != version for a in alerts(address))

    with raising(fresh, rules) as process, load(address) as sending:
        wait(lambda: bool(alerts(address)), fresh)
        write(rules, ADDED)
        took["added"] = wait(lambda: is_raised(ADDED, ""), fresh)
        before = next(a["rule_version"] for a in alerts(address) if a["rule_id"] == CHANGED)
        write(rules, CHANGED, words="'util.exe'")
        took["changed"] = wait(lambda: is_raised(CHANGED, before), fresh)
        write(rules, ALWAYS, words="[")  # it cannot be read, so what runs goes on
        (rules / MUTED).write_text(f"{ADDED}  # noise\n")
        took["muted"] = wait(lambda: is_recorded("muted"), fresh)
        (rules / f"{CHANGED}.yml").unlink()
        took["removed"] = wait(lambda: is_recorded("removed"), fresh)
        time.sleep(random.SystemRandom().uniform(0, 1))
        sending.stop()
        wait(lambda: len({a["event_key"] for a in alerts(address)}) == sending.sent, fresh)
        process.send_signal(signal.SIGTERM)
        assert process.wait(120) == 0, log(fresh).read_text()[-3000:]

    print(took)  # noqa: T201  # shown when the test fails
    assert max(took.values()) <= limit, took
    by_rule = _by_rule(alerts(address))
    lines = {kind: line for line in changes(fresh) for kind in line if kind in took}
    everything = {(p, n) for p in (0, 1) for n in range(-(-(sending.sent - p) // 2))}
    assert by_rule[ALWAYS] == everything
    assert by_rule[ADDED] == _from(lines["added"], everything) - _from(lines["muted"], everything)
    assert by_rule[CHANGED] == everything - _from(lines["removed"], everything)
    assert all(line["by"] and line["at"] for line in lines.values())


@pytest.mark.prove(alone="a minute")
def test_a_rule_that_counts_is_switched_within_ten_seconds(
    fresh: Place, address: str, tmp_path: Path
) -> None:
    """It begins to count anew, and each version raises its alert once a window."""
    rules = tmp_path / "rules"
    rules.mkdir()
    write_count(rules, 3)
    took: dict[str, float] = {}

    def versions() -> set[str]:
        return {each["rule_version"] for each in alerts(address)}

    def recorded(kind: str) -> float:
        return wait(lambda: any(kind in line for line in changes(fresh)), fresh)

    with raising(fresh, rules) as process, load(address):
        wait(lambda: bool(versions()), fresh)
        write_count(rules, 5)
        took["changed"] = wait(lambda: len(versions()) > 1, fresh)
        (rules / MUTED).write_text(f"{COUNTED}  # noise\n")
        took["muted"] = recorded("muted")
        (rules / f"{COUNTED}.yml").unlink()
        took["removed"] = recorded("removed")
        process.send_signal(signal.SIGTERM)
        assert process.wait(120) == 0, log(fresh).read_text()[-3000:]

    print(took)  # noqa: T201  # shown when the test fails
    assert max(took.values()) <= 10, took
    found = [(a["rule_version"], json.dumps(a["event"]), a["alert_id"]) for a in alerts(address)]
    assert len({each[2] for each in found}) == len(found)
    assert len(found) in range(2, 5), "two versions, in one window or in the two around its end"


@pytest.mark.prove(alone="a minute")
def test_a_rule_that_is_changed_while_the_process_is_down_raises_nothing_twice(
    fresh: Place, address: str, tmp_path: Path
) -> None:
    """A start judges again what came after the last checkpoint: here once after a stop, and once after ``kill -9``."""
    rules = tmp_path / "rules"
    rules.mkdir()
    write(rules, ALWAYS)
    write(rules, CHANGED)

    def alerted(count: int) -> None:
        wait(lambda: len({(a["rule_id"], a["event_key"]) for a in alerts(address)}) == count, fresh)

    with raising(fresh, rules) as process:
        _sent(address, range(10))
        alerted(20)
        process.send_signal(signal.SIGTERM)
        assert process.wait(120) == 0, log(fresh).read_text()[-3000:]
    write(rules, CHANGED, words="'util.exe'")
    _sent(address, range(10, 20))
    with raising(fresh, rules):
        alerted(40)  # and then it is killed
    write(rules, CHANGED, words="'til.exe'")
    with raising(fresh, rules):
        wait(lambda: len(changes(fresh)) == 2, fresh)
        _sent(address, range(20, 30))
        alerted(60)

    found = alerts(address)
    everything = {(number % 2, number // 2) for number in range(30)}
    assert _by_rule(found) == {ALWAYS: everything, CHANGED: everything}
    versions = {
        (a["event_partition"], a["event_offset"]): a["rule_version"]
        for a in found
        if a["rule_id"] == CHANGED
    }
    third = [{versions[n % 2, n // 2] for n in range(start, start + 10)} for start in (0, 10, 20)]
    assert [len(each) for each in third] == [1, 1, 1]
    assert len(set.union(*third)) == 3


def _sent(address: str, numbers: range) -> None:
    """Send events on which every rule fires, to one partition and the other."""
    for number in numbers:
        now = datetime.now(UTC)  # noqa: TID251  # an event that just happened
        payload = start(f"g{number}", fires=True, at=now)
        send(address, EVENTS, [payload], at=now, partition=number % 2)


def _by_rule(found: list[dict[str, Any]]) -> dict[str, set[tuple[int, int]]]:
    """Return the events that each rule has alerted on, having seen that each has one id, in one version."""
    ids = defaultdict(set)
    for each in found:
        ids[each["rule_id"], each["event_partition"], each["event_offset"]].add(each["alert_id"])
    assert {name: found for name, found in ids.items() if len(found) > 1} == {}
    events = defaultdict(set)
    for rule, partition, offset in ids:
        events[rule].add((partition, offset))
    return events


def _from(line: dict[str, Any], everything: set[tuple[int, int]]) -> set[tuple[int, int]]:
    """Return the events from the offsets on at which a change begins."""
    (since,) = line["since"].values()
    return {(p, n) for p, n in everything if n >= since[f"{EVENTS}/{p}"]}
