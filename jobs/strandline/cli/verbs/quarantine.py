"""``quarantine``: the rows that are held back, and what can be done about them."""

import importlib
from dataclasses import asdict
from datetime import timedelta
from pathlib import Path
from typing import Annotated

import typer
from strandline import catalog

from strandline.cli import screen
from strandline.cli.screen import JsonOption, LakeOption, emit, note, say, show
from strandline.core.table import Judged
from strandline.engine.accounting.browse_held import (
    Held,
    Pile,
    export,
    masked,
    piles,
    rows,
    withheld,
)
from strandline.engine.lake.log.ledger import is_table
from strandline.engine.lake.place import Place
from strandline.engine.runtime import clock
from strandline.operate.lakes import placed
from strandline.operate.orders import shown_unmasked

TableArgument = Annotated[
    str, typer.Argument(metavar="TABLE", help="A silver table that reads bronze.")
]
ReasonOption = Annotated[
    str | None,
    typer.Option("--reason", help="Only rows with this reason, perhaps among others."),
]
AtOption = Annotated[
    str | None,
    typer.Option("--at", help="Only the event of that place: topic/partition/offset."),
]
PILES = ("table", "reason", "open", "discarded", "oldest", "newest", "age")

HELP = """Show, replay, discard or export the rows that are held back.

\b
strandline quarantine list
strandline quarantine show silver.device_telemetry --reason late
strandline quarantine replay silver.device_telemetry --dry-run
strandline quarantine discard silver.device_telemetry --reason malformed --because "a test of the line"
strandline quarantine export silver.device_telemetry --to held.ndjson
"""

quarantine = typer.Typer(help=HELP, no_args_is_help=True, rich_markup_mode=None)


def register(app: typer.Typer) -> None:
    """Add the verb and its subcommands."""
    app.add_typer(quarantine, name="quarantine")


@quarantine.command("list")
def list_(
    table: Annotated[
        str | None, typer.Argument(metavar="TABLE", help="Such as silver.device_telemetry.")
    ] = None,
    lake: LakeOption = None,
    as_json: JsonOption = False,
) -> None:
    r"""Count the rows that are held back, by table and reason, and since when.

    A row with several reasons is counted under each of them.

    \b
    strandline quarantine list
    strandline quarantine list silver.device_telemetry --json
    """
    _, where = screen.existing(lake)
    chosen = (
        [
            each
            for each in catalog.tables()
            if isinstance(each, Judged) and is_table(where.quarantine(each))
        ]
        if table is None
        else [catalog.find(table)]
    )
    found = [pile for each in chosen for pile in piles(each, where, clock.now())]
    if as_json:
        emit([{**asdict(pile), "age_seconds": _seconds(pile.age)} for pile in found])
        return
    if not found:
        say("nothing is held back")
        return
    show(None, PILES, [_row(pile) for pile in found])
    note("`strandline quarantine replay TABLE --dry-run` shows how today's rules judge them")


@quarantine.command("show")
def show_(  # noqa: PLR0913, PLR0917  # each is an option of the command line
    table: TableArgument,
    reason: ReasonOption = None,
    at: AtOption = None,
    limit: Annotated[int, typer.Option(min=1, help="Rows at most.")] = 20,
    unmasked: Annotated[
        str | None,
        typer.Option(
            metavar="WHY",
            help="Reason to show sensitive fields and the key, byte for byte; it is logged with the user.",
        ),
    ] = None,
    lake: LakeOption = None,
    as_json: JsonOption = False,
) -> None:
    r"""Show open rows, or the one of a place: original bytes, reasons, and what was done about it.

    Bytes are shown as text if they are UTF-8, else as hexadecimal digits. The payload of a table with sensitive
    columns, or of bronze below one, is masked unless --unmasked gives a reason.

    \b
    strandline quarantine show silver.device_telemetry --reason malformed --limit 5
    strandline quarantine show silver.device_telemetry --at device-telemetry/0/17 --json
    """
    _, where = screen.existing(lake)
    judged = catalog.find(table)
    spot = placed(at)
    if unmasked is not None:
        asked = {"quarantine": judged.id, "reason": reason, "place": at}
        shown_unmasked(where, asked, unmasked)
    found = rows(judged, where, reason=reason, at=spot, limit=limit)
    secret = withheld(judged, catalog.tables())
    if secret and unmasked is None:
        found = [masked(row, judged, where, secret) for row in found]
    if as_json:
        emit([_as_json(row) for row in found])
        return
    for row in found:
        _print(row)
    say(f"({len(found):,} rows)")


@quarantine.command("replay")
def replay(  # noqa: PLR0913, PLR0917  # as above
    table: TableArgument,
    reason: ReasonOption = None,
    since: Annotated[
        str | None,
        typer.Option(help="First moment of event time, or of arrival where it has none."),
    ] = None,
    until: Annotated[str | None, typer.Option(help="The moment after the last.")] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show what would become of them, and write nothing.")
    ] = False,
    lake: LakeOption = None,
    as_json: JsonOption = False,
) -> None:
    r"""Judge open rows by today's rules; those that pass are written to silver once, and the tables above follow.

    The stream may run meanwhile. A row whose time it still owns stays open, and the earliest possible moment is shown.
    If it is killed half-way, type it again to finish it; until then `strandline ledger` names it.
    After a replay of all rows the table equals what `strandline verify` computes; after one of some it may not.

    \b
    strandline quarantine replay silver.device_telemetry --dry-run
    strandline quarantine replay silver.device_telemetry
    strandline quarantine replay silver.device_telemetry --reason late --since 2026-11-01 --until 2026-11-02
    """
    # Not imported above: it takes longer than all of an answer.
    replay_work = importlib.import_module("strandline.cli.verbs.gate")
    replay_work.replayed(table, reason, (since, until), lake=lake, dry_run=dry_run, as_json=as_json)


@quarantine.command("discard")
def discard(  # noqa: PLR0913, PLR0917  # as above
    table: TableArgument,
    reason: ReasonOption = None,
    at: AtOption = None,
    because: Annotated[
        str | None, typer.Option("--because", help="Reason; it is kept beside the rows.")
    ] = None,
    undo: Annotated[
        bool, typer.Option("--undo", help="Revert the last discard of the table.")
    ] = False,
    lake: LakeOption = None,
    as_json: JsonOption = False,
) -> None:
    r"""Discard open rows with a reason; they stay in the quarantine, and the ledger counts them as before.

    \b
    strandline quarantine discard silver.device_telemetry --reason malformed --because "a test of the line"
    strandline quarantine discard silver.device_telemetry --at device-telemetry/0/17 --because "sent by hand"
    strandline quarantine discard silver.device_telemetry --undo
    """
    replay_work = importlib.import_module("strandline.cli.verbs.gate")  # as above
    replay_work.discarded(
        table, reason, placed(at), because=because, undo=undo, lake=lake, as_json=as_json
    )


@quarantine.command("export")
def export_(
    table: TableArgument,
    to: Annotated[Path, typer.Option("--to", help="A file that ends with .ndjson or .parquet.")],
    reason: ReasonOption = None,
    lake: LakeOption = None,
    as_json: JsonOption = False,
) -> None:
    r"""Write all open rows to a file with their original bytes: JSON lines with bytes in base64, or Parquet.

    \b
    strandline quarantine export silver.device_telemetry --to held.ndjson
    strandline quarantine export silver.device_telemetry --reason late --to late.parquet
    """
    _, where = screen.existing(lake)
    count = export(catalog.find(table), where, Place.of(to), reason=reason)
    if as_json:
        emit({"table": table, "file": str(to), "rows": count})
    else:
        say(f"{count:,} rows in {to}")


def _row(pile: Pile) -> tuple[object, ...]:
    oldest, newest = (
        at and at.isoformat(sep=" ", timespec="seconds") for at in (pile.oldest, pile.newest)
    )
    return (pile.table, pile.reason, pile.open, pile.discarded, oldest, newest, _age(pile.age))


def _age(age: timedelta | None) -> str | None:
    return None if age is None else str(timedelta(seconds=int(age.total_seconds())))


def _seconds(age: timedelta | None) -> float | None:
    return None if age is None else age.total_seconds()


def _print(row: Held) -> None:
    item = "" if row.item is None else f", item {row.item}"
    say(
        f"{row.topic}/{row.partition}/{row.offset}{item}: {row.state}, held by {row.batch or 'unknown'}"
    )
    lines = {
        "reasons": ", ".join(row.reasons),
        "arrived": row.arrived_at.isoformat(),
        "event": row.event_at.isoformat() if row.event_at else None,
        "key": _text(row.key),
        "payload": _text(row.payload),
        "headers": ", ".join(f"{name}={_text(value)}" for name, value in row.headers),
    }
    for name, text in lines.items():
        if text:
            say(f"  {name:<8} {text}")
    for done in row.done:
        who, at = done.who or "unknown", done.at.isoformat() if done.at else "an unknown time"
        say(f"  {done.status:<8} by {who} at {at}" + (f": {done.why}" if done.why else ""))


def _text(value: bytes | None) -> str:
    """Format bytes for a person: as text if they are UTF-8, else as hexadecimal digits."""
    if value is None:
        return ""
    try:
        return value.decode()
    except UnicodeDecodeError:
        return f"0x{value.hex()}"


def _as_json(row: Held) -> dict[str, object]:
    record = asdict(row)
    record |= {name: _bytes(record[name]) for name in ("key", "payload")}
    return record | {"headers": [{"name": n, "value": _bytes(v)} for n, v in row.headers]}


def _bytes(value: bytes | None) -> dict[str, str] | None:
    """Format bytes for a program: as text if they are UTF-8, else as hexadecimal digits, and say which."""
    if value is None:
        return None
    try:
        return {"text": value.decode()}
    except UnicodeDecodeError:
        return {"hex": value.hex()}
