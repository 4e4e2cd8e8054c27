"""The events of the benchmark: a hundred campaigns of ten advertisements, an event a millisecond, a third of them views.

Everything follows from the seed, so each contestant, and the truth, has the same events whatever makes them.
"""

import random
from collections import Counter
from collections.abc import Iterator
from uuid import UUID

from confluent_kafka import Producer

from strandline.engine.kafka.broker import create_topic

SEED = 7
PARTITIONS = 4
SINCE_MS = 1_790_812_800_000
"""The first event, in milliseconds: 1 October 2026."""
CAMPAIGN_COUNT, ADS_EACH, PERSONS, PAGES = 100, 10, 100, 100
WINDOW_MS = 10_000
KINDS = ("view", "click", "purchase")
FORMS = ("banner", "modal", "sponsored-search", "mail", "mobile")
BYTES = 600_000_000
"""What the producer may keep before the broker has it."""


def _ids(chance: random.Random, count: int) -> list[str]:
    return [str(UUID(int=chance.getrandbits(128), version=4)) for _ in range(count)]


def _campaigns() -> dict[str, str]:
    chance = random.Random(SEED)  # noqa: S311  # no secret
    campaigns = _ids(chance, CAMPAIGN_COUNT)
    return {ad: campaign for campaign in campaigns for ad in _ids(chance, ADS_EACH)}


CAMPAIGN_OF = _campaigns()
"""The campaign of each advertisement."""


def events(count: int) -> Iterator[tuple[str, str, int]]:
    """Yield the advertisement, the kind and the moment of each event, in milliseconds."""
    chance, ads = random.Random(SEED + 1), list(CAMPAIGN_OF)  # noqa: S311  # no secret
    for number in range(count):
        yield (
            ads[int(chance.random() * len(ads))],
            KINDS[int(chance.random() * 3)],
            SINCE_MS + number,
        )


def payloads(count: int) -> Iterator[tuple[bytes, int]]:
    """Yield each event as it is sent, with its moment."""
    chance = random.Random(SEED + 2)  # noqa: S311  # no secret
    persons, pages = _ids(chance, PERSONS), _ids(chance, PAGES)
    for ad, kind, at in events(count):
        person, page = persons[int(chance.random() * PERSONS)], pages[int(chance.random() * PAGES)]
        yield (
            f'{{"user_id": "{person}", "page_id": "{page}", "ad_id": "{ad}", '
            f'"ad_type": "{FORMS[int(chance.random() * 5)]}", "event_type": "{kind}", "event_time": "{at}", '
            f'"ip_address": "1.2.3.4"}}'.encode(),
            at,
        )


def views(count: int) -> Counter[tuple[str, int]]:
    """Return the truth: the views of each campaign in each ten seconds, which begin at such a millisecond."""
    return Counter(
        (CAMPAIGN_OF[ad], at - at % WINDOW_MS) for ad, kind, at in events(count) if kind == "view"
    )


def send(count: int, address: str, topic: str) -> None:
    """Send all events, each to the next partition."""
    create_topic(address, topic, PARTITIONS, {})
    producer = Producer(
        {
            "bootstrap.servers": address,
            "compression.type": "lz4",
            "linger.ms": 20,
            "enable.idempotence": True,
            "queue.buffering.max.messages": 2_000_000,
            "queue.buffering.max.kbytes": BYTES // 1024,
        }
    )
    for number, (payload, at) in enumerate(payloads(count)):
        producer.produce(topic, payload, timestamp=at, partition=number % PARTITIONS)
        if number % 10_000 == 0:
            producer.poll(0)
    producer.flush()
