"""``notebook``: JupyterLab over a lake that cannot be written, with a tour in four notebooks."""

import os
import sys
from pathlib import Path
from typing import Annotated

import typer

from strandline.cli import place
from strandline.cli.place import LakeOption
from strandline.cli.screen import note, say
from strandline.engine.lake.files.write_barrier import NOT_BARRED, bar_writes
from strandline.operate.notebook import environment_of, execute, toured, writable


def register(app: typer.Typer) -> None:
    """Add the verb."""
    app.command("notebook")(notebook)


def notebook(
    folder: Annotated[
        Path, typer.Option(metavar="FOLDER", help="Where the notebooks are kept.")
    ] = Path("notebooks"),
    port: Annotated[int, typer.Option(min=1, max=65535, help="Port on this machine.")] = 8888,
    opens: Annotated[bool, typer.Option("--open/--no-open", help="Show it in a browser.")] = True,
    run: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME",
            help="Execute a notebook of the folder without a page, and keep what it shows in it; may be repeated.",
        ),
    ] = None,
    lake: LakeOption = None,
) -> None:
    r"""Open JupyterLab over the lake, with a tour: explore, why, backtest, quality.

    The notebooks of the tour are copied to the folder unless they are there. On Linux the operating system refuses
    whatever a notebook would write to the lake, by Python, DuckDB or Spark alike: it may write to its folder alone.
    Only this machine reaches the page. It is an extra: pip install 'strandline[notebook]'.

    \b
    strandline notebook
    strandline notebook --folder mine --port 9999 --no-open
    strandline notebook --run explore --run quality
    """
    found, where = place.existing(lake)
    mine = toured(folder.absolute(), where)
    variables = environment_of(found, where, mine)
    barred = bar_writes(writable(where, mine))
    if not barred:
        note(
            "this machine has no Landlock (Linux 5.13), so nothing bars a notebook from writing files"
        )
    elif not where.root.is_local:
        note("the lake is on a store: give this session keys that may only read")
    else:
        note(f"not barred: {NOT_BARRED}")
    if run:
        for name in run:
            file = mine / f"{name}.ipynb"
            seconds = execute(file, variables)
            say(f"{file.stem}: {seconds:.1f} s")
        return
    words = [
        *("-m", "jupyterlab", str(mine), f"--port={port}", "--ip=127.0.0.1", "--allow-root"),
        # A terminal and a notebook elsewhere would be no tour of the lake.
        "--ServerApp.terminals_enabled=False",
        *([] if opens else ["--no-browser"]),
    ]
    os.execve(sys.executable, [sys.executable, *words], variables)  # noqa: S606  # the page takes this process over
