"""Events of the auction house: of each fifty one person, three auctions and forty-six bids, as NEXMark has them.

`strandline demo` and `strandline produce` send them. A seed decides every byte. Event number n happens n / rate seconds after the
begin, so up to a thousand a second no two have one time; each arrives up to a second later, and they come in the order of arrival.

Half of the bids are on a hot auction, three of four are of a hot bidder, three of four auctions of a hot seller; hot are those whose
number is a multiple of a hundred, until the next one is. Others are drawn of the last hundred auctions and the last thousand
persons, and of ten that are to come.
"""

import heapq
import json
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any, NamedTuple

from strandline import Record

PERSONS, AUCTIONS, BIDS = "nexmark-persons", "nexmark-auctions", "nexmark-bids"
TOPICS = (PERSONS, AUCTIONS, BIDS)
OF_FIFTY = (1, 3, 46)
FIRST = 1_000
"""The first id of persons and of auctions."""
HOT, ACTIVE, IN_FLIGHT, AHEAD = 100, 1_000, 100, 10
SHARE_HOT_AUCTION, SHARE_HOT_PERSON = 0.5, 0.75
OPEN_FOR = IN_FLIGHT * 50 // 3
"""So many events go by until as many auctions are opened as are open at once: half of the longest time that one is open."""
LATEST = 1_000
"""Milliseconds from an event to its arrival, at most."""
CATEGORIES = 5
BEYOND, CLOCKS = 10**12, 4
"""The numbers of events that only move time on, and how often they do."""
SIZES = {PERSONS: 200, AUCTIONS: 500, BIDS: 100}
"""Bytes that a record is filled up to, more or less."""
PLACES = (
    ("Phoenix", "AZ"),
    ("Los Angeles", "CA"),
    ("San Francisco", "CA"),
    ("Boise", "ID"),
    ("Portland", "OR"),
    ("Bend", "OR"),
    ("Seattle", "WA"),
    ("Redmond", "WA"),
    ("Cheyenne", "WY"),
)
GIVEN = ("Ada", "Bo", "Cleo", "Dov", "Edda", "Finn", "Gil", "Hana", "Ivo", "Juno")
FAMILY = ("Abel", "Berg", "Cole", "Dunn", "Egger", "Fox", "Grau", "Holm", "Ito")
CHANNELS = ("web", "phone", "shop", "partner")
LETTERS = "abcdefghijklmnopqrstuvwxyz_"


class Sent(NamedTuple):
    """A record, its arrival in milliseconds since 1970."""

    arrived_ms: int
    number: int
    topic: str
    key: bytes
    value: bytes


def events(count: int, until: datetime, *, rate: int = 100, seed: int = 1) -> Iterator[Record]:
    """Yield so many events that all have arrived by a moment."""
    since = until - timedelta(milliseconds=count * 1_000 // rate + LATEST + 1)
    for each in drawn(count, since, rate=rate, seed=seed):
        arrived_at = datetime.fromtimestamp(each.arrived_ms / 1_000, UTC)
        yield Record(topic=each.topic, key=each.key, value=each.value, arrived_at=arrived_at)


def clocks(after: datetime) -> Iterator[Sent]:
    """Yield events that move time on: a person, an auction and a bid on it, an hour after a moment, and again each hour.

    Windows end by later events alone. A chain of three tables needs three times of them; their numbers are beyond all others.
    """
    for hour in range(1, CLOCKS + 1):
        at = int((after + timedelta(hours=hour)).timestamp() * 1_000)
        number, opened, over = BEYOND + hour, _iso(at), _iso(at + 1_000)
        person = {"id": number, "name": "clock", "city": "none", "state": "ZZ", "joined_at": opened}
        auction = {
            "id": number,
            "seller": number,
            "category": 0,
            "opened_at": opened,
            "expires_at": over,
        }
        bid = {"auction": number, "bidder": number, "price": 1, "bid_at": opened}
        for topic, value in ((PERSONS, person), (AUCTIONS, auction), (BIDS, bid)):
            text = json.dumps(value, separators=(",", ":"))
            yield Sent(at, number, topic, str(number).encode(), text.encode())


def drawn(count: int, since: datetime, *, rate: int, seed: int) -> Iterator[Sent]:
    """Yield so many events from a moment on, in the order of their arrival."""
    house = _House(int(since.timestamp() * 1_000), rate, Random(seed))  # noqa: S311  # no secret
    on_the_way: list[Sent] = []
    for number in range(count):
        event = house.event(number)
        while on_the_way and on_the_way[0].arrived_ms < house.at(number):
            yield heapq.heappop(on_the_way)
        heapq.heappush(on_the_way, event)
    while on_the_way:
        yield heapq.heappop(on_the_way)


class _House:
    """Draws events; what is drawn depends on the numbers of those before."""

    def __init__(self, since_ms: int, rate: int, chance: Random) -> None:
        self._since_ms = since_ms
        self._rate = rate
        self._chance = chance.random  # the one draw that no release of Python changes
        self._text = "".join(LETTERS[self._below(len(LETTERS))] for _ in range(20_000))

    def at(self, number: int) -> int:
        """Return when an event happens, in milliseconds since 1970."""
        return self._since_ms + number * 1_000 // self._rate

    def event(self, number: int) -> Sent:
        """Return the next event."""
        fifty, nth = divmod(number, sum(OF_FIFTY))
        persons, auctions, _ = OF_FIFTY
        person = FIRST + fifty
        if nth < persons:
            topic, key, value = PERSONS, person, self._person(number, person)
        elif nth < persons + auctions:
            key = FIRST + fifty * auctions + nth - persons
            topic, value = AUCTIONS, self._auction(number, key, person)
        else:
            value = self._bid(number, FIRST + fifty * auctions + auctions - 1, person)
            topic, key = BIDS, value["auction"]
        value["extra"] = self._filling(SIZES[topic], value)
        arrived = self.at(number) + self._below(LATEST)
        text = json.dumps(value, separators=(",", ":"))
        return Sent(arrived, number, topic, str(key).encode(), text.encode())

    def _person(self, number: int, person: int) -> dict[str, Any]:
        city, state = PLACES[self._below(len(PLACES))]
        name = f"{GIVEN[self._below(len(GIVEN))]} {FAMILY[self._below(len(FAMILY))]}"
        return {
            "id": person,
            "name": name,
            "email": f"{name.replace(' ', '.').lower()}.{person}@mail.example",
            "credit_card": " ".join(f"{self._below(10_000):04}" for _ in range(4)),
            "city": city,
            "state": state,
            "joined_at": _iso(self.at(number)),
        }

    def _auction(self, number: int, auction: int, newest: int) -> dict[str, Any]:
        longest = max(2 * OPEN_FOR * 1_000 // self._rate, 1)
        first = self._price()
        return {
            "id": auction,
            "item_name": self._words(20),
            "description": self._words(100),
            "initial_bid": first,
            "reserve": first + self._price(),
            "opened_at": _iso(self.at(number)),
            "expires_at": _iso(self.at(number) + 1 + self._below(longest)),
            "seller": self._of_persons(newest, hot=0),
            "category": 10 + self._below(CATEGORIES),
        }

    def _bid(self, number: int, newest: int, newest_person: int) -> dict[str, Any]:
        if self._chance() < SHARE_HOT_AUCTION:
            auction = newest // HOT * HOT
        else:
            auction = self._of_last(newest, IN_FLIGHT)
        channel = self._below(2 * len(CHANNELS))
        return {
            "auction": auction,
            "bidder": self._of_persons(newest_person, hot=1),
            "price": self._price(),
            "channel": CHANNELS[channel] if channel < len(CHANNELS) else f"channel-{channel}",
            "url": f"auctions.example/item/{auction}",
            "bid_at": _iso(self.at(number)),
        }

    def _of_persons(self, newest: int, *, hot: int) -> int:
        if self._chance() < SHARE_HOT_PERSON:
            return newest // HOT * HOT + hot
        return self._of_last(newest, ACTIVE)

    def _of_last(self, newest: int, count: int) -> int:
        oldest = max(newest - count, FIRST)
        return oldest + self._below(newest - oldest + 1 + AHEAD)

    def _price(self) -> int:
        return round(10 ** (self._chance() * 6) * 100)

    def _below(self, end: int) -> int:
        return int(self._chance() * end)

    def _words(self, most: int) -> str:
        return self._taken(3 + self._below(most - 3))

    def _filling(self, size: int, value: Mapping[str, object]) -> str:
        """Return a text that makes a record about so large; of its own size it is a fifth more or less."""
        lacking = size - sum(len(str(each)) for each in value.values())
        return self._taken(int(lacking * (0.8 + 0.4 * self._chance()))) if lacking > 0 else ""

    def _taken(self, length: int) -> str:
        begin = self._below(len(self._text) - length)
        return self._text[begin : begin + length]


def _iso(at_ms: int) -> str:
    at = datetime.fromtimestamp(at_ms / 1_000, UTC)
    return at.isoformat(timespec="milliseconds").replace("+00:00", "Z")
