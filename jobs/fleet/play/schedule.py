"""The schedule of addresses on the playground's network: which device holds which address when.

Every six hours all addresses are assigned again: device ``d`` asks within the first half hour of a term for the
address that a permutation of that term gives it, keeps it by renewing every hour, and gives it back five
minutes before the term ends, or lets it expire. So no two devices hold one address at a time, and each address
passes from device to device.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fleet.play.chance import Chance, Numbers

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
