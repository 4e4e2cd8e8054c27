"""Each event is a row, or has the reasons why it is none."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import timedelta

import pytest
from pyspark.sql import SparkSession

from fleet.silver.device_telemetry import TABLE
from strandline.core.kind import Lateness
from strandline.core.table import Table
from strandline.core.topic import IDENTITY, QUARANTINE
from strandline.core.verdict import bad_rows, good_rows, judged
from strandline.engine.flow.plan import shaped
from strandline_quality.rules import Rule, between
from tests.support.events import Event, frame, reading, readings

pytestmark = pytest.mark.whole

Judge = Callable[..., list[list[str] | None]]


@pytest.fixture
def reasons(spark: SparkSession) -> Judge:
    """Return a function that judges events and gives the reasons of each, in their order."""

    def judge(events: Sequence[Event], table: Table = TABLE) -> list[list[str] | None]:
        verdicts = judged(frame(spark, events), table).orderBy("_partition", "_offset")
        return [row["_reasons"] for row in verdicts.select("_reasons").collect()]

    return judge


def test_the_bounds_of_lateness_are_inclusive(reasons: Judge) -> None:
    """An hour late is in time, an hour and a microsecond is not; the truth file counts on it."""
    events = readings("""
        event_at        | arrived_at
        08:00:00        | 09:00:00
        07:59:59.999999 | 09:00:00
        09:05:00        | 09:00:00
        09:05:00.000001 | 09:00:00
        09:00:00        | 09:00:00
    """)

    assert reasons(events) == [None, ["late"], None, ["early"], None]


def test_the_bounds_are_those_of_the_table(reasons: Judge) -> None:
    """Each table has its own law, down to the millisecond."""
    narrow = Lateness(
        late=timedelta(milliseconds=1), early=timedelta(0), disorder=timedelta(milliseconds=1)
    )
    events = readings("""
        event_at        | arrived_at
        09:00:00        | 09:00:00
        08:59:59.999    | 09:00:00
        08:59:59.998999 | 09:00:00
        09:00:00.000001 | 09:00:00
    """)

    found = reasons(events, replace(TABLE, lateness=narrow))

    assert found == [None, None, ["late"], ["early"]]


def test_an_arrival_beyond_the_readers_clock_is_from_the_future(reasons: Judge) -> None:
    """A producer with a broken clock would push the watermark past the rows of all others."""
    events = readings("""
        event_at | arrived_at      | ingested_at
        12:05:00 | 12:05:00        | 12:00:00
        12:05:00 | 12:05:00.000001 | 12:00:00
        12:30:00 | 14:00:00        | 12:00:00
    """)

    found = reasons(events)

    assert found == [None, ["from_the_future"], ["late", "from_the_future"]]


def test_a_bad_row_never_moves_the_watermark_beyond_what_has_arrived(spark: SparkSession) -> None:
    """Its time is its arrival; if a broken clock stamped that, it is the newest arrival before, here none."""
    events = readings("""
        event_at | arrived_at | ingested_at
        23:00:00 | 23:00:00   | 12:00:00
        23:00:00 | 09:00:00   | 12:00:00
    """)

    verdicts = judged(frame(spark, events), TABLE).orderBy("_offset").collect()

    assert [f"{row['_time']:%H:%M}" for row in verdicts] == ["00:00", "09:00"]


def test_all_broken_rules_are_reasons_in_the_order_of_their_declaration(reasons: Judge) -> None:
    """A row must not show its second fault only after the first is repaired."""
    events = readings("""
        id | device | value | event_at | arrived_at
        -  | -      | 1.5   | 09:00:00 | 12:00:00
        e2 | -      | 999   | 09:00:00 | 09:00:00
        e3 | d3     | -     | 13:00:00 | 12:00:00
    """)
    table = replace(TABLE, rules=(*TABLE.rules, between("value", -40, 125, null_ok=True)))

    found = reasons(events, table)

    assert found == [
        ["missing:event_id", "missing:device_id", "late"],
        ["missing:device_id", "implausible:value", "out_of_range:value"],
        ["missing:value", "early"],
    ]


def test_a_payload_that_could_not_be_read_has_one_reason(reasons: Judge) -> None:
    """Rules judge rows, and it is none: five missing fields would add nothing."""
    events = [Event(payload=b"not json"), Event(payload=reading(value="21.5", device_id=None))]

    assert reasons(events) == [["malformed"], ["wrong_type"]]


def test_an_event_without_its_time_is_bad_also_without_a_rule(reasons: Judge) -> None:
    """It is neither late nor early, and in no window; letting it through would lose it in gold."""
    event = Event(payload=reading(event_at=None))

    assert reasons([event]) == [["missing:event_at"]]
    assert reasons([event], replace(TABLE, rules=())) == [["missing:event_at"]]


def test_a_rule_whose_answer_is_null_is_broken_unless_null_ok(reasons: Judge) -> None:
    """SQL's third truth value lets a row through unjudged."""
    unsure = Rule(name="seq_is_even", holds="try_mod(seq, 2) = 0")
    event = [Event(payload=reading(meta={"firmware": "1"}))]

    assert reasons(event, replace(TABLE, rules=(unsure,))) == [["seq_is_even"]]
    assert reasons(event, replace(TABLE, rules=(replace(unsure, null_ok=True),))) == [None]


def test_good_rows_and_bad_rows_are_all_rows(spark: SparkSession) -> None:
    """The fork writes the two halves; a row in both or in neither is never found again."""
    events = [
        *readings("""
            id | event_at | arrived_at
            e1 | 09:00:00 | 09:00:00
            e2 | 07:00:00 | 09:00:00
        """),
        Event(payload=b"not json"),
        Event(payload=None),
    ]
    verdicts = judged(frame(spark, events), TABLE)

    good, bad = good_rows(verdicts, TABLE), bad_rows(verdicts, TABLE)

    assert [row["_offset"] for row in good.collect()] == [0]
    assert sorted(row["_offset"] for row in bad.collect()) == [1, 2, 3]
    assert good.columns[-len(IDENTITY) :] == list(IDENTITY)
    assert [(f.name, f.dataType) for f in bad.schema] == [(f.name, f.dataType) for f in QUARANTINE]


def test_a_bad_row_keeps_its_bytes_and_a_good_one_leaves_them_in_bronze(
    spark: SparkSession,
) -> None:
    """Repairing needs the original; carrying it for good rows would triple the shuffle."""
    events = [Event(payload=reading()), Event(payload=b"\xff not json")]

    verdicts = judged(frame(spark, events), TABLE).orderBy("_offset").collect()

    assert verdicts[0]["_payload"] is None
    assert (verdicts[1]["_payload"], verdicts[1]["_message_key"]) == (b"\xff not json", b"key")


@pytest.mark.parametrize("key", [("firmware",), ("event_id", "firmware")], ids="+".join)
def test_a_row_without_a_part_of_its_key_is_held_even_without_rules(
    spark: SparkSession, reasons: Judge, key: tuple[str, ...]
) -> None:
    """Two rows without it are not the same event, but state would take the second for a copy of the first."""
    keyed = replace(TABLE, key=key, rules=())
    events = [
        Event(payload=reading(event_id="e1")),
        Event(payload=reading(event_id="e2", device_id="d1", meta={})),
        Event(payload=reading(event_id="e2", device_id="d2", meta={})),
    ]

    assert reasons(events, keyed) == [None, ["missing:firmware"], ["missing:firmware"]]
    assert shaped([frame(spark, events)], keyed).count() == 3
