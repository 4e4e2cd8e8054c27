"""The events of a network and of its users: messages about addresses, connections from them, actions, and second factors.

Clean payloads are::

    {"dhcp_id": "9f…", "kind": "ack", "mac": "02:00:00:00:00:2a", "device_id": "dev-00042",
     "ip": "10.20.0.42", "lease_seconds": 7200, "event_at": "2026-11-20T06:10:00.123Z"}
    {"connection_id": "1a…", "src_ip": "10.20.0.42", "dst_ip": "198.51.100.7", "dst_port": 443,
     "bytes_out": 1200, "bytes_in": 90211, "event_at": "2026-11-20T08:15:30.123Z"}
    {"action_id": "9f…", "user_id": "user-00042", "action": "login", "device_id": "dev-00042",
     "event_at": "2026-11-20T08:15:30.123Z"}
    {"confirmation_id": "1a…", "action_id": "9f…", "user_id": "user-00042", "method": "totp",
     "event_at": "2026-11-20T08:15:42.000Z"}

A connection comes from the address that its device held at that moment; some come from addresses without a
known holder. A confirmation belongs to an action that arrived some minutes before it. Most follow within two minutes, some
too late to count, and one action in five is never confirmed.

In a planted share of connections data is carried off: to a far end in ``PLANTED``, more out than usual and less in, half of
them to the port of a remote shell. Each of these habits is one that other connections have too, so that no rule finds
all of them and nothing else.
"""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from fleet.play.plan import Chance, Numbers, Plan, Player, Story, moments, objects, parts, texts

# The schedule of addresses on the playground's network: which device holds which address when.
#
# Every six hours all addresses are assigned again: device ``d`` asks within the first half hour of a term for the
# address that a permutation of that term gives it, keeps it by renewing every hour, and gives it back five
# minutes before the term ends, or lets it expire. So no two devices hold one address at a time, and each address
# passes from device to device.


TERM = 6 * 3_600_000
"""The milliseconds of a term, after which addresses are assigned again."""

FIRST_HALF_HOUR = 1_800_000
GIVEN_BACK = TERM - 300_000
RENEWED_EVERY = 3_600_000
STEPS = np.array([0, 40, 1_000, 1_060])
"""The milliseconds from the discover to discover, offer, request and ack."""

FREE = 4
"""The number of held addresses for each free one."""

DISCOVER, OFFER, REQUEST, ACK, RENEW, RELEASE = range(6)
KINDS = (b"discover", b"offer", b"request", b"ack", b"renew", b"release")


@dataclass(frozen=True, slots=True, kw_only=True)
class Events:
    """The messages about addresses, in the order of time."""

    at: Numbers
    kind: Numbers
    device: Numbers


class Schedule:
    """The addresses of a number of devices."""

    def __init__(self, seed: int, devices: int) -> None:
        """Prepare an address for each device, and some free ones."""
        self._chance = Chance(seed)
        self.devices = devices
        self.addresses = devices + max(devices // FREE, 1)

    def address(self, devices: Numbers, moments: Numbers) -> Numbers:
        """Return the number of the address that each device holds at a moment, or -1."""
        terms, within = np.divmod(moments, TERM)
        asked = self._asked(devices, terms) + STEPS[-1]
        is_held = (within >= asked) & (within < GIVEN_BACK)
        return np.where(is_held, self.assigned(devices, moments), -1)

    def assigned(self, devices: Numbers, moments: Numbers) -> Numbers:
        """Return the address assigned to each device in the term of a moment, held or not."""
        return (devices + moments // TERM * (self.addresses // 3 + 1)) % self.addresses

    def text(self, addresses: Numbers) -> list[bytes]:
        """Return addresses as text; -1 is an address from outside."""
        return [
            b"10.%d.%d.%d" % (20 + (n >> 16), n >> 8 & 255, n & 255) if n >= 0 else b"192.0.2.7"
            for n in addresses.tolist()
        ]

    def events(self, since: int, until: int) -> Events:
        """Return the messages from one moment to just before another."""
        terms = np.arange(since // TERM, until // TERM + 1)
        pairs = np.stack(np.meshgrid(terms, np.arange(self.devices), indexing="ij"), axis=-1)
        term, device = pairs.reshape(-1, 2).T
        begun = term * TERM + self._asked(device, term)
        sent = [(begun + step, kind, device) for kind, step in enumerate(STEPS.tolist())]
        for hour in range(1, TERM // RENEWED_EVERY):
            renewed = begun + STEPS[-1] + hour * RENEWED_EVERY
            kept = renewed < term * TERM + GIVEN_BACK
            sent.append((renewed[kept], RENEW, device[kept]))
        returns = self._chance.below(2, "given back", device * len(terms) + term) == 0
        sent.append(((term * TERM + GIVEN_BACK)[returns], RELEASE, device[returns]))
        at = np.concatenate([moment for moment, _, _ in sent])
        kind = np.concatenate([np.full(len(moment), k) for moment, k, _ in sent])
        who = np.concatenate([device for _, _, device in sent])
        inside = (at >= since) & (at < until)
        order = np.lexsort((kind[inside], who[inside], at[inside]))
        return Events(at=at[inside][order], kind=kind[inside][order], device=who[inside][order])

    def _asked(self, devices: Numbers, terms: Numbers) -> NDArray[np.int64]:
        return self._chance.below(FIRST_HALF_HOUR, "asked", devices + (terms << 20))


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


ACTIONS = (b"login", b"login", b"login", b"logout", b"change_password")
METHODS = (b"totp", b"push", b"key")
ACTION = (
    b'{"action_id": "%b", "user_id": "%b", "action": "%b", "device_id": "%b", "event_at": "%b%b"}'
)
CONFIRMATION = (
    b'{"confirmation_id": "%b", "action_id": "%b", "user_id": "%b", "method": "%b", '
    b'"event_at": "%b%b"}'
)
AFTER = 300_000
"""The milliseconds by which an action arrives before its confirmation; longer than any answer takes."""


class Actions(Player):
    """The actions of a plan's users; there are as many users as devices."""

    variants = objects("action_id", "user_id", "action")

    def keys(self, numbers: Numbers) -> list[bytes]:
        """Return the user of each action."""
        return [b"user-%05d" % user for user in self.users(numbers).tolist()]

    def clean(self, numbers: Numbers, happened_at: Numbers) -> list[bytes]:
        """Return an action for each event."""
        devices = self.chance.below(self.plan.devices, "device", numbers)
        columns = (
            self.ids(numbers),
            self.keys(numbers),
            self.one_of(ACTIONS, "action", numbers),
            [b"dev-%05d" % device for device in devices.tolist()],
            *moments(happened_at),
        )
        return list(map(ACTION.__mod__, zip(*columns, strict=True)))

    def users(self, numbers: Numbers) -> Numbers:
        """Return the number of each action's user."""
        return self.chance.below(self.plan.devices, "user", numbers)


class ConfirmationStory(Story):
    """Confirmations: their event time is when the user answers, whatever the network does."""

    def __init__(self, plan: Plan, actions: Actions) -> None:
        """Keep the actions that are confirmed."""
        super().__init__(plan)
        self._actions = actions

    def confirmed(self, numbers: Numbers) -> Numbers:
        """Return the number of the action that each confirmation belongs to."""
        mine, theirs = self.plan, self._actions.plan
        back = -(-AFTER * theirs.events // theirs.span_ms) + 1
        return np.maximum(numbers * theirs.events // max(mine.events, 1) - back, 0)

    def usual_delay(self, numbers: Numbers) -> Numbers:
        """Return the time from the user's answer, seconds to minutes after the action, to the arrival."""
        actions = self.confirmed(numbers)
        kinds, _ = self._actions.story.kinds(actions)
        acted_at = self._actions.story.happened_at(actions, kinds)
        prompt = 2_000 + self.chance.below(90_000, "answer", numbers)
        slow = 121_000 + self.chance.below(120_000, "slow answer", numbers)
        is_slow = self.chance.below(20, "manner of answer", numbers) == 0
        return self.arrived_at(numbers) - acted_at - np.where(is_slow, slow, prompt)


class Confirmations(Player):
    """The second factors of a plan's users, four for five actions."""

    variants = objects("confirmation_id", "action_id", "user_id")

    def __init__(self, plan: Plan, actions: Plan) -> None:
        """Keep both plans; ``actions`` is the plan of the confirmed actions."""
        self._actions = Actions(actions)
        super().__init__(plan)

    def make_story(self, plan: Plan) -> Story:
        """Return the story of the confirmations."""
        self._answers = ConfirmationStory(plan, self._actions)
        return self._answers

    def keys(self, numbers: Numbers) -> list[bytes]:
        """Return the user of each confirmation."""
        return self._actions.keys(self._answers.confirmed(numbers))

    def clean(self, numbers: Numbers, happened_at: Numbers) -> list[bytes]:
        """Return a confirmation for each event."""
        actions = self._answers.confirmed(numbers)
        columns = (
            self.ids(numbers),
            self._actions.ids(actions),
            self._actions.keys(actions),
            self.one_of(METHODS, "method", numbers),
            *moments(happened_at),
        )
        return list(map(CONFIRMATION.__mod__, zip(*columns, strict=True)))
