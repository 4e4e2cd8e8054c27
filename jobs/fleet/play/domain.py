"""All sources of the playground: which player fills which topic, with which share of the events."""

from dataclasses import dataclass, replace

from strandline import Table, Topic

from fleet.bronze import (
    device_inventory,
    device_telemetry,
    dhcp_events,
    network_connections,
    process_events,
    user_actions,
    user_confirmations,
)
from fleet.play.assets import Inventory, Processes
from fleet.play.logins import Actions, Confirmations
from fleet.play.network import Connections, Dhcp
from fleet.play.plan import Plan
from fleet.play.player import Player
from fleet.play.telemetry import Fleet
from fleet.play.telemetry_v1 import OldFleet

ONE_IN = {
    "older": 10,
    "actions": 20,
    "dhcp": 20,
    "connections": 10,
    "inventory": 100,
    "processes": 10,
}
"""One event in so many is of the source; the rest are readings."""

SEEDS_APART = 1 << 32
"""The distance between the seeds of two sources, so that neighbouring plans have nothing in common."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """One source of a run.

    Args:
        player: Makes the events.
        topic: The topic to which they are sent.
        table: The common name of its bronze and its silver table.
    """

    player: Player
    topic: Topic
    table: str

    @property
    def events(self) -> int:
        """Return the number of events."""
        return self.player.plan.events


def domain(plan: Plan) -> tuple[Part, ...]:
    """Distribute the events of a plan to all sources."""
    old, actions, addresses, connections, inventory, processes = (
        replace(plan, events=plan.events // one_in, seed=_seed(plan, number))
        for number, one_in in enumerate(ONE_IN.values(), start=1)
    )
    answers = replace(actions, events=actions.events * 4 // 5, seed=_seed(plan, len(ONE_IN) + 1))
    dhcp = Dhcp(addresses)
    others = (
        _part(OldFleet(old), device_telemetry.TABLE, device_telemetry.OLDER),
        _part(Actions(actions), user_actions.TABLE),
        _part(Confirmations(answers, actions), user_confirmations.TABLE),
        _part(dhcp, dhcp_events.TABLE),
        _part(Connections(connections, dhcp.schedule), network_connections.TABLE),
        _part(Inventory(inventory), device_inventory.TABLE),
        _part(Processes(processes), process_events.TABLE),
    )
    rest = plan.events - sum(part.events for part in others)
    return (*readings(replace(plan, events=rest)), *others)


def readings(plan: Plan, topic: Topic = device_telemetry.NEWER) -> tuple[Part, ...]:
    """Return one source that sends all events of a plan as readings."""
    return (_part(Fleet(plan), device_telemetry.TABLE, topic),)


def _part(player: Player, table: Table, topic: Topic | None = None) -> Part:
    return Part(player=player, topic=topic or table.topics[0], table=table.name)


def _seed(plan: Plan, number: int) -> int:
    return plan.seed + number * SEEDS_APART
