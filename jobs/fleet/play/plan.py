"""What to play: how many events, over which time, which share of them is dirt; and the records of it, in the order of their arrival.

A plan decides every byte. The clock is an argument, as everywhere: the caller gives the range of time in which
the events arrive.

An event is identified by its number. Kind, arrival, device and times are functions of the number alone, so that
chunks of any size give the same stream, and a copy is made by making its original again.

It is decided here which events are dirty, late, early or copies, and in which ways one can be odd. Each source makes its own
payloads, so a new one needs only a key, a clean payload, and its variants.
"""

import json
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal
from enum import IntEnum
from itertools import accumulate
from typing import ClassVar, TypeAlias

import numpy as np
from numpy.typing import NDArray
from strandline import DefinitionError

LARGEST = 2**63 - 1
MILLISECOND = timedelta(milliseconds=1)
SHARES = (
    "malformed",
    "duplicate",
    "late_share",
    "early_share",
    "unknown_field",
    "wrong_type",
    "missing",
    "implausible",
)
OF_GOOD = ("planted",)
"""Shares of what is good, beside the kinds of events above."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """One run of events.

    Args:
        since: The first possible arrival; aware, to the millisecond.
        until: The end of the arrivals, exclusive.
        events: How many records are sent, copies and dirt included.
        seed: The seed of all draws; another seed gives other events.
        devices: How many devices take part.
        key_skew: 0 gives each device the same share; more gives the nth a share proportional to 1/n**key_skew.
        late: How far an admitted event may lie before its arrival.
        early: How far a device's clock may run ahead.
        malformed: The share of payloads that are not one JSON object.
        duplicate: The share of exact copies of earlier good events.
        late_share: The share of events that are later than ``late``.
        early_share: The share of events that are earlier than ``early``.
        unknown_field: The share of good events with an undeclared field.
        wrong_type: The share of events with a field of another type than declared.
        missing: The share of events in which a required field is absent or null.
        implausible: The share of readings that no sensor can have made.
        planted: The share of connections in which data is carried off, for models to find (jobs/fleet/play/network.py).

    Raises:
        DefinitionError: The plan contradicts itself; every contradiction is named.
    """

    since: datetime
    until: datetime
    events: int = 100_000
    seed: int = 0
    devices: int = 200
    key_skew: float = 0.0
    late: timedelta = timedelta(hours=1)
    early: timedelta = timedelta(minutes=5)
    malformed: float = 0.02
    duplicate: float = 0.03
    late_share: float = 0.01
    early_share: float = 0.01
    unknown_field: float = 0.02
    wrong_type: float = 0.02
    missing: float = 0.01
    implausible: float = 0.0
    planted: float = 0.0

    def __post_init__(self) -> None:
        """Refuse a plan that cannot be played."""
        wrong = [sentence for sentence, is_wrong in self._mistakes() if is_wrong]
        if wrong:
            raise DefinitionError(
                "these events cannot be made: " + "; ".join(wrong),
                hint="`strandline produce --help` shows what each number means.",
                wrong=wrong,
            )

    @property
    def since_ms(self) -> int:
        """Return the first possible arrival in milliseconds since 1970."""
        return _milliseconds(self.since)

    @property
    def span_ms(self) -> int:
        """Return the milliseconds over which the arrivals spread."""
        return _milliseconds(self.until) - self.since_ms

    def _mistakes(self) -> list[tuple[str, bool]]:
        shares = {name: float(getattr(self, name)) for name in SHARES}
        if self.since.tzinfo is None or self.until.tzinfo is None:
            return [("since and until need a time zone", True)]
        return [
            ("events must not be negative", self.events < 0),
            ("at least one device is needed", self.devices < 1),
            ("key_skew must not be negative", not 0 <= self.key_skew < float("inf")),
            ("late and early must not be negative", min(self.late, self.early) < timedelta()),
            ("until must be later than since", self.span_ms < 1),
            ("since must not be before 1971", self.since.year < 1971),  # noqa: PLR2004  # see _milliseconds
            ("events times milliseconds exceed 63 bits", self.events * self.span_ms > LARGEST),
            *(
                (f"{name} must be from 0 to 1, not {share}", not 0 <= share <= 1)
                for name, share in (shares | _of_good(self)).items()
            ),
            (
                f"the shares of {', '.join(SHARES)} add up to more than 1",
                sum(shares.values()) > 1 + 1e-9,
            ),
        ]


def _milliseconds(moment: datetime) -> int:
    # Kafka's timestamps count from 1970 and are not negative; late events lie hours before the first one.
    return (moment - datetime.fromisoformat("1970-01-01T00:00:00+00:00")) // MILLISECOND


def _of_good(plan: Plan) -> dict[str, float]:
    return {name: float(getattr(plan, name)) for name in OF_GOOD}


# Random draws that depend only on a seed, a question and a number.
#
# Why not numpy's generators: their streams may change between releases; they are drawn in order, so the size of
# a chunk would change the events; and a copy of an earlier event could not be made without keeping that event. Here every draw is a pure function in 64-bit integers (the finaliser of SplitMix64), the same on every
# machine, and any event can be made again from its number alone.


Numbers: TypeAlias = NDArray[np.int64]
Bits: TypeAlias = NDArray[np.uint64]

MASK = 2**64 - 1
GOLDEN = 0x9E3779B97F4A7C15
FIRST = 0xBF58476D1CE4E5B9
SECOND = 0x94D049BB133111EB
SCALE = 2**32


class Chance:
    """The draws of one seed."""

    def __init__(self, seed: int) -> None:
        """Spread the seed over all bits, so that seeds 1 and 2 have nothing in common."""
        self._seed = _mix_one(seed & MASK)

    def bits(self, question: str, numbers: Numbers) -> Bits:
        """Return 64 bits for each number; different questions are independent.

        For one question no two numbers get the same bits, because each step is invertible.
        """
        key = self._seed
        for letter in question.encode():
            key = _mix_one((key ^ letter) & MASK)
        x = numbers.astype(np.uint64) * np.uint64(GOLDEN) + np.uint64(key)
        x = (x ^ (x >> np.uint64(30))) * np.uint64(FIRST)
        x = (x ^ (x >> np.uint64(27))) * np.uint64(SECOND)
        return x ^ (x >> np.uint64(31))

    def below(self, limit: int, question: str, numbers: Numbers) -> Numbers:
        """Return a whole number from 0 to just below the limit for each number."""
        return (self.bits(question, numbers) % np.uint64(max(limit, 1))).astype(np.int64)

    def pick(self, bounds: Bits, question: str, numbers: Numbers) -> Numbers:
        """Return for each number which part it falls into; see :func:`parts`."""
        drawn = self.bits(question, numbers) >> np.uint64(32)
        return np.searchsorted(bounds, drawn, side="right").astype(np.int64)


def parts(weights: list[float]) -> Bits:
    """Return the upper bounds of parts of one whole; the rest is the part after the last."""
    sums = accumulate(int(weight * SCALE) for weight in weights)
    return np.array([min(part, SCALE) for part in sums], dtype=np.uint64)


def shares_by_rank(count: int, skew: float) -> Bits:
    """Return the bounds of parts whose sizes are proportional to 1/n**skew."""
    # Decimal, because the last bit of a float's power is the C library's choice.
    power = -Decimal(repr(skew))
    weights = [Decimal(rank) ** power for rank in range(1, count + 1)]
    whole = sum(weights)
    sums = [int(part * SCALE / whole) for part in accumulate(weights)]
    return np.array(sums[:-1], dtype=np.uint64)


def _mix_one(x: int) -> int:
    x = (x + GOLDEN) & MASK
    x = ((x ^ (x >> 30)) * FIRST) & MASK
    x = ((x ^ (x >> 27)) * SECOND) & MASK
    return x ^ (x >> 31)


MARGIN = 5_000
"""The milliseconds between an event and the bounds of the lateness, unless it is exactly on one."""

COPY_WITHIN = 300_000
"""Milliseconds within which a copy usually follows its original."""

ORIGINAL_TRIES = 8
SIX_HOURS = 6 * 3_600_000


class Kind(IntEnum):
    """The kind of an event; each event has one."""

    MALFORMED = 0
    DUPLICATE = 1
    LATE = 2
    EARLY = 3
    UNKNOWN_FIELD = 4
    WRONG_TYPE = 5
    MISSING = 6
    IMPLAUSIBLE = 7
    GOOD = 8


BELIEVED = np.array([Kind.UNKNOWN_FIELD, Kind.GOOD])


class Story:
    """The kind, arrival and time of each event of a plan."""

    def __init__(self, plan: Plan) -> None:
        """Compute the bounds that the draws are compared with."""
        self.plan = plan
        self.chance = Chance(plan.seed)
        self._late = plan.late // MILLISECOND
        self._early = plan.early // MILLISECOND
        self._kinds = parts(
            [
                plan.malformed,
                plan.duplicate,
                plan.late_share,
                plan.early_share,
                plan.unknown_field,
                plan.wrong_type,
                plan.missing,
                plan.implausible,
            ]
        )

    def arrived_at(self, numbers: Numbers) -> Numbers:
        """Return the arrivals in milliseconds; a larger number never arrives before a smaller one."""
        span, events = self.plan.span_ms, self.plan.events
        within = self.chance.below(span, "arrival", numbers)
        return self.plan.since_ms + (numbers * span + within) // events

    def kinds(self, numbers: Numbers) -> tuple[Numbers, Numbers]:
        """Return the kind of each event, and the number of the event whose payload it carries.

        A copy without an original within the lateness becomes an ordinary good event.
        """
        kinds = self.drawn(numbers)
        sources = numbers.copy()
        rows = np.flatnonzero(kinds == Kind.DUPLICATE)
        originals = self._originals(numbers[rows])
        has_original = originals >= 0
        sources[rows[has_original]] = originals[has_original]
        kinds[rows[~has_original]] = Kind.GOOD
        return kinds, sources

    def drawn(self, numbers: Numbers) -> Numbers:
        """Return the kind that was drawn for each event, whether or not a copy has an original."""
        return self.chance.pick(self._kinds, "kind", numbers)

    def happened_at(self, numbers: Numbers, kinds: Numbers) -> Numbers:
        """Return the event times in milliseconds: within the lateness, or beyond it for late and early kinds."""
        believed = np.clip(
            self.usual_delay(numbers),
            min(MARGIN - self._early, 0),
            max(self._late - MARGIN, 0),
        )
        on_bound = self.chance.below(20_000, "on the bound", numbers)
        is_good = kinds == Kind.GOOD
        believed[is_good & (on_bound == 0)] = self._late
        believed[is_good & (on_bound == 1)] = -self._early
        beyond = MARGIN + self.chance.below(SIX_HOURS, "beyond", numbers)
        delay = np.select(
            [kinds == Kind.LATE, kinds == Kind.EARLY],
            [self._late + beyond, -self._early - beyond],
            believed,
        )
        return self.arrived_at(numbers) - delay

    def usual_delay(self, numbers: Numbers) -> Numbers:
        """Return mostly seconds, sometimes minutes (a device out of reach), sometimes a fast clock.

        A source overrides this when its events answer those of another.
        """
        x = self.chance.below(1 << 16, "delay", numbers)
        seconds = 20 + (x * x * x >> 32) * 30_000 // (1 << 16)
        minutes = 60_000 + self.chance.below(max(self._late // 3, 1), "outage", numbers)
        ahead = -self.chance.below(60_000, "fast clock", numbers)
        manner = self.chance.below(1_000, "manner", numbers)
        return np.select([manner < 30, manner < 40], [minutes, ahead], seconds)  # noqa: PLR2004  # 3 % and 1 %

    def _originals(self, copies: Numbers) -> Numbers:
        """Return the event that each copy repeats, or -1."""
        plan = self.plan
        near = max(plan.events * COPY_WITHIN // plan.span_ms, 1)
        x = self.chance.below(1 << 16, "how far back", copies)
        back = 1 + (x * x >> 16) * near // (1 << 16)
        candidates = copies - 1 - (back - 1) % np.maximum(copies, 1)
        # Half of the copies choose from few originals, so that some originals are repeated more than once.
        is_again = self.chance.below(2, "again", copies) == 0
        candidates[is_again] -= candidates[is_again] % 16
        earliest = self.arrived_at(copies) - self._late + MARGIN
        originals = np.full_like(copies, -1)
        for step in range(ORIGINAL_TRIES):
            tried = candidates - step
            kinds = self.drawn(tried)
            fits = (
                self._is_believed(kinds)
                & (tried >= 0)
                & (tried < copies)
                & (self.happened_at(tried, kinds) >= earliest)
                & (originals < 0)
            )
            originals[fits] = tried[fits]
        return originals

    @staticmethod
    def _is_believed(kinds: Numbers) -> NDArray[np.bool_]:
        return np.isin(kinds, BELIEVED)


# Every way in which an event of this playground can be odd, with an example.
#
# Each function takes a clean payload and a number to vary by, and returns a payload that is odd in exactly
# one way. The reason beside it is the one that the quarantine must record.
#
# The rule of ``wrong_type``: a field that is present must be of the declared JSON type, and an event time
# must be a moment. Numbers where text is declared (``"device_id": 42``) and numbers with more digits than
# declared are not made: the table decides whether those are read or refused, not the playground.


Spoil: TypeAlias = Callable[[bytes, int], bytes]
Fields: TypeAlias = dict[str, object]

COMPACT = json.JSONEncoder(separators=(",", ":"), ensure_ascii=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Variant:
    """One way to be odd.

    Args:
        name: The name of the oddity.
        reason: The reason that the quarantine records; None for a good event.
        spoil: Turns a clean payload into an odd one.
    """

    name: str
    reason: str | None
    spoil: Spoil


def _malformed(name: str, spoil: Spoil) -> Variant:
    return Variant(name=name, reason="malformed", spoil=spoil)


def _with(change: Callable[[Fields], object]) -> Spoil:
    def spoil(clean: bytes, _: int) -> bytes:
        fields: Fields = json.loads(clean)
        change(fields)
        return COMPACT.encode(fields).encode()

    return spoil


def wrong(field: str, kind: str, value: Callable[[object], object]) -> Variant:
    """Return a variant with a field of another type than declared."""
    return Variant(
        name=f"{field}_{kind}",
        reason="wrong_type",
        spoil=_with(lambda fields: fields.update({field: value(fields[field])})),
    )


def missing(field: str) -> tuple[Variant, Variant]:
    """Return two variants: a required field is absent, and it is null."""
    reason = f"missing:{field}"
    return (
        Variant(
            name=f"{field}_absent", reason=reason, spoil=_with(lambda fields: fields.pop(field))
        ),
        Variant(
            name=f"{field}_null",
            reason=reason,
            spoil=_with(lambda fields: fields.update({field: None})),
        ),
    )


def unknown(name: str, extra: Fields) -> Variant:
    """Return a variant with undeclared fields, which is good."""
    return Variant(name=name, reason=None, spoil=_with(lambda fields: fields.update(extra)))


MALFORMED = (
    # A cut never falls at the very end, so the object is never closed.
    _malformed("truncated", lambda clean, salt: clean[: 1 + salt % (len(clean) - 1)]),
    _malformed("trailing_text", lambda clean, _: clean + b" end of message"),
    # Closes an array that a parser may have put around the payload.
    _malformed("trailing_bracket", lambda clean, _: clean + b"]"),
    _malformed("two_documents", lambda clean, _: clean + b"\n" + clean),
    _malformed("two_documents_with_comma", lambda clean, _: clean + b", " + clean),
    _malformed("single_quotes", lambda clean, _: clean.replace(b'"', b"'")),
    _malformed("not_a_number", lambda clean, _: _replace_value(clean, b"NaN")),
    _malformed("bare_array", lambda clean, _: b"[" + clean + b"]"),
    _malformed("empty", lambda _clean, _: b""),
    _malformed("not_json", lambda _clean, _: b"not json"),
    _malformed("bad_utf8", lambda clean, _: clean.replace(b'"dev-', b'"\xff\xfe-', 1)),
    _malformed("byte_order_mark", lambda clean, _: b"\xef\xbb\xbf" + clean),
)

WRONG_TYPE = (
    wrong("value", "string", str),
    wrong("value", "object", lambda value: {"celsius": value}),
    wrong("value", "array", lambda value: [value]),
    wrong("value", "boolean", lambda _: True),
    wrong("event_at", "word", lambda _: "yesterday"),
    wrong("event_at", "impossible_date", lambda at: f"{str(at)[:4]}-02-30{str(at)[10:]}"),
    wrong("event_at", "number", lambda at: _since_1970(str(at))),
    wrong("meta", "string", lambda _: "1.4.2"),
    wrong("meta", "array", lambda meta: [meta]),
)

MISSING = (
    *missing("event_id"),
    *missing("device_id"),
    *missing("event_at"),
    *missing("signal"),
    *missing("value"),
)

IMPLAUSIBLE = (
    Variant(
        name="far_below",
        reason="implausible:value",
        spoil=_with(lambda fields: fields.update(value=-999)),
    ),
)

UNKNOWN_FIELD = (
    unknown("number", {"rssi": -67}),
    unknown("object", {"debug": {"value": "21.5", "free": [20344, None]}}),
    unknown("text_beyond_ascii", {"place": "Gerätehaus №7, 二階"}),
    Variant(
        name="in_meta",
        reason=None,
        spoil=_with(lambda fields: fields.update(meta=_beside(fields["meta"], {"board": "rev-c"}))),
    ),
)


OF_ANY_OBJECT = tuple(v for v in MALFORMED if v.name not in {"not_a_number", "bad_utf8"})
"""The malformed variants that need no field of a reading."""


def objects(*names: str, time: str = "event_at") -> dict[Kind, tuple[Variant, ...]]:
    """Return the variants of an object with these required texts and a time."""
    return {
        Kind.MALFORMED: OF_ANY_OBJECT,
        Kind.WRONG_TYPE: (
            wrong(time, "word", lambda _: "yesterday"),
            wrong(time, "object", lambda at: {"at": at}),
        ),
        Kind.MISSING: tuple(variant for name in (*names, time) for variant in missing(name)),
        Kind.UNKNOWN_FIELD: (unknown("object", {"client": {"version": 7}}),),
    }


def _replace_value(clean: bytes, literal: bytes) -> bytes:
    head, tail = clean.split(b'"value": ', 1)
    return head + b'"value": ' + literal + tail[tail.index(b",") :]


def _since_1970(moment: str) -> int:
    epoch = datetime.fromisoformat("1970-01-01T00:00:00Z")
    return (datetime.fromisoformat(moment) - epoch) // timedelta(milliseconds=1)


def _beside(fields: object, extra: Fields) -> Fields:
    if not isinstance(fields, dict):
        message = f"meta of a clean payload is {fields!r}, not an object"
        raise TypeError(message)
    return {**fields, **extra}


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
