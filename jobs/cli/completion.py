"""What the shell asks for when somebody presses Tab.

The program imports only the module of the verb that was typed, and a shell does not type it: it hands over the line in
the environment. Without looking there, each Tab would import every verb, which takes seconds; so would completing the
verb itself, for which their names suffice.
"""

import shlex
from collections.abc import Iterable

import typer

from jobs import catalog
from jobs.core.errors import LakeError
from jobs.run.settings import line_of_shell


def line() -> list[str] | None:
    """Return the words behind the program's name that a shell wants completed; None when no shell asks."""
    text = line_of_shell()
    if text is None:
        return None
    try:
        return shlex.split(text)[1:]
    except ValueError:  # a quote that is still open
        return text.split()[1:]


def offer_names(app: typer.Typer, verbs: Iterable[str]) -> None:
    """Let verbs be completed without what they do."""
    for verb in verbs:
        app.command(verb)(_nothing)


def _nothing() -> None:
    """Do nothing; only the name is asked for."""


def tables(incomplete: str) -> list[str]:
    """Return the tables whose names begin so; none while the catalog cannot be read."""
    try:
        return [each.id for each in catalog.tables() if each.id.startswith(incomplete)]
    except LakeError:
        return []
