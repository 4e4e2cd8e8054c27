"""A clean payload, and a way to parse many odd ones in one job."""

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from pyspark.sql import SparkSession
from pyspark.sql.types import StructType

from fleet.silver.device_telemetry import FIELDS
from strandline.core import topic
from strandline.core.parse import parse_json
from tests.support.events import Event, frame

Found: TypeAlias = list[dict[str, Any]]
Parse: TypeAlias = Callable[..., Found]

CLEAN = (
    b'{"event_id": "e1", "device_id": "dev-00042", "signal": "temperature", "value": -21.37, '
    b'"event_at": "2026-11-20T08:15:30.123Z", "meta": {"firmware": "1.4.2", "seq": 17}}'
)


def parse(
    spark: SparkSession,
    payloads: Sequence[bytes | None],
    fields: StructType = FIELDS,
    read: topic.Parse = parse_json,
) -> Found:
    """Parse payloads, and return what was found in each, in their order."""
    events = frame(spark, [Event(payload=payload) for payload in payloads])
    found = read(events, fields).orderBy("_offset").collect()
    assert len(found) == len(payloads)
    return [row.asDict(recursive=True) for row in found]


def problems(found: Found) -> list[str | None]:
    """Return why each payload is no row, or None."""
    return [row["_problem"] for row in found]


def with_value(literal: bytes) -> bytes:
    """Return the clean payload with another value, as it is written."""
    return CLEAN.replace(b"-21.37", literal)


def with_device(literal: bytes) -> bytes:
    """Return the clean payload with another name of its device, as it is written."""
    return CLEAN.replace(b'"dev-00042"', literal)
