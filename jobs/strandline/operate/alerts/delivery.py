"""Alerts are brought to people: what is delivered to whom, and the host of the couriers."""

import threading
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

from strandline.alerting.alert_rule import Severity
from strandline.alerting.courier import Courier, DeliveryHost, Desk, Logger
from strandline.alerting.notice import KafkaTopic, Sink, sink
from strandline.alerting.tables import bronze
from strandline.core.errors import DefinitionError
from strandline.engine.accounting.routes import topics_read
from strandline.engine.kafka import admin, local_broker
from strandline.engine.lake.lake import Lake
from strandline.engine.runtime import clock
from strandline.engine.runtime.settings import Settings
from strandline.operate import lakes
from strandline.operate.alerts.examples import RuleTexts, live_folder
from strandline.operate.words import seconds

EVERY = "1m"
(TOPIC,) = bronze.TABLE.topics


@dataclass(frozen=True, slots=True, kw_only=True)
class Delivery:
    """What is delivered, to whom, and how often."""

    to: tuple[str, ...]
    severity: str
    every: tuple[str, ...]
    rules: Path | None
    from_beginning: bool
    once: bool


def host_of(
    asked: Delivery,
    found: Settings,
    where: Lake,
    log: Logger,
    stopped: Callable[[], threading.Event],
) -> DeliveryHost:
    """Return what delivers alerts until it is stopped.

    Args:
        asked: What is delivered.
        found: The settings.
        where: The lake.
        log: Where it is logged what becomes of notices.
        stopped: Returns what stops it, once nothing of what was asked is a mistake.

    Raises:
        DefinitionError: A severity, a time, a folder or a receiver is none.
        TransientError: No broker answers.
    """
    least, every = _severity(asked.severity), _every(asked.every)
    if asked.rules is not None and not asked.rules.is_dir():
        raise DefinitionError(
            f"there is no folder {asked.rules}", hint="name a folder with Sigma rules, or none."
        )
    stop = threading.Event() if asked.once else stopped()

    def locate() -> str:
        return _located(found, where)

    sinks = _sinks(asked.to, found, locate)
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
        words=RuleTexts(lambda: asked.rules or live_folder(found, where)).of,
        clock=clock.now,
        log=log,
        from_the_first=asked.from_beginning,
    )
    return DeliveryHost([Courier(each, desk) for each in sinks], stop)


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
