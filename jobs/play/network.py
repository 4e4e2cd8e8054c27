"""The events of a network: messages about addresses, and connections from them.

Clean payloads are::

    {"dhcp_id": "9f…", "kind": "ack", "mac": "02:00:00:00:00:2a", "device_id": "dev-00042",
     "ip": "10.20.0.42", "lease_seconds": 7200, "event_at": "2026-11-20T06:10:00.123Z"}
    {"connection_id": "1a…", "src_ip": "10.20.0.42", "dst_ip": "198.51.100.7", "dst_port": 443,
     "bytes_out": 1200, "bytes_in": 90211, "event_at": "2026-11-20T08:15:30.123Z"}

A connection comes from the address that its device held at that moment; some come from addresses without a
known holder.
"""

from dataclasses import replace

import numpy as np

from jobs.play.chance import Numbers
from jobs.play.dirt import objects
from jobs.play.kinds import Story
from jobs.play.plan import Plan
from jobs.play.player import Player, moments, texts
from jobs.play.schedule import KINDS, Events, Schedule

DHCP = (
    b'{"dhcp_id": "%b", "kind": "%b", "mac": "%b", "device_id": "%b", "ip": "%b", '
    b'"lease_seconds": %d, "event_at": "%b%b"}'
)
CONNECTION = (
    b'{"connection_id": "%b", "src_ip": "%b", "dst_ip": "%b", "dst_port": %d, '
    b'"bytes_out": %d, "bytes_in": %d, "event_at": "%b%b"}'
)
LEASE = 7_200
PORTS = (443, 443, 443, 80, 22, 53, 8883)
ON_THE_WIRE = 50
"""The milliseconds from a message about an address to its arrival."""

PER_DEVICE_AND_DAY = 42
"""The approximate number of messages between a device and the server in a day."""

DAY = 86_400_000


class ScheduledStory(Story):
    """Events whose times come from a schedule, and which arrive at once."""

    def __init__(self, plan: Plan, events: Events) -> None:
        """Keep the times of the schedule."""
        super().__init__(plan)
        self._at = events.at

    def arrived_at(self, numbers: Numbers) -> Numbers:
        """Return the arrivals; for a number before the first, that of the first."""
        return self._at[np.maximum(numbers, 0)] + ON_THE_WIRE

    def usual_delay(self, numbers: Numbers) -> Numbers:
        """Return the time on the wire."""
        return np.full_like(numbers, ON_THE_WIRE)


class Dhcp(Player):
    """The messages about addresses."""

    variants = objects("dhcp_id", "kind", "mac")

    def __init__(self, plan: Plan) -> None:
        """Make the schedule; the plan's number of events is cut to the schedule's."""
        self.schedule = Schedule(plan.seed, clients(plan))
        self._events = self.schedule.events(plan.since_ms, plan.since_ms + plan.span_ms)
        super().__init__(replace(plan, events=min(plan.events, len(self._events.at))))

    def make_story(self, plan: Plan) -> Story:
        """Return the story of the messages."""
        return ScheduledStory(plan, self._events)

    def keys(self, numbers: Numbers) -> list[bytes]:
        """Return the hardware address in each message."""
        devices = self._events.device[numbers].tolist()
        return [b"02:00:00:00:%02x:%02x" % divmod(device, 256) for device in devices]

    def clean(self, numbers: Numbers, happened_at: Numbers) -> list[bytes]:
        """Return a message for each event."""
        devices = self._events.device[numbers]
        # The device's address in the term of the message, also before the ack and after the release.
        held = self.schedule.assigned(devices, self._events.at[numbers])
        columns = (
            self.ids(numbers),
            texts(list(KINDS))[self._events.kind[numbers]].tolist(),
            self.keys(numbers),
            [b"dev-%05d" % device for device in devices.tolist()],
            self.schedule.text(held),
            [LEASE] * len(numbers),
            *moments(happened_at),
        )
        return list(map(DHCP.__mod__, zip(*columns, strict=True)))


class Connections(Player):
    """The connections of devices."""

    variants = objects("connection_id", "src_ip", "dst_ip")

    def __init__(self, plan: Plan, schedule: Schedule) -> None:
        """Keep the schedule of who holds which address."""
        super().__init__(plan)
        self._schedule = schedule

    def keys(self, numbers: Numbers) -> list[bytes]:
        """Return the device of each connection."""
        return [b"dev-%05d" % device for device in self._devices(numbers).tolist()]

    def clean(self, numbers: Numbers, happened_at: Numbers) -> list[bytes]:
        """Return a connection for each event."""
        below = self.chance.below
        held = self._schedule.address(self._devices(numbers), happened_at)
        far = below(250, "far end", numbers)
        columns = (
            self.ids(numbers),
            self._schedule.text(held),
            [b"198.51.100.%d" % n for n in far.tolist()],
            np.array(PORTS)[below(len(PORTS), "port", numbers)].tolist(),
            below(20_000, "bytes out", numbers).tolist(),
            below(500_000, "bytes in", numbers).tolist(),
            *moments(happened_at),
        )
        return list(map(CONNECTION.__mod__, zip(*columns, strict=True)))

    def _devices(self, numbers: Numbers) -> Numbers:
        return self.chance.below(self._schedule.devices, "device", numbers)


def clients(plan: Plan) -> int:
    """Return how many devices must send messages to make about as many events as the plan has."""
    wanted = plan.events * DAY // (plan.span_ms * PER_DEVICE_AND_DAY)
    return max(1, min(plan.devices, wanted))
