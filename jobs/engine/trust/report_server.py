"""Serve a lake's reports on loopback while ``strandline ui`` runs, because a browser lets no page link to a file.

Only reports can be read, and only from this machine: a request is parsed into a day, so no path of a client reaches
the disk. The server refuses a foreign page whose name resolves to loopback, because its Host header has that name.
The address is in a file on which the server holds a lock: without the lock no server runs.
"""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import date
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from urllib.parse import urlsplit

from infra.broker import HOST
from jobs.engine.storage.file_lock import hold, note_of_holder
from jobs.engine.storage.lake import Lake
from jobs.engine.storage.place import Place

ASKED = re.compile(r"/report-([0-9]{4}-[0-9]{2}-[0-9]{2})\.html")
TEXT, HTML = "text/plain", "text/html"


@contextmanager
def served(lake: Lake) -> Iterator[str]:
    """Serve the reports of a lake on a free port, and yield the address."""
    # A reader of the address holds it for a moment; no other server does, as a lake has one `strandline ui`.
    with _Server(lake) as server, hold(_note(lake), server.address):
        answering = Thread(target=server.serve_forever, name="reports", daemon=True)
        answering.start()
        try:
            yield server.address
        finally:
            server.shutdown()
            answering.join()


def address(lake: Lake) -> str | None:
    """Return the address at which the reports of a lake are served; None when they are not."""
    return note_of_holder(_note(lake)) or None


def link(lake: Lake, day: date) -> str | None:
    """Return the address of a day's report, made or not; None when reports are not served."""
    where = address(lake)
    return f"{where}/{lake.report(day.isoformat()).name}" if where else None


def _note(lake: Lake) -> Place:
    return lake.dagster / "reports.address"


class _Server(ThreadingHTTPServer):
    """Serves one lake; a browser that stops reading does not delay the end of the process."""

    daemon_threads = True
    block_on_close = False

    def __init__(self, lake: Lake) -> None:
        super().__init__((HOST, 0), _Handler)
        self.lake = lake
        self.names = {f"{name}:{self.server_port}" for name in (HOST, "localhost")}
        self.address = f"http://{HOST}:{self.server_port}"


class _Handler(BaseHTTPRequestHandler):
    """Answers one request."""

    server: _Server
    server_version, sys_version = "strandline", ""
    timeout = 10

    def do_GET(self) -> None:
        """Send a report, or the reason why there is none."""
        status, kind, words = self._answer()
        self.send_response(status)
        self.send_header("Content-Type", f"{kind}; charset=utf-8")
        self.send_header("Content-Length", str(len(words)))
        self.send_header("Cache-Control", "no-store")  # a report is made anew under the same name
        self.send_header("X-Content-Type-Options", "nosniff")
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(words)

    def do_HEAD(self) -> None:
        """Send the headers alone."""
        self.do_GET()

    def log_message(self, *_: object) -> None:
        """Log nothing: requests are no news for the terminal of ``strandline ui``."""

    def _answer(self) -> tuple[HTTPStatus, str, bytes]:
        if self.headers.get("Host") not in self.server.names:
            return (
                HTTPStatus.FORBIDDEN,
                TEXT,
                b"Reports are read under 127.0.0.1 or localhost only.\n",
            )
        day = _day(urlsplit(self.path).path)
        if day is None:
            return (
                HTTPStatus.NOT_FOUND,
                TEXT,
                b"Only reports are here, such as /report-2026-11-01.html.\n",
            )
        page = self.server.lake.report(day.isoformat()).bytes()
        if page is None:
            return HTTPStatus.NOT_FOUND, TEXT, _none_yet(day)
        return HTTPStatus.OK, HTML, page


def _day(path: str) -> date | None:
    asked = ASKED.fullmatch(path)
    try:
        return date.fromisoformat(asked[1]) if asked else None
    except ValueError:  # such as the 31st of February
        return None


def _none_yet(day: date) -> bytes:
    return (
        f"There is no report of {day.day} {day:%B %Y} yet.\n\n"
        f"hint: launch the job `report` in Dagster, or type `strandline report --day {day}`.\n"
    ).encode()
