"""All output of the command line: tables, progress, JSON, errors; and the words that most verbs take. No other module prints.

Without a terminal everything is plain text, a line at a time, so that logs stay readable.
Colour never carries a meaning alone.
"""

import json
import re
import shlex
import shutil
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.cells import cell_len
from rich.console import Console
from rich.markup import escape
from rich.table import Table as Grid
from rich.text import Text
from strandline import catalog

from strandline.core.errors import LakeError
from strandline.engine.runtime import clock
from strandline.operate.listener import Log, exit_code, foreseen, of_json, tenths

if TYPE_CHECKING:
    from rich.tree import Tree

    from strandline.engine.lake.lake import Lake
    from strandline.engine.runtime.settings import Settings

ENDLESS = 1_000_000
"""The width of a log: no line of it is cut off."""

# A time between two colons, as in 06:00:00, is no name of a picture, nor is what a lake has in its rows.
OUT = Console(
    highlight=False, emoji=False, soft_wrap=True, width=None if sys.stdout.isatty() else ENDLESS
)
ERR = Console(stderr=True, highlight=False, emoji=False, soft_wrap=True)


Row = Sequence[object]

GAP = 2
"""Spaces between two columns."""

SHAPED = re.compile(r"[\x00-\x1f\x7f]|\s\Z|\A\s")
"""What rich does not print as it is: controls, lines, and spaces at an end."""


def say(text: str) -> None:
    """Print a line to a person."""
    if OUT.is_terminal or not text.isprintable():
        OUT.print(escape(text))
    else:  # as rich prints it, in a tenth of a millisecond
        OUT.file.write(f"{text}\n")


def note(text: str) -> None:
    """Print a line to the standard error, beside the answer, which a program may read."""
    ERR.print(escape(text))


def as_typed() -> str:
    """Return the program as it was typed: its name where the shell finds it by that, else its path from here."""
    given = Path(sys.argv[0])
    found = shutil.which(given.name)
    if found and Path(found).absolute() == given.absolute():
        return given.name
    at, here = given.absolute(), Path.cwd()
    return shlex.quote(str(at.relative_to(here) if at.is_relative_to(here) else at))


def complain(text: str) -> None:
    """Print an error."""
    ERR.print(f"[red]error:[/red] {escape(text)}")


def emit(value: object) -> None:
    """Print JSON to a program."""
    sys.stdout.write(json.dumps(of_json(value), indent=2, default=str, allow_nan=False) + "\n")


def record(line: str) -> None:
    """Print a line to a program that reads on while this one runs."""
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def lines(parts: Iterable[Sequence[tuple[str, str]]]) -> None:
    """Print lines of parts, each part with its style; a style is for a terminal alone."""
    for each in parts:
        if OUT.is_terminal:
            OUT.print(Text.assemble(*each))
        else:
            sys.stdout.write("".join(text for text, _ in each) + "\n")
    sys.stdout.flush()


@contextmanager
def logged(*, as_json: bool) -> Iterator[Log]:
    """Yield the log; with JSON, the error that ends the stream is its last record."""
    # Not imported above: it takes a third of a second, for which no other verb should wait.
    from strandline.engine.runtime.log_files import logger  # noqa: PLC0415  # as above

    log = logger(record if as_json else note, clock.now, as_json=as_json)
    try:
        yield log
    except Exception as error:
        if not as_json:
            raise
        log.critical("ended", exc_info=foreseen(error) or error)
        raise SystemExit(exit_code(error)) from error


def number(value: object) -> str:
    """Format a number for people."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return "" if value is None else str(value)
    return f"{value:,}" if isinstance(value, int) else f"{value:,.1f}"


def yes(value: bool) -> str:  # noqa: FBT001  # a word for a truth value
    """Format a truth value; capitals make a NO easy to find."""
    return "yes" if value else "NO"


def named(counts: Mapping[str, int]) -> str:
    """Return counts with their names, the largest first."""
    found = sorted(counts.items(), key=lambda item: -item[1])
    return ", ".join(f"{name} {count:,}" for name, count in found)


def grid(title: str | None, columns: Sequence[str], rows: Sequence[Row]) -> Grid:
    """Lay rows out in columns, numbers to the right."""
    table = Grid(title=title, title_justify="left", box=None, pad_edge=False, header_style="bold")
    for index, name in enumerate(columns):
        is_number = any(isinstance(row[index], int | float) for row in rows)
        # The first column names the row; it is never cut, however narrow the terminal.
        whole = max((len(str(row[0])) for row in rows), default=0) if index == 0 else None
        table.add_column(name, justify="right" if is_number else "left", min_width=whole)
    for row in rows:
        table.add_row(*(escape(number(cell)) for cell in row))
    return table


def show(title: str | None, columns: Sequence[str], rows: Sequence[Row]) -> None:
    """Print rows in columns."""
    found = plain(columns, rows)
    if found is None or cell_len(title or "") > cell_len(found[0]):  # which makes the columns wider
        OUT.print(grid(title, columns, rows))
        return
    head, *shown = found
    if OUT.is_terminal:  # which alone has styles
        if title is not None:
            OUT.print(Text(title, style="italic"))
        OUT.print(Text(head, style="bold"))
    else:
        shown = [*([] if title is None else [title]), *found]
    OUT.file.write("".join(f"{line}\n" for line in shown))


def plain(columns: Sequence[str], rows: Sequence[Row]) -> list[str] | None:
    """Return the head and the rows as lines, as ``grid`` lays them out; None where they do not fit, or a cell is no plain line.

    Rich lays out a cell in a tenth of a millisecond, and a list of three hundred tables has thousands.
    """
    cells = [[*columns], *([number(cell) for cell in row] for row in rows)]
    if not columns or any(SHAPED.search(cell) for row in cells for cell in row):
        return None
    widths = [max(map(cell_len, column)) for column in zip(*cells, strict=True)]
    widths[0] = max(widths[0], *(len(str(row[0])) for row in rows), 0)
    if sum(widths) + GAP * (len(widths) - 1) > OUT.width:
        return None
    ends = [any(isinstance(row[n], int | float) for row in rows) for n in range(len(columns))]
    lines = []
    for row in cells:
        padded = (
            (" " * (width - cell_len(cell)), cell, is_end)
            for cell, width, is_end in zip(row, widths, ends, strict=True)
        )
        parts = (f"{room}{cell}" if is_end else f"{cell}{room}" for room, cell, is_end in padded)
        lines.append((" " * GAP).join(parts))
    return lines


def draw(tree: "Tree") -> None:
    """Print a picture."""
    OUT.print(tree)


@contextmanager
def progress(what: str, total: int) -> Iterator[Callable[[int], None]]:
    """Show the progress of long work; without a terminal, print a line at each tenth."""
    if not ERR.is_terminal:
        with tenths(note)(what, total) as advance:
            yield advance
        return
    from rich.progress import (  # noqa: PLC0415  # only where a person waits
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeRemainingColumn,
    )

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    with Progress(*columns, TimeRemainingColumn(), console=ERR, transient=True) as bar:
        task = bar.add_task(what, total=total)
        yield lambda done: bar.update(task, completed=done)


@contextmanager
def live(render: Callable[[], Grid]) -> Iterator[Callable[[], None]]:
    """Keep a table on the screen up to date; without a terminal, print nothing by itself."""
    if not OUT.is_terminal:
        yield lambda: None
        return
    from rich.live import Live  # noqa: PLC0415  # as above

    with Live(render(), console=OUT, auto_refresh=False) as screen:
        yield lambda: screen.update(render(), refresh=True)


def is_watched() -> bool:
    """Return whether a terminal shows the lines beside the answer."""
    return ERR.is_terminal


def is_terminal() -> bool:
    """Return whether a terminal shows the answer."""
    return OUT.is_terminal


# The words that most verbs take: the lake, tables, which the Tab key completes, JSON; and the lake that they name.


def tables(incomplete: str) -> list[str]:
    """Return the tables whose names begin with a text; none while the catalog cannot be read."""
    try:
        return [each.id for each in catalog.tables() if each.id.startswith(incomplete)]
    except LakeError:
        return []


LakeOption = Annotated[
    str | None,
    typer.Option(
        "--lake",
        metavar="<path>",
        help="The lake's folder; STRANDLINE_LAKE, or .lake, when absent.",
    ),
]
JsonOption = Annotated[bool, typer.Option("--json", help="Answer in JSON, for programs.")]
TablesArgument = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="TABLE",
        help="Such as silver.device_telemetry; all when absent.",
        autocompletion=tables,
    ),
]

SINCE = "First moment of event time: 2026-11-01 or 2026-11-01T06:00, in UTC."
UNTIL = "The moment after the last, written the same way."


def existing(
    lake: str | None, *, briefly: bool = False, writes: bool = False
) -> "tuple[Settings, Lake]":
    """Return the settings and a lake that exists; what is to be said of it is noted (jobs/strandline/operate/lakes.py)."""
    # Not imported above: the lake takes a third of a second, for which a Tab or --version should not wait.
    from strandline.operate import lakes  # noqa: PLC0415  # as above

    return lakes.existing(lake, says=note, briefly=briefly, writes=writes)
