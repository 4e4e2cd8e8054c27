"""``quarantine``: what is held back, each row as it came, and what can be done about it."""

import importlib
from dataclasses import asdict, replace
from datetime import timedelta
from pathlib import Path
from typing import Annotated

import typer

from jobs import catalog
from jobs.cli import place
from jobs.cli.place import JsonOption, LakeOption
from jobs.cli.screen import emit, note, say, show
from jobs.core.errors import DefinitionError
from jobs.core.table import Table
from jobs.run.export import export
from jobs.run.held import harmless
from jobs.run.lake import Lake
from jobs.run.quarantine import Held, Pile, Place, piles, rows
from quality import mask

TableArgument = Annotated[
    str, typer.Argument(metavar="TABLE", help="A silver table that reads bronze.")
]
ReasonOption = Annotated[
    str | None,
    typer.Option("--reason", help="Only rows that have this reason, perhaps among others."),
]
AtOption = Annotated[
    str | None,
    typer.Option("--at", help="Only the event that stood there: topic/partition/offset."),
]
PILES = ("table", "reason", "open", "discarded", "oldest", "newest", "age")

HELP = """See what is held back, and heal it.

\b
strandline quarantine list
strandline quarantine show silver.device_telemetry --reason late
strandline quarantine replay silver.device_telemetry --dry-run
strandline quarantine discard silver.device_telemetry --reason malformed --because "a test of the line"
strandline quarantine export silver.device_telemetry --to held.ndjson
"""

quarantine = typer.Typer(help=HELP, no_args_is_help=True, rich_markup_mode=None)


def register(app: typer.Typer) -> None:
    """Add the verb with what can be done."""
    app.add_typer(quarantine, name="quarantine")


@quarantine.command("list")
def list_(
    table: Annotated[
        str | None, typer.Argument(metavar="TABLE", help="Such as silver.device_telemetry.")
    ] = None,
    lake: LakeOption = None,
    as_json: JsonOption = False,
) -> None:
    r"""Count what is held back: by table and reason, how many rows, since when.

    A row with several reasons is counted under each of them.

    \b
    strandline quarantine list
    strandline quarantine list silver.device_telemetry --json
    """
    _, where = place.existing(lake)
    chosen = (
        [each for each in catalog.tables() if each.judges and where.exists(each)]
        if table is None
        else [catalog.find(table)]
    )
    found = [pile for each in chosen for pile in piles(each, where, place.now())]
    if as_json:
        emit([{**asdict(pile), "age_seconds": _seconds(pile.age)} for pile in found])
        return
    if not found:
        say("nothing is held back")
        return
    show(None, PILES, [_row(pile) for pile in found])
    note("`strandline quarantine replay TABLE --dry-run` says what today's rules make of them")


@quarantine.command("show")
def show_(  # noqa: PLR0913, PLR0917  # each is an option of the command line
    table: TableArgument,
    reason: ReasonOption = None,
    at: AtOption = None,
    limit: Annotated[int, typer.Option(min=1, help="Rows at most.")] = 20,
    unmasked: Annotated[
        bool,
        typer.Option("--unmasked", help="Show sensitive fields too, and the key, byte for byte."),
    ] = False,
    lake: LakeOption = None,
    as_json: JsonOption = False,
) -> None:
    r"""Show rows as they came, with their reasons, and what was done about them; open ones, or the one of a place.

    Bytes are shown as text where they are UTF-8, and else in hexadecimal digits. Of a table with sensitive columns
    the payload is masked unless --unmasked says otherwise.

    \b
    strandline quarantine show silver.device_telemetry --reason malformed --limit 5
    strandline quarantine show silver.device_telemetry --at device-telemetry/0/17 --json
    """
    _, where = place.existing(lake)
    judged = catalog.find(table)
    found = rows(judged, where, reason=reason, at=placed(at), limit=limit)
    if judged.secret and not unmasked:
        found = [_masked(row, judged, where) for row in found]
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
        bool, typer.Option("--dry-run", help="Say what would become of them, and write nothing.")
    ] = False,
    lake: LakeOption = None,
    as_json: JsonOption = False,
) -> None:
    r"""Judge open rows by today's rules; those that are believed now come to silver once, and to what rests on it.

    The stream may go on meanwhile. A row whose time it still owns stays open, and the earliest possible moment is told.
    Killed half-way, it is finished by typing it again; until then `strandline ledger` says so.
    After a replay of all rows the table is what `strandline verify` computes; after one of some it may not be.

    \b
    strandline quarantine replay silver.device_telemetry --dry-run
    strandline quarantine replay silver.device_telemetry
    strandline quarantine replay silver.device_telemetry --reason late --since 2026-11-01 --until 2026-11-02
    """
    # Not imported above: it takes longer than all of an answer.
    healing = importlib.import_module("jobs.cli.healing")
    healing.replayed(table, reason, (since, until), lake=lake, dry_run=dry_run, as_json=as_json)


@quarantine.command("discard")
def discard(  # noqa: PLR0913, PLR0917  # as above
    table: TableArgument,
    reason: ReasonOption = None,
    at: AtOption = None,
    because: Annotated[
        str | None, typer.Option("--because", help="Why nobody has to look at them any more.")
    ] = None,
    undo: Annotated[
        bool, typer.Option("--undo", help="Take the last discard of the table back.")
    ] = False,
    lake: LakeOption = None,
    as_json: JsonOption = False,
) -> None:
    r"""Give open rows up, with the reason why; they stay where they are, and the ledger counts them as before.

    \b
    strandline quarantine discard silver.device_telemetry --reason malformed --because "a test of the line"
    strandline quarantine discard silver.device_telemetry --at device-telemetry/0/17 --because "sent by hand"
    strandline quarantine discard silver.device_telemetry --undo
    """
    healing = importlib.import_module("jobs.cli.healing")  # as above
    healing.discarded(
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
    r"""Write all open rows to a file with their original bytes: lines of JSON, bytes in base64, or Parquet.

    \b
    strandline quarantine export silver.device_telemetry --to held.ndjson
    strandline quarantine export silver.device_telemetry --reason late --to late.parquet
    """
    _, where = place.existing(lake)
    count = export(catalog.find(table), where, to.absolute(), reason=reason)
    if as_json:
        emit({"table": table, "file": str(to), "rows": count})
    else:
        say(f"{count:,} rows in {to}")


def placed(at: str | None) -> Place | None:
    """Read a place in Kafka that was typed.

    Raises:
        DefinitionError: It is none.
    """
    if at is None:
        return None
    topic, *numbers = at.rsplit("/", 2)
    if not topic or len(numbers) != 2 or not all(each.isdigit() for each in numbers):  # noqa: PLR2004  # partition and offset
        raise DefinitionError(
            f"--at {at!r} is no place in Kafka",
            hint="write topic/partition/offset, such as device-telemetry/0/17.",
        )
    return topic, int(numbers[0]), int(numbers[1])


def _masked(row: Held, table: Table, lake: Lake) -> Held:
    """Return a record as it may be shown to whoever looks over a shoulder."""
    shown = mask.payload(row.payload, table.secret, harmless(table, lake)).encode()
    return replace(
        row,
        payload=None if row.payload is None else shown,
        key=None if row.key is None else str(mask.mask_value(row.key)).encode(),
        headers=tuple((name, str(mask.mask_value(value)).encode()) for name, value in row.headers),
    )


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
    say(f"{row.topic}/{row.partition}/{row.offset}: {row.state}, held by {row.batch or 'unknown'}")
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
        who, at = done.who or "somebody", done.at.isoformat() if done.at else "some time"
        say(f"  {done.status:<8} by {who} at {at}" + (f": {done.why}" if done.why else ""))


def _text(value: bytes | None) -> str:
    """Write bytes for a person: as text where they are, and else as digits."""
    if value is None:
        return ""
    try:
        return value.decode()
    except UnicodeDecodeError:
        return f"0x{value.hex()}"


def _as_json(row: Held) -> dict[str, object]:
    told = asdict(row)
    told |= {name: _bytes(told[name]) for name in ("key", "payload")}
    return told | {"headers": [{"name": n, "value": _bytes(v)} for n, v in row.headers]}


def _bytes(value: bytes | None) -> dict[str, str] | None:
    """Write bytes for a program: as text where they are, and else as digits, and say which."""
    if value is None:
        return None
    try:
        return {"text": value.decode()}
    except UnicodeDecodeError:
        return {"hex": value.hex()}
