"""``rebuild``, ``promote``, ``undo``: compute a table with today's code, swap it in, and revert that."""

from collections.abc import Callable
from dataclasses import asdict
from typing import Annotated

import typer

from jobs.cli import place
from jobs.cli.place import JsonOption, LakeOption
from jobs.cli.screen import emit, note, say, show
from jobs.core.errors import DamagedError
from jobs.core.table import Table
from jobs.engine.pipeline import shadow_lake
from jobs.engine.pipeline.runner import Site
from jobs.engine.proof.compare import Comparison, compare
from jobs.engine.repair import rebuild
from jobs.engine.repair.downstream import above, follows
from jobs.engine.runtime import clock
from jobs.engine.storage.damage import damage
from jobs.engine.storage.handover import handed_over
from jobs.engine.storage.lake import Lake
from jobs.engine.storage.ledger import Entry
from jobs.engine.storage.open_table import broken_files
from jobs.operate import lakes, session
from jobs.operate.backfill import left_behind_words

TableArgument = Annotated[str, typer.Argument(metavar="TABLE", help="A silver or gold table.")]
COLUMNS = ("table", "rows now", "rows anew", "added", "gone", "changed")


def register(app: typer.Typer) -> None:
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
    found, where = place.existing(lake, writes=True)
    chosen = _rebuildable(table, where)
    with shadow_lake.alone(chosen, where):
        note("starting Spark …")
        site = session.site(found, where, None, says=note)
        made = rebuild.rebuild(chosen, where, site, on_commit=_note_batch)
        site.spark.stop()
        differences = _compared(chosen, where, made)
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
        f"`strandline promote {chosen.id}` replaces the live table, `strandline undo {chosen.id}` reverts that"
    )


def _compared(table: Table, lake: Lake, made: Lake) -> list[Comparison]:
    """Compare a table with its rebuild; one that is rebuilt because it cannot be read is not compared."""
    try:
        return compare(
            table, lake, made, sides=("in the live table", "in the new one"), may_differ=True
        )
    except Exception as error:
        why = damage(error, table)
        reason = "" if why is None else why.message
        try:
            broken = {each for path in lake.folders(table) for each in broken_files(path)}
        except DamagedError as other:
            reason = other.message
        else:
            reason = f"{len(broken)} of its files are gone or cut" if broken else reason
        if not reason:
            raise
        note(f"the live table cannot be read ({reason}), so the two were not compared")
        return []


def promote(table: TableArgument, lake: LakeOption = None, as_json: JsonOption = False) -> None:
    r"""Replace the live table by the rebuilt one, in one commit; its stream continues at the same offset.

    A running stream hands the table over after its batch, and takes it back; its other tables and all readers go on. If it
    is killed half-way, type it again to finish it.

    \b
    strandline promote silver.device_telemetry
    """
    _carry_out(
        (table, lake),
        rebuild.refuse_without_shadow,
        lambda chosen, where, site: rebuild.promote(chosen, where, site, on_commit=_note_batch),
        ("promote", "promoted"),
        as_json=as_json,
    )


def undo(table: TableArgument, lake: LakeOption = None, as_json: JsonOption = False) -> None:
    r"""Revert the last promotion of a table, in one commit; its former stream continues at its last offset.

    Rows that came since are not lost: the former stream reads them again.

    \b
    strandline undo silver.device_telemetry
    """
    _carry_out(
        (table, lake),
        rebuild.refuse_without_promotion,
        lambda chosen, where, site: rebuild.undo(site.spark, chosen, where),
        ("undo", "reverted"),
        as_json=as_json,
    )


def _carry_out(
    named: tuple[str, str | None],
    refuse: Callable[[Table, Lake], object],
    act: Callable[[Table, Lake, Site], Entry],
    words: tuple[str, str],
    *,
    as_json: bool,
) -> None:
    """Refuse early what cannot work, do the rest, and print the result; the words are the verb and what it has done."""
    found, where = place.existing(named[1], writes=True)
    table = _rebuildable(named[0], where)
    refuse(table, where)
    with shadow_lake.alone(table, where):
        note("starting Spark …")
        site = session.site(found, where, None, is_brief=True, says=note)
        with (
            handed_over(table, where, clock.now, words[0], note=note),
            site.record(site.spark, table, words[0], where) as wrote,
        ):
            entry = act(table, where, site)
            wrote(table, entry)
        site.spark.stop()
    if as_json:
        emit(asdict(entry))
        return
    say(
        f"{table.id}: {words[1]}, {entry.written:,} rows; `strandline run {table.id}` continues from there"
    )
    known = shadow_lake.read(shadow_lake.Shadow.of(table, where))
    if words[0] == "promote" and known is not None and known.undone:
        note(
            "the checkpoint of before could not be read, so it was removed, and this promotion cannot be undone"
        )
    stale = [each.id for each in above(table, where) if not follows(each, table, where)]
    if stale:
        note(f"computed from the old rows: {', '.join(stale)}; rebuild them in this order")
    if left := left_behind_words(table, where):
        note(left)


def _rebuildable(name: str, lake: Lake) -> Table:
    table = lakes.derived(name, lake)
    rebuild.refuse_unfit(table, lake)
    return table


def _note_batch(entry: Entry) -> None:
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
