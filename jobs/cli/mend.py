"""``mend``: take a torn commit out of a table's log, and say what is to be computed again."""

from dataclasses import asdict
from typing import Annotated

import typer

from jobs import catalog
from jobs.cli import completion, place
from jobs.cli.place import JsonOption, LakeOption
from jobs.cli.screen import emit, note, say
from jobs.core.errors import DamagedError
from jobs.core.table import Table
from jobs.engine.repair.downstream import above
from jobs.engine.service.set_aside import SetAside, mend
from jobs.engine.storage.handover import handed_over
from jobs.engine.storage.lake import Lake


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

    A commit that nothing has taken for written is set aside, and the table's stream writes its batch again. In the place of
    one that its stream, a table above or a later commit builds on an empty one is put; the rows come back by `strandline
    rebuild` and `strandline promote`, and the exit code is then 4. A running stream hands the table over meanwhile. Other
    tables are not touched, and the torn files are kept in the lake's folder _damaged.

    \b
    strandline mend gold.device_signal_10m
    """
    _, where = place.existing(lake)
    chosen = catalog.find(table)
    where.refuse_missing(chosen)
    where.open_for_writing()
    with handed_over(chosen, where, place.now, "mend", note=note):
        done = list(mend(chosen, where, place.now()))
    lost = [each for each in done if each.taken_by]
    if as_json:
        emit([asdict(each) for each in done])
    else:
        for each in done:
            say(_sentence(each))
        if not done:
            say(f"no commit of {chosen.id} is torn")
    _refuse_lost(chosen, where, lost)


def _sentence(each: SetAside) -> str:
    what = f"{each.table}: version {each.version} was torn; the file is kept as {each.kept}"
    if each.taken_by:
        return f"{what}. An empty one is in its place, because {each.taken_by}"
    return f"{what}. Nothing had taken it for written: its batch is written again by itself"


def _refuse_lost(table: Table, where: Lake, lost: list[SetAside]) -> None:
    """Refuse to call a table whole that lacks rows.

    Raises:
        DamagedError: It does; this says what brings them back.
    """
    if not lost:
        return
    versions = ", ".join(str(each.version) for each in lost)
    stale = [each.id for each in above(table, where)]
    then = (
        f" Then the same with the tables above, in this order: {', '.join(stale)}; they have read the rows, or never will."
        if stale
        else ""
    )
    raise DamagedError(
        f"{table.id} lacks the rows of version {versions} now",
        hint=f"`strandline rebuild {table.id}`, then `strandline promote {table.id}`, bring them back.{then}",
        table=table.id,
        versions=[each.version for each in lost],
        above=stale,
    )
