"""``alerts --background`` and ``--pause``: the process that raises alerts as a program that a watchdog restarts."""

from collections.abc import Sequence

from jobs.cli.screen import emit, note, say
from jobs.engine.runtime.settings import Settings
from jobs.engine.service.program import ALERTS
from jobs.engine.storage.lake import Lake
from jobs.operate import lakes
from jobs.operate.stream import always


def started(found: Settings, where: Lake, words: Sequence[str], *, as_json: bool) -> None:
    """Start it, unless it runs, and wait for its first heartbeat."""
    where.open_for_writing()
    lakes.demanded_address(found, where)
    note("starting the process that raises alerts …")
    pid = always(found, where, program=ALERTS).resume(words)
    if as_json:
        emit({"pid": pid})
    else:
        say(f"alerts are raised (process {pid}); `strandline alerts --pause` stops it")


def paused(found: Settings, where: Lake, *, as_json: bool) -> None:
    """Stop it, and keep it stopped."""
    stopped = always(found, where, program=ALERTS).pause()
    if as_json:
        emit({"stopped": stopped})
    else:
        say(
            "no more alerts are raised" if stopped else "no process in the background raised alerts"
        )
        say("it stays so until `strandline alerts --background`")
