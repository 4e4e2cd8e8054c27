"""Random logs of events, each with the outcome that it must have."""

import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from fleet.silver.device_telemetry import TABLE
from tests.support.events import Event, reading
from tests.support.rows import NOON

LAW = TABLE.lateness
SPAN = timedelta(hours=5)
SECOND = timedelta(seconds=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Labelled:
    """An event, and either the identity that its copies share or the reason why it is held."""

    event: Event
    same: tuple[str, str] | None = None
    reason: str | None = None


def random_log(chance: random.Random, events: int) -> list[Labelled]:
    """Make a log in the order of arrival, which runs backwards by no more than the law's disorder."""
    log: list[Labelled] = []
    good: list[Labelled] = []
    for number in range(events):
        arrived_at = NOON - SPAN + SPAN * number / events - LAW.disorder * chance.random() * 0.9
        arrived_at = arrived_at.replace(microsecond=arrived_at.microsecond // 1_000 * 1_000)
        draw = chance.random()
        if draw < 0.25 and good:
            log.append(_copy(chance, chance.choice(good[-20:]), arrived_at - NOON))
            continue
        new = _bad(chance, number, arrived_at - NOON) if draw < 0.45 else None
        if new is None:
            new = _good(chance, number, arrived_at - NOON)
            good.append(new)
        log.append(new)
    return log


def dealt(chance: random.Random, log: Sequence[Labelled], batches: int) -> list[Labelled]:
    """Deal a log to commits at random places; its order stays."""
    cuts = sorted(chance.sample(range(1, len(log)), batches - 1))
    numbers = [sum(place >= cut for cut in cuts) for place in range(len(log))]
    return [
        replace(each, event=replace(each.event, batch=number))
        for each, number in zip(log, numbers, strict=True)
    ]


def halved(log: Sequence[Labelled]) -> list[Labelled]:
    """Deal a log to two commits of the same size, so that each has rows of all kinds."""
    middle = len(log) // 2
    return [
        replace(each, event=replace(each.event, batch=int(place >= middle)))
        for place, each in enumerate(log)
    ]


def expected(log: Sequence[Labelled]) -> tuple[set[tuple[int, int]], Counter[str], int]:
    """Return where the good rows were in Kafka, how many rows are held for which reason, and how many are copies.

    Of copies the first by commit, arrival, partition and offset is the good one.
    """
    offsets = Counter[int]()
    first: dict[tuple[str, str], tuple[int, datetime, int, int]] = {}
    held = Counter[str]()
    copies = 0
    for each in log:
        event = each.event
        place = (event.batch, event.arrived_at, event.partition, offsets[event.partition])
        offsets[each.event.partition] += 1
        if each.same is None:
            held[str(each.reason)] += 1
        else:
            copies += each.same in first
            first[each.same] = min(place, first.get(each.same, place))
    return {(partition, offset) for _, _, partition, offset in first.values()}, held, copies


def _good(chance: random.Random, number: int, arrived: timedelta) -> Labelled:
    # Both ends of the law are drawn often, because there an error would hide.
    ago = chance.choice([LAW.late, -LAW.early, LAW.late * chance.random(), SECOND, timedelta(0)])
    return _labelled(chance, f"e{number}", arrived, arrived - ago)


def _copy(chance: random.Random, original: Labelled, arrived: timedelta) -> Labelled:
    assert original.same is not None
    name, happened = original.same
    copy = _labelled(chance, name, arrived, timedelta(microseconds=int(happened)))
    if chance.random() < 0.3:  # sent again as it was
        copy = replace(copy, event=replace(copy.event, payload=original.event.payload))
    return copy


def _labelled(
    chance: random.Random, name: str, arrived: timedelta, happened: timedelta
) -> Labelled:
    payload = reading(
        event_id=name,
        device_id=f"d{chance.randrange(3)}",
        signal=chance.choice("th"),
        value=chance.randrange(-(10**6), 10**6) / 10**4,
        event_at=(NOON + happened).isoformat(),
    )
    event = _event(chance, payload, arrived)
    if happened < arrived - LAW.late:
        return Labelled(event=event, reason="late")
    if happened > arrived + LAW.early:
        return Labelled(event=event, reason="early")
    return Labelled(event=event, same=(name, str(happened // timedelta(microseconds=1))))


def _bad(chance: random.Random, number: int, arrived: timedelta) -> Labelled:
    moment = (NOON + arrived).isoformat()
    kinds = {
        "malformed": chance.choice([b"", b"not json", None, reading() + b"]"]),
        "wrong_type": reading(value="21.5", event_at=moment),
        "missing:device_id": reading(event_id=f"e{number}", device_id=None, event_at=moment),
        "late": reading(event_at=(NOON + arrived - LAW.late - SECOND).isoformat()),
        "early": reading(event_at=(NOON + arrived + LAW.early + SECOND).isoformat()),
    }
    reason = chance.choice(list(kinds))
    return Labelled(event=_event(chance, kinds[reason], arrived), reason=reason)


def _event(chance: random.Random, payload: bytes | None, arrived: timedelta) -> Event:
    partition = chance.randrange(3)
    moment = NOON + arrived
    return Event(payload=payload, partition=partition, arrived_at=moment, ingested_at=moment)
