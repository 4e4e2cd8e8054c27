"""``resume``, ``pause``, ``drain``, ``restart``: the always-on stream in the hands of whoever is on call."""

from typing import Annotated

import typer

from jobs.cli import place
from jobs.cli.place import JsonOption, LakeOption, TablesArgument
from jobs.cli.screen import emit, note, say
from jobs.cli.work import EVERY, MaxOffsets, catch_up, seconds
from jobs.run.always import Always
from jobs.run.lake import Lake
from jobs.run.settings import Settings, environment
from jobs.run.wish import EVERY as EVERY_OPTION
from jobs.run.wish import MAX_OFFSETS

WhyOption = Annotated[str, typer.Option("--why", help="Written down for whoever looks next.")]


def register(app: typer.Typer) -> None:
    """Add the verbs."""
    app.command("resume")(resume)
    app.command("pause")(pause)
    app.command("drain")(drain)
    app.command("restart")(restart)


def resume(  # noqa: PLR0913, PLR0917  # each is an option of the command line
    tables: TablesArgument = None,
    every: Annotated[
        str | None, typer.Option(help=f"Time from batch to batch; {EVERY} when absent.")
    ] = None,
    max_offsets: MaxOffsets = None,
    everything: Annotated[
        bool, typer.Option("--all", help="All tables, when fewer were named the last time.")
    ] = False,
    why: WhyOption = "",
    lake: LakeOption = None,
    as_json: JsonOption = False,
) -> None:
    r"""Start the always-on stream in the background, or find it running, and wait until it lives.

    It stays asked for: a watchdog (`strandline ui`) starts it again when it dies. What is not said is as it was the
    last time. One that runs goes on with what it was started with; `strandline restart` gives it the new options.

    \b
    strandline resume
    strandline resume --every 1s
    """
    if every is not None:
        seconds(every)
    place.named(tables)
    words = [
        *(tables or ()),
        *((EVERY_OPTION, every) if every else ()),
        *((MAX_OFFSETS, str(max_offsets)) if max_offsets else ()),
    ]
    found, where = place.configured(lake)
    where.open_for_writing()
    place.demanded_address(found, where)
    note("starting the stream …")
    pid = always(found, where).resume(words, why, everything=everything)
    if as_json:
        emit({"pid": pid})
    else:
        say(f"the stream lives (process {pid}); `strandline pause` stops it")


def pause(why: WhyOption = "", lake: LakeOption = None, as_json: JsonOption = False) -> None:
    r"""Stop the always-on stream after the batches that it has begun, and keep it stopped.

    \b
    strandline pause --why "the disk is being changed"
    """
    found, where = place.existing(lake)
    stopped = always(found, where).pause(why)
    if as_json:
        emit({"stopped": stopped})
    else:
        say("the stream is stopped" if stopped else "no stream of ours was running")
        say("it stays stopped until `strandline resume`")


def drain(why: WhyOption = "", lake: LakeOption = None, as_json: JsonOption = False) -> None:
    r"""Stop the always-on stream, then read what is there to the end, so that nothing waits while it rests.

    \b
    strandline drain --why "a new version comes"
    """
    found, where = place.existing(lake)
    always(found, where).pause(why)
    note("the stream is stopped; reading what is there …")
    catch_up(found, where, place.named(None), as_json=as_json)


def restart(why: WhyOption = "", lake: LakeOption = None, as_json: JsonOption = False) -> None:
    r"""Stop the always-on stream after its batches and start it again with the options that it had.

    Also what to type when the watchdog has given up and the cause is gone.

    \b
    strandline restart
    """
    found, where = place.existing(lake)
    place.demanded_address(found, where)
    pid = always(found, where).restart(why)
    if as_json:
        emit({"pid": pid})
    else:
        say(f"the stream lives (process {pid})")


def always(found: Settings, where: Lake, by: str | None = None) -> Always:
    """Return the always-on stream of a lake, in the hands of who types."""
    return Always(
        lake=where, clock=place.now, environment=environment(found), by=by or place.login()
    )
