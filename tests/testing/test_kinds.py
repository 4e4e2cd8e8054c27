"""Scenarios of every kind of table: routes, lists, no id, static tables, SQL, sessions, what is computed again, other event times."""

from dataclasses import replace
from datetime import datetime
from typing import Any

import pytest
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import (
    ArrayType,
    LongType,
    StringType,
    StructType,
    TimestampType,
)
from strandline import (
    CARRIED,
    PLACE,
    Appended,
    Ingested,
    Judged,
    Scenarios,
    Static,
    Topic,
    field,
    header,
    required,
)

from fleet.gold import device_signal_10m, ip_holds, site_traffic_1h
from fleet.silver import devices
from tests.support.fleet_in_sql import LOGINS

ITEM = StructType().add("product", StringType()).add("count", LongType())
ORDER = (
    StructType().add("id", StringType()).add("at", TimestampType()).add("items", ArrayType(ITEM))
)
REFUND = StructType().add("id", StringType()).add("at", TimestampType()).add("kind", StringType())

EVENTS = Ingested(name="shop_events", reads=(Topic(name="shop-events", kind=field("kind")),))
CLICKS = Ingested(name="clicks", reads=(Topic(name="clicks", partitions=2),))
MARKED = Ingested(name="marked", reads=(Topic(name="marked", kind=header("of")),))
PRICES = Static(
    name="prices",
    columns="product string, price decimal(10,2)",
    key=("product",),
    rows=(("tea", 3), ("cup", 7)),
    default={"price": 0},
)


def lines(events: DataFrame) -> DataFrame:
    """Read an order with its lines."""
    (topic,) = EVENTS.topics
    return topic.parse(events, ORDER).select(*CARRIED, *ORDER.fieldNames())


def refunds(events: DataFrame) -> DataFrame:
    """Read a refund."""
    (topic,) = EVENTS.topics
    return topic.parse(events, REFUND).select(*CARRIED, "id", "at")


def priced(rows: DataFrame) -> DataFrame:
    """Add the price of a line's product, of its time."""
    return PRICES.joined(rows, at="at").select("id", "_item", "at", "product", "price")


LINES = Judged(
    name="lines",
    reads=(EVENTS,),
    transform=lines,
    key=("id",),
    event_at="at",
    takes="order",
    rows="items",
    rules=required("id", "at"),
)
REFUNDS = Judged(
    name="refunds",
    reads=(EVENTS,),
    transform=refunds,
    key=("id",),
    event_at="at",
    takes="refund",
    rules=required("id", "at"),
)


@pytest.mark.whole("catch-up", "stream")
def test_a_topic_of_several_kinds_and_a_row_for_each_item(stream: Scenarios) -> None:
    """Others of its records are passed on the way; a copy is a copy of all items."""
    s = stream(LINES)
    items = [{"product": "tea", "count": 2}, {"product": "cup", "count": 1}]

    s.send({"kind": "order", "id": "a", "items": items}, {"kind": "refund", "id": "b"}, at="09:00")
    s.duplicate("a")

    s.expect(
        rows=[{"id": "a", "_item": number, **each} for number, each in enumerate(items)],
        ledger={"read": 2, "others": 1, "duplicates": 1},
    )


@pytest.mark.whole("batch", "stream")
def test_static_prices_and_rows_of_a_table_above(stream: Scenarios) -> None:
    """What is not in the static table has its default."""
    table = Appended(
        name="priced_lines",
        reads=(LINES,),
        transform=priced,
        key=("id", "_item"),
        event_at="at",
        static=(PRICES,),
    )
    s = stream(table)
    items = [{"product": "tea", "count": 2}, {"product": "pot", "count": 1}]

    s.send({"kind": "order", "id": "a", "items": items}, at="09:00")

    s.expect(rows=[{"product": "tea", "price": 3}, {"product": "pot", "price": 0}])


@pytest.mark.whole("batch", "catch-up")
def test_a_kind_in_a_header(stream: Scenarios) -> None:
    """The record is as it is, and the header says what it is."""

    def read(events: DataFrame) -> DataFrame:
        (topic,) = MARKED.topics
        return topic.parse(events, REFUND).select(*CARRIED, "id", "at")

    table = replace(REFUNDS, name="marked", reads=(MARKED,), transform=read, takes="x")
    s = stream(table)

    s.send({"id": "a"}, at="09:00", headers={"of": "x"})
    s.send({"id": "b"}, headers={"of": "y"})

    s.expect(rows=[{"id": "a"}], ledger={"others": 1})


def click(events: DataFrame) -> DataFrame:
    """Read a click, whose time is a number within another field."""
    (topic,) = CLICKS.topics
    shape = StructType().add("page", StringType()).add("meta", StructType().add("ms", LongType()))
    read = topic.parse(events, shape)
    return read.select(*CARRIED, "page", F.timestamp_millis("meta.ms").alias("clicked_at"))


@pytest.mark.whole("stream", "batch")
@pytest.mark.slow
def test_events_without_an_id_and_a_time_that_is_a_number(stream: Scenarios) -> None:
    """What came twice is two rows; the field with the time is named once."""

    def written(record: dict[str, Any], at: datetime) -> dict[str, Any]:
        return {**record, "meta": {"ms": int(at.timestamp() * 1000)}}

    table = Judged(
        name="clicks",
        reads=(CLICKS,),
        transform=click,
        key=PLACE,
        event_at="clicked_at",
        rules=required("clicked_at"),
    )
    s = stream(table, time=written)

    s.send({"page": "p"}, at="09:00", partition=1)
    s.duplicate()
    s.late({"page": "q"}, by="2 hours")

    s.expect(
        rows=[{"page": "p", "clicked_at": "09:00", "_partition": 1}] * 2, quarantined={"late": 1}
    )


@pytest.mark.whole("catch-up", "batch")
@pytest.mark.slow
def test_a_table_in_sql(stream: Scenarios) -> None:
    """A join of two streams, as its module in Python has it."""
    s = stream(LOGINS)
    action = {"action_id": "a", "user_id": "u1", "action": "login", "device_id": "d1"}
    answer = {"confirmation_id": "c", "action_id": "a", "user_id": "u1", "method": "app"}

    s.send(action, at="09:00:00", topic="user-actions")
    s.send(answer, topic="user-confirmations")

    s.expect(rows=[{"action_id": "a", "confirmation_id": "c", "is_confirmed": True}])


@pytest.mark.whole("catch-up", "stream")
@pytest.mark.slow
def test_a_session_ends_when_its_lease_is_over(stream: Scenarios) -> None:
    """Time is moved by a message that gives no address: a copy of the first one would be a renewal."""
    s = stream(ip_holds.TABLE)
    s.send(
        {
            "dhcp_id": "1",
            "kind": "ack",
            "mac": "m",
            "device_id": "d1",
            "ip": "a",
            "lease_seconds": 3600,
        },
        at="09:00",
    )
    s.expect(rows=[])

    s.advance("4 hours", {"dhcp_id": "clock", "kind": "discover", "mac": "x"})

    s.expect(rows=[{"ip": "a", "held_from": "09:00", "held_until": "10:00", "ended_by": "expired"}])


@pytest.mark.whole
@pytest.mark.slow
@pytest.mark.stream_modes("catch-up", "batch")
def test_a_dimension_without_a_record_runs_once_it_is_named(stream: Scenarios) -> None:
    """It has no row either way; its topic, its table and what reads it are made where one of them gets a record or is asked for."""
    s = stream(device_signal_10m.TABLE)
    meta = {"firmware": "1", "seq": 1}
    reading = {"device_id": "d1", "signal": "humidity", "value": 1, "meta": meta}

    s.send({"event_id": "a", **reading}, at="09:01", topic="device-telemetry")
    s.advance("2 hours")
    s.expect(rows=[{"device_id": "d1", "site": None}])
    assert not s.lake.exists(devices.TABLE)

    s.expect(rows=[], of=devices.TABLE)
    assert s.lake.exists(devices.TABLE)
    s.expect(rows=[{"device_id": "d1", "site": None}])

    change = {"change_id": "1", "device_id": "d1", "site": "lima", "model": "m", "owner": "o"}
    s.send(change, at="08:00", topic="device-inventory")
    s.advance("2 hours")
    s.expect(rows=[{"device_id": "d1", "site": "lima"}])


@pytest.mark.whole
@pytest.mark.slow
@pytest.mark.stream_modes("catch-up", "stream")
def test_windows_that_are_computed_again_with_a_dimension(stream: Scenarios) -> None:
    """Seven tables over three topics: traffic gets its site when the inventory comes, an hour later."""
    s = stream(site_traffic_1h.TABLE)
    connection = {"connection_id": "c", "src_ip": "a", "dst_ip": "x", "dst_port": 443}
    lease = {"dhcp_id": "1", "kind": "ack", "mac": "m", "device_id": "d1", "ip": "a"}
    s.send({**lease, "lease_seconds": 86400}, at="09:00", topic="dhcp-events")
    s.send({**connection, "bytes_out": 1, "bytes_in": 2}, at="09:30", topic="network-connections")
    sums = {"connections": 1, "bytes_out": 1, "bytes_in": 2}
    windows = ["08:40", "08:50", "09:00", "09:10", "09:20", "09:30"]
    s.expect(rows=[{"site": "unknown", "window_from": each, **sums} for each in windows])

    s.send(
        {"change_id": "1", "device_id": "d1", "site": "lima", "model": "m", "owner": "o"},
        at="09:40",
        topic="device-inventory",
    )
    s.expect(rows=[{"site": "unknown", "window_from": each, **sums} for each in windows])

    s.late(
        {"change_id": "2", "device_id": "d1", "site": "lima", "model": "m", "owner": "o"},
        by="40 minutes",
        topic="device-inventory",
    )
    s.expect(rows=[{"site": "lima", "window_from": each, **sums} for each in windows])
