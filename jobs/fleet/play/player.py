"""The events of a plan as records, in the order of their arrival; each source makes its own payloads.

This module and jobs/fleet/play/kinds.py decide which events are dirty, late, early or copies, so a new source needs only
a key, a clean payload, and its variants.
"""

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from fleet.play.kinds import Chance, Kind, Numbers, Story, Variant
from fleet.play.plan import Plan

CHUNK = 8_192
MINUTE = 60_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Chunk:
    """Consecutive records, ready to be sent.

    Args:
        keys: The message keys, which decide the partitions.
        values: The payloads.
        arrived_at: The records' timestamps in milliseconds, never decreasing.
        duplicates: The number of copies of earlier good events.
        quarantined: The number of events that must be held back, by reason.
    """

    keys: list[bytes]
    values: list[bytes]
    arrived_at: list[int]
    duplicates: int
    quarantined: Counter[str]


class Player(ABC):
    """The events of one source."""

    variants: ClassVar[Mapping[Kind, tuple[Variant, ...]]]
    """The ways in which a payload of this source can be odd."""

    def __init__(self, plan: Plan) -> None:
        """Prepare the draws, and the story of the events."""
        self.plan = plan
        self.chance = Chance(plan.seed)
        self.story = self.make_story(plan)

    def make_story(self, plan: Plan) -> Story:
        """Return the story: kinds, arrivals and times of the events."""
        return Story(plan)

    @abstractmethod
    def keys(self, numbers: Numbers) -> list[bytes]:
        """Return the message key of each event."""

    @abstractmethod
    def clean(self, numbers: Numbers, happened_at: Numbers) -> list[bytes]:
        """Return a good payload for each event."""

    def chunks(self, size: int = CHUNK) -> Iterator[Chunk]:
        """Make the plan's events chunk by chunk; the size changes no event."""
        for start in range(0, self.plan.events, size):
            yield self.chunk(start, min(start + size, self.plan.events))

    def chunk(self, start: int, stop: int) -> Chunk:
        """Make the events from one number to just before another."""
        return self._chunk(np.arange(start, stop))

    def ids(self, numbers: Numbers) -> list[bytes]:
        """Return 32 hexadecimal digits for each event."""
        halves = [self.chance.bits(question, numbers) for question in ("first id", "second id")]
        digits = np.stack(halves, axis=1).astype(">u8").tobytes().hex().encode()
        return [digits[at : at + 32] for at in range(0, len(digits), 32)]

    def one_of(self, options: Sequence[bytes], question: str, numbers: Numbers) -> list[bytes]:
        """Return one of the options for each number."""
        drawn = self.chance.below(len(options), question, numbers)
        chosen: list[bytes] = texts(list(options))[drawn].tolist()
        return chosen

    def _chunk(self, numbers: Numbers) -> Chunk:
        kinds, sources = self.story.kinds(numbers)
        is_copy = kinds == Kind.DUPLICATE
        made_as = np.where(is_copy, self.story.drawn(sources), kinds)
        values = self.clean(sources, self.story.happened_at(sources, made_as))
        reasons = Counter[str](
            late=int(np.count_nonzero(kinds == Kind.LATE)),
            early=int(np.count_nonzero(kinds == Kind.EARLY)),
        )
        for kind, variants in self.variants.items():
            rows = np.flatnonzero(made_as == kind)
            ways = self.chance.below(len(variants), "way to be odd", sources[rows])
            for row, way, salt in zip(
                rows.tolist(), ways.tolist(), sources[rows].tolist(), strict=True
            ):
                variant = variants[way]
                values[row] = variant.spoil(values[row], salt)
                if variant.reason is not None:
                    reasons[variant.reason] += 1
        return Chunk(
            keys=self.keys(sources),
            values=values,
            arrived_at=self.story.arrived_at(numbers).tolist(),
            duplicates=int(np.count_nonzero(is_copy)),
            quarantined=+reasons,
        )


def moments(times: Numbers) -> tuple[list[bytes], list[bytes]]:
    """Return milliseconds since 1970 as text, in two parts: up to the minute, and from the second on."""
    minutes, within = np.divmod(times, MINUTE)
    distinct, places = np.unique(minutes, return_inverse=True)
    days = np.datetime_as_string(distinct.astype("datetime64[m]")).tolist()
    heads: list[bytes] = texts([f"{moment}:".encode() for moment in days])[places].tolist()
    return heads, SECONDS[within].tolist()


def texts(values: list[bytes]) -> NDArray[np.object_]:
    """Return texts as an array that can be indexed by an array."""
    return np.array(values, dtype=object)


SECONDS = texts([b"%02d.%03dZ" % divmod(ms, 1_000) for ms in range(MINUTE)])
