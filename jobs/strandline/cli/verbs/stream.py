"""``run``, ``stream``, ``resume``, ``pause``, ``drain``, ``restart``, ``preflight``, ``publish``: keep tables up to date, and send their changes on."""

from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from enum import StrEnum
from itertools import compress
from typing import Annotated

import typer
from rich.table import Table as Grid

from strandline.cli import main, screen
from strandline.cli.screen import (
    SINCE,
    UNTIL,
    JsonOption,
    LakeOption,
    TablesArgument,
    emit,
    grid,
    is_terminal,
    is_watched,
    live,
    logged,
    note,
    say,
    show,
)
from strandline.core.errors import DamagedError, DefinitionError, TransientError
from strandline.core.stateful import AvailableNow, Batch, MicroBatch, Mode
from strandline.core.table import Ingested, Table
from strandline.engine.flow.preflight import Answer, Verdict
from strandline.engine.flow.publications import publications, refusals
from strandline.engine.flow.running import Report
from strandline.engine.lake.lake import Lake, no_way_back
from strandline.engine.lake.locks import refuse_if_taken
from strandline.engine.lake.log.ledger import Entry, one_look
from strandline.engine.runtime import clock
from strandline.engine.runtime.jvm import kill
from strandline.engine.runtime.log_files import bound
from strandline.engine.runtime.settings import Settings
from strandline.engine.runtime.spark_session import refuse_too_many
from strandline.engine.service.background_stream import AUTO, EVERY_OPTION, MAX_OFFSETS
from strandline.engine.service.edited_code import LoadedCode
from strandline.engine.service.stream_health import Shard, heartbeat, living_shares
from strandline.engine.service.stream_host import Host
from strandline.operate import lakes
from strandline.operate import stream as work
from strandline.operate.lakes import seconds
from strandline.operate.listener import Log, Throttle
from strandline.operate.run import (
    catch_up,
    ready_to_stay,
    refuse_unsafe,
    verdicts_of,
    with_absent_topics,
    with_sources,
    without_retired,
)
from strandline.operate.stream import (
    StreamLog,
    always,
    asked_of,
    log_books,
    moments_beside,
    of_share,
    waits_for,
)

# ``run``: bring tables up to date, for this verb and for others.


COLUMNS = (
    "table",
    "batches",
    "read",
    "good",
    "duplicates",
    "quarantined",
    "skipped",
    "dropped",
    "lost",
    "made",
    "seconds",
)


class RunMode(StrEnum):
    """The modes of ``run``."""

    AVAILABLE_NOW = "available-now"
    BATCH = "batch"


MaxOffsets = Annotated[
    int | None,
    typer.Option(
        min=1, help="Most records in one batch; chosen from speed and memory when absent."
    ),
]


def _add_run(app: typer.Typer) -> None:
    """Add the verb."""
    app.command("run")(run_tables)


def run_tables(  # noqa: PLR0913, PLR0917  # each is an option of the command line
    tables: TablesArgument = None,
    mode: Annotated[RunMode, typer.Option(help="Catch up, or recompute.")] = (
        RunMode.AVAILABLE_NOW
    ),
    max_offsets: MaxOffsets = None,
    until_closed: Annotated[
        bool,
        typer.Option(
            "--until-closed",
            help="Close what waits for time to pass: the last windows, sessions and joins of a topic that fell silent.",
        ),
    ] = False,
    at_once: Annotated[
        int | None,
        typer.Option(
            min=1, max=64, help="Tables to work on at a time; by cores and memory when absent."
        ),
    ] = None,
    lake: LakeOption = None,
    as_json: JsonOption = False,
) -> None:
    r"""Bring tables up to date, each after those it reads, then stop.

    Tables that do not depend on each other are worked on side by side.
    A table that another process writes is passed over, and the exit code is then 3. One that fails is named, and the
    others go on, those above it with the rows that it has; the exit code is that of the first failure.
    A retired table is left out.

    With ``--until-closed`` tables bring those that they read, and each that waits is closed: all time is over up to the newest event and
    as much later as its rows may wait, but not later than the clock. A stream hands it over for that long. What comes later of
    that time is counted as dropped, and the ledger names the backfill that brings it in.

    \b
    strandline run
    strandline run gold.device_signal_10m --until-closed
    strandline run bronze.device_telemetry --max-offsets 20000
    strandline run --mode batch --lake /tmp/second-opinion
    """
    found, where = lakes.configured(lake)
    if at_once is not None:
        found = replace(found, tables_at_once=at_once)
    where.refuse_newer()
    how: Mode = Batch() if mode is RunMode.BATCH else AvailableNow(max_offsets=max_offsets)
    chosen = lakes.to_feed(tables, where)
    if not until_closed:
        run_and_show(found, where, chosen, how, as_json=as_json)
        return
    by = f"{clock.login()} at {clock.now().isoformat(timespec='seconds')}: strandline run --until-closed"
    below = with_sources(chosen, where)
    if lakes.address(found, where) is None:
        note("no broker is known, so it is not looked whether topics have more than bronze")
        below = [each for each in below if not isinstance(each, Ingested)]
    run_and_show(found, where, below, how, as_json=as_json, closed_by=by)


def run_and_show(  # noqa: PLR0913  # what, where, how, and how it is printed
    found: Settings,
    where: Lake,
    chosen: list[Table],
    how: Mode = AvailableNow(),  # noqa: B008  # never changed
    *,
    as_json: bool,
    closed_by: str = "",
) -> None:
    """Bring tables up to date and print the result."""
    main.at_once()
    minute = Throttle(at_once=False)

    def note_batch(table: Table, entry: Entry) -> None:
        """Print each batch on a terminal, and one a minute in a log."""
        if is_watched() or minute.is_due():
            note(f"{table.id}: batch {entry.batch}, {entry.read:,} read, {entry.duration_ms:,} ms")

    done = catch_up(
        found,
        where,
        chosen,
        how,
        says=note,
        on_commit=note_batch,
        on_done=_note_done,
        closed_by=closed_by,
    )
    if as_json:
        emit([report.as_json() for report in done.reports])
    else:
        show(None, *columns_and_rows(done.reports))
    done.refuse()


def _note_done(report: Report) -> None:
    """Print the result of a table to a log; a terminal has shown its batches."""
    if report.books_open:
        note(f"the books of {report.table} stay open until the next run: {report.books_open}")
    if not is_watched():
        batches, seconds = report.batches, report.seconds
        note(f"{report.table}: {batches:,} batches, {report.read:,} read, {seconds:,.1f} s")


def columns_and_rows(
    reports: Sequence[Report],
) -> tuple[tuple[str, ...], list[tuple[object, ...]]]:
    """Return the columns and the rows; that of what was passed over where a table passes anything over, as in ``ledger``."""
    is_shown = [name != "skipped" or any(each.skipped for each in reports) for name in COLUMNS]
    rows = [tuple(compress(_row(each), is_shown)) for each in reports]
    return tuple(compress(COLUMNS, is_shown)), rows


def _row(report: Report) -> tuple[object, ...]:
    return (
        report.table,
        report.batches,
        report.read,
        report.good,
        report.copies,
        report.held_records,
        report.skipped.total(),
        report.dropped_by_watermark,
        report.lost_by_function,
        report.made_by_function,
        report.seconds,
    )


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


def _add_stream(app: typer.Typer) -> None:
    """Add the verbs."""
    app.command("stream")(stream)
    app.command("resume")(resume)
    app.command("pause")(pause)
    app.command("drain")(drain)
    app.command("restart")(restart)


def stream(  # noqa: PLR0913, PLR0917  # each is an option of the command line
    tables: TablesArgument = None,
    every: Annotated[
        str,
        typer.Option(
            help="Time from batch to batch of bronze: 500ms, 5s, 1m. Tables above follow it."
        ),
    ] = EVERY,
    max_offsets: MaxOffsets = None,
    patient: Annotated[
        bool,
        typer.Option(
            "--patient",
            help="Start even without Kafka, and wait for it; a table that may not go on ends no other.",
        ),
    ] = False,
    shard: Annotated[
        str | None,
        typer.Option(
            metavar="<number/of>",
            help="Only a share of them, such as 2/5; other hosts have the rest. A table stays in its share when others come.",
        ),
    ] = None,
    lake: LakeOption = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Log in JSON, one record a line, for programs.")
    ] = False,
) -> None:
    r"""Keep tables up to date until Ctrl-C, all of them in one process.

    \b
    strandline stream
    strandline stream --shard 2/5
    strandline stream bronze.device_telemetry silver.device_telemetry --every 1s
    """
    with logged(as_json=as_json) as log:
        found, where = lakes.configured(lake)
        share = None if shard is None else Shard.parsed(shard)
        chosen = of_share(without_retired(lakes.named(tables), where), share)
        mode = MicroBatch(every=seconds(every), max_offsets=max_offsets)
        # From here on, also while Spark starts.
        asked = main.asked(within=main.AT_LAST, quiet=main.QUIET)
        for table in chosen:
            refuse_if_taken(table, where)
        # Before Spark starts: an edit meanwhile is one, and not what makes the rows.
        code = LoadedCode()
        shared = share is not None
        site = ready_to_stay(found, where, chosen, note, patient=patient, shared=shared)
        feeds_all = not tables
        host = Host(
            chosen,
            mode,
            where,
            site,
            asked,
            None
            if shared
            else code,  # that all of several hosts have loaded an edit, no answer could say
            feeds_all=feeds_all,
            sleep=found.sleep,
            shard=share,
            holds_back=moments_beside(found, where, asked, note),
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
    main.waits_for(lambda: host.waited_at)
    try:
        host.serve(look)
    finally:
        if host.hung:
            kill(host.spark)
        main.deaf()


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
    found, where = screen.existing(lake, briefly=True)
    stopped = always(found, where).pause(why)
    shares = living_shares(heartbeat(where, clock.now()))
    if as_json:
        emit({"stopped": stopped, "shares": shares})
        return
    say("the stream is stopped" if stopped else "no stream of this lake was running here")
    if shares:
        say(f"shares go on ({', '.join(shares)}): {STOP_SHARES}")
    say("it stays stopped until `strandline resume`")


def drain(why: WhyOption = "", lake: LakeOption = None, as_json: JsonOption = False) -> None:
    r"""Stop the always-on stream, then read the backlog to its end, so that nothing waits meanwhile.

    \b
    strandline drain --why "a new version comes"
    """
    found, where = screen.existing(lake, briefly=True, writes=True)
    _refuse_shares(where)
    always(found, where).pause(why)
    note("the stream is stopped; reading the backlog …")
    run_and_show(found, where, lakes.to_feed(None, where), as_json=as_json)


def restart(why: WhyOption = "", lake: LakeOption = None, as_json: JsonOption = False) -> None:
    r"""Stop the always-on stream after its batches and start it again with the same options.

    Also the way on when the watchdog has given up and the cause is gone.

    \b
    strandline restart
    """
    found, where = screen.existing(lake, briefly=True, writes=True)
    _refuse_shares(where)
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


STOP_SHARES = "stop each where it runs (Ctrl-C; on Kubernetes, no replicas)"


def _refuse_shares(where: Lake) -> None:
    """Refuse to act on the stream of this host where hosts share the tables out, which would not notice.

    Raises:
        TransientError: A share runs.
    """
    if shares := ", ".join(living_shares(heartbeat(where, clock.now()))):
        raise TransientError(
            f"the stream runs in shares ({shares}), and no host but its own stops one",
            hint=f"{STOP_SHARES}, then type the same again.",
            shares=shares,
        )


# ``preflight``: may each table's stream go on with its checkpoint? Asked by `stream` and `resume` before anything starts.


def _add_preflight(app: typer.Typer) -> None:
    """Add the verb."""
    app.command("preflight")(preflight)


def preflight(
    tables: TablesArgument = None,
    lake: LakeOption = None,
    as_json: JsonOption = False,
) -> None:
    r"""Compare what the code would run now with what each checkpoint holds, before anything starts.

    The answer for each table is one of three: safe, safe after this migration, needs a new checkpoint.
    A table whose code, sources and checkpoint are as they were takes milliseconds and no Spark.
    The exit code is 0 when every table is safe, else 2; 4 when one cannot be read and the others are safe.
    A function that lets Java's engine search what a stranger sent is named, with the function to use instead; that is a warning.
    Where Kafka answers, a topic that a table is to read and that is not there is named: it is to be made first, or, where the
    table has read it already, must not be made anew; the exit code is then 2. A lake that holds what code of before cannot read says what a roll-back to it would meet.

    \b
    strandline preflight
    strandline preflight gold.device_signal_10m --json
    """
    found, where = screen.existing(lake, briefly=True)
    chosen = [
        table
        for table in lakes.to_feed(tables, where)
        if where.exists(table) or tables or table.topics
    ]
    with one_look():
        verdicts = verdicts_of(found, where, chosen, note, looks=True)
        verdicts = [
            verdict
            for verdict, table in zip(
                with_absent_topics(verdicts, found, where, chosen, note), chosen, strict=True
            )
            if tables or where.exists(table) or verdict.answer is not Answer.SAFE
        ]
    if as_json:
        emit([asdict(each) for each in verdicts])
    else:
        _show(verdicts)
        for each in no_way_back(where.formats):
            say(each)
    answers = {each.answer for each in verdicts}
    if answers - {Answer.SAFE, Answer.DAMAGED}:
        raise SystemExit(DefinitionError.exit_code)
    if Answer.DAMAGED in answers:
        raise SystemExit(DamagedError.exit_code)


def _show(verdicts: Sequence[Verdict]) -> None:
    show(None, ("table", "verdict"), [(each.table, each.answer.value) for each in verdicts])
    for each in verdicts:
        if each.answer is not Answer.SAFE or each.differences:
            for difference in each.differences:
                say(f"{each.table}: {difference.what}")
            for line in each.notes:
                say(f"{each.table}: {line}")
        for line in each.warnings:
            say(f"{each.table}: {line}")
        if each.hint:
            say(f"{each.table}: {each.hint}")


def register(app: typer.Typer) -> None:
    """Add the verbs."""
    _add_stream(app)
    _add_run(app)
    _add_preflight(app)
    _add_publish(app)


# ``publish``: send the changes of tables to Kafka topics, tables of PostgreSQL and functions, in a process without Spark.

PUBLISHED = ("name", "table", "target", "read", "accepted", "refused", "lag", "away")
REFUSALS = ("name", "key", "version", "why")


def _add_publish(app: typer.Typer) -> None:
    """Add the verb."""
    app.command("publish")(publish)


def publish(  # noqa: PLR0913, PLR0917  # each is an option of the command line
    names: Annotated[
        list[str] | None,
        typer.Argument(metavar="NAME", help="A name of PUBLISH; all when absent."),
    ] = None,
    once: Annotated[bool, typer.Option("--once", help="Send what there is, then end.")] = False,
    again: Annotated[
        bool,
        typer.Option(
            "--again", help="Begin anew with all rows as they are; with a range those of it alone."
        ),
    ] = False,
    since: Annotated[str | None, typer.Option(help=f"With --again: {SINCE}")] = None,
    until: Annotated[str | None, typer.Option(help=UNTIL)] = None,
    refused: Annotated[
        bool,
        typer.Option("--refused", help="List what the targets have refused, and send nothing."),
    ] = False,
    lake: LakeOption = None,
    as_json: JsonOption = False,
) -> None:
    r"""Send the changes of tables to the targets that the project's module publish declares, until Ctrl-C.

    A target that is new gets all rows first. After any end each target goes on where it was: of a Kafka topic and a table of
    PostgreSQL each change is there exactly once, a function may get one again, with the same id. A target that is away gets its
    changes later; a row that it refuses is kept on a list with the reason, and the others go on.

    \b
    strandline publish
    strandline publish paid-orders --once
    strandline publish paid-orders --again --since 2026-11-01 --until 2026-11-02
    strandline publish paid-orders --refused
    """
    found, where = screen.existing(lake, writes=not refused)
    all_ = work.publishers(found, where, tuple(names or ()), sends=not refused)
    if refused:
        _list(where, [each.name for each in all_], as_json=as_json)
        return
    if once or again or since or until:
        work.send_once(all_, again=again, since=since, until=until)
    else:
        with logged(as_json=as_json) as log:
            stop = main.asked()
            log.info("started", publications=[each.name for each in all_])
            try:
                work.PublishHost(all_, where, log, stop).serve()
            finally:
                main.deaf()
    sent = [each for each in publications(where) if each["name"] in {one.name for one in all_}]
    if as_json:
        emit(sent)
    else:
        show(None, PUBLISHED, [tuple(each[name] for name in PUBLISHED) for each in sent])


def _list(where: Lake, names: list[str], *, as_json: bool) -> None:
    """Show the rows that targets have refused, and that no later change has replaced."""
    rows = [
        {"name": name, "key": key, **said}
        for name in names
        for key, said in refusals(where, name).items()
    ]
    if as_json:
        emit(rows)
    else:
        show(None, REFUSALS, [tuple(each[name] for name in REFUSALS) for each in rows])
