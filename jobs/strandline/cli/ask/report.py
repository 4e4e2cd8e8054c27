"""``report`` and ``history``: may the numbers be believed, and what is usual?

``report``: may the numbers be believed? One page for people, the same data for programs.
"""

import webbrowser
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from strandline.cli import place
from strandline.cli.place import JsonOption, LakeOption, TablesArgument
from strandline.cli.screen import emit, say, show
from strandline.core.table import Table
from strandline.engine.accounting.balance_sheet import UNSOUGHT
from strandline.engine.history import commit_history
from strandline.engine.history.anomalies import Mark, marks
from strandline.engine.history.queries import MOST, Batch, Past
from strandline.operate import lakes
from strandline.operate.answers.report import near, refuse_untrusted, report_of, write_report


def register(app: typer.Typer) -> None:
    """Add the verb."""
    app.command("report")(report)
    _register_history(app)


def report(  # noqa: PLR0913, PLR0917  # each is an option of the command line
    day: Annotated[
        str | None,
        typer.Option(
            help="A day of commits: 2026-11-01, today or yesterday; in UTC, and of a table of local days in its zone."
        ),
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


# ``history``: the last batches of each table, and their anomalies.


COLUMNS = ("version", "at", "mode", "read", "good", "copies", "held", "late by", "ms", "drift")


def _register_history(app: typer.Typer) -> None:
    """Add the verb."""
    app.command("history")(history_)


def history_(
    tables: TablesArgument = None,
    last: Annotated[
        int, typer.Option(min=1, max=1000, help="How many batches of each table to show.")
    ] = 10,
    lake: LakeOption = None,
    as_json: JsonOption = False,
) -> None:
    r"""Show the last batches of each table: volumes, shares, delays, anomalies.

    First brings the lake's history up to date from the ledgers. It is the Delta table quality/history inside the
    lake: one row per figure. A volume or share is compared with the same hour of the week, or with all hours while
    that one has fewer than 14 batches; before there are 14 batches nothing is marked.

    \b
    strandline history
    strandline history silver.device_telemetry --last 30
    strandline history --json
    """
    _, where = place.existing(lake)
    chosen = lakes.filled(where, tables)
    commit_history.catch_up(where, chosen)
    past = Past(where)
    shown = [_table(table, past, last) for table in chosen]
    if as_json:
        emit([_as_json(batch, found) for batches, found in shown for batch in batches])
        return
    for table, (batches, found) in zip(chosen, shown, strict=True):
        show(table.id, COLUMNS, [_row(table, batch, found) for batch in batches])
        say("")


def _table(table: Table, past: Past, count: int) -> tuple[list[Batch], list[Mark]]:
    known = past.last(table, MOST + count)
    return known[-count:], marks(known[-count:], known[:-count])


def _row(table: Table, batch: Batch, found: Sequence[Mark]) -> tuple[object, ...]:
    copies = batch.value("share:duplicates")
    late = batch.values.get("freshness_s")
    return (
        batch.version,
        f"{batch.at:%Y-%m-%d %H:%M:%S}",
        batch.mode,
        int(batch.value("read")),
        int(batch.value("good")),
        UNSOUGHT if table.keeps_copies and not copies else f"{copies:.1%}",
        f"{batch.value('share:quarantined'):.1%}",
        "" if late is None else f"{late:,.0f} s",
        int(batch.value("duration_ms")),
        "; ".join(mark.said for mark in found if mark.version == batch.version),
    )


def _as_json(batch: Batch, found: Sequence[Mark]) -> dict[str, object]:
    own = [{**asdict(m), "said": m.said} for m in found if m.version == batch.version]
    return {**asdict(batch), "drift": own}
