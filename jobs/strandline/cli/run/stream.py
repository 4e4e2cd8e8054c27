"""``stream``, ``resume``, ``pause``, ``drain``, ``restart``: keep tables up to date, on a terminal as a table of figures, elsewhere as a log, or always in the background."""

from collections.abc import Callable
from typing import Annotated

import typer
from rich.table import Table as Grid

from strandline.cli import place, stopping
from strandline.cli.place import JsonOption, LakeOption, TablesArgument
from strandline.cli.run.run import MaxOffsets, run_and_show
from strandline.cli.screen import emit, grid, is_terminal, live, logged, note, say, show
from strandline.core.errors import DefinitionError
from strandline.core.modes import MicroBatch
from strandline.engine.lake.lake import Lake
from strandline.engine.lake.locks import refuse_if_taken
from strandline.engine.runtime.jvm import kill
from strandline.engine.runtime.log_files import bound
from strandline.engine.runtime.open_files import refuse_too_many
from strandline.engine.service.background_stream import AUTO, EVERY_OPTION, MAX_OFFSETS
from strandline.engine.service.stream_host import Host
from strandline.operate import lakes
from strandline.operate.answers.stream_log import StreamLog, log_books, waits_for
from strandline.operate.listener import Log
from strandline.operate.preflight import ready_to_stay, refuse_unsafe, without_retired
from strandline.operate.stream import always, asked_of
from strandline.operate.words import seconds

EVERY = "5s"
KeptMaxOffsets = Annotated[
    str | None,
    typer.Option(
        "--max-offsets",
        metavar="<number or auto>",
        help="Most records in one batch, also at later starts; `auto` lets speed and memory choose again.",
    ),
]
WhyOption = Annotated[str, typer.Option("--why", help="Reason; `strandline status` shows it.")]


def register(app: typer.Typer) -> None:
    """Add the verbs."""
    app.command("stream")(stream)
    app.command("resume")(resume)
    app.command("pause")(pause)
    app.command("drain")(drain)
    app.command("restart")(restart)


def stream(  # noqa: PLR0913, PLR0917  # each is an option of the command line
    tables: TablesArgument = None,
    every: Annotated[str, typer.Option(help="Time from batch to batch: 500ms, 5s, 1m.")] = EVERY,
    max_offsets: MaxOffsets = None,
    patient: Annotated[
        bool, typer.Option("--patient", help="Start even without Kafka, and wait for it.")
    ] = False,
    lake: LakeOption = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Log in JSON, one record a line, for programs.")
    ] = False,
) -> None:
    r"""Keep tables up to date until Ctrl-C, all of them in one process.

    \b
    strandline stream
    strandline stream bronze.device_telemetry silver.device_telemetry --every 1s
    """
    with logged(as_json=as_json) as log:
        found, where = lakes.configured(lake)
        chosen = without_retired(lakes.named(tables), where)
        mode = MicroBatch(every=seconds(every), max_offsets=max_offsets)
        # From here on, also while Spark starts.
        asked = stopping.asked(within=stopping.AT_LAST, quiet=stopping.QUIET)
        for table in chosen:
            refuse_if_taken(table, where)
        host = Host(
            chosen, mode, where, ready_to_stay(found, where, chosen, note, patient=patient), asked
        )
        if is_terminal() and not as_json:
            _watched(host, where)
        else:
            _unwatched(host, where, log)
    if not as_json:
        rows = [(pulse.table, pulse.batches, pulse.read) for pulse in host.pulses.values()]
        show("stopped", ("table", "batches", "read"), rows)


def _watched(host: Host, where: Lake) -> None:
    tables = len(host.pulses)
    note(f"streaming {tables} tables of {where.root}; Ctrl-C stops after the running batch")
    with live(lambda: _pulses(host)) as refresh:
        _serve(host, lambda _: refresh())


def _unwatched(host: Host, where: Lake, log: Log) -> None:
    log.info("started", tables=list(host.pulses), lake=str(where.root))
    stream_log = StreamLog(log)

    def look(host: Host) -> None:
        stream_log.look(host.pulses.values(), host.errors)
        log_books(log, host.closer.news())
        bound(where.log("stream").local)  # the log of a background stream

    _serve(host, look)
    for pulse in host.pulses.values():
        log.info("stopped", table=pulse.table, batches=pulse.batches, rows=pulse.read)


def _serve(host: Host, look: Callable[[Host], None]) -> None:
    stopping.waits_for(lambda: host.waited_at)
    try:
        host.serve(look)
    finally:
        if host.hung:
            kill(host.spark)
        stopping.deaf()


def _pulses(host: Host) -> Grid:
    columns = ("table", "batches", "rows/s", "lag", "watermark", "last batch ms", "at", "waits")
    rows = [
        (p.table, p.batches, p.rate, p.lag, p.watermark, p.last_ms, p.at, waits_for(p))
        for p in host.pulses.values()
    ]
    return grid(None, columns, rows)


def resume(  # noqa: PLR0913, PLR0917  # each is an option of the command line
    tables: TablesArgument = None,
    every: Annotated[
        str | None, typer.Option(help=f"Time from batch to batch; {EVERY} when absent.")
    ] = None,
    max_offsets: KeptMaxOffsets = None,
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
    strandline resume --max-offsets auto
    """
    if every is not None:
        seconds(every)
    if max_offsets is not None:
        _refuse_no_bound(max_offsets)
    lakes.named(tables)
    words = [
        *(tables or ()),
        *((EVERY_OPTION, every) if every else ()),
        *((MAX_OFFSETS, max_offsets) if max_offsets else ()),
    ]
    found, where = lakes.asked(lake)
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


def _refuse_no_bound(most: str) -> None:
    if most != AUTO and not (most.isdecimal() and int(most) > 0):
        raise DefinitionError(
            f"{most!r} is no number of records in a batch",
            hint=f"write a number above 0, or `{MAX_OFFSETS} {AUTO}` to let speed and memory choose.",
        )


def pause(why: WhyOption = "", lake: LakeOption = None, as_json: JsonOption = False) -> None:
    r"""Stop the always-on stream after its running batches, and keep it stopped.

    \b
    strandline pause --why "the disk is being changed"
    """
    found, where = place.existing(lake, briefly=True)
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
    found, where = place.existing(lake, briefly=True, writes=True)
    always(found, where).pause(why)
    note("the stream is stopped; reading the backlog …")
    run_and_show(found, where, lakes.to_feed(None, where), as_json=as_json)


def restart(why: WhyOption = "", lake: LakeOption = None, as_json: JsonOption = False) -> None:
    r"""Stop the always-on stream after its batches and start it again with the same options.

    Also the way on when the watchdog has given up and the cause is gone.

    \b
    strandline restart
    """
    found, where = place.existing(lake, briefly=True, writes=True)
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
