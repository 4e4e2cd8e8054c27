"""A version is promoted, and rolled back, while the stream and the alert feed run: from its moment on it scores everywhere.

Neither is restarted. The versions score every connection alike, each with a number of its own, so that the score names
the version that has judged a row or an alert.
"""

import json
import signal
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import count
from pathlib import Path
from subprocess import Popen

import pytest
from confluent_kafka import Producer

from fleet.models.unusual_traffic import MODEL
from strandline.core.model import Linear, as_words
from strandline.engine.lake import shelves
from strandline.engine.lake.lake import Lake
from tests.cli.typed import start, strandline, succeeded
from tests.support.scored import ALERTS, RAISED, TABLES, asked

BEGAN = datetime.now(UTC)  # noqa: TID251  # events of now, which alone a feed believes
FIRST, SECOND = "aaaa00000000", "bbbb00000000"
SCORES = {FIRST: "1.000000", SECOND: "2.000000"}

AHEAD = timedelta(minutes=4, seconds=55)
"""How far the newest events are ahead of the clock; five minutes are believed."""

PATIENCE = 120

SCORED = "SELECT connection_id AS id, model_version AS version, score FROM gold.traffic_scores"

pytestmark = [
    pytest.mark.kafka,
    pytest.mark.slow,
    pytest.mark.timeout(900),
    pytest.mark.prove(alone="four minutes"),
]


@pytest.fixture
def lake(tmp_path: Path) -> Iterator[Lake]:
    """Return a lake with a broker and two versions, of which the first scores every row so far."""
    lake = Lake(tmp_path / "lake")
    for version, score in SCORES.items():
        _keep(lake, version, score)
    succeeded("up", "--lake", lake.root)
    _decided(lake, "promote", MODEL.name, FIRST, "--from", BEGAN - timedelta(days=1))
    yield lake
    strandline("down", "--lake", lake.root)


@dataclass
class Sender:
    """Sends connections, a few of each moment: of the last half hour, and as far ahead as is believed."""

    producer: Producer
    sent: dict[str, datetime] = field(default_factory=dict)
    numbers: Iterator[int] = field(default_factory=count)

    def send(self) -> None:
        """Send six connections."""
        now = _now()
        for each in (-1800, -60, 0, 120, 240, AHEAD.seconds):
            at, id_ = now + timedelta(seconds=each), f"c{next(self.numbers)}"
            self.sent[id_] = at.replace(microsecond=at.microsecond // 1000 * 1000)
            words = {"src_ip": "10.20.0.1", "dst_ip": "203.0.113.1", "dst_port": 22}
            words |= {"bytes_out": 9_000, "bytes_in": 100}
            text = {"connection_id": id_, **words, "event_at": self.sent[id_].isoformat()}
            self.producer.produce("network-connections", json.dumps(text).encode())
        self.producer.flush(20)


def _keep(lake: Lake, version: str, score: str) -> None:
    features = MODEL.features
    form = as_words(Linear(intercept=score, weights=("0",) * len(features)))
    metrics = {"rows": 900, "flagged": 0.02, "positives": 20, "precision": 0.9, "recall": 0.7}
    certificate = {"metrics": {**metrics, "f1": 0.8}, "label": MODEL.label, "at": version}
    words = {
        "version": version,
        "features": [{"name": each.name, "sql": each.exact} for each in features],
        "form": form,
        "threshold": "0",
        "certificate": certificate | {"distributions": {}},
    }
    shelves.keep(lake, MODEL.name, version, words)


def _now() -> datetime:
    return datetime.now(UTC)  # noqa: TID251  # as above


def _decided(lake: Lake, *words: object) -> datetime:
    """Promote or roll back, and return the moment from which on that holds."""
    texts = [each.isoformat() if isinstance(each, datetime) else each for each in words]
    found = succeeded("models", *texts, "--json", "--lake", lake.root).json
    assert isinstance(found, dict)
    return datetime.fromisoformat(found["from"])


def _ended(running: Popen[bytes]) -> None:
    running.send_signal(signal.SIGTERM)
    running.wait(90)


def test_running_stream_and_feed_score_by_a_promoted_version_from_its_moment_on(
    lake: Lake, tmp_path: Path
) -> None:
    address = json.loads(succeeded("up", "--json", "--lake", lake.root).out)["address"]
    sender = Sender(Producer({"bootstrap.servers": address, "log_level": 0}))
    sender.send()
    words = ("--json", "--lake", lake.root)
    logs = {name: tmp_path / f"{name}.log" for name in ("stream", "alerts")}
    streaming = start("stream", *TABLES, "--every", "1s", *words, log=logs["stream"])
    raising = start("alerts", "--from-beginning", "--every", "10s", *words, log=logs["alerts"])
    try:
        _wait_for_reading(lake, sender)
        since = _decided(lake, "promote", MODEL.name, SECOND)
        back = _decided(lake, "rollback", MODEL.name, "--from", since + timedelta(seconds=40))
        while _now() + AHEAD < back + timedelta(seconds=15):
            sender.send()
            time.sleep(0.5)
    finally:
        _ended(streaming)
        _ended(raising)
    succeeded("run", *TABLES, *ALERTS, "--lake", lake.root)

    by_time = {id_: SECOND if since <= at < back else FIRST for id_, at in sender.sent.items()}
    expected = sorted((id_, version, SCORES[version]) for id_, version in by_time.items())
    assert list(by_time.values()).count(SECOND) > 50
    assert sorted(asked(lake, SCORED)) == expected
    assert sorted(asked(lake, RAISED)) == expected
    assert {name: path.read_text().count('"started"') for name, path in logs.items()} == {
        "stream": 1,
        "alerts": 1,
    }


def _wait_for_reading(lake: Lake, sender: Sender) -> None:
    """Wait until the feed of the model has read, and the table has rows; more is sent meanwhile."""
    name, deadline = f"live.{MODEL.name}", time.monotonic() + PATIENCE
    while True:
        sender.send()
        text = lake.feeds_beat.text()
        feeds = json.loads(text)["tables"] if text else {}
        if feeds.get(name, {}).get("read", 0) and lake.table(MODEL.of).exists():
            return
        assert time.monotonic() < deadline, text
        time.sleep(1)
