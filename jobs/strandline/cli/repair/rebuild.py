"""``rebuild``, ``promote``, ``undo``: compute a table with today's code, swap it in, and revert that."""

from dataclasses import asdict
from typing import Annotated

import typer

from strandline.cli import place
from strandline.cli.place import JsonOption, LakeOption
from strandline.cli.screen import emit, note, say, show
from strandline.core.table import Table
from strandline.engine.lake.lake import Lake
from strandline.engine.lake.log.ledger import Entry
from strandline.engine.proof.compare import Comparison
from strandline.operate.repairs.backfill import left_behind_words
from strandline.operate.repairs.rebuild import (
    is_final,
    promoted,
    rebuildable,
    rebuilt,
    stale_above,
    undone,
)

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
    chosen = rebuildable(table, where)
    differences = rebuilt(chosen, found, where, note, _note_batch)
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


def promote(table: TableArgument, lake: LakeOption = None, as_json: JsonOption = False) -> None:
    r"""Replace the live table by the rebuilt one, in one commit; its stream continues at the same offset.

    A running stream hands the table over after its batch, and takes it back; its other tables and all readers go on. If it
    is killed half-way, type it again to finish it.

    \b
    strandline promote silver.device_telemetry
    """
    found, where = place.existing(lake, writes=True)
    chosen = rebuildable(table, where)
    entry = promoted(chosen, found, where, note, _note_batch)
    _print(chosen, where, entry, ("promote", "promoted"), as_json=as_json)


def undo(table: TableArgument, lake: LakeOption = None, as_json: JsonOption = False) -> None:
    r"""Revert the last promotion of a table, in one commit; its former stream continues at its last offset.

    Rows that came since are not lost: the former stream reads them again.

    \b
    strandline undo silver.device_telemetry
    """
    found, where = place.existing(lake, writes=True)
    chosen = rebuildable(table, where)
    entry = undone(chosen, found, where, note)
    _print(chosen, where, entry, ("undo", "reverted"), as_json=as_json)


def _print(
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
