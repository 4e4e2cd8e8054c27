"""``resume``, ``pause``, ``drain``, ``restart``: operate the always-on stream."""

from typing import Annotated

import typer

from jobs.cli import place
from jobs.cli.place import JsonOption, LakeOption, TablesArgument
from jobs.cli.screen import emit, note, say
from jobs.cli.streaming import EVERY
from jobs.cli.work import MaxOffsets, run_and_show
from jobs.engine.runtime.open_files import refuse_too_many
from jobs.engine.service.stream_options import EVERY as EVERY_OPTION
from jobs.engine.service.stream_options import MAX_OFFSETS
from jobs.operate import lakes
from jobs.operate.preflight import refuse_unsafe
from jobs.operate.stream import always, asked_of
from jobs.operate.words import seconds

WhyOption = Annotated[str, typer.Option("--why", help="Reason; `strandline status` shows it.")]


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
    r"""Start the always-on stream in the background, unless it runs, and wait for its first heartbeat.

    From then on a watchdog (`strandline ui`) restarts it when it dies. Options that are not given keep their last
    value. A running stream keeps the options it was started with; `strandline restart` applies new ones.

    \b
    strandline resume
    strandline resume --every 1s
    """
    if every is not None:
        seconds(every)
    lakes.named(tables)
    words = [
        *(tables or ()),
        *((EVERY_OPTION, every) if every else ()),
        *((MAX_OFFSETS, str(max_offsets)) if max_offsets else ()),
    ]
    found, where = lakes.configured(lake)
    stream = always(found, where)
    asked = lakes.to_feed(None, where) if everything else asked_of(stream, tables or (), where)
    refuse_too_many(len(asked))
    where.open_for_writing()
    lakes.demanded_address(found, where)
    refuse_unsafe(found, where, asked, note)
    note("starting the stream …")
    pid = stream.resume(words, why, everything=everything)
    if as_json:
        emit({"pid": pid})
    else:
        say(f"the stream runs (process {pid}); `strandline pause` stops it")


def pause(why: WhyOption = "", lake: LakeOption = None, as_json: JsonOption = False) -> None:
    r"""Stop the always-on stream after its running batches, and keep it stopped.

    \b
    strandline pause --why "the disk is being changed"
    """
    found, where = place.existing(lake)
    stopped = always(found, where).pause(why)
    if as_json:
        emit({"stopped": stopped})
    else:
        say("the stream is stopped" if stopped else "no stream of this lake was running")
        say("it stays stopped until `strandline resume`")


def drain(why: WhyOption = "", lake: LakeOption = None, as_json: JsonOption = False) -> None:
    r"""Stop the always-on stream, then read the backlog to its end, so that nothing waits meanwhile.

    \b
    strandline drain --why "a new version comes"
    """
    found, where = place.existing(lake, writes=True)
    always(found, where).pause(why)
    note("the stream is stopped; reading the backlog …")
    run_and_show(found, where, lakes.to_feed(None, where), as_json=as_json)


def restart(why: WhyOption = "", lake: LakeOption = None, as_json: JsonOption = False) -> None:
    r"""Stop the always-on stream after its batches and start it again with the same options.

    Also the way on when the watchdog has given up and the cause is gone.

    \b
    strandline restart
    """
    found, where = place.existing(lake, writes=True)
    lakes.demanded_address(found, where)
    stream = always(found, where)
    asked = asked_of(stream, (), where)
    refuse_too_many(len(asked))
    refuse_unsafe(found, where, asked, note)
    pid = stream.restart(why)
    if as_json:
        emit({"pid": pid})
    else:
        say(f"the stream runs (process {pid})")
