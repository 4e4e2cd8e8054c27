"""The events of a network: messages about addresses, and connections from them.

Clean payloads are::

    {"dhcp_id": "9f…", "kind": "ack", "mac": "02:00:00:00:00:2a", "device_id": "dev-00042",
     "ip": "10.20.0.42", "lease_seconds": 7200, "event_at": "2026-11-20T06:10:00.123Z"}
    {"connection_id": "1a…", "src_ip": "10.20.0.42", "dst_ip": "198.51.100.7", "dst_port": 443,
     "bytes_out": 1200, "bytes_in": 90211, "event_at": "2026-11-20T08:15:30.123Z"}

A connection comes from the address that its device held at that moment; some come from addresses without a
known holder.

In a planted share of them data is carried off: to a far end in ``PLANTED``, more out than usual and less in, half of
them to the port of a remote shell. Each of these habits is one that other connections have too, so that no rule finds
all of them and nothing else.
"""

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from fleet.play.chance import Numbers, parts
from fleet.play.dirt import objects
from fleet.play.kinds import Story
from fleet.play.plan import Plan
from fleet.play.player import Player, moments, texts
from fleet.play.schedule import KINDS, Events, Schedule

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

PLANTED = b"203.0.113.%d"
"""The far ends to which data is carried off; nothing else goes there."""

STOLEN = (6_000, 40_000)
"""The fewest bytes that are carried off at once, and how many more there may be; others send up to 20,000."""
ANSWERED = 60_000
"""The most bytes that come back; others get up to 500,000."""
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
        self._planted = parts([plan.planted])

    def keys(self, numbers: Numbers) -> list[bytes]:
        """Return the device of each connection."""
        return [b"dev-%05d" % device for device in self._devices(numbers).tolist()]

    def clean(self, numbers: Numbers, happened_at: Numbers) -> list[bytes]:
        """Return a connection for each event."""
        below = self.chance.below
        held = self._schedule.address(self._devices(numbers), happened_at)
        far = below(250, "far end", numbers)
        port = np.array(PORTS)[below(len(PORTS), "port", numbers)]
        is_planted = self.planted(numbers)
        least, more = STOLEN
        shell = np.where(below(2, "stolen by shell", numbers) == 0, 22, port)
        stolen = least + below(more, "bytes stolen", numbers)
        answered = below(ANSWERED, "bytes answered", numbers)
        columns = (
            self.ids(numbers),
            self._schedule.text(held),
            [
                (PLANTED if bad else b"198.51.100.%d") % n
                for n, bad in zip(far.tolist(), is_planted.tolist(), strict=True)
            ],
            np.where(is_planted, shell, port).tolist(),
            np.where(is_planted, stolen, below(20_000, "bytes out", numbers)).tolist(),
            np.where(is_planted, answered, below(500_000, "bytes in", numbers)).tolist(),
            *moments(happened_at),
        )
        return list(map(CONNECTION.__mod__, zip(*columns, strict=True)))

    def planted(self, numbers: Numbers) -> NDArray[np.bool_]:
        """Return whether data is carried off in each connection."""
        part = self.chance.pick(self._planted, "planted", numbers)
        return np.equal(part, 0)

    def _devices(self, numbers: Numbers) -> Numbers:
        return self.chance.below(self._schedule.devices, "device", numbers)


def clients(plan: Plan) -> int:
    """Return how many devices must send messages to make about as many events as the plan has."""
    wanted = plan.events * DAY // (plan.span_ms * PER_DEVICE_AND_DAY)
    return max(1, min(plan.devices, wanted))
