"""``backfill``, ``rewind``, ``rebuild``, ``promote``, ``undo``, ``import``: the past is computed, or brought, while the stream runs.

``backfill``: recompute a closed range while the stream runs.
"""

from dataclasses import asdict
from typing import Annotated

import typer
from strandline import catalog

from strandline.cli import screen
from strandline.cli.screen import SINCE, UNTIL, JsonOption, LakeOption, emit, note, say, show
from strandline.core.errors import DefinitionError
from strandline.core.table import Ingested, Table
from strandline.engine.lake.completeness import refuse_expired, refuse_retired
from strandline.engine.lake.lake import Lake
from strandline.engine.lake.log.ledger import Entry
from strandline.engine.lake.place import Place
from strandline.engine.proof.compare import Comparison
from strandline.engine.repair import closed_range
from strandline.engine.repair.closed_range import Rewind, refuse_open, rewind
from strandline.engine.repair.downstream import (
    above,
    refuse_behind_above,
    refuse_open_above,
)
from strandline.engine.repair.import_files import SLICE
from strandline.operate import lakes, session
from strandline.operate.backfill import (
    Imported,
    Work,
    backfilled,
    change,
    event_time,
    is_final,
    left_behind_by,
    left_behind_words,
    promoted,
    rebuildable,
    rebuilt,
    rewind_lines,
    rewindable,
    rewound_to,
    stale_above,
    topic_of,
    undone,
)

COLUMNS = ("table", "since", "until", "rows that came", "rows that went", "seconds")


def _add_backfill(app: typer.Typer) -> None:
    """Add the verb."""
    app.command("backfill")(backfill_)
    _register_rewind(app)


def backfill_(  # noqa: PLR0913, PLR0917  # each is an option of the command line
    table: Annotated[str, typer.Argument(metavar="TABLE", help="A silver or gold table.")],
    since: Annotated[str, typer.Option(help=SINCE)],
    until: Annotated[str, typer.Option(help=UNTIL)],
    downstream: Annotated[
        bool, typer.Option("--downstream", help="Then the tables above it, in order.")
    ] = False,
    lake: LakeOption = None,
    as_json: JsonOption = False,
) -> None:
    r"""Recompute a closed range of a table and replace its rows, in one commit.

    The stream may run meanwhile. A range that it still owns is refused, with the earliest possible moment.
    Readers see the old rows or the new ones; streams above are not disturbed. A range that fails its rules is not
    committed (`strandline gate`), and committed rows are audited as by `strandline check`.

    \b
    strandline backfill silver.device_telemetry --since 2026-11-01 --until 2026-11-02
    strandline backfill silver.device_telemetry --since 2026-11-01 --until 2026-11-02 --downstream
    """
    found, where = screen.existing(lake, writes=True)
    chosen = lakes.derived(table, where)
    span = closed_range.typed(since, until, chosen)
    refuse_open(chosen, where, span)
    refuse_expired(chosen, where, span.since)
    if downstream:
        refuse_open_above(chosen, where, span)
        refuse_behind_above(chosen, where)
    note("starting Spark …")
    spark = session.site(found, where, None, is_brief=True, says=note, beside=True).spark
    done = []
    for each, entry in backfilled(spark, chosen, where, span, downstream=downstream, says=note):
        done.append((each, entry))
        note(change(each, entry))
    spark.stop()
    if as_json:
        emit([asdict(entry) for _, entry in done if entry])
        return
    show(None, COLUMNS, [_row(each, entry) for each, entry in done])
    stale = [] if downstream else above(chosen, where)
    own = done[0][1]
    if stale and own and (own.came or own.gone):
        names = ", ".join(each.id for each in stale)
        note(f"computed from the old rows: {names}; `--downstream` recomputes them")
    if words := left_behind_by(chosen, where, [own]):
        note(words)


def _row(table: Table, entry: Entry | None) -> tuple[object, ...]:
    if entry is None:
        return (table.id, None, None, None, None, None)
    return (
        table.id,
        entry.since,
        entry.until,
        entry.came,
        entry.gone,
        entry.duration_ms / 1000,
    )


# ``rewind``: recompute from bronze what arrived from a moment or an offset on.


ARRIVED = ("topic", "partition", "records", "first offset", "last offset")


def _register_rewind(app: typer.Typer) -> None:
    """Add the verb."""
    app.command("rewind")(rewind_)


def rewind_(  # each is an option of the command line
    table: Annotated[str, typer.Argument(metavar="TABLE", help="A silver or gold table.")],
    to: Annotated[
        str,
        typer.Option(
            metavar="WHERE",
            help="A moment of arrival (2026-11-01T06:00, in UTC) or an offset (topic/partition:offset).",
        ),
    ],
    go: Annotated[bool, typer.Option("--go", help="Do it; without this it is only shown.")] = False,
    lake: LakeOption = None,
    as_json: JsonOption = False,
) -> None:
    r"""Show which records arrived from a moment or an offset on and which days they touch; with --go recompute those.

    Nothing is read from Kafka, because bronze has every record once. The days of the table and of the tables above
    are recomputed from bronze, in one commit per table, while the stream runs. Days that the stream still owns are
    left to it.

    \b
    strandline rewind gold.device_signal_10m --to 2026-11-01T06:00
    strandline rewind silver.device_telemetry --to device-telemetry/2:40000 --go
    """
    found, where = screen.existing(lake, writes=go)
    chosen = lakes.derived(table, where)
    plan = rewind(chosen, where, rewound_to(to))
    if as_json:
        emit({**asdict(plan), "records": plan.records})
    else:
        _print(plan)
    if not go:
        return
    span = rewindable(chosen, where, plan)
    note("starting Spark …")
    spark = session.site(found, where, None, is_brief=True, says=note, beside=True).spark
    done = []
    for each, entry in backfilled(spark, chosen, where, span, downstream=True, says=note):
        done.append(entry)
        note(change(each, entry))
    spark.stop()
    if words := left_behind_by(chosen, where, done):
        note(words)


def _print(plan: Rewind) -> None:
    rows = [(p.topic, p.partition, p.records, p.first, p.last) for p in plan.parts]
    show(None, ARRIVED, rows)
    for line in rewind_lines(plan):
        say(line)


# ``rebuild``, ``promote``, ``undo``: compute a table with today's code, swap it in, and revert that.


TableArgument = Annotated[str, typer.Argument(metavar="TABLE", help="A silver or gold table.")]
REBUILT = ("table", "rows now", "rows anew", "added", "gone", "changed")


def _add_rebuild(app: typer.Typer) -> None:
    """Add the verbs."""
    app.command("rebuild")(rebuild_)
    app.command("promote")(promote)
    app.command("undo")(undo)


def rebuild_(table: TableArgument, lake: LakeOption = None, as_json: JsonOption = False) -> None:
    r"""Compute a table with today's code from all its sources, beside the live one, and show the difference.

    The live table and its stream are not touched. `strandline promote` replaces the live table by the new one.

    \b
    strandline rebuild silver.device_telemetry
    strandline rebuild gold.device_signal_10m --json
    """
    found, where = screen.existing(lake, writes=True)
    chosen = rebuildable(table, where)
    differences = rebuilt(chosen, found, where, note, note_batch)
    if as_json:
        emit([asdict(each) for each in differences])
        return
    show(None, REBUILT, [rebuilt_row(each) for each in differences])
    for each in differences:
        print_samples(each)
    note(
        f"`strandline promote {chosen.id}` replaces the live table, `strandline undo {chosen.id}` reverts that"
    )


def promote(table: TableArgument, lake: LakeOption = None, as_json: JsonOption = False) -> None:
    r"""Replace the live table by the rebuilt one, in one commit; its stream continues at the same offset.

    A running stream hands the table over after its batch, and takes it back; its other tables and all readers go on. If it
    is killed half-way, type it again to finish it.

    \b
    strandline promote silver.device_telemetry
    """
    found, where = screen.existing(lake, writes=True)
    chosen = rebuildable(table, where)
    entry = promoted(chosen, found, where, note, note_batch)
    _print_rebuilt(chosen, where, entry, ("promote", "promoted"), as_json=as_json)


def undo(table: TableArgument, lake: LakeOption = None, as_json: JsonOption = False) -> None:
    r"""Revert the last promotion of a table, in one commit; its former stream continues at its last offset.

    Rows that came since are not lost: the former stream reads them again.

    \b
    strandline undo silver.device_telemetry
    """
    found, where = screen.existing(lake, writes=True)
    chosen = rebuildable(table, where)
    entry = undone(chosen, found, where, note)
    _print_rebuilt(chosen, where, entry, ("undo", "reverted"), as_json=as_json)


def _print_rebuilt(
    table: Table, where: Lake, entry: Entry, words: tuple[str, str], *, as_json: bool
) -> None:
    """Print what was done; the words are the verb and what it has done."""
    if as_json:
        emit(asdict(entry))
        return
    say(
        f"{table.id}: {words[1]}, {entry.written:,} rows; a stream that runs continues from there by itself, "
        f"where none runs `strandline run {table.id}` does"
    )
    if words[0] == "promote" and is_final(table, where):
        note(
            "the checkpoint of before could not be read, so it was removed, and this promotion cannot be undone"
        )
    if stale := stale_above(table, where):
        note(f"computed from the old rows: {', '.join(stale)}; rebuild them in this order")
    if left := left_behind_words(table, where):
        note(left)


def note_batch(entry: Entry) -> None:
    """Print a batch of a table that is computed anew."""
    note(f"{entry.table}: batch {entry.batch}, {entry.read:,} read, {entry.duration_ms:,} ms")


def print_samples(found: Comparison) -> None:
    """Print what only one of two sides has: columns, and some rows."""
    if found.apart:
        say(f"{found.table}: only one of the two has the columns {', '.join(found.apart)}")
    for sample in found.samples:
        say(f"{found.table} {sample}")


def rebuilt_row(found: Comparison) -> tuple[object, ...]:
    """Return how a table differs from what the code of now makes, as a row of ``REBUILT``."""
    return (
        found.table,
        found.left_rows,
        found.right_rows,
        found.only_right - found.changed,
        found.only_left - found.changed,
        found.changed,
    )


# ``import``: history from files becomes rows beside the stream.


def _add_importing(app: typer.Typer) -> None:
    """Add the verb."""
    app.command("import")(import_)


def import_(  # noqa: PLR0913, PLR0917  # each is an option of the command line
    table: Annotated[str, typer.Argument(metavar="TABLE", help="A bronze table.")],
    source: Annotated[
        str,
        typer.Argument(
            metavar="FROM",
            help="A file, or a folder with files: JSON lines, CSV (each also .gz) or Parquet; s3a://… too.",
        ),
    ],
    arrived_at_column: Annotated[
        str | None,
        typer.Option(
            metavar="FIELD",
            help="The field with the moment at which an event arrived; by default that of the event itself.",
        ),
    ] = None,
    topic: Annotated[
        str | None,
        typer.Option(
            metavar="TOPIC", help="Whose records they are, where the table reads several."
        ),
    ] = None,
    header: Annotated[
        bool, typer.Option("--header", help="The first line of a CSV names its cells.")
    ] = False,
    slice_rows: Annotated[
        int, typer.Option("--slice", min=1, metavar="ROWS", help="The most rows of a commit.")
    ] = SLICE,
    give_up: Annotated[
        bool,
        typer.Option(
            "--give-up",
            help="Leave out the rest of an interrupted file that is gone or changed; what is committed stays.",
        ),
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only count, and name the range.")
    ] = False,
    lake: LakeOption = None,
    as_json: JsonOption = False,
) -> None:
    r"""Import history from files into a bronze table, and compute the tables above in its range again.

    The stream may run meanwhile. Each record becomes a row as received, with the partition -1 of its topic and a number
    as its offset; `strandline why` names its file and its row. What the rules refuse goes to the quarantine. A file is
    imported once: typed again, the rest of an interrupted one comes, and of the others nothing. All files are looked at
    before the first row is written: one that cannot be read, or has a time that a stream still owns, is refused. Where no
    stream has read a row yet, nothing need be there before: the streams begin with the history at the next run.

    \b
    strandline import bronze.dhcp_events history/ --dry-run
    strandline import bronze.dhcp_events history/october.parquet
    strandline import bronze.dhcp_events s3a://archive/dhcp/ --arrived-at-column received_at
    """
    found, where = lakes.configured(lake)
    where.refuse_restoring()
    chosen = catalog.find(table)
    if not isinstance(chosen, Ingested):
        raise DefinitionError(
            f"{table} is computed from other tables, so no file is a part of it",
            hint=f"name the bronze table at its begin: {', '.join(each.id for each in chosen.upstream)}.",
            table=table,
        )
    refuse_retired(chosen, where)
    work = Work(
        table=chosen,
        topic=topic_of(chosen, topic),
        lake=where,
        column=arrived_at_column or event_time(chosen),
        header=header,
        slice_rows=slice_rows,
        gives_up=give_up,
        says=note,
    )
    address = Place.of(source)
    readers = [each.id for each in catalog.tables() if chosen in each.upstream]
    if dry_run:
        _report(work.rehearsed(address), readers, as_json=as_json)
        return
    where.open_for_writing()
    note("starting Spark …")
    spark = session.site(found, where, None, is_brief=True, says=note, beside=True).spark
    try:
        done = work.done(spark, address)
    finally:
        spark.stop()
    _report(done, readers, as_json=as_json)


def _report(found: Imported, readers: list[str], *, as_json: bool) -> None:
    if as_json:
        emit(
            {
                "files": found.files,
                "rows": found.rows,
                "files_before": found.skipped_files,
                "rows_before": found.skipped_rows,
                "left_out": found.left_out,
                "brought": found.brought,
                "since": found.since,
                "until": found.until,
                "not_followed": found.not_followed,
                "before_streams": found.is_first,
                "dry_run": found.is_plan,
            }
        )
        return
    before = f"; {found.skipped_rows:,} rows of {found.skipped_files:,} files were imported before"
    reach = f", arrived from {found.since} to {found.until}" if found.since else ""
    if found.is_plan:
        say(f"{found.rows:,} rows of {found.files:,} files would come{reach}{before}")
        note("nothing was written; the same without --dry-run does it")
    elif found.rows or found.brought:
        say(f"imported {found.rows:,} rows of {found.files:,} files{reach}{before}")
    else:
        say(
            f"nothing new: {found.skipped_rows:,} rows of {found.skipped_files:,} files were imported before"
        )
    if found.is_first and not found.is_plan:
        say(
            "no stream above has read a row yet, so all of them begin with what was imported: "
            f"`strandline run {' '.join(readers)}`, then the tables above"
        )
    for name, at in found.not_followed.items():
        say(f"{name} keeps its rows from {at} on: older ones do not come to it")


def register(app: typer.Typer) -> None:
    """Add the verbs."""
    _add_backfill(app)
    _add_rebuild(app)
    _add_importing(app)
