"""``strandline alerts`` as a program that is started, watched and stopped, and events for it."""

import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from subprocess import Popen

from fleet.bronze import process_events
from strandline.alerting.one_plan import alert_id
from strandline.alerting.tables import bronze
from strandline.engine.lake.place import Place
from tests.faults.lives import PATIENCE, running
from tests.support import lakes
from tests.support.feeds import DECODES, records, send, start

(TOPIC,) = bronze.TABLE.topics
(EVENTS,) = process_events.TABLE.topics


def log(lake: Place) -> Path:
    """Return the log of all lives."""
    return lakes.beside(lake, ".alerts.log")


@contextmanager
def raising(lake: Place, rules: Path) -> "Iterator[Popen[bytes]]":
    """Run ``strandline alerts`` and see that nothing of it is left at the end."""
    words = ("alerts", rules, "--from-beginning", "--every", "5s", "--json", "--lake", lake)
    with running(*words, log=log(lake)) as process:
        yield process


class Sent:
    """Events on their way, and the alerts that they must raise."""

    def __init__(self, address: str) -> None:
        """Send nothing yet."""
        self._address = address
        self._number = 0
        self.expected: set[str] = set()

    def some(self, count: int = 30) -> None:
        """Send events, of which each third raises an alert."""
        for _ in range(count):
            self._number += 1
            guid, now = f"g{self._number}", datetime.now(UTC)  # noqa: TID251  # an event that just happened
            fires = self._number % 3 == 0
            payload = start(guid, fires=fires, at=now)
            send(self._address, EVENTS, [payload], at=now, partition=self._number % 2)
            if fires:
                self.expected.add(alert_id(DECODES, {"ProcessGuid": guid, "UtcTime": now}))


def raised(address: str) -> Counter[str]:
    """Return how often the topic has each id."""
    return Counter((record.key() or b"").decode() for record in records(address, TOPIC))


def wait_for(address: str, ids: set[str], lake: Place, process: "Popen[bytes]") -> None:
    """Wait until the topic has all of some alerts."""
    deadline = time.monotonic() + PATIENCE
    while ids - raised(address).keys():
        assert process.poll() is None, log(lake).read_text()[-3000:]
        assert time.monotonic() < deadline, log(lake).read_text()[-3000:]
        time.sleep(0.1)
