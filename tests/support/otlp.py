"""A receiver of OpenTelemetry's protocol over HTTP: it decodes what comes by the protocol's own messages, and refuses what is none."""

import gzip
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from google.protobuf.message import DecodeError, Message
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import (
    ExportMetricsServiceRequest,
    ExportMetricsServiceResponse,
)
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)

SIGNALS: dict[str, tuple[Callable[[], Message], Callable[[], Message]]] = {
    "/v1/traces": (ExportTraceServiceRequest, ExportTraceServiceResponse),
    "/v1/metrics": (ExportMetricsServiceRequest, ExportMetricsServiceResponse),
}


@dataclass(frozen=True, slots=True)
class Came:
    """A span that came."""

    name: str
    trace: str
    id: str
    parent: str
    start: int
    end: int
    facts: Mapping[str, Any]
    links: list[tuple[str, str]]
    error: str
    sender: Mapping[str, Any]


def _set() -> threading.Event:
    found = threading.Event()
    found.set()
    return found


@dataclass(slots=True)
class Receiver:
    """What a receiver got.

    Args:
        status: What it answers.
        answers: It answers nothing while this is not set, for a minute at most.
    """

    status: int = 200
    answers: threading.Event = field(default_factory=_set)
    answered: int = 0
    address: str = ""
    spans: list[Came] = field(default_factory=list)
    figures: dict[tuple[str, ...], float] = field(default_factory=dict)
    counters: set[str] = field(default_factory=set)
    headers: list[Mapping[str, str]] = field(default_factory=list)
    asked: int = 0

    def take(self, message: Message) -> None:
        """Keep what a message has."""
        if isinstance(message, ExportTraceServiceRequest):
            for group in message.resource_spans:
                sender = facts_of(group.resource.attributes)
                self.spans += [
                    came(one, sender) for part in group.scope_spans for one in part.spans
                ]
        elif isinstance(message, ExportMetricsServiceRequest):
            for group in message.resource_metrics:
                for part in group.scope_metrics:
                    for metric in part.metrics:
                        if metric.HasField("sum"):
                            self.counters.add(metric.name)
                        kind = metric.sum if metric.HasField("sum") else metric.gauge
                        for point in kind.data_points:
                            labels = sorted(facts_of(point.attributes).items())
                            key = (metric.name, *(f"{k}={v}" for k, v in labels))
                            value = point.as_double or float(point.as_int)
                            self.figures[key] = value

    def until(self, seen: Callable[[], object], patience: float = 30.0) -> None:
        """Wait for a state."""
        deadline = time.monotonic() + patience
        while not seen():
            assert time.monotonic() < deadline, [each.name for each in self.spans]
            time.sleep(0.02)


def facts_of(attributes: Any) -> dict[str, Any]:  # noqa: ANN401  # protobuf's own list
    """Return attributes by their names."""
    return {
        each.key: getattr(each.value, each.value.WhichOneof("value") or "string_value")
        for each in attributes
    }


def came(span: Any, sender: Mapping[str, Any]) -> Came:  # noqa: ANN401  # protobuf's own message
    """Return a span as it came."""
    return Came(
        name=span.name,
        trace=span.trace_id.hex(),
        id=span.span_id.hex(),
        parent=span.parent_span_id.hex(),
        start=span.start_time_unix_nano,
        end=span.end_time_unix_nano,
        facts=facts_of(span.attributes),
        links=[(each.trace_id.hex(), each.span_id.hex()) for each in span.links],
        error=span.status.message if span.status.code == 2 else "",  # STATUS_CODE_ERROR
        sender=sender,
    )


@contextmanager
def receiving() -> Iterator[Receiver]:
    """Serve a receiver for the length of the block."""
    found = Receiver()

    class Ear(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            found.asked += 1
            body = self.rfile.read(int(self.headers["Content-Length"]))
            if self.headers.get("Content-Encoding") == "gzip":
                body = gzip.decompress(body)
            found.answers.wait(60)
            found.answered += 1
            kinds = SIGNALS.get(self.path)
            is_right = kinds and self.headers["Content-Type"] == "application/x-protobuf"
            status, answer = found.status, b""
            if not kinds or not is_right:
                status = 400
            else:
                message = kinds[0]()
                try:
                    message.ParseFromString(body)
                except DecodeError:
                    status = 400
                if status == 200:
                    found.headers.append(dict(self.headers))
                    found.take(message)
                    answer = kinds[1]().SerializeToString()
            self.send_response(status)
            self.send_header("Content-Type", "application/x-protobuf")
            self.send_header("Content-Length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

        def log_message(self, *_: object) -> None:
            """Print no line."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Ear) as server:
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, daemon=True).start()
        found.address = f"http://127.0.0.1:{server.server_port}"
        yield found
        server.shutdown()
