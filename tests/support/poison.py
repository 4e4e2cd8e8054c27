"""Hours of readings, some of them beyond every data sheet."""

from datetime import timedelta

from pyspark.sql import SparkSession

from fleet.gold import device_signal_10m as gold
from fleet.silver import device_telemetry as silver
from strandline.engine.lake.lake import Lake
from tests.support.events import Event, reading, received
from tests.support.modes import derive
from tests.support.rows import at
from tests.support.seeds import copied

RULE = "implausible:value"


def hour(name: str, start: str, *, bad: int, of: int, batch: int) -> list[Event]:
    """Return an hour of readings of which the first ones are implausible."""
    step = timedelta(hours=1) / of
    return [
        Event(
            batch=batch,
            payload=reading(
                event_id=f"{name}{n}",
                device_id=f"d{n % 3}",
                value=999 if n < bad else 20 + n % 7,
                event_at=(at(start) + n * step).isoformat(),
            ),
            arrived_at=at(start) + n * step,
            ingested_at=at(start) + n * step,
        )
        for n in range(of)
    ]


GOOD = hour("g", "06:00:00", bad=0, of=60, batch=0)
POISONED = hour("p", "07:00:00", bad=30, of=100, batch=1)
AFTER = hour("a", "08:00:00", bad=1, of=60, batch=2)


def poisoned(spark: SparkSession, lake: Lake) -> Lake:
    """Fill a lake in which a good hour was read and a poisoned one waits in bronze."""

    def received_first(seed: Lake) -> None:
        received(seed, GOOD)
        derive(spark, seed, silver.TABLE, gold.TABLE)
        received(seed, POISONED)

    return copied(lake, "poisoned", received_first)
