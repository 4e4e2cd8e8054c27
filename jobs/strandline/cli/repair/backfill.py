"""``backfill`` and ``rewind``: the past is recomputed while the stream runs.

``backfill``: recompute a closed range while the stream runs.
"""

from dataclasses import asdict
from typing import Annotated

import typer

from strandline.cli import place
from strandline.cli.place import SINCE, UNTIL, JsonOption, LakeOption
from strandline.cli.screen import emit, note, say, show
from strandline.core.table import Table
from strandline.engine.lake.horizon import refuse_expired
from strandline.engine.lake.log.ledger import Entry
from strandline.engine.repair.closed_range import refuse_open
from strandline.engine.repair.downstream import (
    above,
    refuse_behind_above,
    refuse_open_above,
)
from strandline.engine.repair.rewind import Rewind, rewind
from strandline.operate import lakes, ranges, session
from strandline.operate.repairs.backfill import (
    backfilled,
    change,
    left_behind_by,
    rewind_lines,
    rewindable,
    rewound_to,
)

COLUMNS = ("table", "since", "until", "rows that came", "rows that went", "seconds")


def register(app: typer.Typer) -> None:
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
    found, where = place.existing(lake, writes=True)
    chosen = lakes.derived(table, where)
    span = ranges.typed(since, until, chosen)
    refuse_open(chosen, where, span)
    refuse_expired(chosen, where, span.since)
    if downstream:
        refuse_open_above(chosen, where, span)
        refuse_behind_above(chosen, where)
    note("starting Spark …")
    spark = session.site(found, where, None, is_brief=True, says=note).spark
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
    found, where = place.existing(lake, writes=go)
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
    spark = session.site(found, where, None, is_brief=True, says=note).spark
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
