"""Torn commits are taken out of a table's log, and what is to be computed again is named."""

from collections.abc import Iterator
from contextlib import contextmanager

from strandline.core.errors import DamagedError, LakeError
from strandline.core.table import Table
from strandline.engine.repair.downstream import led
from strandline.engine.runtime import clock
from strandline.engine.service.set_aside import SetAside, mend
from strandline.engine.storage.handover import handed_over
from strandline.engine.storage.lake import Lake
from strandline.engine.storage.locks import WriterWatch
from strandline.operate.listener import Says
from strandline.operate.repairs.backfill import left_behind_words


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
