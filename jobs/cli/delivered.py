"""What ``strandline deliver`` does."""

import threading
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

from rich.table import Table as Grid

from jobs.bronze import alerts as bronze
from jobs.cli import stopping
from jobs.cli.screen import grid, is_terminal, live, note, show
from jobs.cli.streaming import logged
from jobs.core.errors import DefinitionError
from jobs.engine.accounting.left_topics import topics_read
from jobs.engine.kafka import admin, local_broker
from jobs.engine.runtime import clock
from jobs.engine.runtime.settings import Settings
from jobs.engine.service.courier import Courier
from jobs.engine.service.delivery_desk import Desk, Logger
from jobs.engine.service.delivery_host import DeliveryHost
from jobs.engine.service.sinks import KafkaTopic, Sink, sink
from jobs.engine.storage.lake import Lake
from jobs.operate import lakes
from jobs.operate.alert_rules import RuleTexts, live_folder
from jobs.operate.durations import seconds
from jobs.rules.alert_rule import Severity

EVERY = "1m"
COLUMNS = ("receiver", "alerts", "notices", "waiting", "lag", "at", "waits for")
(TOPIC,) = bronze.TABLE.topics


@dataclass(frozen=True, slots=True, kw_only=True)
class Words:
    """What was typed."""

    to: tuple[str, ...]
    severity: str
    every: tuple[str, ...]
    rules: Path | None
    from_beginning: bool
    once: bool


def delivered(words: Words, lake: str | None, *, as_json: bool) -> None:
    """Deliver alerts until stopped, or once."""
    with logged(as_json=as_json) as log:
        found, where = lakes.configured(lake)
        least, every = _severity(words.severity), _every(words.every)
        if words.rules is not None and not words.rules.is_dir():
            raise DefinitionError(
                f"there is no folder {words.rules}", hint="name a folder with Sigma rules, or none."
            )
        asked = threading.Event() if words.once else stopping.asked()

        def locate() -> str:
            return _located(found, where)

        sinks = _sinks(words.to, found, locate)
        address = lakes.demanded_address(found, where)
        if found.kafka is None:
            admin.make_missing(address, [bronze.TABLE], topics_read(where))
            _make_topics(address, sinks)
        desk = Desk(
            lake=where.open_for_writing(),
            topic=TOPIC,
            locate=locate,
            options=found.kafka_options,
            every=every,
            least=least,
            words=RuleTexts(lambda: words.rules or live_folder(found, where)).of,
            clock=clock.now,
            log=log,
            from_the_first=words.from_beginning,
        )
        host = DeliveryHost([Courier(each, desk) for each in sinks], asked)
        try:
            if words.once:
                host.drain()
            else:
                _serve(host, log, shows=is_terminal() and not as_json)
        finally:
            stopping.deaf()
    if not as_json:
        rows = [(each.receiver, each.delivered, each.notices, each.waiting) for each in host.books]
        show("delivered", COLUMNS[:4], rows)


def _serve(host: DeliveryHost, log: Logger, *, shows: bool) -> None:
    receivers = [each.receiver for each in host.books]
    if shows:
        note(f"delivering alerts to {', '.join(receivers)}; Ctrl-C stops")
        with live(lambda: _grid(host)) as refresh:
            host.serve(lambda _: refresh())
        return
    log.info("started", receivers=receivers)
    host.serve(lambda _: None)
    log.info("stopped", receivers=receivers)


def _grid(host: DeliveryHost) -> Grid:
    rows = [
        (b.receiver, b.delivered, b.notices, b.waiting, b.lag, b.at, b.away) for b in host.books
    ]
    return grid(None, COLUMNS, rows)


def _sinks(typed: tuple[str, ...], found: Settings, locate: Callable[[], str]) -> list[Sink]:
    """Return the receivers, each once.

    Raises:
        DefinitionError: One is none, or none is named.
    """
    named = typed or ((found.webhook,) if found.webhook else ())
    if not named:
        raise DefinitionError(
            "no receiver is named",
            hint="name one with --to, or set STRANDLINE_WEBHOOK.",
        )
    sinks = [sink(each, locate, found.kafka_options, read=TOPIC.name) for each in named]
    return list({each.name: each for each in sinks}.values())


def _make_topics(address: str, sinks: list[Sink]) -> None:
    """Create the topics of receivers on the lake's own broker."""
    for each in sinks:
        if isinstance(each, KafkaTopic):
            admin.create_topic(address, each.topic, 1, {})


def _located(found: Settings, where: Lake) -> str:
    """Return where Kafka is now; the lake's own broker may have returned at another port."""
    address = lakes.address(found, where) or local_broker.remembered(where)
    if address is None:
        raise DefinitionError(
            f"no broker runs for {where.root}",
            hint="start ours with `strandline up`, or set STRANDLINE_KAFKA=host:port.",
        )
    return address


def _severity(typed: str) -> Severity:
    try:
        return Severity(typed.lower())
    except ValueError as error:
        raise DefinitionError(
            f"{typed} is no severity", hint=f"the severities are {', '.join(Severity)}."
        ) from error


def _every(typed: tuple[str, ...]) -> Callable[[str], timedelta]:
    """Return a function from a rule to the shortest time between two of its notices."""
    times = {"": timedelta(seconds=seconds(EVERY))}
    for each in typed:
        rule, _, time = each.rpartition("=")
        times[rule] = timedelta(seconds=seconds(time))
    return lambda rule: times.get(rule, times[""])
