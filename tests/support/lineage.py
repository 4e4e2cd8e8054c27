"""A receiver of OpenLineage on loopback, and the client that its own configuration makes."""

import json
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from openlineage.client import OpenLineageClient

PATH = "/api/v1/lineage"


@dataclass(slots=True)
class Catalog:
    """What a receiver got.

    Args:
        before: Called before each answer.
        status: What it answers.
    """

    before: Callable[[], None] = lambda: None
    status: int = 201
    address: str = ""
    events: list[dict[str, Any]] = field(default_factory=list)
    paths: list[str] = field(default_factory=list)


@contextmanager
def cataloguing(before: Callable[[], None] = lambda: None) -> Iterator[Catalog]:
    """Serve a receiver for the length of the block."""
    catalog = Catalog(before)

    class Ear(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            event = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            catalog.before()
            catalog.paths.append(self.path)
            catalog.events.append(event)
            self.send_response(catalog.status)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            """Print no line."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Ear) as server:
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, daemon=True).start()
        catalog.address = f"http://127.0.0.1:{server.server_port}"
        yield catalog
        server.shutdown()


def into(file: Path) -> OpenLineageClient:
    """Return a client that appends each event to a file, as a line."""
    transport = {"type": "file", "log_file_path": str(file), "append": True}
    return OpenLineageClient(config={"transport": transport})


def read(file: Path) -> list[dict[str, Any]]:
    """Return the events of such a file."""
    return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []


def facets(event: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield every facet of an event with its name."""
    found = [event["run"], event["job"], *event["inputs"], *event["outputs"]]
    for each in found:
        for kind in ("facets", "inputFacets", "outputFacets"):
            yield from (each.get(kind) or {}).items()
