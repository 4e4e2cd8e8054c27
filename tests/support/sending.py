"""The events of a plan of the example are sent to its topics, or to others."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from jobs.engine.kafka.send_records import at_once, send_records
from jobs.play.domain import Part, domain
from jobs.play.plan import Plan
from jobs.play.playing import Playing
from jobs.play.truth import Truth


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
    )
    return Sent(
        events=sent.events, seconds=sent.seconds, truth=playing.truth, is_whole=sent.is_whole
    )
