"""What ``strandline deliver`` does."""

from rich.table import Table as Grid

from jobs.cli import stopping
from jobs.cli.screen import grid, is_terminal, live, note, show
from jobs.cli.stream import logged
from jobs.engine.service.delivery_desk import Logger
from jobs.engine.service.delivery_host import DeliveryHost
from jobs.operate import lakes
from jobs.operate.alerts.delivery import Delivery, host_of

COLUMNS = ("receiver", "alerts", "notices", "waiting", "lag", "at", "waits for")


def delivered(asked: Delivery, lake: str | None, *, as_json: bool) -> None:
    """Deliver alerts until stopped, or once."""
    with logged(as_json=as_json) as log:
        found, where = lakes.configured(lake)
        host = host_of(asked, found, where, log, stopping.asked)
        try:
            if asked.once:
                host.drain()
            else:
                _serve(host, log, shows=is_terminal() and not as_json)
        finally:
            stopping.deaf()
    if not as_json:
        rows = [(each.receiver, each.delivered, each.notices, each.waiting) for each in host.books]
        show("delivered", COLUMNS[:4], rows)


def _serve(host: DeliveryHost, log: Logger, *, shows: bool) -> None:
    receivers = [each.receiver for each in host.books]
    if shows:
        note(f"delivering alerts to {', '.join(receivers)}; Ctrl-C stops")
        with live(lambda: _grid(host)) as refresh:
            host.serve(lambda _: refresh())
        return
    log.info("started", receivers=receivers)
    host.serve(lambda _: None)
    log.info("stopped", receivers=receivers)


def _grid(host: DeliveryHost) -> Grid:
    rows = [
        (b.receiver, b.delivered, b.notices, b.waiting, b.lag, b.at, b.away) for b in host.books
    ]
    return grid(None, COLUMNS, rows)
