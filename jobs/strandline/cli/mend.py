"""``mend``: take a torn commit out of a table's log, and say what is to be computed again."""

from dataclasses import asdict
from typing import Annotated

import typer
from strandline import catalog

from strandline.cli import completion, place
from strandline.cli.place import JsonOption, LakeOption
from strandline.cli.screen import emit, note, say
from strandline.engine.service.set_aside import SetAside
from strandline.operate.repairs.mending import mending, refuse_lost, sentence


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
    done: list[SetAside] = []
    with mending(chosen, where, note) as taken_out:
        try:
            for each in taken_out:
                done.append(each)
                if not as_json:
                    say(sentence(each))  # at once: what comes after it may end with an error
        finally:
            if as_json:
                emit([asdict(each) for each in done])
    if not done and not as_json:
        say(f"no commit of {chosen.id} is torn")
    refuse_lost(chosen, where, done)
