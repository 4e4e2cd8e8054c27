"""``rebuild``, ``promote``, ``undo``: a table made anew, put in its own place, and taken back."""

from dataclasses import asdict
from typing import Annotated

import typer

from jobs import catalog
from jobs.cli import engine, place
from jobs.cli.place import JsonOption, LakeOption
from jobs.cli.screen import emit, note, say, show
from jobs.core.errors import DefinitionError
from jobs.core.table import Layer, Speaks, Table
from jobs.run import rebuild
from jobs.run.above import above
from jobs.run.compare import Comparison, compare
from jobs.run.lake import Lake
from jobs.run.lease import refuse_if_taken
from jobs.run.ledger import Entry

TableArgument = Annotated[str, typer.Argument(metavar="TABLE", help="A silver or gold table.")]
COLUMNS = ("table", "rows now", "rows anew", "added", "gone", "changed")


def register(app: typer.Typer) -> None:
    """Add the verbs."""
    app.command("rebuild")(rebuild_)
    app.command("promote")(promote)
    app.command("undo")(undo)


def rebuild_(table: TableArgument, lake: LakeOption = None, as_json: JsonOption = False) -> None:
    r"""Make a table anew by today's code from all that it reads, beside the live one, and show the difference.

    The live table and its stream are not touched. `strandline promote` puts the new one in its place.

    \b
    strandline rebuild silver.device_telemetry
    strandline rebuild gold.device_signal_10m --json
    """
    found, where = place.existing(lake)
    chosen = _chosen(table, where)
    note("starting Spark …")
    site = engine.site(found, where, None)
    made = rebuild.rebuild(chosen, where, site, tell=_told)
    site.spark.stop()
    differences = compare(
        chosen, where, made, sides=("in the live table", "in the new one"), may_differ=True
    )
    if as_json:
        emit([asdict(each) for each in differences])
        return
    show(None, COLUMNS, [_row(each) for each in differences])
    for each in differences:
        if each.apart:
            say(f"{each.table}: only one of the two has the columns {', '.join(each.apart)}")
        for sample in each.samples:
            say(f"{each.table} {sample}")
    note(
        f"`strandline promote {chosen.id}` puts it in its place, `strandline undo {chosen.id}` takes that back"
    )


def promote(table: TableArgument, lake: LakeOption = None, as_json: JsonOption = False) -> None:
    r"""Put a rebuilt table in the place of the live one, in one commit; its stream goes on at the very offset.

    The stream must be stopped for it; readers go on. Killed half-way, it is finished by typing it again.

    \b
    strandline promote silver.device_telemetry
    """
    found, where = place.existing(lake)
    chosen = _chosen(table, where)
    rebuild.refuse_without_shadow(chosen, where)
    refuse_if_taken(chosen, where)
    note("starting Spark …")
    site = engine.site(found, where, None, is_brief=True)
    entry = rebuild.promote(chosen, where, site, tell=_told)
    site.spark.stop()
    _said(chosen, where, entry, as_json=as_json, what="promoted")


def undo(table: TableArgument, lake: LakeOption = None, as_json: JsonOption = False) -> None:
    r"""Take the last promotion of a table back, in one commit; its former stream goes on where it stood.

    What came since is not lost: the former stream reads it again.

    \b
    strandline undo silver.device_telemetry
    """
    found, where = place.existing(lake)
    chosen = _chosen(table, where)
    rebuild.refuse_without_promotion(chosen, where)
    refuse_if_taken(chosen, where)
    note("starting Spark …")
    spark = engine.site(found, where, None, is_brief=True).spark
    entry = rebuild.undo(spark, chosen, where)
    spark.stop()
    _said(chosen, where, entry, as_json=as_json, what="taken back")


def _said(table: Table, lake: Lake, entry: Entry, *, as_json: bool, what: str) -> None:
    if as_json:
        emit(asdict(entry))
        return
    say(
        f"{table.id}: {what}, {entry.written:,} rows; `strandline run {table.id}` goes on from there"
    )
    resting = [each.id for each in above(table, lake) if each.speaks is not Speaks.AFRESH]
    if resting:
        note(f"resting on the rows as they were: {', '.join(resting)}; rebuild them in this order")


def _told(entry: Entry) -> None:
    note(f"{entry.table}: batch {entry.batch}, {entry.read:,} read, {entry.duration_ms:,} ms")


def _row(found: Comparison) -> tuple[object, ...]:
    return (
        found.table,
        found.left_rows,
        found.right_rows,
        found.only_right - found.changed,
        found.only_left - found.changed,
        found.changed,
    )


def _chosen(name: str, lake: Lake) -> Table:
    table = catalog.find(name)
    if table.layer is Layer.BRONZE:
        raise DefinitionError(
            f"{table.id} is as received; there is nothing to make anew",
            hint="name a silver or gold table.",
            table=table.id,
        )
    rebuild.refuse_unfit(table, lake)
    return table
