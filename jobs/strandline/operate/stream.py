"""The always-on programs of a lake: who orders them, and which tables a start runs."""

from collections.abc import Sequence

from strandline.core.table import Table
from strandline.engine.runtime import clock
from strandline.engine.runtime.settings import Settings, environment
from strandline.engine.service.background_stream import Always
from strandline.engine.service.program import STREAM, Program
from strandline.engine.storage.lake import Lake
from strandline.engine.storage.retired import fed
from strandline.operate import lakes


def always(
    found: Settings, where: Lake, by: str | None = None, program: Program = STREAM
) -> Always:
    """Return a program of a lake that runs always, the stream or what raises alerts; orders are signed by ``by``, the user when absent."""
    return Always(
        lake=where,
        clock=clock.now,
        environment=environment(found),
        by=by or clock.login(),
        program=program,
    )


def asked_of(stream: Always, names: Sequence[str], where: Lake) -> list[Table]:
    """Return the tables that a start would run: those that are named, or those of the last start, without retired ones."""
    if names:
        return lakes.to_feed(names, where)
    last = stream.order()
    known = {table.id for table in lakes.named(None)}
    return fed(lakes.named([word for word in (last.words if last else ()) if word in known]), where)
