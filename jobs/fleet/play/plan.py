"""What to play: how many events, over which time, and which share of them is dirt.

A plan decides every byte. The clock is an argument, as everywhere: the caller gives the range of time in which
the events arrive.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta

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
