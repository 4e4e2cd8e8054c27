"""``probe``: is the stream of this container well? For Kubernetes, or what else starts programs and asks after them."""

from enum import StrEnum
from typing import Annotated

import typer

from strandline.cli.place import LakeOption
from strandline.cli.screen import say
from strandline.engine.runtime import clock
from strandline.engine.service.background_stream import ALERTS, STREAM
from strandline.engine.service.probe import refuse_ill
from strandline.operate import lakes


class ProgramName(StrEnum):
    """The programs that write a heartbeat."""

    STREAM = "stream"
    ALERTS = "alerts"


PROGRAMS = {ProgramName.STREAM: STREAM, ProgramName.ALERTS: ALERTS}


def register(app: typer.Typer) -> None:
    """Add the verb."""
    app.command("probe")(probe)


def probe(
    program: Annotated[ProgramName, typer.Argument(help="Which program.")],
    lake: LakeOption = None,
) -> None:
    r"""Exit with 0 if the stream, or the process that raises alerts, is well on this host, else with 3 and the reason.

    It is well while it writes its heartbeat, and no table has had rows to read for ten minutes and committed none. One that
    still starts is not well yet. The heartbeat is all that is read, so it takes a second or less.

    \b
    strandline probe stream
    strandline probe alerts
    """
    _, where = lakes.configured(lake)
    beat = refuse_ill(PROGRAMS[program], where, clock.now())
    say(f"{program}: process {beat['pid']}, last heartbeat at {beat['at']}")
