"""Where each device was, which model it is and whose, as intervals of validity.

Grain: one row a device and the moment from which something holds; what still holds has no end.
Reads: silver.device_inventory. Read by: whoever joins something as of the event.
Late data: a change that arrives late divides the interval into which it falls. Of two changes of one device at one
moment the one that arrived later counts.
"""

from collections.abc import Sequence
from datetime import UTC, datetime
from itertools import zip_longest
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import LongType, StringType, StructType

from jobs.core.fold import Answer, Event, Fold, Folded, arrival, as_it_happened
from jobs.core.stateful import folded
from jobs.core.table import Layer, Speaks, Table
from jobs.core.waiting import Memory
from jobs.silver import device_inventory

STATIC = ("site", "model", "owner")

NOT_ENDED = datetime(1970, 1, 1, tzinfo=UTC)
"""What still holds lies together: whoever asks at each batch what holds now must not read all that ever ended.

What has ended lies by the day on which it did, so that a change, which ends what held until now, writes two small
files anew and not one for each day from which something still held. A later word that divides an interval ends its
last part where the whole ended, and so finds the folder in which the whole lies.
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


def _step(memory: Memory, rows: list[Event], settled: int) -> Folded:
    """Say the intervals that new changes make or divide; remember one settled change and all that are not."""
    changes = memory.waiting("changes", as_it_happened)
    new = sorted(map(_remembered, rows), key=as_it_happened)
    answers: list[Answer] = []
    if new:  # what ends before the first of them stays as it is
        before = changes.before(new[0]["at"]) or memory.head.get("last")
        known = [*([before] if before else []), *changes.since(new[0]["at"])]
        said = {each["from_us"]: each for each in _intervals(known)}
        now = _intervals(sorted([*known, *new], key=as_it_happened))
        answers = [each for each in now if said.get(each["from_us"]) != each]
        changes.add(new)
    past = changes.pop(settled)
    # The last change of a device is remembered for ever: whatever comes next ends its interval.
    last = past[-1] if past else memory.head.get("last")
    memory.head = {"last": last} if last else {}
    is_one = len(changes) + bool(last) <= 1
    return Folded(answers, None if is_one else changes.last)


def _bring(memory: Memory) -> None:
    """Let the changes wait in a queue that were one list once."""
    memory.waiting("changes", as_it_happened).add(memory.head.pop("changes", ()))


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
    """Add what was valid for the device of each row at its moment; NULL where nothing is known.

    Args:
        rows: With a ``device_id``.
        intervals: This table.
        moment: The column with the time at which to look.
        columns: What to add.
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
    says=INTERVAL,
    key=("device_id", "from_us"),
    step=_step,
    form=1,
    bring=_bring,
)

TABLE = Table(
    layer=Layer.SILVER,
    name="devices",
    reads=(device_inventory.TABLE,),
    transform=devices,
    key=("device_id", "valid_from"),
    event_at="valid_from",
    speaks=Speaks.ON_CHANGE,
    window_from="ended_on",
    valid_until="valid_until",
)
