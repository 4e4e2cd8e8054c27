"""``demo``: from nothing to 100,000 events accounted for."""

import shlex
import time
from datetime import timedelta
from typing import Annotated

import typer

from jobs.cli.demo_lake import DemoLakeOption, played, short
from jobs.cli.graph import picture
from jobs.cli.screen import draw, note, progress, say
from jobs.core.errors import DataError
from jobs.core.kind import Layer
from jobs.engine.accounting.balance_sheet import Balance
from jobs.engine.runtime import clock
from jobs.engine.storage.lake import Lake
from jobs.play.plan import Plan
from jobs.play.send import send
from jobs.play.truth import Truth
from jobs.silver import device_telemetry


def register(app: typer.Typer) -> None:
    """Add the verb."""
    app.command("demo")(demo)


def demo(
    events: Annotated[int, typer.Option(min=100, help="Records to send.")] = 100_000,
    lake: DemoLakeOption = None,
) -> None:
    r"""Send 100,000 events, a tenth of them dirty, through the lake, and account for each.

    Begins with an empty lake and a broker of its own each time, and stops the broker at the end.

    \b
    strandline demo
    strandline demo --events 1000000
    """
    began = time.monotonic()
    where, truth, sheets = played(lake, lambda address: _send(events, address))
    _refuse_untruth(sheets, truth)
    say("")
    draw(picture(where, sheets))
    say("")
    say(
        f"balanced: {events:,} events, each in exactly one place, in {time.monotonic() - began:.0f} s"
    )
    _what_next(where)


def _send(events: int, address: str) -> Truth:
    law = device_telemetry.TABLE.lateness
    until = clock.now().replace(minute=0, second=0, microsecond=0)
    plan = Plan(
        since=until - timedelta(hours=24),
        until=until,
        events=events,
        seed=7,
        late=law.late,
        early=law.early,
    )
    with progress("events sent", events) as advance:
        sent = send(plan, address, {}, on_progress=advance)
    note(f"{sent.events:,} events sent in {sent.seconds:.1f} s")
    if not sent.is_whole:
        raise KeyboardInterrupt
    return sent.truth


def _refuse_untruth(sheets: list[Balance], truth: Truth) -> None:
    """Compare the ledger with the events that were sent."""
    for sheet in sheets:
        if sheet.table not in truth.tables or sheet.table.startswith(Layer.BRONZE):
            continue
        expected = truth.tables[sheet.table].as_dict()
        counted = {name: getattr(sheet, name) for name in ("good", "duplicates")}
        counted["quarantined"] = dict(sorted(sheet.quarantined.items()))
        if counted != expected:
            raise DataError(
                f"the ledger of {sheet.table} has {counted}, but {expected} were sent",
                hint="this is a fault of the program; please report it with the lake's folder.",
            )


def _what_next(where: Lake) -> None:
    lake = f"--lake {shlex.quote(short(where.root))}"
    question = "SELECT signal, count(*) AS readings FROM silver.device_telemetry GROUP BY ALL"
    say("\ntry next:")
    say(f'  .venv/bin/strandline query {lake} "{question}"')
    say(f"  .venv/bin/strandline verify {lake} --all")
    say(f"  .venv/bin/strandline up {lake} && .venv/bin/strandline stream {lake} --every 1s")
