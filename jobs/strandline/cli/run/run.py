"""``run``: bring tables up to date, for this verb and for others."""

from enum import StrEnum
from typing import Annotated

import typer

from strandline.cli import stopping
from strandline.cli.place import JsonOption, LakeOption, TablesArgument
from strandline.cli.screen import emit, is_watched, note, show
from strandline.core.modes import AvailableNow, Batch, Mode
from strandline.core.table import Table
from strandline.engine.flow.running import Report
from strandline.engine.lake.lake import Lake
from strandline.engine.lake.log.ledger import Entry
from strandline.engine.runtime.settings import Settings
from strandline.operate import lakes
from strandline.operate.listener import Throttle
from strandline.operate.run import catch_up

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
    run_and_show(found, where, lakes.to_feed(tables, where), how, as_json=as_json)


def run_and_show(
    found: Settings,
    where: Lake,
    chosen: list[Table],
    how: Mode = AvailableNow(),  # noqa: B008  # never changed
    *,
    as_json: bool,
) -> None:
    """Bring tables up to date and print the result."""
    stopping.at_once()
    minute = Throttle(at_once=False)

    def note_batch(table: Table, entry: Entry) -> None:
        """Print each batch on a terminal, and one a minute in a log."""
        if is_watched() or minute.is_due():
            note(f"{table.id}: batch {entry.batch}, {entry.read:,} read, {entry.duration_ms:,} ms")

    done = catch_up(found, where, chosen, how, says=note, on_commit=note_batch, on_done=_note_done)
    if as_json:
        emit([report.as_json() for report in done.reports])
    else:
        show(None, COLUMNS, [_row(report) for report in done.reports])
    done.refuse()


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
        report.copies,
        report.quarantined.total(),
        report.dropped_by_watermark,
        report.lost_by_function,
        report.made_by_function,
        report.seconds,
    )
