"""``up``, ``status``, ``down``, ``logs``: the broker of a lake, the stream, and what both have logged."""

import json
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import asdict
from typing import Annotated, Any

import typer
from strandline import catalog

from strandline.cli import screen
from strandline.cli.screen import JsonOption, LakeOption, emit, lines, note, say
from strandline.core.errors import LakeError, TransientError
from strandline.core.table import Streamed
from strandline.core.topic import Topic
from strandline.engine.accounting.routes import drift_sentences, undeclared
from strandline.engine.flow.publications import publications, published
from strandline.engine.flow.readers import Level
from strandline.engine.kafka import broker
from strandline.engine.kafka.topic_log import WAY
from strandline.engine.lake.completeness import fed, retired
from strandline.engine.lake.lake import Lake
from strandline.engine.lake.log.ledger import one_look
from strandline.engine.lake.place import remedy
from strandline.engine.runtime import clock
from strandline.engine.runtime.log_files import Level as LogLevel
from strandline.engine.runtime.log_files import LogReader, as_text, record
from strandline.engine.runtime.outage import AWAY
from strandline.engine.runtime.settings import Settings
from strandline.engine.service.backlog import of_pulse
from strandline.engine.service.condition import receivers
from strandline.engine.service.stream_health import Order, near_beat, order
from strandline.operate import lakes
from strandline.operate.audit import notices
from strandline.operate.stream import (
    STREAM_LOG,
    Status,
    Wanted,
    begin_of,
    brought_up,
    fails,
    log_of,
    nearest_danger,
    readers_of,
    silence,
    status_of,
)

UNMOVED = 60
"""Seconds from which on a batch that does not move is named."""


def register(app: typer.Typer) -> None:
    """Add the verbs."""
    app.command("up")(up)
    app.command("status")(status)
    app.command("down")(down)
    _register_logs(app)


def up(
    port: Annotated[
        int | None, typer.Option(min=1, max=65535, help="Port on loopback; a free one when absent.")
    ] = None,
    lake: LakeOption = None,
    as_json: JsonOption = False,
) -> None:
    r"""Start this lake's Kafka broker, unless it runs, and create the topics of the declared tables on it.

    Existing topics are not changed. On a cluster that STRANDLINE_KAFKA names no topic is created; missing ones are
    listed.

    \b
    strandline up
    strandline up --port 9092
    """
    found, where = lakes.configured(lake)
    if found.kafka is not None:
        lacking = broker.missing(found.kafka, found.kafka_options, fed(catalog.tables(), where))
        if as_json:
            emit(
                {"address": found.kafka, "pid": None, "missing": [topic.name for topic in lacking]}
            )
            return
        say(f"STRANDLINE_KAFKA names {found.kafka}, which answers; no broker of the lake is needed")
        if lacking:
            say(f"missing topics: {_listed(lacking)}; ask its operators to create them")
        return
    done = brought_up(where, port)
    running, made, gone = done.broker, done.made, done.gone
    if as_json:
        names = [topic.name for topic in made]
        lost = [topic.name for topic in gone]
        emit({"address": running.address, "pid": running.pid, "made": names, "gone": lost})
        return
    say(f"Kafka answers at {running.address} (process {running.pid})")
    if made:
        say(f"created {_listed(made)}")
    if gone:
        say(
            f"not made anew: {', '.join(map(str, gone))}, read by {readers_of(gone, where)} and deleted"
        )
        say(f"hint    {WAY}")


def _listed(found: Sequence[Topic]) -> str:
    return ", ".join(f"{topic.name} ({topic.partitions} partitions)" for topic in found)


def status(lake: LakeOption = None, as_json: JsonOption = False) -> None:
    r"""Show whether the broker and the stream of this lake are alive.

    Exits with 3 when the stream should run and does not, or writes no heartbeat any more. Where the object store does not
    answer, what is known on this machine is shown within five seconds, with since when nothing more is.

    \b
    strandline status
    strandline status --json
    """
    found, where = lakes.asked(lake, small=True)
    if where.root.is_local:  # of a store it is asked below, where it may be away
        lakes.refuse_absent(where)
    try:
        with one_look():
            _show(found, where, as_json=as_json)
    except AWAY as error:
        _show_near(where, error, as_json=as_json)
        raise SystemExit(TransientError.exit_code) from error


def _show_near(where: Lake, error: LakeError, *, as_json: bool) -> None:
    """Show what this machine has of a lake whose store does not answer: the copy of the heartbeat, which is written first."""
    beat = near_beat(where, where.heartbeat)
    since = beat["at"] if beat else None
    if as_json:
        emit(
            {
                "lake": str(where.root),
                "condition": {"well": False, "says": error.message},
                "known_since": since,
                "stream": beat,
            }
        )
        return
    say(f"lake    {where.root}")
    say(f"well    no: {error.message}")
    if beat is None:
        say("stream  no stream has written a heartbeat on this machine; of others nothing is known")
    else:
        runs = f"process {beat['pid']} runs" if beat["alive"] else "not running"
        say(
            f"stream  {runs} on this machine, last heartbeat at {since}; more is not known since then"
        )
        for name, pulse in beat["tables"].items():
            if waits := pulse.get("away") or pulse.get("gate"):
                say(f"        {name} waits: {waits}")
    say(f"hint    {error.hint}")


def _show(found: Settings, where: Lake, *, as_json: bool) -> None:
    lakes.say_newer(where, note)
    known = status_of(found, where)
    running, beat, asked, live = known.broker, known.beat, known.asked, known.alerts
    promoted, starting, wellness = known.promoted, known.starting, known.condition
    if as_json:
        emit(
            {
                "lake": str(where.root),
                "condition": {"well": wellness.is_well, "says": wellness.sentence},
                "kafka": lakes.address(found, where),
                "broker_pid": running.pid if running else None,
                "stream": beat,
                "order": asdict(asked) if asked else None,
                "alerts": live,
                "deliveries": list(receivers(where)),
                "publications": list(publications(where)),
                "radar": nearest_danger(where),
                "rules": asdict(promoted[-1]) if promoted else None,
                "retired": {name: asdict(each) for name, each in retired(where).items()},
                "undeclared": undeclared(where),
                "drift": list(drift_sentences(catalog.tables(), where)),
            }
        )
        _refuse_ill(known)
        return
    say(f"lake    {where.root}")
    say(f"well    {'yes' if wellness.is_well else 'no'}: {wellness.sentence}")
    if found.kafka:
        say(f"kafka   {found.kafka} (STRANDLINE_KAFKA)")
    else:
        say(
            f"broker  {running.address}, process {running.pid}"
            if running
            else "broker  not running"
        )
    if starting:
        say("stream  starts; its first heartbeat comes within a minute")
    else:
        _say_stream(beat)
    _say_order(asked)
    if live:
        _say_alerts(live)
    _say_order(order(where, where.alerts_order))
    if promoted:
        last = promoted[-1]
        say(f"rules   version {last.version}, promoted at {last.at} by {last.by}")
    for each in receivers(where):
        _say_delivery(each)
    _say_radar(where)
    _say_left(where)
    if kept := sum(name.endswith(".json") for name in where.alarms.names()):
        say(
            f"alarms  {kept:,} not accepted yet, sent again every minute; check that STRANDLINE_WEBHOOK answers"
        )
    if asked and asked.gave_up:
        say(f"        was restarted {len(asked.attempts)} times; given up at {asked.gave_up}")
    if where.is_short_of_room():
        say(f"disk    {where.room_left()}; `strandline doctor` says what to do")
    _refuse_ill(known)


def _say_left(where: Lake) -> None:
    """Say which tables are fed no more, or by no module, which topics and clusters feed a table no more, what is published, and what is not declared."""
    for line in notices(where):
        say(f"feeds   {line}")
    for line in published(where):
        say(line)
    for line in drift_sentences(catalog.tables(), where):
        say(f"drift   {line}")


def _refuse_ill(known: Status) -> None:
    """Exit with 3 for a stream that should run and does not."""
    if known.is_ill:
        raise SystemExit(TransientError.exit_code)


def _say_order(asked: Order | None) -> None:
    if asked:
        wish = "should run" if asked.runs else "should be paused"
        say(
            f"        {wish}, by order of {asked.by} since {asked.at}"
            + (f": {asked.why}" if asked.why else "")
        )


def _say_radar(where: Lake) -> None:
    near = nearest_danger(where)
    if near and near["level"] in {Level.SOON, Level.URGENT, Level.LOST}:
        say(
            f"radar   {near['level']}: {near['reader']}, {near['source']}: {near['says']} (seen at {near['at']})"
        )


def _say_stream(beat: Mapping[str, Any] | None) -> None:
    if beat and beat["alive"]:
        _say_processes(beat)
        if quiet := silence(beat):
            say(f"        silent: no heartbeat for {quiet}; what follows is as old")
        if asleep := sum(bool(pulse.get("asleep")) for pulse in beat["tables"].values()):
            say(
                f"        {asleep} of {len(beat['tables'])} tables sleep until they have something to read"
            )
        for name, pulse in beat["tables"].items():
            if waits := pulse.get("away") or pulse.get("gate") or pulse.get("sources"):
                say(f"        {name} waits: {waits}")
            elif said := of_pulse(pulse):
                say(f"        {name}: {said}")
            if (unmoved := pulse.get("unmoved") or 0) >= UNMOVED:
                say(f"        {name}: {pulse['running']} {_still(name)} for {unmoved:,} s")
            if broken := pulse.get("broken"):
                say(f"        {name}: {broken}")
                say(f"        hint: {remedy(name)}")
            if failing := pulse.get("failing"):
                said = fails(name, failing["tries"], failing["says"])
                again = f", tried again at {at}" if (at := failing.get("next_at")) else ""
                say(f"        {said}; retried since {failing['since']}{again}")
                say(f"        hint: {failing['hint']}")
    else:
        say("stream  not running" + (f"; last heartbeat at {beat['at']}" if beat else ""))


def _say_processes(beat: Mapping[str, Any]) -> None:
    """Say which process streams; of shares of the tables which has each, on which host, or had it last."""
    if not (shards := beat.get("shards")):
        say(f"stream  process {beat['pid']}, last heartbeat at {beat['at']}")
    for number, each in enumerate(sorted(shards or (), key=lambda one: str(one["shard"] or ""))):
        head = " " * 8 if number else "stream  "
        name = f"share {each['shard']}" if each["shard"] else "no share"
        if each["at"] is None:
            say(f"{head}{name}: no process has had it")
            continue
        lives = "" if each["alive"] else "not running; it was "
        process = f"process {each['pid']} on {each['host']}, {len(each['tables'])} tables"
        say(f"{head}{name}: {lives}{process}, last heartbeat at {each['at']}")


def _still(name: str) -> str:
    """Say what is known of a batch since: only of a stream's own are the jobs, tasks and rows looked at while it runs."""
    is_seen = all(isinstance(each, Streamed) for each in catalog.tables() if each.id == name)
    return "has not moved" if is_seen else "works, or waits for Spark, and has committed nothing"


def _say_alerts(beat: Mapping[str, Any]) -> None:
    if not beat["alive"]:
        say(f"alerts  not running; last heartbeat at {beat['at']}")
        return
    say(f"alerts  process {beat['pid']}, {beat['mode']}, last heartbeat at {beat['at']}")
    for name, pulse in beat["tables"].items():
        lag = "" if pulse["lag"] is None else f", {pulse['lag']:,} since the last checkpoint"
        say(f"        {name}: {pulse['read']:,} read, {pulse['written']:,} alerts{lag}")
        if pulse["away"]:
            say(f"        {name} waits: {pulse['away']}")
    refused = beat.get("refused") or {"rules": 0, "first": {}}  # an older program writes none
    for origin, reason in refused["first"].items():
        say(f"        the rule {origin} does not run: {reason}")
    if more := refused["rules"] - len(refused["first"]):
        say(
            f"        {more:,} others do not run; `strandline rules lint` names each with its reason"
        )


def _say_delivery(books: Mapping[str, Any]) -> None:
    its = books["process"]
    who = "not running" if its is None else f"process {its.get('pid')}"
    lag = "" if books["lag"] is None else f", {books['lag']:,} to read"
    say(f"notices to {books['receiver']}: {who}, as of {books['at']}")
    say(
        f"        {books['delivered']:,} alerts in {books['notices']:,} notices, {books['waiting']:,} alerts wait{lag}"
    )
    if books["away"]:
        say(f"        waits: {books['away']}")


def down(lake: LakeOption = None, as_json: JsonOption = False) -> None:
    r"""Stop the broker that `strandline up` started for this lake; its data stays.

    \b
    strandline down
    """
    _, where = lakes.configured(lake)
    stopped = broker.down(where)
    if as_json:
        emit({"stopped": stopped})
    else:
        say("broker stopped" if stopped else "no broker of this lake is running")


# ``logs``: what the stream and the other programs of a lake have logged, for people and for programs.

NEWEST = 100
"""Lines that are shown when nothing else is asked for."""

LOOK = 0.3
"""Seconds between two looks at a log that is followed."""


STYLES = {
    LogLevel.DEBUG: "dim",
    LogLevel.INFO: "green",
    LogLevel.WARNING: "yellow",
    LogLevel.ERROR: "red",
    LogLevel.CRITICAL: "bold red",
}


def _register_logs(app: typer.Typer) -> None:
    """Add the verb."""
    app.command("logs")(logs)


def logs(  # noqa: PLR0913, PLR0917  # each is an option of the command line
    table: Annotated[
        str | None,
        typer.Argument(
            metavar="TABLE",
            help="Such as silver.device_telemetry; all when absent.",
            autocompletion=screen.tables,
        ),
    ] = None,
    follow: Annotated[
        bool, typer.Option("--follow", "-f", help="Show further lines until Ctrl-C.")
    ] = False,
    level: Annotated[LogLevel, typer.Option(help="The least important level.")] = LogLevel.DEBUG,
    since: Annotated[
        str | None, typer.Option(help="A moment, such as 2026-11-01T06:00 in UTC, or 30m, 2h, 1d.")
    ] = None,
    newest: Annotated[
        int | None,
        typer.Option("--lines", min=0, help=f"Most lines; {NEWEST} when absent, all with --since."),
    ] = None,
    of: Annotated[
        str, typer.Option(help="The program: stream, alerts, spark, broker, dagster.")
    ] = STREAM_LOG,
    lake: LakeOption = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="One JSON record a line, for programs.")
    ] = False,
) -> None:
    r"""Show the newest lines of the stream's log, or of another program's.

    Text that is no record, such as a crash before logging began, is shown whatever is asked for.

    \b
    strandline logs
    strandline logs silver.device_telemetry --level warning --since 2h
    strandline logs --follow
    strandline logs --of spark --lines 500
    """
    wanted = None if table is None else catalog.find(table).id
    begin = None if since is None else begin_of(since, clock.now())
    asked = Wanted(wanted, level, begin)
    # Of a lake on a store the logs are on this machine, and they are read most while it is away.
    _, where = lakes.configured(lake)
    if where.root.is_local:
        screen.existing(lake)
    most = newest if newest is not None or since else NEWEST

    with closing(LogReader(log_of(where, of))) as reader:
        shown = _show_lines(reader.newest(asked.holds, asked.is_too_old, most), as_json=as_json)
        try:
            while follow:
                shown += _show_lines(filter(asked.holds, reader.more()), as_json=as_json)
                time.sleep(LOOK)
        finally:
            if (rest := reader.unfinished()) and asked.holds(rest):
                shown += _show_lines([rest], as_json=as_json)
    if not shown:
        note("no line of the log is as asked for")


def _show_lines(found: Iterable[str], *, as_json: bool) -> int:
    """Print lines, and return how many."""
    shown = 0

    def counted() -> Iterator[list[tuple[str, str]]]:
        nonlocal shown
        for shown, line in enumerate(found, start=1):  # noqa: B007  # the count is the result
            yield [(_in_json(line), "")] if as_json else _in_colour(line)

    lines(counted())
    return shown


def _in_json(line: str) -> str:
    return line if record(line) else json.dumps({"text": line}, ensure_ascii=False)


def _in_colour(line: str) -> list[tuple[str, str]]:
    found = record(line)
    if found is None:
        return [(_printable(line), "")]
    text = as_text(found)
    level = (f"{text.level:<8} ", STYLES[text.level])
    return [(f"{text.time} ", "dim"), level, (_printable(text.body), "")]


def _printable(text: str) -> str:
    """Return a text without characters that would command a terminal."""
    if text.isprintable():
        return text
    return "".join(each if each.isprintable() or each in "\n\t" else "\ufffd" for each in text)
