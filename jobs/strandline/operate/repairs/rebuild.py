"""A table computed with today's code beside the live one, swapped in, and that reverted."""

from collections.abc import Callable

from strandline.core.errors import DamagedError
from strandline.core.table import Table
from strandline.engine.pipeline import shadow_lake
from strandline.engine.pipeline.runner import Site
from strandline.engine.proof.compare import Comparison, compare
from strandline.engine.repair import rebuild
from strandline.engine.repair.downstream import led
from strandline.engine.runtime import clock
from strandline.engine.runtime.settings import Settings
from strandline.engine.storage.damage import damage
from strandline.engine.storage.handover import handed_over
from strandline.engine.storage.lake import Lake
from strandline.engine.storage.ledger import Entry
from strandline.engine.storage.open_table import broken_files
from strandline.operate import lakes, session
from strandline.operate.listener import Says


def rebuildable(name: str, lake: Lake) -> Table:
    """Return the table of a name that can be computed anew.

    Raises:
        DefinitionError: It is a bronze table, does not exist, or keeps what no code brings back.
    """
    table = lakes.derived(name, lake)
    rebuild.refuse_unfit(table, lake)
    return table


def rebuilt(
    table: Table, found: Settings, lake: Lake, says: Says, on_commit: Callable[[Entry], None]
) -> list[Comparison]:
    """Compute a table with today's code beside the live one, and return how the two differ."""
    with shadow_lake.alone(table, lake):
        says("starting Spark …")
        site = session.site(found, lake, None, says=says)
        made = rebuild.rebuild(table, lake, site, on_commit=on_commit)
        site.spark.stop()
        return _compared(table, lake, made, says)


def promoted(
    table: Table, found: Settings, lake: Lake, says: Says, on_commit: Callable[[Entry], None]
) -> Entry:
    """Replace the live table by the rebuilt one.

    Raises:
        DefinitionError: There is none.
    """
    rebuild.refuse_without_shadow(table, lake)

    def act(site: Site) -> Entry:
        return rebuild.promote(table, lake, site, on_commit=on_commit)

    return _exchanged("promote", table, found, lake, says, act)


def undone(table: Table, found: Settings, lake: Lake, says: Says) -> Entry:
    """Revert the last promotion.

    Raises:
        DefinitionError: There is none.
    """
    rebuild.refuse_without_promotion(table, lake)

    def act(site: Site) -> Entry:
        return rebuild.undo(site.spark, table, lake)

    return _exchanged("undo", table, found, lake, says, act)


def _exchanged(  # noqa: PLR0913, PLR0917  # what is done to which table, where, and who hears of it
    verb: str,
    table: Table,
    found: Settings,
    lake: Lake,
    says: Says,
    act: Callable[[Site], Entry],
) -> Entry:
    """Exchange the rows of a table, which its stream hands over meanwhile."""
    with shadow_lake.alone(table, lake):
        says("starting Spark …")
        site = session.site(found, lake, None, is_brief=True, says=says)
        with (
            handed_over(table, lake, clock.now, verb, note=says),
            site.record(site.spark, table, verb, lake) as wrote,
        ):
            entry = act(site)
            wrote(table, entry)
        site.spark.stop()
    return entry


def is_final(table: Table, lake: Lake) -> bool:
    """Return whether a promotion cannot be undone, because the checkpoint of before could not be read and was removed."""
    known = shadow_lake.read(shadow_lake.Shadow.of(table, lake))
    return known is not None and known.undone


def stale_above(table: Table, lake: Lake) -> list[str]:
    """Return the tables above that were computed from the old rows, in the order in which they are rebuilt."""
    return [each.id for each in led(table, lake)]


def _compared(table: Table, lake: Lake, made: Lake, says: Says) -> list[Comparison]:
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
        says(f"the live table cannot be read ({reason}), so the two were not compared")
        return []
