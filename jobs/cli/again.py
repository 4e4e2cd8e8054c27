"""``backfill``: recompute a closed range while the stream runs."""

from collections.abc import Iterable, Iterator
from dataclasses import asdict
from typing import Annotated

import typer
from pyspark.sql import SparkSession

from jobs.cli import place, ranges
from jobs.cli.check import refuse_unbelieved
from jobs.cli.place import JsonOption, LakeOption
from jobs.cli.ranges import SINCE, UNTIL
from jobs.cli.screen import emit, note, show
from jobs.core.table import Table
from jobs.engine.gates.batch_check import Guard
from jobs.engine.gates.gate_files import Where
from jobs.engine.pipeline.run_summary import Parent
from jobs.engine.quarantine.write import Signed
from jobs.engine.repair.backfill import MODE, backfill
from jobs.engine.repair.closed_range import Span, refuse_open
from jobs.engine.repair.downstream import (
    above,
    backfill_above,
    left_behind,
    refuse_behind_above,
    refuse_open_above,
)
from jobs.engine.runtime import clock
from jobs.engine.storage.horizon import refuse_expired
from jobs.engine.storage.lake import Lake
from jobs.engine.storage.ledger import Entry
from jobs.operate import lakes, session

COLUMNS = ("table", "since", "until", "rows that came", "rows that went", "seconds")


def register(app: typer.Typer) -> None:
    """Add the verb."""
    app.command("backfill")(backfill_)


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
    found, where = place.existing(lake, writes=True)
    chosen = lakes.derived(table, where)
    span = ranges.typed(since, until)
    refuse_open(chosen, where, span)
    refuse_expired(chosen, where, span.since)
    if downstream:
        refuse_open_above(chosen, where, span)
        refuse_behind_above(chosen, where)
    note("starting Spark …")
    spark = session.site(found, where, None, is_brief=True, says=note).spark
    done = []
    for each, entry in again(spark, chosen, where, span, downstream=downstream):
        done.append((each, entry))
        note_changed(each, entry)
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
    note_left_behind(chosen, where, [own])


def again(  # noqa: PLR0913  # what, where, which range, and the run that it is a part of
    spark: SparkSession,
    table: Table,
    lake: Lake,
    span: Span,
    *,
    downstream: bool,
    parent: Parent | None = None,
) -> Iterator[tuple[Table, Entry | None]]:
    """Recompute a range of a table, then on request the tables above, and audit each as `strandline check` does."""
    with session.recorder(lake, note, parent=parent)(spark, table, MODE, lake) as wrote:
        own = guarded(spark, table, lake, span)
        wrote(table, own)
        yield table, own
        refuse_unbelieved(spark, table, lake, span)
        for each, entry in backfill_above(spark, table, lake, span) if downstream else ():
            if entry:
                wrote(each, entry)
            yield each, entry
            if entry:
                refuse_unbelieved(spark, each, lake, span)


def guarded(spark: SparkSession, table: Table, lake: Lake, span: Span) -> Entry:
    """Recompute a range of a table behind its gate, signed by the user."""
    guard = Guard(table, lake, clock.now, Where.RANGE)
    signed = Signed(who=clock.login(), at=clock.now())
    return backfill(spark, table, lake, span, signed, guard=guard)


def note_changed(table: Table, entry: Entry | None) -> None:
    """Report how many rows came and went."""
    if entry is None:
        note(f"{table.id}: nothing to do, or its own stream does it")
    else:
        note(f"{table.id}: {entry.came:,} rows came, {entry.gone:,} went")


def note_left_behind(table: Table, lake: Lake, done: Iterable[Entry | None]) -> None:
    """Name the retired tables that have the old rows, if any rows came or went."""
    words = left_behind_words(table, lake)
    if words and any(each and (each.came or each.gone) for each in done):
        note(words)


def left_behind_words(table: Table, lake: Lake) -> str:
    """Return the sentence that names the retired tables which keep the old rows when those of a table change; empty without any."""
    names = ", ".join(each.id for each in left_behind(table, lake))
    words = f"retired, and computed from the old rows: {names}; `--undo` cannot go on from where they ended, a rebuild feeds them"
    return words if names else ""


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
