"""Each device's site, model and owner, as validity intervals.

Grain: one row a device and the start of an interval; the current interval has no end.
Reads: silver.device_inventory. Read by: as-of joins (``as_of``) of gold.device_signal_10m, gold.device_daily and
gold.site_traffic_1h.
Late data: a change that arrives late divides the interval into which it falls. If two changes of a device have the same
time, the one that arrived later counts.
"""

from collections.abc import Sequence
from datetime import UTC, datetime
from itertools import zip_longest
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import LongType, StringType, StructType
from strandline import (
    Answer,
    Event,
    Fold,
    Folded,
    Layer,
    Memory,
    Upserted,
    arrival,
    folded,
    time_order,
)

from fleet.silver import device_inventory

STATIC = ("site", "model", "owner")

NOT_ENDED = datetime(1970, 1, 1, tzinfo=UTC)
"""The partition of all open intervals, so that a batch that joins current intervals need not read ended ones.

Ended intervals are partitioned by the day on which they ended, so that a change, which ends an open interval, rewrites
two small files and not one for each day on which an open interval began. A late change that divides an interval ends
its last part where the whole ended, so that part is in the partition of the whole.
"""

INTERVAL = (
    StructType()
    .add("device_id", StringType())
    .add("from_us", LongType())
    .add("until_us", LongType())
    .add("site", StringType())
    .add("model", StringType())
    .add("owner", StringType())
)


def _step(memory: Memory, rows: list[Event], watermark: int) -> Folded:
    """Emit the intervals that new changes begin or divide; keep the last change before the watermark and all after."""
    changes = memory.waiting("changes", time_order)
    new = sorted(map(_remembered, rows), key=time_order)
    answers: list[Answer] = []
    if new:  # intervals that end before the first of them do not change
        before = changes.before(new[0]["at"]) or memory.head.get("last")
        known = [*([before] if before else []), *changes.since(new[0]["at"])]
        emitted = {each["from_us"]: each for each in _intervals(known)}
        now = _intervals(sorted([*known, *new], key=time_order))
        answers = [each for each in now if emitted.get(each["from_us"]) != each]
        changes.add(new)
    past = changes.pop(watermark)
    # The last change of a device stays in the state for ever, because the next change ends its interval.
    last = past[-1] if past else memory.head.get("last")
    memory.head = {"last": last} if last else {}
    is_one = len(changes) + bool(last) <= 1
    return Folded(answers, None if is_one else changes.last)


def _migrate(memory: Memory) -> None:
    """Move the changes from one list, as form 0 kept them, to a queue."""
    memory.waiting("changes", time_order).add(memory.head.pop("changes", ()))


def _remembered(row: Event) -> dict[str, Any]:
    return {**arrival(row), **{name: row[name] for name in ("device_id", *STATIC)}}


def _intervals(changes: list[dict[str, Any]]) -> list[Answer]:
    last_of_moment = list({each["at"]: each for each in changes}.values())
    ends = (each["at"] for each in last_of_moment[1:])
    return [
        {
            "device_id": each["device_id"],
            "from_us": each["at"],
            "until_us": end,
            **{name: each[name] for name in STATIC},
        }
        for each, end in zip_longest(last_of_moment, ends)
    ]


def devices(changes: DataFrame) -> DataFrame:
    """Fold the changes of each device into intervals."""
    arrived = changes.withColumn("arrived", F.unix_micros("_arrived_at"))
    intervals = folded(arrived, FOLD, time="event_at")
    valid_from, valid_until = F.timestamp_micros("from_us"), F.timestamp_micros("until_us")
    return intervals.select(
        "device_id",
        valid_from.alias("valid_from"),
        valid_until.alias("valid_until"),
        *STATIC,
        F.coalesce(F.date_trunc("day", valid_until), F.lit(NOT_ENDED)).alias("ended_on"),
    )


def as_of(rows: DataFrame, intervals: DataFrame, moment: str, columns: Sequence[str]) -> DataFrame:
    """Add the columns that were valid for each row's device at the row's time; NULL where no interval is.

    Args:
        rows: Rows with a ``device_id``.
        intervals: This table.
        moment: The column with the time of the join.
        columns: The columns to add.
    """
    valid = intervals.select(
        F.col("device_id").alias("_of"),
        F.col("valid_from").alias("_from"),
        F.col("valid_until").alias("_until"),
        *columns,
    )
    at = F.col(moment)
    is_valid = (
        (F.col("device_id") == F.col("_of"))
        & (F.col("_from") <= at)
        & (F.col("_until").isNull() | (at < F.col("_until")))
    )
    return rows.join(valid, is_valid, "left_outer").drop("_of", "_from", "_until")


FOLD = Fold(
    by=("device_id",),
    reads=(*STATIC, "arrived", "_partition", "_offset"),
    output=INTERVAL,
    key=("device_id", "from_us"),
    step=_step,
    form=1,
    migrate=_migrate,
)

TABLE = Upserted(
    layer=Layer.SILVER,
    name="devices",
    reads=(device_inventory.TABLE,),
    transform=devices,
    key=("device_id", "valid_from"),
    event_at="valid_from",
    window_from="ended_on",
    valid_until="valid_until",
)
