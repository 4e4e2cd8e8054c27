"""A small lake that was really filled, for the verbs that answer."""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from fleet.gold import device_signal_10m
from fleet.silver import device_telemetry as silver
from strandline.core.stateful import AvailableNow
from strandline.engine.flow.runner import Site, run
from strandline.engine.lake.lake import Lake
from tests.support.events import readings, received
from tests.support.rows import NOON
from tests.support.seeds import copied

EVENTS = """
    batch | id | device | event_at | arrived_at | value
    0     | e1 | d1     | 09:00:00 | 09:00:01   | 1.5
    0     | e2 | d1     | 09:01:00 | 09:01:01   | 2.5
    0     | e2 | d1     | 09:01:00 | 09:01:02   | 2.5
    0     | e3 | d2     | 07:00:00 | 09:02:00   | 3.5
    1     | e4 | d2     | 12:00:00 | 12:00:01   | 4.5
"""


@pytest.fixture(scope="session")
def filled(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a lake with 5 events: 3 good, a copy, one late; and one window that is final."""
    lake = Lake(tmp_path_factory.mktemp("filled") / "lake").open_for_writing()
    site = Site(spark=spark, clock=lambda: NOON)

    def made(seed: Lake) -> None:
        received(seed, readings(EVENTS))
        for table in (silver.TABLE, device_signal_10m.TABLE):
            run(table, AvailableNow(), seed, site=site)

    return copied(lake, "filled", made).root.local
