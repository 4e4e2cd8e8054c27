"""Four days of events, each taken in and derived before the next."""

from datetime import timedelta

from pyspark.sql import SparkSession

from fleet.gold import device_signal_10m as gold
from fleet.silver import device_telemetry as silver
from strandline.engine.lake.lake import Lake
from tests.support.events import Event, reading, received
from tests.support.modes import derive
from tests.support.rows import at
from tests.support.seeds import copied

TABLES = (silver.TABLE, gold.TABLE)


def noon(day: int, batch: int) -> list[Event]:
    """Return three readings of a day, half an hour apart."""
    moments = [at("12:00:00") + timedelta(days=day - 3, minutes=30 * n) for n in range(3)]
    return [
        Event(
            batch=batch,
            payload=reading(event_id=f"{batch} {n}", value=20, event_at=moment.isoformat()),
            arrived_at=moment,
            ingested_at=moment,
        )
        for n, moment in enumerate(moments)
    ]


def filled(spark: SparkSession, lake: Lake) -> Lake:
    """Fill a lake with the days from 17 to 20 November, of which the stream still owns the last."""

    def lived(seed: Lake) -> None:
        for day in range(4):
            received(seed, noon(day, batch=day))
            derive(spark, seed, *TABLES)

    return copied(lake, "four days", lived)
