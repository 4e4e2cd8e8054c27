"""``ledger`` and ``tables``: verbs that only read, and need no Spark."""

from collections.abc import Iterator
from typing import Annotated

import typer

from jobs import catalog
from jobs.cli import place
from jobs.cli.place import JsonOption, LakeOption, TablesArgument
from jobs.cli.screen import emit, note, say, show, yes
from jobs.core.errors import DamagedError, DataError
from jobs.core.table import Ingested, Judged, Table
from jobs.engine.accounting.balance_sheet import Balance, balance, held_rows
from jobs.engine.accounting.feed_balance import LIVE, feed_balances
from jobs.engine.accounting.left_topics import said
from jobs.engine.accounting.undeclared import listed, remedy, undeclared
from jobs.engine.gates import gate_files
from jobs.engine.pipeline.danger import Level
from jobs.engine.pipeline.radar import last
from jobs.engine.proof.certificate import status
from jobs.engine.storage.damage import damage
from jobs.engine.storage.lake import Lake
from jobs.engine.storage.ledger import Entry, last_entry
from jobs.engine.storage.open_table import live_rows
from jobs.engine.storage.retired import Retirement, retired
from jobs.operate import lakes

SHEET = (
    "table",
    "read",
    "good",
    "duplicates",
    "quarantined",
    "dropped",
    "lost",
    "made",
    "healed",
    "expired",
    "forgotten",
    "waiting",
    "balanced",
)


def register(app: typer.Typer) -> None:
    """Add the verbs."""
    app.command("tables")(tables_)
    app.command("ledger")(ledger)


AuditOption = Annotated[
    bool,
    typer.Option(
        "--audit",
        help="Read every entry since the first commit, and compare with the books that were closed.",
    ),
]


def ledger(
    tables: TablesArgument = None,
    lake: LakeOption = None,
    audit: AuditOption = False,
    as_json: JsonOption = False,
) -> None:
    r"""Prove where every event is: read = good + duplicates + quarantined + dropped + lost - made, hop by hop.

    ``imported`` are the rows read that came from files and not from Kafka (`strandline import`).
    ``lost`` and ``made`` are the records for which a table's function gave no row, and the rows that it gave beyond one for
    each record: like ``dropped``, a fault where it is not 0.
    ``healed`` counts the good rows that were quarantined or dropped until a backfill or a replay brought them in.
    Exits with 4 when the sums differ, and names the batch.
    ``lost`` are offsets that expired in Kafka before they were read, and whose loss was accepted
    (`strandline accept-loss`).
    The sums of older commits were carried forward when their books were closed; ``--audit`` adds them up again.

    \b
    strandline ledger
    strandline ledger --audit
    strandline ledger silver.device_telemetry --json
    """
    _, where = place.existing(lake, briefly=True)
    sheets = sheets_of(where, tables, audited=audit)
    if as_json:
        ended = retired(where)
        emit([_as_json(sheet, ended.get(sheet.table)) for sheet in sheets])
    else:
        print_sheets(sheets)
        _say_recreated(where)
        for each in left(where):
            say(each)
    refuse_imbalance(sheets)


def sheets_of(
    where: Lake, names: list[str] | None = None, *, audited: bool = False
) -> list[Balance]:
    """Return the balance sheets of the tables that exist.

    Raises:
        DefinitionError: None of them exists.
    """
    live = [name for name in names or () if name.startswith(f"{LIVE}.")]
    others = [name for name in names or () if name not in live]
    sheets = [] if live and not others else lakes.filled(where, others or None)
    return [
        *(balance(table, where, audited=audited) for table in sheets),
        *(
            sheet
            for sheet in feed_balances(where, audited=audited)
            if not names or sheet.table in live
        ),
    ]


def print_sheets(sheets: list[Balance]) -> None:
    """Print balance sheets, and below them the reasons of the quarantine."""
    show(None, SHEET, [_row(sheet) for sheet in sheets])
    for sheet in sheets:
        if sheet.quarantined:
            reasons = sorted(sheet.quarantined.items(), key=lambda item: -item[1])
            listed = ", ".join(f"{reason} {count:,}" for reason, count in reasons)
            say(f"quarantined by {sheet.table}: {listed}")
        if sheet.lost:
            say(f"lost to {sheet.table}: {_lost(sheet)}")
        if sheet.imported:
            say(f"imported to {sheet.table}: {sheet.imported:,} of the rows read came from files")


def left(where: Lake) -> Iterator[str]:
    """Yield a sentence for each table that is fed no more, and for each topic and each cluster that one has left.

    None of a topic of a damaged table.
    """
    for name, ended in retired(where).items():
        yield f"retired: {name}, which is read and no longer fed, by {ended.words}"
    if names := undeclared(where):
        yield f"declared by no module: {listed(names)}, in the lake all the same; {remedy(names[0])}"
    for table in catalog.tables():
        if isinstance(table, Ingested) and where.exists(table):
            try:
                yield from said(table, where)
            except Exception as error:
                if damage(error, table) is None:
                    raise


def _say_recreated(where: Lake) -> None:
    """Say which topics the radar found deleted or made anew; the books end where they were read, and balance."""
    at, dangers = last(where) or ("", [])
    for each in dangers:
        if each.level is Level.LOST and each.lost is None:
            say(f"lost to {each.reader}: {each.source}, {each.says} (the radar of {at})")


def _lost(sheet: Balance) -> str:
    """Return which offsets expired before they were read."""
    count = sum(end - first for ranges in sheet.lost.values() for first, end in ranges)
    listed = ", ".join(
        f"{part} offsets {first} to {end - 1}"
        for part, ranges in sheet.lost.items()
        for first, end in ranges
    )
    return f"{count:,} offsets that expired in Kafka unread ({listed})"


def refuse_imbalance(sheets: list[Balance]) -> None:
    """Refuse sheets that do not balance.

    Raises:
        DataError: One does not; each fault is named with its batch.
        DamagedError: All that do balance, and others cannot be read.
    """
    damaged = [sheet.damage for sheet in sheets if sheet.damage is not None]
    if damaged and all(sheet.damage is not None for sheet in sheets if sheet.faults):
        raise DamagedError(
            "\n  ".join(dict.fromkeys(each.message for each in damaged)),
            hint=damaged[0].hint,
            tables=[sheet.table for sheet in sheets if sheet.damage is not None],
        )
    faults = [f"{sheet.table}: {fault}" for sheet in sheets for fault in sheet.faults]
    if faults:
        raise DataError(
            "the ledger does not balance:\n  " + "\n  ".join(faults),
            hint="no other program may write these folders; compare with `strandline run --mode batch` "
            "into another lake and `strandline compare`.",
            faults=faults,
        )


def tables_(lake: LakeOption = None, as_json: JsonOption = False) -> None:
    r"""List the tables: what each reads, how many rows it has, when it was last written.

    Exits with 4 when one cannot be read; the others are listed.

    \b
    strandline tables
    strandline tables --json
    """
    _, where = lakes.asked(lake)
    lakes.say_newer(where, note)
    rows, damaged = [], list[DataError]()
    for table in catalog.tables():
        try:
            rows.append(_listed(table, where))
        except Exception as error:
            found = damage(error, table)
            if found is None:
                raise
            damaged.append(found)
            rows.append(_unlisted(table))
    if as_json:
        emit(rows)
    else:
        show(None, tuple(rows[0]) if rows else ("table",), [tuple(row.values()) for row in rows])
    if damaged:
        raise DamagedError(
            "\n  ".join(dict.fromkeys(each.message for each in damaged)), hint=damaged[0].hint
        )


def _listed(table: Table, where: Lake) -> dict[str, object]:
    newest = last_entry(where.table(table))
    return {
        "table": table.id,
        "reads": ", ".join(str(source) for source in table.reads),
        "rows": live_rows(where.table(table)),
        "quarantined": held_rows(table, where) if isinstance(table, Judged) else None,
        "version": newest[0] if newest else None,
        "mode": _mode(table, where, newest[1] if newest else None),
        "watermark": newest[1].watermark if newest else None,
        "certificate": None if isinstance(table, Ingested) else status(table, where),
        "gate": gate_files.summary(table, where),
    }


def _mode(table: Table, where: Lake, newest: Entry | None) -> str:
    """Return how a table was written last, or that it no longer is."""
    if table.id in retired(where):
        return "retired"
    return newest.mode if newest else "never run"


def _unlisted(table: Table) -> dict[str, object]:
    """Return the same of a table that cannot be read."""
    none = dict.fromkeys(("rows", "quarantined", "version"))
    reads = ", ".join(str(source) for source in table.reads)
    last = dict.fromkeys(("watermark", "certificate", "gate"))
    return {"table": table.id, "reads": reads, **none, "mode": "damaged", **last}


def _row(sheet: Balance) -> tuple[object, ...]:
    return (
        sheet.table,
        sheet.read,
        sheet.good,
        sheet.duplicates,
        sum(sheet.quarantined.values()),
        sheet.dropped_by_watermark,
        sheet.lost_by_function,
        sheet.made_by_function,
        sheet.healed,
        sheet.expired,
        sheet.forgotten,
        sheet.waiting,
        yes(sheet.balanced),
    )


def _as_json(sheet: Balance, ended: Retirement | None) -> dict[str, object]:
    more = {"retired": ended.words} if ended else {}
    return {**sheet.figures(), "balanced": sheet.balanced, **more}
