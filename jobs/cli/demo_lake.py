"""What the demos of the example and of a project of one's own have in common: their option, and how what became of the events is shown."""

from collections.abc import Callable
from pathlib import Path
from typing import Annotated, TypeVar

import typer

from jobs.cli.ledger import print_sheets
from jobs.cli.screen import note
from jobs.engine.accounting.balance_sheet import Balance
from jobs.engine.storage.lake import Lake
from jobs.engine.storage.place import Place
from jobs.operate import demo
from jobs.operate.ledger import refuse_imbalance

DemoLakeOption = Annotated[
    str | None,
    typer.Option("--lake", metavar="<path>", help="The demo's own lake; .lake/demo when absent."),
]

Sent = TypeVar("Sent")


def played(lake: str | None, send: Callable[[str], Sent]) -> tuple[Lake, Sent, list[Balance]]:
    """Send events through an empty lake, and print where each is.

    Raises:
        DefinitionError: The folder holds something that no demo made.
        DataError: An event is in no place, or in two.
    """
    where, sent, sheets = demo.filled(lake, send, note)
    print_sheets(sheets)
    refuse_imbalance(sheets)
    return where, sent, sheets


def short(root: Place) -> str:
    """Return a lake's path as one would type it here."""
    if not root.is_local or not root.local.is_relative_to(Path.cwd()):
        return str(root)
    return str(root.local.relative_to(Path.cwd()))
