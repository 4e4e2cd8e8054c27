"""A lake with something for every metric, each file as its owner writes it, and the page that Prometheus scrapes."""

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, replace
from datetime import datetime, timedelta
from pathlib import Path

from prometheus_client.parser import text_string_to_metric_families as families
from strandline import catalog

from strandline.alerting.courier import Books
from strandline.engine.accounting import gate_files
from strandline.engine.accounting.gate_files import Shut, Where
from strandline.engine.flow import publications as publish
from strandline.engine.flow import readers
from strandline.engine.flow.readers import Danger, Level
from strandline.engine.lake.lake import Lake
from strandline.engine.publish import catalogs
from strandline.engine.runtime.processes import own
from strandline.engine.service.feed_host import FeedPulse
from strandline.engine.service.metrics_page import LakeLook
from strandline.engine.service.stream_health import Failing, Order, write_desired
from strandline.engine.service.stream_host import Pulse
from tests.engine.written import BRONZE, GOLD, SILVER, entry, numbers, small_lake, written

FEED = "live.alerts"
ADDRESS = "https://127.0.0.1:8443"
"""A receiver, as people see it."""

HOLD = """
import fcntl, json, sys
from strandline.engine.runtime.processes import own
with open(sys.argv[1], "w") as file:
    fcntl.lockf(file, fcntl.LOCK_EX)
    file.write(json.dumps(own()))
    file.flush()
    print("held", flush=True)
    sys.stdin.read()
"""


def watched_lake(root: Path, now: datetime) -> Lake:
    """Make a lake in which a stream and its feeds run, one table waits at its gate and another fails."""
    lake, at = small_lake(root), now.isoformat(timespec="seconds")
    more = entry(
        BRONZE,
        batch=2,
        offsets={"0": (5, 9)},
        read=4,
        good=4,
        written=4,
        newest_arrival=(now - timedelta(seconds=90)).isoformat(),
        lost={},
        duration_ms=1_250,
    )
    written(lake.table(BRONZE), numbers(4), more.encoded())
    late = entry(
        SILVER,
        batch=1,
        watermark=(now - timedelta(minutes=30)).isoformat(),
        newest=(now - timedelta(minutes=10)).isoformat(),
    )
    written(lake.table(SILVER), [], late.encoded())
    pulses = [
        Pulse(table=BRONZE.id, lag=12, at=at),
        Pulse(table=SILVER.id, lag=4, gate="its gate is shut", state=77, at=at),
        Pulse(
            table=GOLD.id,
            failing=Failing(says="no", hint="look", kind="data", since=at, tries=6),
            at=at,
        ),
    ]
    _beat(lake, "heartbeat", at, {each.table: asdict(each) for each in pulses})
    feed = FeedPulse(feed=FEED, rules="f", epoch=3, read=40, written=2, lag=5, at=at)
    _beat(lake, "feeds_beat", at, {FEED: asdict(feed)})
    write_desired(lake, Order(runs=True, at=at, by="on-call", attempts=(at,)))
    shut = Shut(table=SILVER.id, where=Where.BEFORE, stream="s", batch=2, rows=4, at=at)
    gate_files.write(shut, SILVER, lake)
    goes = (now + timedelta(hours=6)).isoformat(timespec="seconds")
    danger = Danger(
        reader=BRONZE.id, source="t/0", unread=12, goes_at=goes, level=Level.URGENT, says="soon"
    )
    readers.keep(lake, [danger], now)
    books = Books(receiver=ADDRESS, read=9, delivered=6, notices=2, passed_over=1, lag=3, at=at)
    (lake.deliveries / "webhook-0.json").put(books.text())
    sent = publish.Books(
        table=SILVER.id,
        target="kafka:readings",
        place=publish.Position(version=0, read=9, refused=2),
        refused={"{}": {"id": "r", "version": 0, "why": "too large"}},
        away="no Kafka broker answers",
        at=at,
    )
    publish.file_of(lake, "readings").put(sent.text())
    shown = catalogs.Books(
        place="http://127.0.0.1:8181", at=at, tables={SILVER.id: catalogs.InCatalog(version=0)}
    )
    (lake.catalogs / "iceberg.json").put(json.dumps(asdict(shown)))
    (lake.alarms / "run.json").put("{}")
    return lake


@contextmanager
def lease_of_another(lake: Lake, name: str) -> Iterator[int]:
    """Have another process hold a table's lease for the length of the block, as a JVM does; yield its number."""
    path = lake.lease_of(name)
    path.parent.make()
    command = [sys.executable, "-c", HOLD, str(path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout
        assert process.stdin
        assert process.stdout.readline() == b"held\n"
        try:
            yield process.pid
        finally:
            process.stdin.close()
            process.wait()


def look(lake: Lake, now: datetime, failures: list[str] | None = None) -> LakeLook:
    """Return what a first look shows; silver promises an age there."""
    failed = failures if failures is not None else []
    promised = (
        replace(each, fresh="5 minutes") if each.id == SILVER.id else each
        for each in catalog.tables()
    )
    made = LakeLook([*promised], lake, lambda: now, failed.append)
    made.look()
    return made


def values(page: LakeLook) -> dict[tuple[str, ...], float]:
    """Return the samples of a page, by name and the values of the labels in the order of their names."""
    return {
        (sample.name, *(value for _, value in sorted(sample.labels.items()))): sample.value
        for family in families(page.text())
        for sample in family.samples
    }


def labels(text: str) -> dict[str, set[str]]:
    """Return the labels of each metric of a page's text that has a sample."""
    found: dict[str, set[str]] = {}
    for family in families(text):
        for sample in family.samples:
            found.setdefault(sample.name, set()).update(sample.labels)
    return found


def _beat(lake: Lake, which: str, at: str, tables: dict[str, object]) -> None:
    beat = {**own(), "alive": True, "at": at, "tables": tables, "failed": None}
    getattr(lake, which).put(json.dumps(beat))
