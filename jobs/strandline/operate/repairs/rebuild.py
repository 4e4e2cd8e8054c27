"""A table computed beside the live one and swapped in, and torn commits taken out of a log.

A table computed with today's code beside the live one, swapped in, and that reverted.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from strandline.core.errors import DamagedError, LakeError
from strandline.core.table import Table
from strandline.engine.flow import shadow_lake
from strandline.engine.flow.runner import Site
from strandline.engine.lake.files.damage import damage
from strandline.engine.lake.handover import handed_over
from strandline.engine.lake.lake import Lake
from strandline.engine.lake.locks import WriterWatch
from strandline.engine.lake.log.ledger import Entry
from strandline.engine.lake.read.open_table import broken_files
from strandline.engine.proof.compare import Comparison, compare
from strandline.engine.repair import rebuild
from strandline.engine.repair.downstream import led
from strandline.engine.runtime import clock
from strandline.engine.runtime.settings import Settings
from strandline.engine.service.set_aside import SetAside, mend
from strandline.operate import lakes, session
from strandline.operate.listener import Says
from strandline.operate.repairs.backfill import left_behind_words


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


# Torn commits are taken out of a table's log, and what is to be computed again is named.


@contextmanager
def mending(table: Table, where: Lake, says: Says) -> Iterator[Iterator[SetAside]]:
    """Yield the torn commits of a table, each when it is taken out; a running stream hands the table over meanwhile."""
    where.refuse_missing(table)
    where.open_for_writing()
    with handed_over(table, where, clock.now, "mend", note=says) as writer:
        yield _taken_out(table, where, writer)


def _taken_out(table: Table, where: Lake, writer: WriterWatch) -> Iterator[SetAside]:
    """Take them out, one by one.

    Raises:
        LakeError: One could not be; the hint says as well what those before cost.
    """
    done: list[SetAside] = []
    try:
        for each in mend(table, where, clock.now(), writer):
            done.append(each)
            yield each
    except LakeError as error:
        error.hint = " ".join([error.hint, *_remedies(table, where, done)])
        raise


def sentence(each: SetAside) -> str:
    """Return in words what became of a torn commit."""
    what = f"{each.table}: version {each.version} was torn; the file is kept as {each.kept}"
    if each.taken_by:
        return f"{what}. An empty one is in its place, because {each.taken_by}"
    return f"{what}. Nothing had taken it for written: its batch is written again by itself"


def refuse_lost(table: Table, where: Lake, done: list[SetAside]) -> None:
    """Refuse to call a table whole that lacks rows.

    Raises:
        DamagedError: It does; this says what brings them back.
    """
    lost = [each for each in done if each.taken_by]
    if not lost:
        return
    rows = [each for each in lost if not each.decides]
    lacks = [
        *([f"the rows of version {_versions(rows)}"] if rows else []),
        *(["decisions about held rows"] if len(rows) < len(lost) else []),
    ]
    raise DamagedError(
        f"{table.id} lacks {' and '.join(lacks)} now",
        hint=" ".join(_remedies(table, where, lost)),
        table=table.id,
        versions=[each.version for each in lost],
        above=[each.id for each in led(table, where)] if rows else [],
    )


def _remedies(table: Table, where: Lake, done: list[SetAside]) -> Iterator[str]:
    """Yield what brings back what was lost so far."""
    lost = [each for each in done if each.taken_by]
    if any(not each.decides for each in lost):
        yield f"`strandline rebuild {table.id}`, then `strandline promote {table.id}`, bring the rows back."
        # One that is recomputed notices the promotion, and cannot be rebuilt.
        if stale := [each.id for each in led(table, where)]:
            yield (
                f"Then the same with the tables above, in this order: {', '.join(stale)}; they have read the rows, or never "
                "will."
            )
        if words := left_behind_words(table, where):
            yield f"{words.capitalize()}."
    if any(each.decides for each in lost):
        yield "Type the discard or the replay again: no rebuild brings a decision back."


def _versions(lost: list[SetAside]) -> str:
    return ", ".join(str(each.version) for each in lost)
