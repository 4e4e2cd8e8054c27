"""``backfill``: a closed range computed again while the stream goes on."""

from collections.abc import Iterator
from dataclasses import asdict
from typing import Annotated

import typer
from pyspark.sql import SparkSession

from jobs.cli import engine, place, ranges
from jobs.cli.check import refuse_unbelieved
from jobs.cli.place import JsonOption, LakeOption
from jobs.cli.ranges import SINCE, UNTIL
from jobs.cli.screen import emit, note, show
from jobs.core.table import Table
from jobs.run.above import above, backfill_above, refuse_behind_above, refuse_open_above
from jobs.run.backfill import backfill
from jobs.run.closing import Signed
from jobs.run.gates import Where
from jobs.run.guard import Guard
from jobs.run.lake import Lake
from jobs.run.ledger import Entry
from jobs.run.span import Span, refuse_open

COLUMNS = ("table", "since", "until", "rows that came", "rows that went", "seconds")


def register(app: typer.Typer) -> None:
    """Add the verb."""
    app.command("backfill")(backfill_)


def backfill_(  # noqa: PLR0913, PLR0917  # each is an option of the command line
    table: Annotated[str, typer.Argument(metavar="TABLE", help="A silver or gold table.")],
    since: Annotated[str, typer.Option(help=SINCE)],
    until: Annotated[str, typer.Option(help=UNTIL)],
    downstream: Annotated[
        bool, typer.Option("--downstream", help="Then the tables that rest on it, in order.")
    ] = False,
    lake: LakeOption = None,
    as_json: JsonOption = False,
) -> None:
    r"""Compute a closed range of a table again and put it in the place of what stands there, in one commit.

    The stream may go on meanwhile. A range that it still owns is refused, with the earliest possible moment.
    Readers see the old rows or the new ones; streams above are not disturbed. A range that is not believed is not
    put there (`strandline gate`), and what was put there is looked at as `strandline check` does.

    \b
    strandline backfill silver.device_telemetry --since 2026-11-01 --until 2026-11-02
    strandline backfill silver.device_telemetry --since 2026-11-01 --until 2026-11-02 --downstream
    """
    found, where = place.existing(lake)
    chosen = place.derived(table, where)
    span = ranges.typed(since, until)
    refuse_open(chosen, where, span)
    if downstream:
        refuse_open_above(chosen, where, span)
        refuse_behind_above(chosen, where)
    note("starting Spark …")
    spark = engine.site(found, where, None, is_brief=True).spark
    done = []
    for each, entry in again(spark, chosen, where, span, downstream=downstream):
        done.append((each, entry))
        tell_changed(each, entry)
    spark.stop()
    if as_json:
        emit([asdict(entry) for _, entry in done if entry])
        return
    show(None, COLUMNS, [_row(each, entry) for each, entry in done])
    resting = [] if downstream else above(chosen, where)
    own = done[0][1]
    if resting and own and (own.came or own.gone):
        names = ", ".join(each.id for each in resting)
        note(f"resting on the rows as they were: {names}; `--downstream` computes them again")


def again(
    spark: SparkSession, table: Table, lake: Lake, span: Span, *, downstream: bool
) -> Iterator[tuple[Table, Entry | None]]:
    """Compute a range of a table again, then if need be what rests on it, and look at each as `strandline check` does."""
    yield table, guarded(spark, table, lake, span)
    refuse_unbelieved(spark, table, lake, span)
    if not downstream:
        return
    for each, entry in backfill_above(spark, table, lake, span):
        yield each, entry
        if entry:
            refuse_unbelieved(spark, each, lake, span)


def guarded(spark: SparkSession, table: Table, lake: Lake, span: Span) -> Entry:
    """Compute a range of a table again, behind its gate and signed by who types."""
    guard = Guard(table, lake, place.now, Where.RANGE)
    signed = Signed(who=place.login(), at=place.now())
    return backfill(spark, table, lake, span, signed, guard=guard)


def tell_changed(table: Table, entry: Entry | None) -> None:
    """Say what was put in the place of what in a table."""
    if entry is None:
        note(f"{table.id}: nothing to do, or its own process does it")
    else:
        note(f"{table.id}: {entry.came:,} rows came, {entry.gone:,} went")


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
