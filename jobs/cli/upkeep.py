"""``tidy``: show and delete the files of a lake that belong to nothing."""

from dataclasses import asdict
from typing import Annotated

import typer

from jobs.cli import place
from jobs.cli.place import JsonOption, LakeOption
from jobs.cli.screen import emit, say, show
from jobs.engine.service.orphan_files import left, take_away


def register(app: typer.Typer) -> None:
    """Add the verb."""
    app.command("tidy")(tidy)


def tidy(
    go: Annotated[
        bool, typer.Option("--go", help="Delete it; without this it is only shown.")
    ] = False,
    lake: LakeOption = None,
    as_json: JsonOption = False,
) -> None:
    r"""Show what killed batches and proofs left behind, and with --go delete it.

    Only files that no version of a table ever named and that were not changed for a day. Streams may run meanwhile.

    \b
    strandline tidy
    strandline tidy --go
    """
    _, where = place.existing(lake)
    found = list(left(where, place.now()))
    if as_json:
        emit([{**asdict(each), "path": str(each.path)} for each in found])
    else:
        rows = [(each.path.below(where.root), each.size, each.why) for each in found]
        if rows:
            show(None, ("what", "bytes", "why"), rows)
        else:
            say("nothing is left behind")
    if go:
        for each in found:
            take_away(each)
        if not as_json:
            say(f"{len(found)} deleted")
