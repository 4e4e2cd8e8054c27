"""``deliver``: bring alerts to people: notices to addresses, files and topics, in a process without Spark."""

import importlib
from pathlib import Path
from typing import Annotated

import typer

from jobs.cli.place import LakeOption


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
    words = {
        "to": tuple(to or ()),
        "severity": severity,
        "every": tuple(every or ()),
        "rules": rules,
        "from_beginning": from_beginning,
        "once": once,
    }
    # Not imported above: it imports the rules, and a project of other tables has the other verbs.
    work = importlib.import_module("jobs.cli.delivered")
    work.delivered(work.Delivery(**words), lake, as_json=as_json)
