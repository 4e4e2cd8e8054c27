"""Serve a lake's reports on loopback while ``strandline ui`` runs, because a browser lets no page link to a file.

Reports, the last backtest of rules and alerts can be read, and only from this machine: a request is parsed into a day, or
a day and an id, so no path of a client reaches the disk. The server refuses a foreign page whose name resolves to loopback, because its Host header has that name.
The address is in a file on which the server holds a lock: without the lock no server runs.
"""

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import date, datetime
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from urllib.parse import urlsplit

from strandline.engine.lake.files.place import Place
from strandline.engine.lake.lake import Lake
from strandline.engine.lake.store_lease import hold, note_of_holder
from strandline_infra.broker import HOST

DAY = r"([0-9]{4}-[0-9]{2}-[0-9]{2})"
ASKED = re.compile(rf"/report-{DAY}\.html")
ALERT = re.compile(rf"/alert-{DAY}-([0-9a-f]{{8,64}})\.html")
TEXT, HTML = "text/plain", "text/html"

NO_BACKTEST = b"""There is no backtest of rules yet.

hint: materialise the rules in Dagster, or type `strandline rules backtest`.
"""
NO_ALERT = b"""There is no such alert in gold.alerts.

hint: `strandline run bronze.alerts silver.alerts gold.alerts` brings the newest.
"""

AlertPage = Callable[[date, str], str | None]
"""Makes the page of an alert, by the day of its event and its id; None if there is no such alert."""


@contextmanager
def served(lake: Lake, alert_page: AlertPage = lambda *_: None) -> Iterator[str]:
    """Serve the reports and alerts of a lake on a free port, and yield the address."""
    # A reader of the address holds it for a moment; no other server does, as a lake has one `strandline ui`.
    with _Server(lake, alert_page) as server, hold(_note(lake), server.address):
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


def backtest_link(lake: Lake) -> str | None:
    """Return the address of the page of the last backtest, made or not; None when pages are not served."""
    where = address(lake)
    return f"{where}/{lake.backtest.name}" if where else None


def alert_link(where: str, alert_id: str, event_at: datetime) -> str:
    """Return the address of the page of an alert.

    Args:
        where: The address at which pages are served.
        alert_id: The alert.
        event_at: The time of its event.
    """
    return f"{where}/alert-{event_at.date().isoformat()}-{alert_id}.html"


def _note(lake: Lake) -> Place:
    return lake.dagster / "reports.address"


class _Server(ThreadingHTTPServer):
    """Serves one lake; a browser that stops reading does not delay the end of the process."""

    daemon_threads = True
    block_on_close = False

    def __init__(self, lake: Lake, alert_page: AlertPage) -> None:
        super().__init__((HOST, 0), _Handler)
        self.lake, self.alert_page = lake, alert_page
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
        path = urlsplit(self.path).path
        if path == f"/{self.server.lake.backtest.name}":
            return _or_none(self.server.lake.backtest.bytes(), NO_BACKTEST)
        if alert := ALERT.fullmatch(path):
            return self._alert(_day(alert[1]), alert[2])
        report = ASKED.fullmatch(path)
        day = _day(report[1]) if report else None
        if day is None:
            return (
                HTTPStatus.NOT_FOUND,
                TEXT,
                b"Only reports are here, such as /report-2026-11-01.html.\n",
            )
        return _or_none(self.server.lake.report(day.isoformat()).bytes(), _none_yet(day))

    def _alert(self, day: date | None, alert_id: str) -> tuple[HTTPStatus, str, bytes]:
        page = self.server.alert_page(day, alert_id) if day else None
        return _or_none(page.encode() if page else None, NO_ALERT)


def _or_none(page: bytes | None, reason: bytes) -> tuple[HTTPStatus, str, bytes]:
    """Return a page, or the reason why there is none."""
    return (HTTPStatus.NOT_FOUND, TEXT, reason) if page is None else (HTTPStatus.OK, HTML, page)


def _day(text: str) -> date | None:
    try:
        return date.fromisoformat(text)
    except ValueError:  # such as the 31st of February
        return None


def _none_yet(day: date) -> bytes:
    return (
        f"There is no report of {day.day} {day:%B %Y} yet.\n\n"
        f"hint: launch the job `report` in Dagster, or type `strandline report --day {day}`.\n"
    ).encode()
