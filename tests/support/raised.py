"""Alerts in gold, written by hand."""

from collections.abc import Sequence
from datetime import datetime, timedelta

from pyspark.sql.types import StructType, TimestampType

from strandline.alerting.tables import gold, silver
from strandline.engine.lake.lake import Lake
from strandline.engine.lake.log.ledger import Entry
from tests.support import by_hand
from tests.support.rows import NOON

SCHEMA = StructType([*silver.FIELDS]).add("raised_at", TimestampType())
MEASURED = {"delta.dataSkippingStatsColumns": "alert_id,event_at,raised_at"}
"""A table of Spark has statistics of all columns; those of long texts are cut, and nothing here compares them."""

RULE = "0b6f3a52-6b1d-4c4e-9a86-3d0a6d7a1f01"
"""The rule of the project about certutil."""


def alert(
    number: int, *, rule: str = RULE, event: str = '{"Computer":"ws-1"}', at: datetime = NOON
) -> tuple[object, ...]:
    """Return an alert, raised so many seconds after its event."""
    own = (f"{number:032x}", rule, "abc", "high")
    about = ("silver.process_events", f'{{"ProcessGuid":"p{number}"}}', at, event)
    return (*own, *about, "process-events", 0, number, at + timedelta(seconds=number))


def raised(lake: Lake, alerts: Sequence[tuple[object, ...]]) -> None:
    """Append alerts to gold in one commit."""
    by_hand.create(lake.table(gold.TABLE), SCHEMA, MEASURED)
    entry = Entry(
        table=gold.TABLE.id,
        mode="available-now",
        stream="literal",
        batch=0,
        source="literal",
        read=len(alerts),
        good=len(alerts),
        written=len(alerts),
        offsets={},
    )
    rows = by_hand.table(SCHEMA, alerts)
    by_hand.commit(lake.table(gold.TABLE), [rows], entry.encoded())
