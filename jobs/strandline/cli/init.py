"""``init``: make a project of one's own, outside of the engine's repository; it passes its own ``make test``."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from strandline.cli.screen import say
from strandline.operate.scaffold import make


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
    demo: Annotated[
        bool,
        typer.Option("--demo", help="Write the example: tables, models, rules and play."),
    ] = False,
) -> None:
    r"""Make a project of one's own: a topic, a silver and a gold table with their tests, a Makefile and a CI file.

    With --demo the tables are those of the example, a fleet of devices and its network, which `strandline demo` in
    that folder then fills; they import the public interface alone, and are yours to change.

    \b
    strandline init shop
    strandline init --demo fleet
    """
    name = make(folder, of_example=demo)
    say(f"made the project {name} in {folder.absolute()}")
    say("")
    say("try next:")
    say(f"  cd {folder}")
    # The environment that runs this has the engine already.
    programs = Path(sys.prefix) / "bin"
    say(f"  make test BIN={programs}")
    # By make, which installs the extras that the project uses.
    say(f"  make demo BIN={programs}")
