"""``deliver``: bring alerts to people: notices to addresses, files and topics, in a process without Spark."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table as Grid

from strandline.cli import stopping
from strandline.cli.place import LakeOption
from strandline.cli.screen import grid, is_terminal, live, logged, note, show
from strandline.operate import lakes
from strandline.operate.listener import Log

if TYPE_CHECKING:
    from strandline.alerting.courier import DeliveryHost

COLUMNS = ("receiver", "alerts", "notices", "waiting", "lag", "at", "waits for")


def register(app: typer.Typer) -> None:
    """Add the verb."""
    app.command("deliver")(deliver)


def deliver(  # noqa: PLR0913, PLR0917  # each is an option of the command line
    to: Annotated[
        list[str] | None,
        typer.Option(
            metavar="RECEIVER",
            help="An address of http or https, file:PATH or kafka:TOPIC; several are independent. "
            "STRANDLINE_WEBHOOK when absent.",
        ),
    ] = None,
    severity: Annotated[
        str, typer.Option(help="The lowest severity that is delivered.")
    ] = "informational",
    every: Annotated[
        list[str] | None,
        typer.Option(
            metavar="[RULE=]TIME",
            help="Shortest time between two notices of a rule, of all rules or of one: 30s, 1m. 1m when absent.",
        ),
    ] = None,
    rules: Annotated[
        Path | None,
        typer.Option(
            metavar="FOLDER", help="Where titles, owners and runbooks are; as for alerts."
        ),
    ] = None,
    from_beginning: Annotated[
        bool,
        typer.Option("--from-beginning", help="A new receiver gets what the topic holds already."),
    ] = False,
    once: Annotated[
        bool, typer.Option("--once", help="Deliver what there is, one notice a rule, then end.")
    ] = False,
    lake: LakeOption = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Log in JSON, one record a line, for programs.")
    ] = False,
) -> None:
    r"""Deliver the alerts of the topic alerts as notices, until Ctrl-C.

    The first alert of a rule is a notice at once; the alerts after it are one notice a minute, with their number. A
    receiver that is away gets its notices later, with the same ids if they are sent again. After any end each receiver
    goes on where it was.

    \b
    strandline deliver --severity high
    strandline deliver --to http://localhost:8080/alerts --to file:notices.jsonl --every 5m
    strandline deliver --to kafka:notices --once
    """
    # Not imported above: it imports the rules, and a project of other tables has the other verbs.
    from strandline.operate.alerts.delivery import Delivery, host_of  # noqa: PLC0415  # as above

    asked = Delivery(
        to=tuple(to or ()),
        severity=severity,
        every=tuple(every or ()),
        rules=rules,
        from_beginning=from_beginning,
        once=once,
    )
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


def _serve(host: "DeliveryHost", log: Log, *, shows: bool) -> None:
    receivers = [each.receiver for each in host.books]
    if shows:
        note(f"delivering alerts to {', '.join(receivers)}; Ctrl-C stops")
        with live(lambda: _grid(host)) as refresh:
            host.serve(lambda _: refresh())
        return
    log.info("started", receivers=receivers)
    host.serve(lambda _: None)
    log.info("stopped", receivers=receivers)


def _grid(host: "DeliveryHost") -> Grid:
    rows = [
        (b.receiver, b.delivered, b.notices, b.waiting, b.lag, b.at, b.away) for b in host.books
    ]
    return grid(None, COLUMNS, rows)
