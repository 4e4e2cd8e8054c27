"""``run`` and ``stream``: the verbs that write tables."""

from collections.abc import Callable
from dataclasses import asdict
from enum import StrEnum
from typing import Annotated

import typer
from rich.table import Table as Grid

from jobs.cli import engine, place, stopping
from jobs.cli.passing import free
from jobs.cli.place import JsonOption, LakeOption, TablesArgument
from jobs.cli.screen import Sparing, emit, grid, is_terminal, is_watched, live, note, show
from jobs.cli.telling import Telling, waits_for
from jobs.core.errors import DefinitionError
from jobs.core.modes import AvailableNow, Batch, MicroBatch, Mode
from jobs.core.table import Layer, Table
from jobs.run import broker
from jobs.run.gates import GateShutError
from jobs.run.host import Host
from jobs.run.lake import Lake
from jobs.run.lease import HasWriterError, refuse_if_taken
from jobs.run.ledger import Entry
from jobs.run.logs import bound
from jobs.run.report import Report
from jobs.run.runner import Site, refuse_without_source, run
from jobs.run.settings import Settings

COLUMNS = ("table", "batches", "read", "good", "duplicates", "quarantined", "dropped", "seconds")
EVERY = "5s"
MAX_OFFSETS = 500_000


class RunMode(StrEnum):
    """How ``run`` goes about it."""

    AVAILABLE_NOW = "available-now"
    BATCH = "batch"


MaxOffsets = Annotated[
    int | None, typer.Option(min=1, help="Most Kafka records in one batch of bronze.")
]


def register(app: typer.Typer) -> None:
    """Add the verbs."""
    app.command("run")(run_tables)
    app.command("stream")(stream)


def run_tables(
    tables: TablesArgument = None,
    mode: Annotated[RunMode, typer.Option(help="Catch up, or compute anew.")] = (
        RunMode.AVAILABLE_NOW
    ),
    max_offsets: MaxOffsets = None,
    lake: LakeOption = None,
    as_json: JsonOption = False,
) -> None:
    r"""Bring tables up to date, each after those it reads, then stop.

    A table that another process writes is passed over, and the exit code is then 3.

    \b
    strandline run
    strandline run bronze.device_telemetry --max-offsets 20000
    strandline run --mode batch --lake /tmp/second-opinion
    """
    found, where = place.configured(lake)
    how: Mode = Batch() if mode is RunMode.BATCH else AvailableNow(max_offsets=max_offsets)
    catch_up(found, where, place.named(tables), how, as_json=as_json)


def catch_up(
    found: Settings,
    where: Lake,
    chosen: list[Table],
    how: Mode = AvailableNow(),  # noqa: B008  # never changed
    *,
    as_json: bool,
) -> None:
    """Bring tables up to date and say what was done.

    Raises:
        GateShutError: Of the first table whose gate is shut, when the others are done.
        TransientError: Another process writes some of them; the others are done.
    """
    stopping.at_once()
    left, passed = free(chosen, where)
    site = _ready(found, where, left)
    reports = []
    refused: GateShutError | None = None
    minute = Sparing(at_once=False)
    for table in left:
        if passed.blocks(table):
            continue
        try:
            reports.append(run(table, how, where, site=site, tell=_telling(table, minute)))
        except GateShutError as error:  # the tables above go on with what was believed
            note(error.message)
            refused = refused or error
        except HasWriterError as error:  # since it was looked at
            passed.add(table, error.message)
        else:
            _tell_done(reports[-1])
    if as_json:
        emit([asdict(report) for report in reports])
    else:
        show(None, COLUMNS, [_row(report) for report in reports])
    if refused is not None:
        raise refused
    passed.refuse(len(chosen))


def stream(
    tables: TablesArgument = None,
    every: Annotated[str, typer.Option(help="Time from batch to batch: 500ms, 5s, 1m.")] = EVERY,
    max_offsets: MaxOffsets = MAX_OFFSETS,
    patient: Annotated[
        bool, typer.Option("--patient", help="Start without Kafka as well, and wait for it.")
    ] = False,
    lake: LakeOption = None,
) -> None:
    r"""Keep tables up to date until Ctrl-C, all of them in one process.

    \b
    strandline stream
    strandline stream bronze.device_telemetry silver.device_telemetry --every 1s
    """
    found, where = place.configured(lake)
    chosen = place.named(tables)
    mode = MicroBatch(every=seconds(every), max_offsets=max_offsets)
    asked = stopping.asked()  # from here on, also while Spark starts
    for table in chosen:
        refuse_if_taken(table, where)
    host = Host(chosen, mode, where, _ready_to_stay(found, where, chosen, patient), asked)
    note(f"streaming {len(chosen)} tables of {where.root}; Ctrl-C stops after the running batch")
    with live(lambda: _pulses(host)) as refresh:
        telling = Telling(note)

        def look(host: Host) -> None:
            refresh()
            if not is_terminal():
                telling.look(host.pulses.values())
                bound(where.log("stream"))  # ours, when we run in the background

        try:
            host.serve(look)
        finally:
            stopping.deaf()
    show(
        "stopped",
        ("table", "batches", "read"),
        [(pulse.table, pulse.batches, pulse.read) for pulse in host.pulses.values()],
    )


def _ready(found: Settings, where: Lake, chosen: list[Table]) -> Site:
    """Refuse early what cannot work, before Spark takes its seconds to start."""
    _refuse_early(where, chosen)
    needs_kafka = any(table.layer is Layer.BRONZE for table in chosen)
    address = place.demanded_address(found, where) if needs_kafka else None
    return engine.site(found, where, address)


def _ready_to_stay(found: Settings, where: Lake, chosen: list[Table], patient: bool) -> Site:  # noqa: FBT001  # as it was typed
    """Do the same for what does not end: where our own broker is, is asked whenever it is needed."""
    _refuse_early(where, chosen)

    def locate() -> str | None:
        return place.address(found, where) or broker.remembered(where.root)

    needs_kafka = any(table.layer is Layer.BRONZE for table in chosen)
    if needs_kafka and not (patient and locate()):
        place.demanded_address(found, where)
    return engine.site(found, where, found.kafka, locate=locate)


def _refuse_early(where: Lake, chosen: list[Table]) -> None:
    where.open_for_writing()
    ids = {table.id for table in chosen}
    for table in chosen:
        if not {source.id for source in table.upstream} & ids:
            refuse_without_source(table, where)


def _telling(table: Table, minute: Sparing) -> Callable[[Entry], None]:
    """Return what tells a person of each batch, and a log of one a minute."""

    def tell(entry: Entry) -> None:
        if is_watched() or minute.is_due():
            note(f"{table.id}: batch {entry.batch}, {entry.read:,} read, {entry.duration_ms:,} ms")

    return tell


def _tell_done(report: Report) -> None:
    """Tell a log what became of a table; a person has seen its batches."""
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
        report.seconds,
    )


def _pulses(host: Host) -> Grid:
    columns = ("table", "batches", "rows/s", "lag", "watermark", "last batch ms", "at", "waits")
    rows = [
        (p.table, p.batches, p.rate, p.lag, p.watermark, p.last_ms, p.at, waits_for(p))
        for p in host.pulses.values()
    ]
    return grid(None, columns, rows)


def seconds(text: str) -> float:
    """Read a time from batch to batch.

    Raises:
        DefinitionError: It is none.
    """
    for suffix, factor in (("ms", 0.001), ("s", 1.0), ("m", 60.0)):
        digits = text.removesuffix(suffix)
        if text.endswith(suffix) and digits.replace(".", "", 1).isdigit() and float(digits) > 0:
            return float(digits) * factor
    raise DefinitionError(
        f"{text!r} is no time from batch to batch", hint="write it like 500ms, 5s or 1m."
    )
