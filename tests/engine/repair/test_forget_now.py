"""A person's request does not wait for a day: what streams still own is computed anew, without the state that has the person."""

import json
from datetime import timedelta

import pytest
from pyspark.sql import SparkSession

from fleet.gold import device_signal_10m as gold
from fleet.gold import ip_holds
from fleet.silver import device_telemetry as silver
from fleet.silver import dhcp_events
from strandline.core.errors import DefinitionError
from strandline.core.topic import RECEIVED
from strandline.engine.accounting.balance_sheet import balance
from strandline.engine.flow.ingest import PROPERTIES
from strandline.engine.flow.runner import Site
from strandline.engine.lake.forgotten import requests, search
from strandline.engine.lake.lake import Lake
from strandline.engine.lake.open_table import opened
from strandline.engine.repair import forget
from strandline.engine.repair.expire import AFTER, scrub
from strandline.engine.repair.forget import Forgetting, carry_out
from strandline.engine.repair.forget_request import Request
from strandline.engine.repair.rebuild import undo
from tests.engine.written import entry
from tests.support import by_hand
from tests.support.events import Event, reading, received
from tests.support.fleet import FORGOTTEN
from tests.support.modes import derive, proven
from tests.support.rows import NOON, NULL, Row, at, lines

pytestmark = [pytest.mark.slow, pytest.mark.whole]

TABLES = (silver.TABLE, gold.TABLE)
REQUEST = Request.of(f"device_id = '{FORGOTTEN}'")


def sent(*minutes: int, device: str, batch: int) -> list[Event]:
    """Return readings of a device, some minutes after noon."""
    return [
        Event(
            payload=reading(
                event_id=f"r-{minute}",  # a key that names no person: silver's state keeps keys for an hour
                device_id=device,
                event_at=(at := NOON + timedelta(minutes=minute)).isoformat(),
            ),
            batch=batch,
            arrived_at=at,
            ingested_at=at,
        )
        for minute in minutes
    ]


def asked(spark: SparkSession, lake: Lake, site: Site | None) -> list[str]:
    """Carry the request out, and return why its parts wait."""
    work = Forgetting(spark, lake, REQUEST, site)
    found = [*work.parts()]
    [*carry_out(work, lake, REQUEST, lambda: NOON, found)]
    work.close()
    return [part.waits for part in found if part.waits and part.rows]


def windows(lake: Lake) -> list[tuple[str, int]]:
    """Return of each window the device, and how many readings it counts."""
    rows = opened(lake.table(gold.TABLE)).to_pyarrow_table(columns=["device_id", "readings"])
    return sorted((row["device_id"], row["readings"]) for row in rows.to_pylist())


def test_a_request_in_open_time_is_carried_out_at_once_and_nothing_emits_it_later(
    spark: SparkSession, lake: Lake
) -> None:
    """Its window was open in the state of gold's stream; one of another device closes with all of its rows."""
    site = Site(spark=spark, clock=lambda: NOON)
    mine = [*sent(1, 2, device=FORGOTTEN, batch=0)]
    others = [*sent(3, 4, device="d-1", batch=0)]
    received(lake, [*mine, *others])
    derive(spark, lake, *TABLES)

    (waits, *_) = asked(spark, lake, None)
    assert f"with --now {gold.TABLE.id} is computed anew at once" in waits
    provisional = lake.provisional("gold.of_today") / "rows.parquet"
    provisional.put("of whom it may be")
    assert asked(spark, lake, site) == []

    assert not provisional.exists(), (
        "rows beside a table are computed anew by what reads no more of it"
    )
    assert [request.is_done for request in requests(lake)] == [True]
    later = sent(200, 230, device="d-1", batch=1)
    received(lake, later)
    derive(spark, lake, *TABLES)
    assert windows(lake) == [("d-1", 2)]
    assert proven(lake, TABLES)
    with pytest.raises(DefinitionError, match="what was forgotten on request"):
        undo(spark, gold.TABLE, lake)
    [*scrub(spark, lake, NOON + AFTER + timedelta(minutes=1))]
    assert [hit.file for hit in search(lake, FORGOTTEN) if hit.is_certain] == []


MESSAGES = f"""
    batch | kind     | device      | ip | at
    1     | ack      | {FORGOTTEN} | a  | 09:00:00
    1     | ack      | d-1         | b  | 09:00:00
    1     | discover | d-1         | -  | 13:00:00
    2     | ack      | d-2         | a  | 14:00:00
    2     | release  | d-1         | b  | 14:00:00
    2     | discover | d-1         | -  | 18:00:00
"""
"""The two addresses are held while the device is forgotten; later one passes on, and one is given back."""


def arrived(lake: Lake, batch: str) -> None:
    """Let messages about addresses come."""
    (source,) = dhcp_events.TABLE.upstream
    by_hand.create(lake.table(source), RECEIVED, PROPERTIES)
    each = [row for row in lines(MESSAGES) if row["batch"] == batch]
    number = int(batch) - 1
    topic, moments = source.topics[0].name, [at(row["at"]) for row in each]
    places = enumerate(zip(each, moments, strict=True), start=3 * number)
    records: list[tuple[object, ...]] = [
        (topic, 0, offset, moment, None, message(row), [], number, moment, None)
        for offset, (row, moment) in places
    ]
    ends = {f"{topic}/0": (3 * number, 3 * number + len(each))}
    words = entry(
        source, batch=number, offsets=ends, read=len(each), good=len(each), written=len(each)
    )
    by_hand.commit(lake.table(source), [by_hand.table(RECEIVED, records)], words.encoded())


def message(row: Row) -> bytes:
    return json.dumps(
        {
            "dhcp_id": f"{row['kind']} {row['at']} {row['ip']}",
            "kind": row["kind"],
            "mac": f"of {row['device']}",
            "device_id": row["device"],
            "ip": None if row["ip"] == NULL else row["ip"],
            "lease_seconds": 36_000,
            "event_at": at(row["at"]).isoformat(),
        }
    ).encode()


def test_what_is_held_open_leaves_the_state_too(
    spark: SparkSession, lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its time is over, but its stream would end the hold when the address passes on, and so write the device again.

    What is computed anew for a request is promoted unseen, so what other code has made waits for a person.
    """
    tables, site = (dhcp_events.TABLE, ip_holds.TABLE), Site(spark=spark, clock=lambda: NOON)
    arrived(lake, "1")
    derive(spark, lake, *tables)
    before = held(lake)

    with monkeypatch.context() as edited:
        edited.setattr(forget, "is_code_of", lambda _table, _code: False)
        waits = asked(spark, lake, site)
    assert "gold.ip_holds was computed by other code than today's" in waits[0]
    assert held(lake) == before
    assert asked(spark, lake, site) == []
    arrived(lake, "2")
    derive(spark, lake, *tables)

    assert before == [("a", FORGOTTEN, None), ("b", "d-1", None)]
    assert held(lake) == [("a", "d-2", None), ("b", "d-1", "released")]
    assert [balance(table, lake).faults for table in tables] == [[], []]


def held(lake: Lake) -> list[tuple[str, str, str | None]]:
    """Return who holds or held which address, and why that ended."""
    rows = opened(lake.table(ip_holds.TABLE)).to_pyarrow_table().to_pylist()
    return sorted((row["ip"], row["device_id"], row["ended_by"]) for row in rows)
