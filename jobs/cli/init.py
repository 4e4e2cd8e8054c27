"""``init``: make a project of one's own, outside of the engine's repository; it passes its own ``make test``."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from jobs.cli.screen import say
from jobs.operate.scaffold import make


def register(app: typer.Typer) -> None:
    """Add the verb."""
    app.command("init")(init)


def init(
    folder: Annotated[
        Path,
        typer.Argument(
            metavar="FOLDER",
            help="A folder that does not exist or is empty; its name is the project's.",
        ),
    ],
) -> None:
    r"""Make a project of one's own: a topic, a silver and a gold table with their tests, a Makefile and a CI file.

    \b
    strandline init shop
    """
    name = make(folder)
    say(f"made the project {name} in {folder.absolute()}")
    say("")
    say("try next:")
    say(f"  cd {folder}")
    # The environment that runs this has the engine already.
    say(f"  make test BIN={Path(sys.prefix) / 'bin'}")
    say(f"  make demo BIN={Path(sys.prefix) / 'bin'}")
