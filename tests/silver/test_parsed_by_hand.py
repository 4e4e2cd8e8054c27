"""The job by hand, with which the engine is compared, refuses what the table refuses, for the same reasons.

Otherwise a rule that the table got later would count as the cost of the engine, as ``implausible:value`` did.
"""

from dataclasses import replace
from datetime import timedelta

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from fleet.silver.device_telemetry import TABLE, newer
from strandline.core.verdict import judged
from tests.benchmarks.contestants import parsing
from tests.support.events import Event, frame, reading
from tests.support.rows import NOON

pytestmark = pytest.mark.whole

HOUR, MINUTE, MOMENT = timedelta(hours=1), timedelta(minutes=1), timedelta(microseconds=1)
GOOD = reading()
PAYLOADS = (
    GOOD,
    *(
        reading(**{name: None})
        for name in ("event_id", "device_id", "signal", "value", "event_at", "meta")
    ),
    *(
        reading(value=value)
        for value in (-90, -90.0001, 150, 150.0001, 1e12, 1e400, "21.5", True, [1])
    ),
    reading(signal="pressure", value=299.9999),
    reading(signal="pressure", value=1200),
    reading(signal="vibration", value=-0.0001),
    reading(signal="co2", value=-1e6),
    reading(event_at="yesterday"),
    reading(event_at=17),
    reading(meta={"firmware": 1, "seq": "x"}),
    reading(device_id=None, signal="battery", value=101, event_at=(NOON - 2 * HOUR).isoformat()),
    GOOD[:-1],
    GOOD + b" x",
    GOOD + GOOD,
    b"[" + GOOD + b"]",
    GOOD.replace(b'"', b"'"),
    GOOD.replace(b"21.5", b"NaN"),
    GOOD.replace(b"d1", b"d\xc3\x28"),
    b"",
    None,
)
TIMES = (
    {"arrived_at": NOON + HOUR, "ingested_at": NOON + HOUR},
    {"arrived_at": NOON + HOUR + MOMENT, "ingested_at": NOON + HOUR},
    {"arrived_at": NOON - 5 * MINUTE},
    {"arrived_at": NOON - 5 * MINUTE - MOMENT},
    {"arrived_at": NOON, "ingested_at": NOON - 5 * MINUTE},
    {"arrived_at": NOON + MINUTE, "ingested_at": NOON - 5 * MINUTE},
    {"arrived_at": NOON, "ingested_at": NOON - 6 * MINUTE},
    {"arrived_at": NOON - MINUTE, "ingested_at": NOON - 5 * MINUTE - MOMENT},
)


def verdicts(rows: DataFrame, reasons: str) -> list[tuple[object, ...]]:
    """Return each event's place with its verdict, its handles and what was read of it; not ``_time``, which disorder decides."""
    text = F.array_join(reasons, " ").alias("why")
    handles = (*parsing.COLUMNS, "_key", "_bad")
    return sorted(map(tuple, rows.select("_offset", text, *handles).collect()))


def test_it_refuses_the_same_events_for_the_same_reasons(spark: SparkSession) -> None:
    events = [
        *(Event(payload=payload) for payload in PAYLOADS),
        *(Event(payload=GOOD, **times) for times in TIMES),
    ]
    rows = frame(spark, events)

    table = verdicts(judged(rows, replace(TABLE, transform=newer)), "_reasons")
    by_hand = verdicts(parsing.judged(rows), "reasons")

    assert by_hand == table
    assert len({why for _, why, *_ in table}) > 12  # each reason was asked
