"""``setup``: fetch what the engine needs beside its packages."""

from typing import Annotated

import typer

from strandline.cli.screen import say
from strandline.core.errors import TransientError
from strandline.operate.extras import used
from strandline_infra import setup as steps
from strandline_infra.home import is_clone
from strandline_infra.installed import Installed, here
from strandline_infra.logged import SetupError


def register(app: typer.Typer) -> None:
    """Add the verb."""
    app.command("setup")(setup)


def setup(
    lean: Annotated[
        bool,
        typer.Option(
            "--lean", help="Leave out the archive of Java's classes, which makes starts faster."
        ),
    ] = False,
) -> None:
    r"""Fetch Java and jars where they are missing, and the extras that the project uses; nothing to do: at once.

    Java 17 or 21 of the machine is used if there is one. What is fetched lies in the virtual environment, or outside of
    one in your cache folder. A clone of the engine is set up by `make setup`, which makes its environment as well.

    \b
    strandline setup
    strandline setup --lean
    """
    try:
        steps.set_up(here() if is_clone() else Installed(lean=lean, extras=tuple(used())))
    except SetupError as error:
        raise TransientError(
            error.message + (f"\n\n{error.tail}" if error.tail else ""), hint=error.hint
        ) from error
    say("set-up is complete")
