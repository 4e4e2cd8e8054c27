"""What all couriers of a process share: the topic, the limits, the words of the rules, the clock and the log."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Protocol

from strandline.alerting.delivery.notice import RuleWords
from strandline.alerting.rules.alert_rule import Severity
from strandline.core.topic import Topic
from strandline.engine.storage.lake import Lake


class Logger(Protocol):
    """What a courier needs of a logger of structlog (jobs/strandline/engine/runtime/log_writer.py)."""

    def info(self, event: str, *words: object, **figures: object) -> object:
        """Log what is as it should be."""

    def warning(self, event: str, *words: object, **figures: object) -> object:
        """Log what passes by itself."""

    def error(self, event: str, *words: object, **figures: object) -> object:
        """Log what may need a person."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Desk:
    """What all couriers share.

    Args:
        lake: Where it is stored how far each receiver is.
        topic: What is read.
        locate: Returns where Kafka is.
        options: Properties of its client.
        every: Returns the shortest time between two notices of a rule.
        least: The lowest severity that is delivered.
        words: Returns what people read of a rule.
        clock: Returns the time.
        log: Where each step is logged.
        from_the_first: Whether a new receiver gets the alerts that the topic holds already.
    """

    lake: Lake
    topic: Topic
    locate: Callable[[], str]
    options: Mapping[str, str]
    every: Callable[[str], timedelta]
    least: Severity
    words: Callable[[str], RuleWords]
    clock: Callable[[], datetime]
    log: Logger
    from_the_first: bool = False
