"""A random log of a fleet in which one device has a partition of its own, so that it can be left out and no offset moves."""

import random
from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta

from tests.support.events import Event, reading
from tests.support.rows import NOON

FORGOTTEN = "d-17"
OTHERS = ("d-1", "d-170", "d-2", "xd-17")
"""Some of the names contain the forgotten one, and are others."""

SECOND = timedelta(seconds=1)
HOURS = timedelta(hours=3)


def fleet_log(chance: random.Random, events: int, batches: int) -> list[Event]:
    """Return a log in the order of arrival; its last hour has no event of the forgotten device."""
    return [event for batch in fleet_batches(chance, events, batches, share=0.3) for event in batch]


def fleet_batches(
    chance: random.Random, events: int, batches: int, share: float
) -> Iterator[list[Event]]:
    """Yield such a log commit by commit; of its first half the device has a share."""
    for batch in range(batches):
        log: list[Event] = []
        for number in range(events * batch // batches, events * (batch + 1) // batches):
            arrived_at = NOON + HOURS * number / events
            arrived_at = arrived_at.replace(microsecond=arrived_at.microsecond // 1_000 * 1_000)
            is_meant = number < events // 2 and chance.random() < share
            device = FORGOTTEN if is_meant else chance.choice(OTHERS)
            log += [*_of(chance, device, number, arrived_at, batch)]
        yield log


def without(log: Sequence[Event]) -> list[Event]:
    """Return the log of a fleet that never had the device."""
    return [event for event in log if event.partition == 0]


def _of(
    chance: random.Random, device: str, number: int, arrived_at: datetime, batch: int
) -> Iterator[Event]:
    draw = chance.random()
    happened_at = arrived_at - chance.randrange(60) * SECOND
    fields: dict[str, object] = {
        "event_id": f"e{number}",
        "device_id": device,
        "value": chance.randrange(90),
        "event_at": happened_at.isoformat(),
    }
    if draw < 0.1:
        fields["event_at"] = (arrived_at - 2 * HOURS).isoformat()  # late
    elif draw < 0.2:
        fields["value"] = 5_000  # implausible
    payload = reading(**fields)
    if 0.2 <= draw < 0.3:
        payload = payload[
            : chance.randrange(60, len(payload) - 2)
        ]  # torn, behind the device's name
    event = Event(
        payload=payload,
        batch=batch,
        partition=1 if device == FORGOTTEN else 0,
        arrived_at=arrived_at,
        ingested_at=arrived_at,
    )
    yield event
    if draw > 0.85:
        yield event  # a copy
