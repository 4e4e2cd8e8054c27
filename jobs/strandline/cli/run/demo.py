"""``demo``: from nothing to 100,000 events accounted for."""

import shlex
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape
from rich.tree import Tree
from strandline import catalog

from strandline.cli.ask.ledger import print_sheets
from strandline.cli.screen import as_typed, draw, note, progress, say
from strandline.core.kind import Layer
from strandline.core.table import Ingested, Judged, Table
from strandline.engine.accounting.balance_sheet import Balance
from strandline.engine.lake.files.place import Place
from strandline.engine.lake.lake import Lake
from strandline.engine.runtime import clock
from strandline.operate import play
from strandline.operate.answers.ledger import refuse_imbalance
from strandline.operate.demo import filled
from strandline.operate.play import Play
from strandline.operate.send_play import Asked, Truth, refuse_untruth, send

# A picture of the lake: from each topic through the tables, with rows and lag.


def picture(lake: Lake, found: Sequence[Balance]) -> Tree:
    """Draw the lake; a table that reads several others is drawn below the first and named below the rest."""
    tables = catalog.tables()
    sheets = {sheet.table: sheet for sheet in found}
    whole = Tree(escape(str(lake.root)))
    drawn: set[str] = set()
    for bronze in (table for table in tables if isinstance(table, Ingested)):
        topics = " + ".join(topic.name for topic in bronze.topics)
        _draw(whole.add(f"topic {escape(topics)}"), bronze, sheets, drawn)
    return whole


def _draw(above: Tree, table: Table, sheets: dict[str, Balance], drawn: set[str]) -> None:
    if table.id in drawn:
        above.add(f"{table.id} [dim](see above)[/dim]")
        return
    drawn.add(table.id)
    here = above.add(_line(table, sheets.get(table.id)))
    for reader in catalog.tables():
        if table in reader.upstream:
            _draw(here, reader, sheets, drawn)


def _line(table: Table, sheet: Balance | None) -> str:
    if sheet is None:
        return f"{table.id} [dim]never run[/dim]"
    parts = [f"{sheet.rows:,} rows"]
    if isinstance(table, Judged):
        parts.append(f"{sum(sheet.quarantined.values()):,} held")
    if not isinstance(table, Ingested):
        parts.append(f"lag {sheet.waiting:,}")
    return f"[bold]{table.id}[/bold] {', '.join(parts)}"


DemoLakeOption = Annotated[
    str | None,
    typer.Option("--lake", metavar="<path>", help="The demo's own lake; .lake/demo when absent."),
]


def register(app: typer.Typer) -> None:
    """Add the verb."""
    app.command("demo")(demo)


def demo(
    events: Annotated[int, typer.Option(min=1, help="Records to send.")] = 100_000,
    lake: DemoLakeOption = None,
) -> None:
    r"""Send the project's play events through an empty lake, and account for each.

    Begins with an empty lake and a broker of its own each time, and stops the broker at the end. The events are those of `play.py`
    in the project's package; what that expects of the tables is compared with the ledger.

    \b
    strandline demo
    strandline demo --events 1000000
    """
    found = play.found()
    began = time.monotonic()
    where, truth, sheets = filled(lake, lambda *to: _send(found, events, *to), note)
    print_sheets(sheets)
    refuse_imbalance(sheets)
    refuse_untruth(sheets, truth)
    say("")
    draw(picture(where, sheets))
    say("")
    took = time.monotonic() - began
    say(f"balanced: {truth.events:,} events, each in exactly one place, in {took:.0f} s")
    _what_next(where, sheets)


def _send(found: Play, events: int, where: Lake, address: str) -> Truth:
    until = clock.now().replace(minute=0, second=0, microsecond=0)
    asked = Asked(events=events, until=until, options={}, makes_topics=True)
    with progress("events sent", events) as advance:
        sent, truth = send(found, asked, where, address, {}, advance)
    note(f"{sent.events:,} events sent in {sent.seconds:.1f} s")
    if not sent.is_whole:
        raise KeyboardInterrupt
    return truth


def _what_next(where: Lake, sheets: Sequence[Balance]) -> None:
    lake = f"--lake {shlex.quote(_short(where.root))}"
    with_rows = {sheet.table for sheet in sheets if sheet.good}
    silver = [
        each.id for each in catalog.tables() if each.layer is Layer.SILVER and each.id in with_rows
    ]
    program = as_typed()
    say("\ntry next:")
    if silver:
        say(f'  {program} query {lake} "FROM {silver[0]} LIMIT 5"')
    say(f"  {program} verify {lake} --all")
    say(f"  {program} up {lake} && {program} stream {lake} --every 1s")


def _short(root: Place) -> str:
    """Return a lake's path as one would type it here."""
    if not root.is_local or not root.local.is_relative_to(Path.cwd()):
        return str(root)
    return str(root.local.relative_to(Path.cwd()))
