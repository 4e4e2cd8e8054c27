"""``rules``, ``alerts`` and ``deliver``: alert rules are listed and tried, alerts raised from Kafka to Kafka, and brought to people, each in a process of its own."""

import importlib
from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Table as Grid

from strandline.cli import main
from strandline.cli.screen import (
    SINCE,
    UNTIL,
    JsonOption,
    LakeOption,
    emit,
    grid,
    is_terminal,
    live,
    logged,
    note,
    say,
    show,
)
from strandline.core.stateful import Continuous, FeedMode, MicroBatch, RealTime
from strandline.engine.lake.lake import Lake
from strandline.engine.lake.locks import refuse_if_taken
from strandline.engine.runtime.log_files import bound
from strandline.engine.runtime.settings import Settings
from strandline.engine.service.background_stream import ALERTS
from strandline.engine.service.feed_host import FeedHost
from strandline.operate import lakes
from strandline.operate.lakes import seconds
from strandline.operate.listener import Log
from strandline.operate.stream import always, log_books

if TYPE_CHECKING:
    from strandline.alerting.alert_rule import AlertRule
    from strandline.alerting.courier import DeliveryHost


RAISED = ("feed", "rules", "epoch", "read", "alerts", "lag", "at", "waits")


class ModeName(StrEnum):
    """The modes of a feed that runs always."""

    REAL_TIME = "real-time"
    CONTINUOUS = "continuous"
    MICRO_BATCH = "micro-batch"


MODES: dict[ModeName, type[RealTime | Continuous | MicroBatch]] = {
    ModeName.REAL_TIME: RealTime,
    ModeName.CONTINUOUS: Continuous,
    ModeName.MICRO_BATCH: MicroBatch,
}
EVERY = {ModeName.REAL_TIME: "5m", ModeName.CONTINUOUS: "1s", ModeName.MICRO_BATCH: "100ms"}


def register(app: typer.Typer) -> None:
    """Add the verbs."""
    app.command("alerts")(alerts)
    _register_deliver(app)
    _register_rules(app)


def alerts(  # noqa: PLR0913, PLR0917  # each is an option of the command line
    folder: Annotated[
        Path | None,
        typer.Argument(
            metavar="FOLDER",
            help="Sigma rules; the promoted ones when absent, or the project's before any was.",
        ),
    ] = None,
    mode: Annotated[ModeName, typer.Option(help="How Spark answers.")] = ModeName.REAL_TIME,
    every: Annotated[
        str | None,
        typer.Option(
            help="Time from checkpoint to checkpoint: 5m in real time, 1s continuously; from batch to batch: 100ms."
        ),
    ] = None,
    from_beginning: Annotated[
        bool,
        typer.Option(
            "--from-beginning", help="At the first start, read also what the topics hold already."
        ),
    ] = False,
    background: Annotated[
        bool,
        typer.Option(
            "--background",
            help="Run on after this command; `strandline ui` restarts it when it dies.",
        ),
    ] = False,
    pause: Annotated[
        bool, typer.Option("--pause", help="Stop the one in the background, and keep it stopped.")
    ] = False,
    lake: LakeOption = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Log in JSON, one record a line, for programs.")
    ] = False,
) -> None:
    r"""Raise alerts on events as they come, until Ctrl-C: Kafka to the topic alerts, within milliseconds.

    After a crash it goes on at its last checkpoint and may raise alerts again; they have the same ids, and
    silver.alerts and gold.alerts have each once (`strandline run bronze.alerts silver.alerts gold.alerts`).
    Threshold rules count in micro-batches of a second, whatever the mode is. In the background, options of the last
    start hold when none is given.

    \b
    strandline alerts
    strandline alerts --background
    strandline alerts my-rules --mode micro-batch
    """
    if background or pause:
        found, where = lakes.configured(lake)
        if pause:
            _paused(found, where, as_json=as_json)
            return
        _started(found, where, _words(folder, mode, every, from_beginning), as_json=as_json)
        return
    with logged(as_json=as_json) as log:
        found, where = lakes.configured(lake)
        # Not imported above: pySigma takes half a second, and the help of all verbs needs none of it.
        from strandline.operate.alerts.examples import live_folder, model_rules  # noqa: PLC0415  # as above
        from strandline.operate.alerts.raising import (  # noqa: PLC0415  # as above
            LiveRules,  # as above
            feeds_of,
            ready_to_raise,
        )

        def rules_at() -> Path:
            return folder or live_folder(found, where)

        def also() -> "list[AlertRule]":
            return [] if folder or found.rules else model_rules(where)

        sources = feeds_of(rules_at(), note, also())
        how = MODES[mode](every=seconds(every or EVERY[mode]))
        asked = main.asked(within=main.AT_LAST)  # from here on, also while Spark starts
        for feed in sources:
            refuse_if_taken(feed, where)
        site = ready_to_raise(found, where, how, note)
        rules = LiveRules(rules_at, where, site.spark, log, also)
        begun = rules.feeds()
        host = FeedHost(
            begun,
            how,
            where,
            site,
            asked,
            from_the_first=from_beginning,
            renewed=rules.renewed,
            handover=rules.handover,
            keep=rules.keep,
            ends=rules.ends,
            refused=rules.refused,
        )
        try:
            if is_terminal() and not as_json:
                _watched(host, where, how)
            else:
                _unwatched(host, where, log, how)
        finally:
            main.deaf()
    if not as_json:
        rows = [(pulse.feed, pulse.read, pulse.written) for pulse in host.pulses]
        show("stopped", ("feed", "read", "alerts"), rows)


def _started(found: Settings, where: Lake, words: Sequence[str], *, as_json: bool) -> None:
    """Start it, unless it runs, and wait for its first heartbeat."""
    where.open_for_writing()
    lakes.demanded_address(found, where)
    note("starting the process that raises alerts …")
    pid = always(found, where, program=ALERTS).resume(words)
    if as_json:
        emit({"pid": pid})
    else:
        say(f"alerts are raised (process {pid}); `strandline alerts --pause` stops it")


def _paused(found: Settings, where: Lake, *, as_json: bool) -> None:
    """Stop it, and keep it stopped."""
    stopped = always(found, where, program=ALERTS).pause()
    if as_json:
        emit({"stopped": stopped})
    else:
        say(
            "no more alerts are raised" if stopped else "no process in the background raised alerts"
        )
        say("it stays so until `strandline alerts --background`")


def _words(folder: Path | None, mode: ModeName, every: str | None, is_first: bool) -> list[str]:  # noqa: FBT001  # an option
    """Return what was typed as words of another start; what is as usual is no word."""
    if every is not None:
        seconds(every)
    if folder is not None:
        from strandline.operate.alerts.raising import feeds_of  # noqa: PLC0415  # as above

        feeds_of(folder, note)  # a mistake is shown here, and not in a log
    return [
        *((str(folder.absolute()),) if folder else ()),
        *(("--mode", mode) if mode is not ModeName.REAL_TIME else ()),
        *(("--every", every) if every else ()),
        *(("--from-beginning",) if is_first else ()),
    ]


def _watched(host: FeedHost, where: Lake, mode: FeedMode) -> None:
    note(
        f"raising alerts of {len(host.pulses)} tables of {where.root} in {mode.name} mode; Ctrl-C stops"
    )
    with live(lambda: _raised_grid(host)) as refresh:
        host.serve(lambda _: refresh())


def _unwatched(host: FeedHost, where: Lake, log: Log, mode: FeedMode) -> None:
    log.info("started", feeds=[pulse.feed for pulse in host.pulses], mode=mode.name)
    shown: dict[str, tuple[object, ...]] = {}

    def look(host: FeedHost) -> None:
        bound(where.log(ALERTS.name).local)  # the log of a process in the background
        log_books(log, host.closer.news())
        for pulse in host.pulses:
            now = (pulse.epoch, pulse.read, pulse.written, pulse.away)
            if shown.get(pulse.feed, (None, 0, 0, None)) == now:
                continue
            shown[pulse.feed] = now
            if pulse.away:
                log.warning("waits", feed=pulse.feed, reason=pulse.away)
                continue
            log.info(
                "accounted",
                feed=pulse.feed,
                epoch=pulse.epoch,
                read=pulse.read,
                alerts=pulse.written,
            )

    host.serve(look)
    for pulse in host.pulses:
        log.info("stopped", feed=pulse.feed, read=pulse.read, alerts=pulse.written)


def _raised_grid(host: FeedHost) -> Grid:
    rows = [(p.feed, p.rules, p.epoch, p.read, p.written, p.lag, p.at, p.away) for p in host.pulses]
    return grid(None, RAISED, rows)


# ``deliver``: bring alerts to people: notices to addresses, files and topics, in a process without Spark.


DELIVERED = ("receiver", "alerts", "notices", "waiting", "lag", "at", "waits for")


def _register_deliver(app: typer.Typer) -> None:
    """Add the verb."""
    app.command("deliver")(deliver)


def deliver(  # noqa: PLR0913, PLR0917  # each is an option of the command line
    to: Annotated[
        list[str] | None,
        typer.Option(
            metavar="RECEIVER",
            help="An address of http or https, file:PATH or kafka:TOPIC; several are independent. "
            "STRANDLINE_WEBHOOK when absent.",
        ),
    ] = None,
    severity: Annotated[
        str, typer.Option(help="The lowest severity that is delivered.")
    ] = "informational",
    every: Annotated[
        list[str] | None,
        typer.Option(
            metavar="[RULE=]TIME",
            help="Shortest time between two notices of a rule, of all rules or of one: 30s, 1m. 1m when absent.",
        ),
    ] = None,
    rules: Annotated[
        Path | None,
        typer.Option(
            metavar="FOLDER", help="Where titles, owners and runbooks are; as for alerts."
        ),
    ] = None,
    from_beginning: Annotated[
        bool,
        typer.Option("--from-beginning", help="A new receiver gets what the topic holds already."),
    ] = False,
    once: Annotated[
        bool, typer.Option("--once", help="Deliver what there is, one notice a rule, then end.")
    ] = False,
    lake: LakeOption = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Log in JSON, one record a line, for programs.")
    ] = False,
) -> None:
    r"""Deliver the alerts of the topic alerts as notices, until Ctrl-C.

    The first alert of a rule is a notice at once; the alerts after it are one notice a minute, with their number. A
    receiver that is away gets its notices later, with the same ids if they are sent again. After any end each receiver
    goes on where it was.

    \b
    strandline deliver --severity high
    strandline deliver --to http://localhost:8080/alerts --to file:notices.jsonl --every 5m
    strandline deliver --to kafka:notices --once
    """
    # Not imported above: it imports the rules, and a project of other tables has the other verbs.
    from strandline.operate.alerts.raising import Delivery, host_of  # noqa: PLC0415  # as above

    asked = Delivery(
        to=tuple(to or ()),
        severity=severity,
        every=tuple(every or ()),
        rules=rules,
        from_beginning=from_beginning,
        once=once,
    )
    with logged(as_json=as_json) as log:
        found, where = lakes.configured(lake)
        host = host_of(asked, found, where, log, main.asked)
        try:
            if asked.once:
                host.drain()
            else:
                _serve(host, log, shows=is_terminal() and not as_json)
        finally:
            main.deaf()
    if not as_json:
        rows = [(each.receiver, each.delivered, each.notices, each.waiting) for each in host.books]
        show("delivered", DELIVERED[:4], rows)


def _serve(host: "DeliveryHost", log: Log, *, shows: bool) -> None:
    receivers = [each.receiver for each in host.books]
    if shows:
        note(f"delivering alerts to {', '.join(receivers)}; Ctrl-C stops")
        with live(lambda: _delivered_grid(host)) as refresh:
            host.serve(lambda _: refresh())
        return
    log.info("started", receivers=receivers)
    host.serve(lambda _: None)
    log.info("stopped", receivers=receivers)


def _delivered_grid(host: "DeliveryHost") -> Grid:
    rows = [
        (b.receiver, b.delivered, b.notices, b.waiting, b.lag, b.at, b.away) for b in host.books
    ]
    return grid(None, DELIVERED, rows)


# ``rules``: the alert rules: which there are, whether they do what their examples say, and what they say of an event.

FolderArgument = Annotated[
    Path | None,
    typer.Argument(metavar="FOLDER", help="Sigma rules; the project's when absent."),
]
HELP = """List, test, lint, explain, backtest and promote alert rules: Sigma rules of a folder, or the project's.

\b
strandline rules list
strandline rules test my-rules
strandline rules lint my-rules
strandline rules explain --event process-events/0/17
strandline rules backtest my-rules --since 2026-11-01 --until 2026-12-01
strandline rules undo
"""

rules = typer.Typer(help=HELP, no_args_is_help=True, rich_markup_mode=None)


def _register_rules(app: typer.Typer) -> None:
    """Add the verb and its subcommands."""
    app.add_typer(rules, name="rules")


@rules.command("list")
def list_(  # noqa: PLR0913, PLR0917  # each is an option of the command line
    folder: FolderArgument = None,
    attack: Annotated[
        bool, typer.Option("--attack", help="Count the rules of each MITRE ATT&CK tag instead.")
    ] = False,
    never: Annotated[
        bool, typer.Option("--never", help="Only those that raised nothing in the last backtest.")
    ] = False,
    slow: Annotated[
        bool, typer.Option("--slow", help="Only those that the last backtest --cost found slow.")
    ] = False,
    lake: LakeOption = None,
    as_json: JsonOption = False,
) -> None:
    r"""List the rules that run: severity, table, owner, version and how many examples each has.

    The version is a hash of the meaning; other words about a rule leave it as it is. After a backtest the list has the
    alerts that each would have raised, unless its version is another by now.

    \b
    strandline rules list
    strandline rules list my-rules --json
    strandline rules list --attack
    strandline rules list my-rules --never
    strandline rules list my-rules --slow
    """
    work = importlib.import_module("strandline.cli.verbs.rule_book")
    only = work.Only.SLOW if slow else work.Only.NEVER if never else None
    work.listed(folder, attack=attack, only=only, lake=lake, as_json=as_json)


@rules.command("test")
def run_examples(
    folder: FolderArgument = None, lake: LakeOption = None, as_json: JsonOption = False
) -> None:
    r"""Run the examples of every rule in Spark, through the plan that raises alerts; needs no broker and no data.

    The exit code is 2 when a rule stays quiet on an event on which it must fire, or fires where it must not.

    \b
    strandline rules test
    strandline rules test my-rules
    """
    _rule_work().tested(folder, lake, as_json=as_json)


@rules.command("lint")
def lint(folder: FolderArgument = None, as_json: JsonOption = False) -> None:
    r"""List what does not run, with the reason, and what a rule lacks; the exit code is 2 when a rule does not run.

    A broken file never stops the others. Each regular expression is tried on hostile texts, for a second at most.

    \b
    strandline rules lint
    strandline rules lint my-rules --json
    """
    _rule_work().linted(folder, as_json=as_json)


@rules.command("explain")
def explain(  # noqa: PLR0913, PLR0917  # each is an option of the command line
    file: Annotated[
        Path | None, typer.Argument(metavar="EVENT.json", help="An event as a JSON object.")
    ] = None,
    event: Annotated[
        str | None,
        typer.Option(metavar="TOPIC/PARTITION/OFFSET", help="An event of the lake instead."),
    ] = None,
    table: Annotated[
        str | None,
        typer.Option(help="The table of the file's event; the one with its fields when absent."),
    ] = None,
    folder: Annotated[
        Path | None, typer.Option("--rules", metavar="FOLDER", help="As for the other subcommands.")
    ] = None,
    near: Annotated[int, typer.Option(min=0, help="Near misses to show.")] = 5,
    lake: LakeOption = None,
    as_json: JsonOption = False,
) -> None:
    r"""Show which rules fire on an event, and for near misses the clauses that fail.

    No value of the event is printed, so the answer has nothing that is masked elsewhere.

    \b
    strandline rules explain event.json
    strandline rules explain --event process-events/0/17 --near 10
    strandline rules explain event.json --table silver.process_events --rules my-rules
    """
    _rule_work().explained((file, event), table, folder, near=near, lake=lake, as_json=as_json)


@rules.command("backtest")
def backtest(  # noqa: PLR0913, PLR0917  # each is an option of the command line
    named: Annotated[
        str | None,
        typer.Argument(
            metavar="RULE|FOLDER",
            help="A folder, a file, or a rule of the project, all of which are taken when absent.",
        ),
    ] = None,
    since: Annotated[str | None, typer.Option(help=SINCE)] = None,
    until: Annotated[str | None, typer.Option(help=UNTIL)] = None,
    against: Annotated[
        str | None,
        typer.Option(
            metavar="VERSION|FOLDER|live",
            help="Compare with the rules of another folder or file, or of a commit of Git: HEAD~1; or, with the word "
            "live, with the alerts that were raised.",
        ),
    ] = None,
    to: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Where to write the page; in the lake when absent."),
    ] = None,
    cost: Annotated[
        bool,
        typer.Option(
            "--cost", help="Find also which rules are slow; `rules list --slow` has them."
        ),
    ] = False,
    promote: Annotated[
        bool,
        typer.Option(
            "--promote", help="Make the rules live unless an example or a figure is against it."
        ),
    ] = False,
    lake: LakeOption = None,
    as_json: JsonOption = False,
) -> None:
    r"""Show what rules would have raised: how many alerts a day, on whom, samples, and what it cost.

    Rules run over silver, all rules about a table in one Spark job, by the plan that raises alerts. A range that a
    stream may still change is refused; without a range it is all that is closed. --against shows the alerts that a
    change of rules adds, loses, and moves to another version; --against live proves that the alerts in gold.alerts
    are those of history, alert for alert. Sensitive columns are masked.

    --promote makes the rules live that were tried: their examples must be right, and none may take more than 100 µs
    of CPU an event. `strandline alerts` without a folder takes them over within seconds.

    \b
    strandline rules backtest
    strandline rules backtest my-rules --since 2026-11-01 --until 2026-12-01
    strandline rules backtest my-rules --against HEAD~1 --to backtest.html
    strandline rules backtest --against live
    strandline rules backtest my-rules/new_rule.yml --promote
    """
    words = {
        "rules": named,
        "since": since,
        "until": until,
        "against": against,
        "to": to,
        "cost": cost,
        "promote": promote,
    }
    work = importlib.import_module("strandline.cli.verbs.rule_book")
    work.backtested(work.Words(**words), lake, as_json=as_json)


@rules.command("undo")
def undo(lake: LakeOption = None, as_json: JsonOption = False) -> None:
    r"""Take the last promotion back: the rules that were live before it are live again.

    \b
    strandline rules undo
    """
    _rule_work().undone(lake, as_json=as_json)


def _rule_work() -> Any:  # noqa: ANN401  # a module
    """Import what the subcommands do; pySigma takes half a second, and the help of all verbs needs none of it."""
    return importlib.import_module("strandline.cli.verbs.rule_book")
