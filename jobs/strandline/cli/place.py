"""The words that most verbs take: the lake, tables, JSON; and the lake that they name."""

from typing import Annotated

import typer

from strandline.cli import completion
from strandline.cli.screen import note
from strandline.engine.lake.lake import Lake
from strandline.engine.runtime.settings import Settings
from strandline.operate import lakes

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
        autocompletion=completion.tables,
    ),
]

SINCE = "First moment of event time: 2026-11-01 or 2026-11-01T06:00, in UTC."
UNTIL = "The moment after the last, written the same way."


def existing(
    lake: str | None, *, briefly: bool = False, writes: bool = False
) -> tuple[Settings, Lake]:
    """Return the settings and a lake that exists; what is to be said of it is noted (jobs/strandline/operate/lakes.py)."""
    return lakes.existing(lake, says=note, briefly=briefly, writes=writes)
