"""The words that most verbs take: the lake, tables, which the Tab key completes, JSON; and the lake that they name."""

from typing import Annotated

import typer
from strandline import catalog

from strandline.cli.screen import note
from strandline.core.errors import LakeError
from strandline.engine.lake.lake import Lake
from strandline.engine.runtime.settings import Settings
from strandline.operate import lakes


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
) -> tuple[Settings, Lake]:
    """Return the settings and a lake that exists; what is to be said of it is noted (jobs/strandline/operate/lakes.py)."""
    return lakes.existing(lake, says=note, briefly=briefly, writes=writes)
