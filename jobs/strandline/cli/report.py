"""``report``: may the numbers be believed? One page for people, the same data for programs."""

import webbrowser
from pathlib import Path
from typing import Annotated

import typer

from strandline.cli import place
from strandline.cli.place import JsonOption, LakeOption
from strandline.cli.screen import emit, say
from strandline.operate.report import near, refuse_untrusted, report_of, write_report


def register(app: typer.Typer) -> None:
    """Add the verb."""
    app.command("report")(report)


def report(  # noqa: PLR0913, PLR0917  # each is an option of the command line
    day: Annotated[
        str | None,
        typer.Option(help="A day of commits, in UTC: 2026-11-01, today or yesterday."),
    ] = None,
    since: Annotated[str | None, typer.Option(help="The first of several days.")] = None,
    until: Annotated[str | None, typer.Option(help="The day after the last.")] = None,
    to: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Where to write the page; in the lake when absent."),
    ] = None,
    opens: Annotated[bool, typer.Option("--open", help="Show the page in a browser.")] = False,
    lake: LakeOption = None,
    as_json: JsonOption = False,
) -> None:
    r"""Report whether the numbers of a day can be trusted, and why: one HTML file that needs nothing else.

    Without --day it is the last day with a commit. Sensitive columns are masked. With --json the same data is
    printed, and a file is written only with --to. Exits with 4 when the numbers cannot be trusted; the page is
    written in any case.

    \b
    strandline report
    strandline report --day yesterday --to trust.html
    strandline report --since 2026-11-01 --until 2026-11-08 --json
    """
    _, where = place.existing(lake, briefly=True)
    found = report_of(where, day=day, since=since, until=until)
    file = write_report(found, where, to) if to or not as_json else None
    if as_json:
        emit(found.as_json())
    elif file:
        say(found.sentence)
        for why in found.because:
            say(f"  {why}")
        say(f"the page: {file}")
    if opens and file:
        webbrowser.open(near(file, where).local.as_uri())
    refuse_untrusted(found)
