"""Alerts as records of Kafka, a clock, and a receiver of notices: a real server on loopback that refuses some of them."""

import json
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from confluent_kafka import Producer

from tests.support.rows import NOON


def alert(number: int, rule: str = "r", **fields: object) -> dict[str, Any]:
    """Return the payload of an alert; the numbers are seconds of event time."""
    return {
        "alert_id": f"{rule}-{number}",
        "rule_id": rule,
        "rule_version": "v1",
        "rule_severity": "high",
        "event_table": "silver.process_events",
        "event_key": json.dumps({"ProcessGuid": f"g{number}"}),
        "event_at": (NOON + timedelta(seconds=number)).isoformat(),
        "event": json.dumps({"CommandLine": "[text, 5 to 8 long]"}),
        "event_topic": "process-events",
        "event_partition": 0,
        "event_offset": number,
        **fields,
    }


def send(
    address: str,
    topic: str,
    alerts: Iterable[dict[str, Any] | bytes],
    partition: int = 0,
    raised_at: datetime | None = None,
) -> None:
    """Send alerts, each raised with its event unless it is said when, and records that are none."""
    producer = Producer({"bootstrap.servers": address, "log_level": 0, "linger.ms": 5})
    for number, each in enumerate(alerts):
        payload = each if isinstance(each, bytes) else json.dumps(each).encode()
        key = None if isinstance(each, bytes) else str(each.get("alert_id"))
        producer.produce(
            topic, payload, key, partition=partition, timestamp=_raised_at(each, raised_at)
        )
        if number % 10_000 == 9_999:
            producer.flush(20)
    assert producer.flush(20) == 0


def _raised_at(alert: dict[str, Any] | bytes, said: datetime | None) -> int:
    """Return the time of a record in milliseconds."""
    own = alert.get("event_at") if isinstance(alert, dict) else None
    try:
        moment = said or datetime.fromisoformat(str(own))
    except ValueError:
        moment = NOON
    return int(moment.replace(tzinfo=moment.tzinfo or UTC).timestamp() * 1000)


class Hands:
    """A clock that advances when a test says so."""

    def __init__(self) -> None:
        """Begin at noon."""
        self.now = NOON

    def __call__(self) -> datetime:
        """Return the time."""
        return self.now


class Receiver:
    """What a receiver has got, and what it has accepted of that."""

    def __init__(self) -> None:
        """Accept everything."""
        self.got: list[dict[str, Any]] = []
        self.accepted: list[dict[str, Any]] = []
        self.keys: list[str | None] = []
        self.status: Callable[[], int] = lambda: 204
        self.address = ""

    @property
    def counts(self) -> list[int]:
        """Return how many alerts each accepted notice was about."""
        return [notice["count"] for notice in self.accepted]


@contextmanager
def receiving() -> Iterator[Receiver]:
    """Serve a receiver."""
    receiver = Receiver()

    class Ear(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            notice = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            receiver.got.append(notice)
            receiver.keys.append(self.headers["Idempotency-Key"])
            status = receiver.status()
            if status < 300:
                receiver.accepted.append(notice)
            self.send_response(status)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            """Print no line."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Ear) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        receiver.address = f"http://127.0.0.1:{server.server_port}/hook"
        yield receiver
        server.shutdown()
