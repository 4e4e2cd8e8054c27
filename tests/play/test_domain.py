"""All sources together: each has its share and its topic, and its events agree with those of the others."""

from dataclasses import replace
from datetime import datetime, timedelta

import numpy as np
import orjson
import pytest
from strandline import catalog

from fleet.play.domain import Part, domain
from fleet.play.network import ACK, RELEASE, TERM, Schedule
from fleet.play.plan import Plan
from strandline.alerting.tables import bronze as alerts
from strandline.core.table import Ingested
from tests.support.sending import truth

UNTIL = datetime.fromisoformat("2026-11-20T00:00:00+00:00")
DAY = Plan(since=UNTIL - timedelta(days=1), until=UNTIL, events=20_000, seed=7)
CLEAN = replace(
    DAY,
    malformed=0.0,
    duplicate=0.0,
    late_share=0.0,
    early_share=0.0,
    unknown_field=0.0,
    wrong_type=0.0,
    missing=0.0,
)


def part(plan: Plan, topic: str) -> Part:
    return next(each for each in domain(plan) if each.topic.name == topic)


def payloads(plan: Plan, topic: str) -> list[dict[str, str]]:
    """Return the payloads of a topic."""
    chunks = part(plan, topic).player.chunks()
    return [orjson.loads(value) for chunk in chunks for value in chunk.values]


@pytest.mark.parametrize("events", [1, 100, 20_000])
def test_every_event_of_a_plan_goes_to_one_source(events: int) -> None:
    """Whatever the shares round to, what was asked for is sent."""
    assert sum(each.events for each in domain(replace(DAY, events=events))) == events


@pytest.mark.whole
def test_every_topic_of_the_catalog_is_filled_and_has_its_truth() -> None:
    """A source that is not played would be a table that no test sees filled; alerts are raised, not sent."""
    parts = domain(DAY)
    found = [table for table in catalog.tables() if isinstance(table, Ingested)]
    tables = [table for table in found if table != alerts.TABLE]

    assert {each.topic for each in parts} == {t for table in tables for t in table.topics}
    assert {f"bronze.{each.table}" for each in parts} == {table.id for table in tables}
    expected = truth(DAY, parts)
    for table in tables:
        sent, kept = (
            expected.tables[table.id],
            expected.tables[table.id.replace("bronze", "silver")],
        )
        assert sent.good == kept.good + kept.duplicates + sum(kept.quarantined.values())
        assert kept.good > sent.good / 2


@pytest.mark.whole
def test_events_arrive_in_order_and_are_the_same_however_they_are_cut() -> None:
    """A log file of a source is never read backwards."""
    for each in domain(DAY):
        whole = list(each.player.chunks(10**6))
        small = list(each.player.chunks(97))

        assert [v for chunk in small for v in chunk.values] == whole[0].values
        assert whole[0].arrived_at == sorted(whole[0].arrived_at)


def test_most_confirmations_follow_their_action_within_two_minutes() -> None:
    """Some come too late, and of five actions one is never confirmed."""
    actions = {each["action_id"]: each for each in payloads(CLEAN, "user-actions")}
    gaps = [
        datetime.fromisoformat(answer["event_at"])
        - datetime.fromisoformat(actions[answer["action_id"]]["event_at"])
        for answer in payloads(CLEAN, "user-confirmations")
    ]

    in_time = [gap for gap in gaps if timedelta(0) <= gap <= timedelta(minutes=2)]
    assert 0.8 * len(gaps) < len(in_time) < len(gaps)
    assert max(gaps) > timedelta(minutes=2)


def test_an_address_has_one_holder_at_a_time_and_passes_from_hand_to_hand() -> None:
    """Otherwise no join could find the device of a connection."""
    schedule = Schedule(seed=3, devices=50)
    devices = np.arange(50)
    holders: dict[int, set[int]] = {}
    for moment in range(0, 4 * TERM, 600_000):
        held = schedule.address(devices, np.full(50, moment))
        known = held[held >= 0]
        assert len(set(known.tolist())) == len(known)
        for device, address in enumerate(held.tolist()):
            holders.setdefault(address, set()).add(device)

    assert max(len(found) for address, found in holders.items() if address >= 0) > 1


def test_messages_about_an_address_agree_with_who_holds_it() -> None:
    schedule = Schedule(seed=3, devices=50)

    events = schedule.events(0, 3 * TERM)

    assert events.at.tolist() == sorted(events.at.tolist())
    acks, releases = events.kind == ACK, events.kind == RELEASE
    held = schedule.address(events.device, events.at)
    assert (held[acks] >= 0).all()
    assert (held[releases] < 0).all()
    assert (schedule.address(events.device[releases], events.at[releases] - 1) >= 0).all()


def test_a_connection_comes_from_the_address_that_its_device_holds() -> None:
    """Those before a device has an address come from an unknown one."""
    leases = {
        (each["ip"], each["device_id"])
        for each in payloads(CLEAN, "dhcp-events")
        if each["kind"] in {"ack", "renew"}
    }
    connections = part(CLEAN, "network-connections")
    (chunk,) = connections.player.chunks(10**6)

    known = 0
    for key, value in zip(chunk.keys, chunk.values, strict=True):
        address = orjson.loads(value)["src_ip"]
        if address != "192.0.2.7":
            assert (address, key.decode()) in leases
            known += 1
    assert known > len(chunk.values) / 2
