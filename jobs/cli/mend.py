"""``mend``: take a torn commit out of a table's log, and say what is to be computed again."""

from collections.abc import Iterator
from dataclasses import asdict
from typing import Annotated

import typer

from jobs import catalog
from jobs.cli import completion, place
from jobs.cli.place import JsonOption, LakeOption
from jobs.cli.screen import emit, note, say
from jobs.core.errors import DamagedError, LakeError
from jobs.core.table import Table
from jobs.engine.repair.downstream import above
from jobs.engine.runtime import clock
from jobs.engine.service.set_aside import SetAside, mend
from jobs.engine.storage.handover import handed_over
from jobs.engine.storage.lake import Lake
from jobs.operate.backfill import left_behind_words


def register(app: typer.Typer) -> None:
    """Add the verb."""
    app.command("mend")(mend_)


def mend_(
    table: Annotated[
        str,
        typer.Argument(
            metavar="TABLE",
            help="Such as gold.device_signal_10m.",
            autocompletion=completion.tables,
        ),
    ],
    lake: LakeOption = None,
    as_json: JsonOption = False,
) -> None:
    r"""Take torn commits of a table out of its log, so that it can be read and written again.

    The batch that a table's stream has open is set aside, and the stream writes it again. In the place of a commit on which
    its stream, a table above or a later commit builds, and of one that no stream writes again (a repair, an import, a
    promotion, a decision about held rows), an empty one is put; the rows come back by `strandline rebuild` and `strandline
    promote`, and the exit code is then 4. A running stream hands the table over meanwhile. Other tables are not touched, and
    the torn files are kept in the lake's folder _damaged.

    \b
    strandline mend gold.device_signal_10m
    """
    _, where = place.existing(lake, writes=True)
    chosen = catalog.find(table)
    where.refuse_missing(chosen)
    where.open_for_writing()
    done: list[SetAside] = []
    with handed_over(chosen, where, clock.now, "mend", note=note) as writer:
        try:
            for each in mend(chosen, where, clock.now(), writer):
                done.append(each)
                if not as_json:
                    say(_sentence(each))  # at once: what comes after it may end with an error
        except LakeError as error:
            error.hint = " ".join([error.hint, *_remedies(chosen, where, done)])
            raise
        finally:
            if as_json:
                emit([asdict(each) for each in done])
    if not done and not as_json:
        say(f"no commit of {chosen.id} is torn")
    _refuse_lost(chosen, where, done)


def _sentence(each: SetAside) -> str:
    what = f"{each.table}: version {each.version} was torn; the file is kept as {each.kept}"
    if each.taken_by:
        return f"{what}. An empty one is in its place, because {each.taken_by}"
    return f"{what}. Nothing had taken it for written: its batch is written again by itself"


def _refuse_lost(table: Table, where: Lake, done: list[SetAside]) -> None:
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
        above=[each.id for each in above(table, where)] if rows else [],
    )


def _remedies(table: Table, where: Lake, done: list[SetAside]) -> Iterator[str]:
    """Yield what brings back what was lost so far."""
    lost = [each for each in done if each.taken_by]
    if any(not each.decides for each in lost):
        yield f"`strandline rebuild {table.id}`, then `strandline promote {table.id}`, bring the rows back."
        if stale := [each.id for each in above(table, where)]:
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
