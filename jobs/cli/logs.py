"""``logs``: what the stream and the other programs of a lake have logged, for people and for programs."""

import json
import re
import time
from collections.abc import Iterable, Iterator
from contextlib import closing
from datetime import datetime, timedelta
from difflib import get_close_matches
from pathlib import Path
from typing import Annotated

import typer

from jobs import catalog
from jobs.cli import completion, place
from jobs.cli.place import LakeOption
from jobs.cli.screen import lines, note
from jobs.core.errors import DefinitionError
from jobs.engine.kafka import local_broker
from jobs.engine.runtime import clock
from jobs.engine.runtime.log_files import names
from jobs.engine.runtime.log_reader import LogReader
from jobs.engine.runtime.log_records import Level, as_text, concerns, is_before, record
from jobs.engine.storage.lake import Lake
from jobs.operate import lakes, ranges

STREAM = "stream"
NEWEST = 100
"""Lines that are shown when nothing else is asked for."""

LOOK = 0.3
"""Seconds between two looks at a log that is followed."""

AGO = re.compile(r"(\d+)([smhd])")
UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days"}

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
            autocompletion=completion.tables,
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
    of: Annotated[str, typer.Option(help="The program: stream, spark, broker, dagster.")] = STREAM,
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
    begin = None if since is None else _moment(since, clock.now())
    # Of a lake on a store the logs are on this machine, and they are read most while it is away.
    _, where = lakes.configured(lake)
    if where.root.is_local:
        place.existing(lake)
    most = newest if newest is not None or since else NEWEST

    def is_wanted(line: str) -> bool:
        found = record(line)
        return found is None or (
            (wanted is None or concerns(found, wanted)) and Level(found["level"]).is_at_least(level)
        )

    def is_too_old(line: str) -> bool:
        if begin is None or (found := record(line)) is None:
            return False
        return is_before(found, begin)

    with closing(LogReader(_log(where, of))) as reader:
        shown = _show(reader.newest(is_wanted, is_too_old, most), as_json=as_json)
        try:
            while follow:
                shown += _show(filter(is_wanted, reader.more()), as_json=as_json)
                time.sleep(LOOK)
        finally:
            if (rest := reader.unfinished()) and is_wanted(rest):
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


def _log(where: Lake, program: str) -> Path:
    """Return the log of a program.

    Raises:
        DefinitionError: There is none.
    """
    found = {name: where.log(name).local for name in names(where.log(STREAM).parent.local)}
    if (broker := local_broker.log(where)).exists():
        found["broker"] = broker.local
    if program in found:
        return found[program]
    known = sorted(found)
    near = get_close_matches(program, known, n=1)
    meant = f"did you mean {near[0]}? " if near else ""
    begin = (
        "`strandline resume` starts a stream with a log; one in a terminal shows its figures there."
    )
    has = f"the lake has logs of {', '.join(known)} (--of)." if known else ""
    hint = f"{begin} {has}" if program == STREAM else f"{meant}{has or begin}"
    raise DefinitionError(
        f"there is no log of {'the stream' if program == STREAM else program} in {where.root}",
        hint=hint.strip(),
        program=program,
    )


def _moment(text: str, now: datetime) -> datetime:
    """Parse a moment, or how long ago it was.

    Raises:
        DefinitionError: It is neither.
    """
    ago = AGO.fullmatch(text)
    if ago is None:
        return ranges.moment(text, "--since")
    try:
        return now - timedelta(**{UNITS[ago[2]]: int(ago[1])})
    except OverflowError as error:
        raise DefinitionError(f"--since {text!r} is too long ago", hint="leave it out.") from error
