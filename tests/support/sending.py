"""The events of a plan of the example are sent to its topics, or to others, and the truth about a plan."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from fleet.play.domain import Part, Playing, domain, readings
from fleet.play.plan import Plan
from strandline.core.topic import Topic
from strandline.engine.kafka.broker import create_topic
from strandline.engine.kafka.send_records import at_once, send_records
from strandline.operate.demo import Truth


@dataclass(frozen=True, slots=True, kw_only=True)
class Sent:
    """What was sent, and the truth about it."""

    events: int
    seconds: float
    truth: Truth
    is_whole: bool


def send(  # noqa: PLR0913  # as the engine's
    plan: Plan,
    address: str,
    options: Mapping[str, str],
    *,
    parts: Sequence[Part] | None = None,
    rate: float | None = None,
    on_progress: Callable[[int], None] = lambda _: None,
) -> Sent:
    """Send a plan's events, as `strandline produce` does; all sources when none is named."""
    parts = domain(plan) if parts is None else parts
    playing = Playing(plan, parts, at_once(rate))
    sent = send_records(
        address,
        options,
        [part.topic for part in parts],
        playing,
        count=plan.events,
        rate=rate,
        on_progress=on_progress,
        on_absent=lambda topic: made(address, topic, options),
    )
    return Sent(
        events=sent.events,
        seconds=sent.seconds,
        truth=Truth(plan=playing.plan(), topics=sent.topics, tables=playing.expected()),
        is_whole=sent.is_whole,
    )


def made(address: str, topic: Topic, options: Mapping[str, str]) -> None:
    """Make a topic."""
    create_topic(address, topic.name, topic.partitions, options)


def truth(plan: Plan, parts: Sequence[Part] | None = None) -> Truth:
    """Return the truth about a plan without sending it; of the readings only when no source is named."""
    playing, topics = Playing(plan, readings(plan) if parts is None else parts), Counter[str]()
    for records in playing:
        topics[records.topic] += len(records.values)
    return Truth(plan=playing.plan(), topics=topics, tables=playing.expected())
