"""``logs``: what the stream and the other programs of a lake have logged, for people and for programs."""

import json
import time
from collections.abc import Iterable, Iterator
from contextlib import closing
from typing import Annotated

import typer
from strandline import catalog

from strandline.cli import place
from strandline.cli.place import LakeOption
from strandline.cli.screen import lines, note
from strandline.engine.runtime import clock
from strandline.engine.runtime.log_files import Level, LogReader, as_text, record
from strandline.operate import lakes
from strandline.operate.logs import STREAM, Wanted, begin_of, log_of

NEWEST = 100
"""Lines that are shown when nothing else is asked for."""

LOOK = 0.3
"""Seconds between two looks at a log that is followed."""


STYLES = {
    Level.DEBUG: "dim",
    Level.INFO: "green",
    Level.WARNING: "yellow",
    Level.ERROR: "red",
    Level.CRITICAL: "bold red",
}


def register(app: typer.Typer) -> None:
    """Add the verb."""
    app.command("logs")(logs)


def logs(  # noqa: PLR0913, PLR0917  # each is an option of the command line
    table: Annotated[
        str | None,
        typer.Argument(
            metavar="TABLE",
            help="Such as silver.device_telemetry; all when absent.",
            autocompletion=place.tables,
        ),
    ] = None,
    follow: Annotated[
        bool, typer.Option("--follow", "-f", help="Show further lines until Ctrl-C.")
    ] = False,
    level: Annotated[Level, typer.Option(help="The least important level.")] = Level.DEBUG,
    since: Annotated[
        str | None, typer.Option(help="A moment, such as 2026-11-01T06:00 in UTC, or 30m, 2h, 1d.")
    ] = None,
    newest: Annotated[
        int | None,
        typer.Option("--lines", min=0, help=f"Most lines; {NEWEST} when absent, all with --since."),
    ] = None,
    of: Annotated[
        str, typer.Option(help="The program: stream, alerts, spark, broker, dagster.")
    ] = STREAM,
    lake: LakeOption = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="One JSON record a line, for programs.")
    ] = False,
) -> None:
    r"""Show the newest lines of the stream's log, or of another program's.

    Text that is no record, such as a crash before logging began, is shown whatever is asked for.

    \b
    strandline logs
    strandline logs silver.device_telemetry --level warning --since 2h
    strandline logs --follow
    strandline logs --of spark --lines 500
    """
    wanted = None if table is None else catalog.find(table).id
    begin = None if since is None else begin_of(since, clock.now())
    asked = Wanted(wanted, level, begin)
    # Of a lake on a store the logs are on this machine, and they are read most while it is away.
    _, where = lakes.configured(lake)
    if where.root.is_local:
        place.existing(lake)
    most = newest if newest is not None or since else NEWEST

    with closing(LogReader(log_of(where, of))) as reader:
        shown = _show(reader.newest(asked.holds, asked.is_too_old, most), as_json=as_json)
        try:
            while follow:
                shown += _show(filter(asked.holds, reader.more()), as_json=as_json)
                time.sleep(LOOK)
        finally:
            if (rest := reader.unfinished()) and asked.holds(rest):
                shown += _show([rest], as_json=as_json)
    if not shown:
        note("no line of the log is as asked for")


def _show(found: Iterable[str], *, as_json: bool) -> int:
    """Print lines, and return how many."""
    shown = 0

    def counted() -> Iterator[list[tuple[str, str]]]:
        nonlocal shown
        for shown, line in enumerate(found, start=1):  # noqa: B007  # the count is the result
            yield [(_in_json(line), "")] if as_json else _in_colour(line)

    lines(counted())
    return shown


def _in_json(line: str) -> str:
    return line if record(line) else json.dumps({"text": line}, ensure_ascii=False)


def _in_colour(line: str) -> list[tuple[str, str]]:
    found = record(line)
    if found is None:
        return [(_printable(line), "")]
    text = as_text(found)
    level = (f"{text.level:<8} ", STYLES[text.level])
    return [(f"{text.time} ", "dim"), level, (_printable(text.body), "")]


def _printable(text: str) -> str:
    """Return a text without characters that would command a terminal."""
    if text.isprintable():
        return text
    return "".join(each if each.isprintable() or each in "\n\t" else "\ufffd" for each in text)
