"""All sources of the playground: which player fills which topic, with which share of the events."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace

from strandline import Counts, Layer, Records, Table, Topic

from fleet.bronze import (
    device_inventory,
    device_telemetry,
    dhcp_events,
    network_connections,
    process_events,
    user_actions,
    user_confirmations,
)
from fleet.play.devices import Fleet, Inventory, OldFleet, Processes
from fleet.play.network import Actions, Confirmations, Connections, Dhcp
from fleet.play.plan import CHUNK, Chunk, Plan, Player

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


# The counts that the lake must have for the events that were sent.
#
# The truth describes one run into topics that hold nothing else. After a second run into the same topics, or
# the same lake, the tables hold the sum of both; and a second run of the same plan adds only duplicates.
# Gold is left out: its rows depend on which windows are closed.


class Tally:
    """The counts of one source, added up chunk by chunk."""

    def __init__(self) -> None:
        """Begin at zero."""
        self.events = 0
        self._duplicates = 0
        self._quarantined = Counter[str]()

    def add(self, chunk: Chunk) -> None:
        """Count a chunk."""
        self.events += len(chunk.values)
        self._duplicates += chunk.duplicates
        self._quarantined += chunk.quarantined

    def counts(self) -> Counts:
        """Return the counts so far."""
        return Counts(
            good=self.events - self._duplicates - self._quarantined.total(),
            duplicates=self._duplicates,
            quarantined=dict(self._quarantined),
        )


def counted(tallies: Sequence[tuple[Part, Tally]]) -> dict[str, Counts]:
    """Return the exact counts of each table from the tallies of its sources."""
    tables: dict[str, Counts] = {}
    for part, tally in tallies:
        found = {Layer.BRONZE: Counts(good=tally.events), Layer.SILVER: tally.counts()}
        for layer, counts in found.items():
            name = f"{layer}.{part.table}"
            tables[name] = tables[name] + counts if name in tables else counts
    return tables


# The events of a plan as they are handed to who sends them, and what its tables must have of those that were taken.


class Playing:
    """The events of a plan's sources, side by side."""

    def __init__(self, plan: Plan, parts: Sequence[Part], at_once: int = CHUNK) -> None:
        """Begin before the first event.

        Args:
            plan: The events.
            parts: Their sources.
            at_once: The number of events of all sources that are made together.
        """
        self._plan = plan
        self._at_once = at_once
        self._tallies = [(part, Tally()) for part in parts]

    def __iter__(self) -> Iterator[Records]:
        """Yield portions of all sources, each source spread over the whole run."""
        rounds = max(-(-self._plan.events // self._at_once), 1)
        for number in range(rounds):
            for part, tally in self._tallies:
                start, stop = (part.events * n // rounds for n in (number, number + 1))
                if stop == start:
                    continue
                chunk = part.player.chunk(start, stop)
                tally.add(chunk)
                yield Records(
                    topic=part.topic.name,
                    keys=chunk.keys,
                    values=chunk.values,
                    arrived_at=chunk.arrived_at,
                )

    def expected(self) -> Mapping[str, Counts]:
        """Return the counts that each table must have of the events that were taken until now."""
        return counted(self._tallies)

    def plan(self) -> Mapping[str, object]:
        """Return the plan."""
        return asdict(self._plan)
