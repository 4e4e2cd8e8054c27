"""Topics of strangers: records as others write them, and beside each the declaration that a person would write for it.

They were written before the drafter that is tried with them: NEXMark's persons, auctions and bids (as Beam's generator writes them), what
Zeek writes of DHCP, a shop whose one topic has several kinds, deliveries of webhooks with names as data, and a bank's export whose
columns have the names of its spreadsheet. As in real topics some records come twice, and one in two hundred cannot be read.
"""

import json
import random
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, TypeAlias

BEGIN = datetime(2026, 11, 20, 8, tzinfo=UTC)
COPIES, BROKEN = 0.01, 0.005
Made: TypeAlias = tuple[dict[str, Any], datetime]


@dataclass(frozen=True, slots=True, kw_only=True)
class Sent:
    """A record as it is sent."""

    payload: bytes
    arrived_at: datetime
    key: bytes | None = None
    headers: tuple[tuple[str, bytes], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ByHand:
    """What a person declares who has the producer's documentation.

    Args:
        types: The type of each field.
        key: The key; none where events have no id.
        event_at: The field with the event time.
        required: What each record has.
        sensitive: What is masked.
    """

    types: Mapping[str, str]
    key: tuple[str, ...]
    event_at: str
    required: tuple[str, ...]
    sensitive: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Foreign:
    """A topic of a stranger.

    Args:
        topic: Its name.
        made: Makes an event by its number and the time at which it happened.
        by_hand: The declaration of a person.
        takes: The kind that the declaration is of, where the topic has several.
        kind: How kinds differ.
    """

    topic: str
    made: Callable[[random.Random, int, datetime], dict[str, Any]]
    by_hand: ByHand
    takes: str = ""
    kind: str = ""
    headers: Callable[[dict[str, Any]], tuple[tuple[str, bytes], ...]] = field(default=lambda _: ())

    def records(self, count: int, seed: int) -> Iterator[Sent]:
        """Yield records in the order of their arrival."""
        chance = random.Random(f"{self.topic} {seed}")  # noqa: S311  # no secret
        for number in range(count):
            at = BEGIN + timedelta(seconds=number)
            event = self.made(chance, number, at)
            payload = json.dumps(event, ensure_ascii=False).encode()
            arrived_at = at + timedelta(milliseconds=chance.randrange(200, 4000))
            sent = Sent(
                payload=payload[: len(payload) // 2] if chance.random() < BROKEN else payload,
                arrived_at=arrived_at,
                headers=self.headers(event),
            )
            yield sent
            if chance.random() < COPIES:
                yield sent


def _millis(at: datetime) -> int:
    return int(at.timestamp() * 1000)


NAMES = ("Peter", "Paul", "Luke", "Sarah", "Walter", "Kate", "Vicky", "John", "Julie")
LAST_NAMES = ("Shultz", "Abrams", "Spencer", "White", "Bartels", "Walton", "Smith", "Noris")
CITIES = ("Phoenix", "Los Angeles", "San Francisco", "Boise", "Portland", "Bend", "Redmond")
STATES = ("AZ", "CA", "ID", "OR", "WA", "WY")


def _letters(chance: random.Random, count: int) -> str:
    return "".join(chance.choice("abcdefghijklmnopqrstuvwxyz ") for _ in range(count))


def _person(chance: random.Random, number: int, at: datetime) -> dict[str, Any]:
    first, last = chance.choice(NAMES), chance.choice(LAST_NAMES)
    return {
        "id": 1000 + number,
        "name": f"{first} {last}",
        "emailAddress": f"{_letters(chance, 7).strip().replace(' ', 'x')}@{last.lower()}.com",
        "creditCard": " ".join(f"{chance.randrange(10_000):04d}" for _ in range(4)),
        "city": chance.choice(CITIES),
        "state": chance.choice(STATES),
        "dateTime": _millis(at),
        "extra": _letters(chance, 60),
    }


def _auction(chance: random.Random, number: int, at: datetime) -> dict[str, Any]:
    initial = chance.randrange(100, 100_000)
    return {
        "id": 1000 + number,
        "itemName": _letters(chance, 20),
        "description": _letters(chance, 100),
        "initialBid": initial,
        "reserve": initial + chance.randrange(100, 10_000),
        "dateTime": _millis(at),
        "expires": _millis(at) + chance.randrange(10_000, 4 * 3_600_000),
        "seller": 1000 + chance.randrange(300),
        "category": 10 + chance.randrange(5),
        "extra": _letters(chance, 60),
    }


def _bid(chance: random.Random, _: int, at: datetime) -> dict[str, Any]:
    channel = chance.choice(("Apple", "Google", "Facebook", "Baidu"))
    return {
        "auction": 1000 + chance.randrange(400),
        "bidder": 1000 + chance.randrange(300),
        "price": chance.randrange(100, 100_000_000),
        "channel": channel,
        "url": f"auctions.example/{_letters(chance, 5).strip()}/item.htm?query=1",
        "dateTime": _millis(at),
        "extra": _letters(chance, 40),
    }


def _dhcp(chance: random.Random, _: int, at: datetime) -> dict[str, Any]:
    ip = f"10.164.{chance.randrange(8)}.{chance.randrange(2, 250)}"
    event: dict[str, Any] = {
        "ts": round(at.timestamp() + chance.random(), 6),
        "uids": [f"C{chance.getrandbits(80):x}" for _ in range(chance.choice((1, 1, 2)))],
        "client_addr": ip,
        "server_addr": "10.164.0.1",
        "mac": ":".join(f"{chance.randrange(256):02x}" for _ in range(6)),
        "msg_types": chance.choice((["REQUEST", "ACK"], ["DISCOVER", "OFFER", "REQUEST", "ACK"])),
        "duration": round(chance.random() / 10, 6),
    }
    if chance.random() < 0.7:
        event |= {"host_name": f"laptop-{chance.randrange(200)}", "assigned_addr": ip}
    if chance.random() < 0.6:
        event |= {"lease_time": float(chance.choice((3600, 86_400))), "domain": "corp.example"}
    return event


def _id(chance: random.Random) -> str:
    text = f"{chance.getrandbits(128):032x}"
    return f"{text[:8]}-{text[8:12]}-4{text[13:16]}-8{text[17:20]}-{text[20:]}"


def _shop(chance: random.Random, number: int, at: datetime) -> dict[str, Any]:
    kind = chance.choices(("click", "order_created", "payment"), (6, 3, 1))[0]
    event: dict[str, Any] = {"type": kind, "ts": at.isoformat().replace("+00:00", "Z")}
    if kind == "click":
        return event | {"page": f"/p/{chance.randrange(90)}", "session": _id(chance)[:8]}
    if kind == "payment":
        paid = {"payment_id": _id(chance), "order_id": f"o-{number}", "method": "card"}
        return event | paid | {"amount": round(chance.random() * 500, 2)}
    items = [
        {"sku": f"s{chance.randrange(500)}", "qty": chance.randrange(1, 9), "price": 9.95}
        for _ in range(chance.randrange(1, 4))
    ]
    customer = {
        "id": f"u{chance.randrange(5000)}",
        "email": f"u{chance.randrange(5000)}@mail.example",
        "address": {"street": f"Road {chance.randrange(99)}", "zip": "00100"},
    }
    order = {"order_id": f"o-{number}", "customer": customer, "items": items, "coupon": None}
    total = round(sum(each["qty"] * each["price"] for each in items), 2)
    return event | order | {"total": total, "currency": chance.choice(("EUR", "SEK"))}


def _webhook(chance: random.Random, number: int, at: datetime) -> dict[str, Any]:
    counts = {f"{_letters(chance, 6).strip()}.py": chance.randrange(300) for _ in range(5)}
    event: dict[str, Any] = {
        "delivery": _id(chance),
        "sent_at": at.strftime("%Y-%m-%dT%H:%M:%S.%f")[:-3] + "+00:00",
        "sender": {"login": f"dev{chance.randrange(40)}", "id": chance.randrange(10**9)},
        "lines": counts,
        "ref": chance.choice((None, f"refs/heads/b{number % 7}")),
        "forced": chance.random() < 0.1,
    }
    if number % 3:
        return event | {"commits": [{"id": _id(chance), "message": _letters(chance, 30)}]}
    return event | {"issue": {"number": number, "labels": ["bug"], "score": chance.random()}}


def _webhook_kind(event: dict[str, Any]) -> tuple[tuple[str, bytes], ...]:
    return (("x-event", b"push" if "commits" in event else b"issue"),)


def _bank(chance: random.Random, number: int, at: datetime) -> dict[str, Any]:
    return {
        "Booking No.": f"B{number:08d}",
        "class": chance.choice(("debit", "credit")),
        "Betrag €": round(chance.random() * 10_000 - 5_000, 2),
        "_topic": "bookings",
        "": "an empty name",
        "value date": at.date().isoformat(),
        "Booked": at.strftime("%Y-%m-%d %H:%M:%S"),
        "meta": {"a.b": 1, "from": "ledger", "Ünit": "x"},
        "iban": f"FI{chance.randrange(10**16):016d}",
        "select`": 1,
        "note": chance.choice((1, "one")),
    }


EVENT = "event_at"
FOREIGN = (
    Foreign(
        topic="nexmark-persons",
        made=_person,
        by_hand=ByHand(
            types={
                "id": "bigint",
                "name": "string",
                "emailAddress": "string",
                "creditCard": "string",
                "city": "string",
                "state": "string",
                "dateTime": "bigint",
                "extra": "string",
            },
            key=("id",),
            event_at=EVENT,
            required=("id", "name", "emailAddress", "creditCard", "city", "state", EVENT),
            sensitive=("name", "emailAddress", "creditCard"),
        ),
    ),
    Foreign(
        topic="nexmark-auctions",
        made=_auction,
        by_hand=ByHand(
            types={
                "id": "bigint",
                "itemName": "string",
                "description": "string",
                "initialBid": "bigint",
                "reserve": "bigint",
                "dateTime": "bigint",
                "expires": "bigint",
                "seller": "bigint",
                "category": "bigint",
                "extra": "string",
            },
            key=("id",),
            event_at=EVENT,
            required=("id", "itemName", "initialBid", "reserve", "seller", "category", EVENT),
        ),
    ),
    Foreign(
        topic="nexmark-bids",
        made=_bid,
        by_hand=ByHand(
            types={
                "auction": "bigint",
                "bidder": "bigint",
                "price": "bigint",
                "channel": "string",
                "url": "string",
                "dateTime": "bigint",
                "extra": "string",
            },
            key=(),
            event_at=EVENT,
            required=("auction", "bidder", "price", EVENT),
        ),
    ),
    Foreign(
        topic="zeek-dhcp",
        made=_dhcp,
        by_hand=ByHand(
            types={
                "ts": "double",
                "uids": "array<string>",
                "client_addr": "string",
                "server_addr": "string",
                "mac": "string",
                "msg_types": "array<string>",
                "duration": "double",
                "host_name": "string",
                "assigned_addr": "string",
                "lease_time": "double",
                "domain": "string",
            },
            key=(),
            event_at=EVENT,
            required=("mac", "msg_types", EVENT),
            sensitive=("client_addr", "server_addr", "mac", "host_name", "assigned_addr"),
        ),
    ),
    Foreign(
        topic="shop-events",
        made=_shop,
        kind="field('type')",
        takes="order_created",
        by_hand=ByHand(
            types={
                "type": "string",
                "ts": "timestamp",
                "order_id": "string",
                "customer": "struct<id:string,email:string,address:struct<street:string,zip:string>>",
                "items": "array<struct<sku:string,qty:bigint,price:decimal(15,2)>>",
                "total": "decimal(15,2)",
                "currency": "string",
            },
            key=("order_id",),
            event_at="ts",
            required=("order_id", "ts", "customer", "items", "total", "currency"),
            sensitive=("customer",),
        ),
    ),
    Foreign(
        topic="code.webhooks",
        made=_webhook,
        headers=_webhook_kind,
        kind="header('x-event')",
        takes="issue",
        by_hand=ByHand(
            types={
                "delivery": "string",
                "sent_at": "timestamp",
                "sender": "struct<login:string,id:bigint>",
                "lines": "map<string,bigint>",
                "ref": "string",
                "forced": "boolean",
                "issue": "struct<number:bigint,labels:array<string>,score:double>",
            },
            key=("delivery",),
            event_at="sent_at",
            required=("delivery", "sent_at", "sender", "issue"),
            sensitive=("sender",),
        ),
    ),
    Foreign(
        topic="Bank_Bookings",
        made=_bank,
        by_hand=ByHand(
            types={
                "Booking No.": "string",
                "class": "string",
                "Betrag €": "decimal(15,2)",
                "value date": "date",
                "Booked": "timestamp",
                "meta": "struct<a.b:bigint,from:string,Ünit:string>",
                "iban": "string",
            },
            key=("Booking_No",),
            event_at="Booked",
            required=("Booking_No", "class", "Betrag", "value_date", "Booked"),
            sensitive=("iban",),
        ),
    ),
)
