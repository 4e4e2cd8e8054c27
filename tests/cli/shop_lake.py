"""The lake of a project that ``strandline init shop`` has made, written by hand: four orders, of which one is held."""

from datetime import timedelta
from decimal import Decimal
from pathlib import Path

from pyspark.sql import DataFrame
from pyspark.sql.types import DecimalType, StringType, StructType, TimestampType

from strandline.core.table import Ingested, Judged
from strandline.core.topic import IDENTITY, QUARANTINE, RECEIVED, Topic
from strandline.engine.lake.lake import Lake
from tests.engine.written import entry
from tests.support import by_hand
from tests.support.rows import NOON

FIELDS = StructType(
    [
        *StructType()
        .add("order_id", StringType())
        .add("customer", StringType())
        .add("amount", DecimalType(12, 2))
        .add("ordered_at", TimestampType()),
        *(RECEIVED[name] for name in IDENTITY),
    ]
)


def _unused(_: DataFrame) -> DataFrame:
    raise NotImplementedError


BRONZE = Ingested(name="orders", reads=(Topic(name="orders"),))
SILVER = Judged(
    name="orders", reads=(BRONZE,), transform=_unused, key=("order_id",), event_at="ordered_at"
)


def shop_lake(root: Path) -> Path:
    """Make the lake, and return its folder."""
    lake = Lake(root).open_for_writing()
    moments = [NOON + timedelta(minutes=minute) for minute in range(4)]
    places = [("orders", 0, number, moment) for number, moment in enumerate(moments)]
    received = [
        (*place, b"key", b"payload", [], 0, moment, None)
        for place, moment in zip(places, moments, strict=True)
    ]
    good = [
        (f"o{place[2]}", "c1", Decimal(place[2]), moment, *place)
        for place, moment in zip(places, moments, strict=True)
    ]
    held = [(*places[3], ["malformed"], None, b"key", b"payload", [])]
    all_ = {"read": 4, "good": 4, "written": 4, "offsets": {"orders/0": (0, 4)}}
    by_hand.create(lake.table(BRONZE), RECEIVED)
    by_hand.commit(
        lake.table(BRONZE), [by_hand.table(RECEIVED, received)], entry(BRONZE, **all_).encoded()
    )
    judged = {"read": 4, "good": 3, "quarantined": {"malformed": 1}, "written": 3}
    made = entry(SILVER, versions={BRONZE.id: (0, 1)}, **judged).encoded()
    for place, schema, rows in (
        (lake.quarantine(SILVER), QUARANTINE, held),
        (lake.table(SILVER), FIELDS, good[:3]),
    ):
        by_hand.create(place, schema)
        by_hand.commit(place, [by_hand.table(schema, rows)], made)
    return root
