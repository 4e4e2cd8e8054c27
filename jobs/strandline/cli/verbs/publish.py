"""``publish``: send the changes of tables to Kafka topics, tables of PostgreSQL and functions, in a process without Spark."""

from typing import Annotated

import typer

from strandline.cli import place, stopping
from strandline.cli.place import SINCE, UNTIL, JsonOption, LakeOption
from strandline.cli.screen import emit, logged, show
from strandline.engine.lake.lake import Lake
from strandline.engine.publish.books import publications, refusals
from strandline.operate import publish as work

COLUMNS = ("name", "table", "target", "read", "accepted", "refused", "lag", "away")
REFUSALS = ("name", "key", "version", "why")


def register(app: typer.Typer) -> None:
    """Add the verb."""
    app.command("publish")(publish)


def publish(  # noqa: PLR0913, PLR0917  # each is an option of the command line
    names: Annotated[
        list[str] | None,
        typer.Argument(metavar="NAME", help="A name of PUBLISH; all when absent."),
    ] = None,
    once: Annotated[bool, typer.Option("--once", help="Send what there is, then end.")] = False,
    again: Annotated[
        bool,
        typer.Option(
            "--again", help="Begin anew with all rows as they are; with a range those of it alone."
        ),
    ] = False,
    since: Annotated[str | None, typer.Option(help=f"With --again: {SINCE}")] = None,
    until: Annotated[str | None, typer.Option(help=UNTIL)] = None,
    refused: Annotated[
        bool,
        typer.Option("--refused", help="List what the targets have refused, and send nothing."),
    ] = False,
    lake: LakeOption = None,
    as_json: JsonOption = False,
) -> None:
    r"""Send the changes of tables to the targets that the project's module publish declares, until Ctrl-C.

    A target that is new gets all rows first. After any end each target goes on where it was: of a Kafka topic and a table of
    PostgreSQL each change is there exactly once, a function may get one again, with the same id. A target that is away gets its
    changes later; a row that it refuses is kept on a list with the reason, and the others go on.

    \b
    strandline publish
    strandline publish paid-orders --once
    strandline publish paid-orders --again --since 2026-11-01 --until 2026-11-02
    strandline publish paid-orders --refused
    """
    found, where = place.existing(lake, writes=not refused)
    all_ = work.publishers(found, where, tuple(names or ()), sends=not refused)
    if refused:
        _list(where, [each.name for each in all_], as_json=as_json)
        return
    if once or again or since or until:
        work.send_once(all_, again=again, since=since, until=until)
    else:
        with logged(as_json=as_json) as log:
            stop = stopping.asked()
            log.info("started", publications=[each.name for each in all_])
            try:
                work.PublishHost(all_, where, log, stop).serve()
            finally:
                stopping.deaf()
    sent = [each for each in publications(where) if each["name"] in {one.name for one in all_}]
    if as_json:
        emit(sent)
    else:
        show(None, COLUMNS, [tuple(each[name] for name in COLUMNS) for each in sent])


def _list(where: Lake, names: list[str], *, as_json: bool) -> None:
    """Show the rows that targets have refused, and that no later change has replaced."""
    rows = [
        {"name": name, "key": key, **said}
        for name in names
        for key, said in refusals(where, name).items()
    ]
    if as_json:
        emit(rows)
    else:
        show(None, REFUSALS, [tuple(each[name] for name in REFUSALS) for each in rows])
