"""Completion in the shell: what the Tab key asks for.

The program imports only the module of the verb on the command line. A shell puts the line to complete into the
environment instead. Without reading it there, each Tab would import every verb, which takes seconds. To complete the
verb itself, the names are enough.
"""

import shlex
from collections.abc import Iterable

import typer
from strandline import catalog

from strandline.core.errors import LakeError
from strandline.engine.runtime.settings import line_of_shell


def line() -> list[str] | None:
    """Return the words after the program's name that a shell completes; None when no shell asks."""
    text = line_of_shell()
    if text is None:
        return None
    try:
        return shlex.split(text)[1:]
    except ValueError:  # a quote that is still open
        return text.split()[1:]


def offer_names(app: typer.Typer, verbs: Iterable[str]) -> None:
    """Register the names of verbs alone, for completion."""
    for verb in verbs:
        app.command(verb)(_nothing)


def _nothing() -> None:
    """Do nothing; only the name is needed."""


def tables(incomplete: str) -> list[str]:
    """Return the tables whose names begin with a text; none while the catalog cannot be read."""
    try:
        return [each.id for each in catalog.tables() if each.id.startswith(incomplete)]
    except LakeError:
        return []
