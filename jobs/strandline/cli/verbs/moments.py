"""``moments``: versions of all tables that belong together, which a question reads by AT MOMENT; no Spark is needed."""

from typing import Annotated

import typer
from strandline import catalog

from strandline.cli import screen
from strandline.cli.screen import JsonOption, LakeOption, emit, say, show
from strandline.core.errors import DefinitionError, TransientError
from strandline.engine.ask.find_moment import Moment
from strandline.engine.ask.moments import LATEST, at_time, chosen, noted
from strandline.engine.ask.moments import named as named_moments
from strandline.engine.ask.moments import note as note_moment
from strandline.engine.ask.named_moments import drop, keep_named
from strandline.engine.runtime import clock

MOMENTS_HELP = """List moments: versions of all tables that belong together, because each has read exactly what those below it have.

A question that ends with AT MOMENT is answered at one, and so counts of bronze, silver and gold agree while a stream writes.
`strandline run` notes one at its end, and a stream as it goes. A table that is behind, or is being repaired, is part of none, nor
is one that reads it: `strandline moments show` says why.

\b
strandline moments
strandline moments --json
strandline moments show
strandline moments show 17
strandline moments note
strandline moments name month-end-october --until 2027-11-01
strandline moments drop month-end-october
"""

moments = typer.Typer(help=MOMENTS_HELP, invoke_without_command=True, rich_markup_mode=None)


@moments.callback(help=MOMENTS_HELP)
def moments_(
    context: typer.Context,
    last_: Annotated[
        int, typer.Option("--last", min=1, help="How many, the newest of those that are noted.")
    ] = 20,
    lake: LakeOption = None,
    as_json: JsonOption = False,
) -> None:
    """List, unless a subcommand was named."""
    if context.invoked_subcommand is not None:
        return
    _, where = screen.existing(lake, briefly=True)
    known = noted(where)
    found = [each for one in reversed(known[-last_:]) if (each := one.read()) is not None]
    found = [*named_moments(where), *found]
    if as_json:
        emit([_moment_as_json(each) for each in found])
        return
    show(
        None,
        ("moment", "at", "noted by", "tables", "behind"),
        [
            (
                each.name or f"{each.number}",
                each.at.isoformat(sep=" ", timespec="milliseconds"),
                each.by,
                len(each.ids),
                len(each.behind),
            )
            for each in found
        ],
    )
    if not found:
        say(
            "none is noted yet: `strandline run` does at its end, a stream as it goes, `strandline moments note` now"
        )


@moments.command("show")
def show_moment(
    which: Annotated[
        str | None,
        typer.Argument(metavar="MOMENT", help="A number or a name; the latest when absent."),
    ] = None,
    lake: LakeOption = None,
    as_json: JsonOption = False,
) -> None:
    r"""Show the version of each table at a moment, the offsets of bronze, and which tables are no part of it, with the reason.

    \b
    strandline moments show
    strandline moments show 17 --json
    strandline moments show month-end-october
    """
    _, where = screen.existing(lake, briefly=True)
    found = chosen(LATEST if which is None else which, (), catalog.tables(), where)
    if as_json:
        emit(_moment_as_json(found))
    else:
        _print_moment(found)


@moments.command("note")
def note_now(lake: LakeOption = None, as_json: JsonOption = False) -> None:
    r"""Note the latest moment, so that it has a number.

    \b
    strandline moments note
    """
    _, where = screen.existing(lake, writes=True)
    found = note_moment(where, catalog.tables(), clock.login())
    if found is None:
        raise TransientError(
            f"no moment of {where.root} is found now",
            hint="a repair is under way, tables have read nothing yet, or they move too fast: type it again in some seconds. "
            "`strandline status` shows what works there.",
        )
    if as_json:
        emit(_moment_as_json(found))
    else:
        say(f"{found}: {len(found.ids)} tables")


@moments.command("name")
def name_moment(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Such as month-end-october.")],
    number: Annotated[
        int | None,
        typer.Argument(metavar="NUMBER", help="The number of one; the latest when absent."),
    ] = None,
    until: Annotated[
        str | None,
        typer.Option(help="Keep it until this day, in UTC; for ever when absent."),
    ] = None,
    lake: LakeOption = None,
    as_json: JsonOption = False,
) -> None:
    r"""Keep a moment under a name: its tables can be read until a day, or for ever, by AT MOMENT 'NAME'.

    The files get second names in the lake, and their room is free again once the moment is dropped or its time is over. A request
    to forget goes through it: a table that it touches is kept no more, and `strandline moments show` says so.

    \b
    strandline moments name month-end-october
    strandline moments name month-end-october 17 --until 2027-11-01
    """
    _, where = screen.existing(lake, writes=True)
    end = at_time(until).isoformat() if until else ""
    if until and at_time(until) <= clock.now():
        raise DefinitionError(
            f"{until} is over, so the next maintenance would let the moment go",
            hint="name a day that is still to come, or leave --until out to keep it for ever.",
        )
    known = catalog.tables()
    moment = chosen(LATEST if number is None else number, (), known, where)
    found = keep_named(where, known, name, moment, end)
    if as_json:
        emit(_moment_as_json(found))
    else:
        say(f"{found}: {len(found.ids)} tables, kept {f'until {end}' if end else 'for ever'}")


@moments.command("drop")
def drop_moment(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Its name.")],
    lake: LakeOption = None,
) -> None:
    r"""Let a moment go that has a name; the room of its files is free again.

    \b
    strandline moments drop month-end-october
    """
    _, where = screen.existing(lake, writes=True)
    drop(where, name)
    say(f"moment {name} is kept no more")


def _moment_as_json(found: Moment) -> dict[str, object]:
    return {
        "moment": found.number or None,
        "name": found.name or None,
        "until": found.until or None,
        "at": found.at.isoformat(),
        "by": found.by or None,
        "versions": dict(found.versions),
        "offsets": dict(found.offsets),
        "behind": dict(found.behind),
        "lost": dict(found.lost),
    }


def _print_moment(found: Moment) -> None:
    show(str(found), ("table", "version"), list(found.versions.items()))
    if found.offsets:
        ends = ", ".join(f"{part} {end:,}" for part, end in found.offsets.items())
        say(f"bronze has read up to: {ends}")
    for name, reason in found.behind.items():
        say(f"{name} is no part of it: {reason}")
    for name, reason in found.lost.items():
        say(f"{name} cannot be read there any more: {reason}")


def register(app: typer.Typer) -> None:
    """Add the verbs."""
    app.add_typer(moments, name="moments")
