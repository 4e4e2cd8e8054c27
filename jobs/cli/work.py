"""``run``: bring tables up to date, for this verb and for others."""

from collections.abc import Callable
from enum import StrEnum
from typing import Annotated

import typer

from jobs.cli import stopping
from jobs.cli.passing import Failed, free
from jobs.cli.place import JsonOption, LakeOption, TablesArgument
from jobs.cli.screen import emit, is_watched, note, show
from jobs.core.modes import AvailableNow, Batch, Mode
from jobs.core.table import Ingested, Table
from jobs.engine.gates.gate_files import GateShutError
from jobs.engine.pipeline.run_summary import Report
from jobs.engine.pipeline.runner import Site, run
from jobs.engine.pipeline.strangers import refuse_without_source
from jobs.engine.runtime.settings import Settings
from jobs.engine.storage.lake import Lake
from jobs.engine.storage.ledger import Entry
from jobs.engine.storage.locks import HasWriterError
from jobs.operate import lakes, session
from jobs.operate.listener import Throttle

COLUMNS = (
    "table",
    "batches",
    "read",
    "good",
    "duplicates",
    "quarantined",
    "dropped",
    "lost",
    "made",
    "seconds",
)


class RunMode(StrEnum):
    """The modes of ``run``."""

    AVAILABLE_NOW = "available-now"
    BATCH = "batch"


MaxOffsets = Annotated[
    int | None,
    typer.Option(
        min=1, help="Most records in one batch; chosen from speed and memory when absent."
    ),
]


def register(app: typer.Typer) -> None:
    """Add the verb."""
    app.command("run")(run_tables)


def run_tables(
    tables: TablesArgument = None,
    mode: Annotated[RunMode, typer.Option(help="Catch up, or recompute.")] = (
        RunMode.AVAILABLE_NOW
    ),
    max_offsets: MaxOffsets = None,
    lake: LakeOption = None,
    as_json: JsonOption = False,
) -> None:
    r"""Bring tables up to date, each after those it reads, then stop.

    A table that another process writes is passed over, and the exit code is then 3. One that fails is named, and the
    others go on, those above it with the rows that it has; the exit code is that of the first failure.
    A retired table is left out.

    \b
    strandline run
    strandline run bronze.device_telemetry --max-offsets 20000
    strandline run --mode batch --lake /tmp/second-opinion
    """
    found, where = lakes.configured(lake)
    where.refuse_newer()
    how: Mode = Batch() if mode is RunMode.BATCH else AvailableNow(max_offsets=max_offsets)
    catch_up(found, where, lakes.to_feed(tables, where), how, as_json=as_json)


def catch_up(
    found: Settings,
    where: Lake,
    chosen: list[Table],
    how: Mode = AvailableNow(),  # noqa: B008  # never changed
    *,
    as_json: bool,
) -> None:
    """Bring tables up to date and print the result.

    Raises:
        LakeError: Tables failed; this names them all, with what to do about the first, and the other tables are done.
        GateShutError: Gates are shut; this is the first, and the other tables are done.
        TransientError: Another process writes some of them; the others are done.
    """
    stopping.at_once()
    left, passed = free(chosen, where)
    site = _ready(found, where, left)
    reports = []
    refused: GateShutError | None = None
    failed = Failed(where)
    minute = Throttle(at_once=False)
    for table in left:
        if passed.blocks(table) or failed.blocks(table):
            continue
        try:
            reports.append(
                run(table, how, where, site=site, on_commit=_note_batches(table, minute))
            )
        except GateShutError as error:  # the tables above go on with the published rows
            note(error.message)
            refused = refused or error
        except HasWriterError as error:  # since the check above
            passed.add(table, error.message)
        except Exception as error:
            if failed.ends_all(error):
                raise
            failed.add(table, error)
        else:
            _note_done(reports[-1])
    if as_json:
        emit([report.as_json() for report in reports])
    else:
        show(None, COLUMNS, [_row(report) for report in reports])
    failed.refuse(len(chosen))
    if refused is not None:
        raise refused
    passed.refuse(len(chosen))


def _ready(found: Settings, where: Lake, chosen: list[Table]) -> Site:
    """Refuse early what cannot work, before Spark takes its seconds to start."""
    refuse_early(where, chosen)
    needs_kafka = any(isinstance(table, Ingested) for table in chosen)
    address = lakes.demanded_address(found, where) if needs_kafka else None
    return session.site(found, where, address, says=note)


def refuse_early(where: Lake, chosen: list[Table]) -> None:
    """Refuse a lake that cannot be written, and a table without its source."""
    where.open_for_writing()
    ids = {table.id for table in chosen}
    for table in chosen:
        if not {source.id for source in table.upstream} & ids:
            refuse_without_source(table, where)


def _note_batches(table: Table, minute: Throttle) -> Callable[[Entry], None]:
    """Return a function that prints each batch on a terminal, and one a minute in a log."""

    def note_batch(entry: Entry) -> None:
        if is_watched() or minute.is_due():
            note(f"{table.id}: batch {entry.batch}, {entry.read:,} read, {entry.duration_ms:,} ms")

    return note_batch


def _note_done(report: Report) -> None:
    """Print the result of a table to a log; a terminal has shown its batches."""
    if report.books_open:
        note(f"the books of {report.table} stay open until the next run: {report.books_open}")
    if not is_watched():
        batches, seconds = report.batches, report.seconds
        note(f"{report.table}: {batches:,} batches, {report.read:,} read, {seconds:,.1f} s")


def _row(report: Report) -> tuple[object, ...]:
    return (
        report.table,
        report.batches,
        report.read,
        report.good,
        report.duplicates,
        report.quarantined.total(),
        report.dropped_by_watermark,
        report.lost_by_function,
        report.made_by_function,
        report.seconds,
    )
