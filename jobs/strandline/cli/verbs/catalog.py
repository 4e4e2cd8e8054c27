"""``catalog``: the tables in catalogs where other engines look for them."""

from dataclasses import asdict
from typing import Annotated

import typer

from strandline.cli import main, screen
from strandline.cli.screen import JsonOption, LakeOption, TablesArgument, emit, note, say, show
from strandline.core.errors import DefinitionError, TransientError
from strandline.engine.lake.lake import Lake
from strandline.engine.publish.by_settings import catalogs
from strandline.engine.publish.catalogs import Catalog, books, dropped, lags, sync
from strandline.engine.runtime import clock
from strandline.engine.runtime.settings import Settings
from strandline.operate import lakes

LAGS = ("catalog", "table", "shown", "latest", "behind", "seconds", "not shown", "why")

HELP = """Keep tables in catalogs where other engines look for them, drop them there, show how far each is.

\b
strandline catalog sync
strandline catalog status
strandline catalog drop silver.device_telemetry
"""

catalog = typer.Typer(help=HELP, no_args_is_help=True, rich_markup_mode=None)


def register(app: typer.Typer) -> None:
    """Add the verb and its subcommands."""
    app.add_typer(catalog, name="catalog")


@catalog.command("sync")
def sync_(
    tables: TablesArgument = None,
    every: Annotated[
        str | None,
        typer.Option(help="Sync again and again, with a pause of so long, until Ctrl-C: 10s, 1m."),
    ] = None,
    lake: LakeOption = None,
    as_json: JsonOption = False,
) -> None:
    r"""Bring the catalogs up to date with the tables: metadata over the same files, no row is copied.

    A stream is not touched: only logs are read. `strandline maintain` does the same at its end. Columns that are masked
    are left out of what a catalog shows, and named by `status`; who may read the files may read them all the same.

    \b
    strandline catalog sync
    strandline catalog sync gold.device_daily --every 10s
    """
    found, where = screen.existing(lake, writes=True)
    chosen = _known(found)
    if every is None:
        for each in chosen:
            _once(each, tables, where)
        status(lake=lake, as_json=as_json)
        return
    pause, stop = lakes.seconds(every), main.asked()
    while not stop.is_set():
        for each in chosen:
            try:
                _once(each, tables, where)
            except TransientError as error:
                note(error.message)
        stop.wait(pause)


def _once(target: Catalog, names: list[str] | None, where: Lake) -> None:
    for name, entry, is_news in sync(target, lakes.filled(where, names), where, clock.now):
        if is_news:
            note(f"{target.name} shows {name} at version {entry.version:,}")
        elif entry.why and not entry.is_kept_back:
            note(f"{target.name} shows nothing newer of {name}: {entry.why}")


@catalog.command("status")
def status(lake: LakeOption = None, as_json: JsonOption = False) -> None:
    r"""Show how far each catalog is behind each table, which columns it does not show, and what is in its way.

    \b
    strandline catalog status
    strandline catalog status --json
    """
    _, where = screen.existing(lake)
    found = [*lags(where, clock.now())]
    if as_json:
        emit([{**asdict(each), "versions": each.versions} for each in found])
        return
    if not found:
        say("no catalog was synced with this lake")
        return
    rows = [
        (
            e.catalog,
            e.table,
            e.shown,
            e.latest,
            e.versions,
            round(e.seconds),
            ", ".join(e.hidden),
            e.why,
        )
        for e in found
    ]
    show(None, LAGS, rows)


@catalog.command("drop")
def drop(
    tables: TablesArgument = None,
    lake: LakeOption = None,
    as_json: JsonOption = False,
) -> None:
    r"""Take tables of this lake out of the catalogs; none of their files goes, and the next sync brings them back.

    Also one whose module is gone: what a catalog shows of it stays there until it is named here.

    \b
    strandline catalog drop
    strandline catalog drop gold.device_daily
    """
    found, where = screen.existing(lake, writes=True)
    chosen = _known(found)
    names = _shown(tables or [], chosen, where)
    gone = [
        {"catalog": each.name, "table": name}
        for each in chosen
        for name in dropped(each, names, where)
    ]
    if as_json:
        emit(gone)
        return
    for one in gone:
        say(f"{one['catalog']} shows {one['table']} no more")
    if not gone:
        say("nothing of this lake was there")


def _shown(names: list[str], chosen: list[Catalog], where: Lake) -> list[str]:
    """Return the tables that are named, all where none is: of the project, and of before, as the lake's books have them.

    Raises:
        DefinitionError: One is neither.
    """
    booked = sorted({table for each in chosen for table in books(where, each.name).tables})
    others = [each for each in names if each not in booked]
    ours = [each.id for each in lakes.named(others)] if others or not names else []
    return [*dict.fromkeys([*ours, *(each for each in booked if each in names or not names)])]


def _known(found: Settings) -> list[Catalog]:
    """Return the catalogs of the settings.

    Raises:
        DefinitionError: There is none.
    """
    known = catalogs(found)
    if not known:
        raise DefinitionError(
            "no catalog is named",
            hint="set STRANDLINE_ICEBERG to the address of an Iceberg REST catalog, STRANDLINE_UNITY to that of a Unity Catalog, "
            "or STRANDLINE_DUCKLAKE to a file.",
        )
    return known
