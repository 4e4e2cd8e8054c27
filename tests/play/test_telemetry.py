"""The events are what the truth counts, judged here by other code than the one that made them."""

import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from decimal import Decimal
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fleet.play.devices import SIGNALS, Fleet
from fleet.play.domain import Counts
from fleet.play.plan import Plan
from tests.support.sending import truth

pytestmark = pytest.mark.whole

UNTIL = datetime.fromisoformat("2026-11-20T00:00:00+00:00")
DAY = Plan(since=UNTIL - timedelta(days=1), until=UNTIL, events=20_000, seed=7)
DECLARED: dict[str, type | tuple[type, ...]] = {
    "event_id": str,
    "device_id": str,
    "signal": str,
    "value": (Decimal, int),
    "event_at": str,
    "meta": dict,
}
COLDER_THAN_COLD = -999
DEMANDED = ("event_id", "device_id", "signal", "value", "event_at")
OTHER_PLANS = {
    "as planned": DAY,
    "one event": replace(DAY, events=1),
    "ten in a day": replace(DAY, events=10),
    "none": replace(DAY, events=0),
    "all in a second": replace(DAY, since=UNTIL - timedelta(seconds=1), events=5_000),
    "all in a millisecond": replace(DAY, since=UNTIL - timedelta(milliseconds=1), events=500),
    "over a year": replace(DAY, since=UNTIL - timedelta(days=365), events=5_000),
    "hot devices": replace(DAY, key_skew=1.2, events=5_000),
    "one device": replace(DAY, devices=1, events=2_000),
    "no delay allowed": replace(DAY, late=timedelta(), early=timedelta(), events=5_000),
    "narrow law": replace(DAY, late=timedelta(seconds=7), early=timedelta(seconds=1), events=5_000),
    "a poisoned hour": replace(
        DAY, since=UNTIL - timedelta(hours=1), implausible=0.3, events=5_000
    ),
    "only copies": replace(
        DAY,
        malformed=0,
        duplicate=1,
        late_share=0,
        early_share=0,
        unknown_field=0,
        wrong_type=0,
        missing=0,
        events=500,
    ),
    "mostly dirt": replace(
        DAY,
        malformed=0.2,
        duplicate=0.2,
        late_share=0.1,
        early_share=0.1,
        unknown_field=0.1,
        wrong_type=0.1,
        missing=0.1,
        events=5_000,
    ),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """A record as a consumer gets it."""

    key: bytes
    value: bytes
    arrived_at: int


def stream(plan: Plan, size: int = 1_000) -> Iterator[Event]:
    for chunk in Fleet(plan).chunks(size):
        rows = zip(chunk.keys, chunk.values, chunk.arrived_at, strict=True)
        yield from (Event(key=k, value=v, arrived_at=t) for k, v, t in rows)


def reasons(event: Event, plan: Plan) -> list[str]:
    """Return by the laws of the data alone why an event is no row."""
    fields = parsed(event.value)
    if fields is None:
        return ["malformed"]
    if any(has_wrong_type(fields, name) for name in DECLARED):
        return ["wrong_type"]
    found = [f"missing:{name}" for name in DEMANDED if fields.get(name) is None]
    found += ["implausible:value"] if fields.get("value") == COLDER_THAN_COLD else []
    if fields.get("event_at") is not None:
        ahead = moment(fields["event_at"]) - timedelta(milliseconds=event.arrived_at)
        found += ["late"] if ahead < EPOCH - plan.late else []
        found += ["early"] if ahead > EPOCH + plan.early else []
    return found


EPOCH = datetime.fromisoformat("1970-01-01T00:00:00+00:00")


def parsed(payload: bytes) -> dict[str, object] | None:
    try:
        found = json.loads(
            payload.decode("utf-8", errors="strict"), parse_float=Decimal, parse_constant=refuse
        )
    except ValueError:
        return None
    return found if isinstance(found, dict) else None


def refuse(constant: str) -> None:
    raise ValueError(constant)


def has_wrong_type(fields: dict[str, object], name: str) -> bool:
    value = fields.get(name)
    if value is None:
        return False
    if isinstance(value, bool) or not isinstance(value, DECLARED[name]):
        return True
    if name == "event_at":
        try:
            moment(value)
        except ValueError:
            return True
    return False


def moment(text: object) -> datetime:
    return datetime.fromisoformat(str(text))


def judged(plan: Plan) -> Counts:
    """Count what a lake that obeys the laws would count."""
    seen: dict[tuple[str, str], Event] = {}
    counted = Counter[str]()
    for event in stream(plan):
        why = reasons(event, plan)
        assert len(why) <= 1, f"odd in more than one way: {event}"
        if why:
            counted[why[0]] += 1
            continue
        fields = json.loads(event.value)
        original = seen.setdefault((fields["event_id"], fields["event_at"]), event)
        if original is event:
            counted["good"] += 1
        else:
            assert (original.key, original.value) == (event.key, event.value)
            counted["duplicates"] += 1
    return Counts(
        good=counted.pop("good", 0),
        duplicates=counted.pop("duplicates", 0),
        quarantined=dict(counted),
    )


@pytest.mark.parametrize("plan", OTHER_PLANS.values(), ids=OTHER_PLANS.keys())
def test_the_truth_is_what_a_judge_finds_who_knows_only_the_laws(plan: Plan) -> None:
    """Everything that the ledger is compared with rests on these numbers."""
    tables = truth(plan).tables

    assert tables["silver.device_telemetry"] == judged(plan)
    assert tables["bronze.device_telemetry"] == Counts(good=plan.events)


@settings(max_examples=40, deadline=None)
@given(
    seed=st.integers(-(2**70), 2**70),
    events=st.integers(0, 400),
    minutes=st.integers(1, 100_000),
    late=st.integers(0, 7_200_000),
    early=st.integers(0, 600_000),
    skew=st.floats(0, 3),
)
def test_no_plan_makes_an_event_that_its_truth_misjudges(  # noqa: PLR0913  # one for each freedom
    *, seed: int, events: int, minutes: int, late: int, early: int, skew: float
) -> None:
    """The bounds of the law, in milliseconds and down to nothing, are where an error would hide."""
    plan = Plan(
        since=UNTIL - timedelta(minutes=minutes),
        until=UNTIL,
        events=events,
        seed=seed,
        devices=5,
        key_skew=skew,
        late=timedelta(milliseconds=late),
        early=timedelta(milliseconds=early),
        malformed=0.1,
        duplicate=0.2,
        late_share=0.1,
        early_share=0.1,
        wrong_type=0.1,
        missing=0.1,
    )

    assert truth(plan).tables["silver.device_telemetry"] == judged(plan)


@pytest.mark.parametrize("plan", OTHER_PLANS.values(), ids=OTHER_PLANS.keys())
def test_exactly_the_planned_number_arrives_in_the_planned_time_and_order(plan: Plan) -> None:
    """Kafka's order is the arrival order; a time that runs backwards would disturb the watermark."""
    arrivals = [event.arrived_at for event in stream(plan)]

    assert len(arrivals) == plan.events
    assert all(earlier <= later for earlier, later in pairwise(arrivals))
    assert all(0 <= at - plan.since_ms < plan.span_ms for at in arrivals)


def test_about_a_tenth_is_dirt_and_every_variant_occurs() -> None:
    """A kind that never occurs would be a promise without a test."""
    silver = truth(replace(DAY, events=50_000)).tables["silver.device_telemetry"]

    shares = {name: count / 50_000 for name, count in silver.quarantined.items()}
    assert shares["malformed"] == pytest.approx(0.02, rel=0.1)
    assert shares["wrong_type"] == pytest.approx(0.02, rel=0.1)
    assert shares["late"] == pytest.approx(0.01, rel=0.15)
    assert shares["early"] == pytest.approx(0.01, rel=0.15)
    assert silver.duplicates / 50_000 == pytest.approx(0.03, rel=0.1)
    assert {name for name in shares if name.startswith("missing:")} == {
        f"missing:{name}" for name in DEMANDED
    }


def test_some_events_are_repeated_more_than_once_and_most_copies_follow_within_minutes() -> None:
    """A producer that retries repeats what it sent a moment ago, and sometimes again."""
    arrivals: dict[bytes, list[int]] = {}
    for event in stream(DAY):
        if not reasons(event, DAY):
            arrivals.setdefault(event.value, []).append(event.arrived_at)

    copies = [times for times in arrivals.values() if len(times) > 1]
    gaps = sorted(times[-1] - times[0] for times in copies)
    assert sum(len(times) > 2 for times in copies) >= 5
    assert gaps[len(gaps) // 2] < 5 * 60_000


def test_good_events_lie_on_the_bounds_of_the_law_or_seconds_from_them() -> None:
    """Equality counts as good, and rounding on the way must not decide what a row is."""
    plan = replace(DAY, events=100_000)
    distances = Counter[str]()
    for event in stream(plan, 8_192):
        fields = parsed(event.value)
        if reasons(event, plan) not in ([], ["late"], ["early"]) or fields is None:
            continue
        happened = (moment(fields["event_at"]) - EPOCH) // timedelta(milliseconds=1)
        for bound, law in (
            ("late", happened - event.arrived_at + 3_600_000),
            ("early", happened - event.arrived_at - 300_000),
        ):
            if law == 0:
                distances[bound] += 1
            else:
                assert abs(law) >= 2_000, fields

    assert min(distances["late"], distances["early"]) >= 2


def test_skewed_keys_make_the_first_device_the_hottest() -> None:
    """A hot key is the worst case of a partitioned state store."""
    even = Counter(event.key for event in stream(DAY))
    skewed = Counter(event.key for event in stream(replace(DAY, key_skew=1.0)))

    assert max(even.values()) < 2 * 20_000 / 200
    assert skewed.most_common(1)[0][0] == b"dev-00000"
    assert skewed[b"dev-00000"] == pytest.approx(2 * skewed[b"dev-00001"], rel=0.2)


def test_clean_events_are_believable() -> None:
    """Values lie in the signal's range, have at most four decimals, and the key is the device."""
    ranges = {signal.name: signal for signal in SIGNALS}
    seen = set()
    for event in stream(DAY):
        fields = parsed(event.value)
        if reasons(event, DAY) or fields is None:
            continue
        signal = ranges[str(fields["signal"])]
        value = Decimal(str(fields["value"]))
        exponent = value.as_tuple().exponent
        assert signal.low <= value < signal.high
        assert isinstance(exponent, int)
        assert -exponent <= max(signal.digits, 1)
        assert event.key.decode() == fields["device_id"]
        seen.add(signal.name)

    assert seen == ranges.keys()
