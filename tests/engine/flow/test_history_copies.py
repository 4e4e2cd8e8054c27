"""An event that is older than any state is believed where its table says so, once, in every mode."""

from dataclasses import replace
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from fleet.silver import device_telemetry as silver
from strandline.engine.accounting.balance_sheet import balance
from strandline.engine.ask.explain_silver import explain_spot
from strandline.engine.ask.locate import Spot, World
from strandline.engine.lake.lake import Lake
from strandline.engine.lake.place import Place
from strandline.engine.repair.backfill import backfill
from strandline.engine.repair.closed_range import Span
from tests.support.events import TOPIC, readings
from tests.support.modes import STEPWISE, in_every_mode
from tests.support.rows import NOON, at

pytestmark = pytest.mark.whole

OLD = replace(silver.TABLE, believes_history=True)
"""What is an hour late at most is in time; the rest is of history."""

LOG = """
    batch | id   | event_at | arrived_at
    1     | a    | 09:00:00 | 09:00:01
    1     | old  | 05:00:00 | 09:10:00
    1     | old  | 05:00:00 | 09:12:00
    2     | b    | 11:30:00 | 11:30:01
    2     | a    | 09:00:00 | 11:31:00
    2     | old  | 05:00:00 | 11:32:00
    2     | edge | 10:30:00 | 11:30:30
    3     | edge | 10:30:00 | 11:29:30
    3     | c    | 14:00:00 | 14:00:01
    4     | old  | 05:00:00 | 14:01:00
    4     | new  | 04:00:00 | 14:02:00
    4     | d    | 15:00:00 | 15:00:01
"""


def test_history_is_believed_once_in_every_mode(spark: SparkSession, tmp_path: Path) -> None:
    """After a row that came in time, in one batch and over several, and where the two kinds meet."""
    answers = in_every_mode(spark, tmp_path, readings(LOG), (OLD,), STEPWISE)

    ids = [row["event_id"] for row in answers.silver]
    assert sorted(ids) == ["a", "b", "c", "d", "edge", "new", "old"]
    assert answers.quarantine == []
    lake = Lake(Place.of(tmp_path / "commit by commit"))
    sheet = balance(OLD, lake)
    assert (sheet.read, sheet.good, sheet.duplicates, sheet.faults) == (12, 7, 5, [])

    done = backfill(spark, OLD, lake, Span(since=at("04:00:00"), until=at("06:00:00")))

    assert (done.came, done.gone, balance(OLD, lake).faults) == (0, 0, [])
    spot = Spot(TOPIC, 0, 1)
    found, _ = explain_spot(OLD, spot, World(lake=lake, now=NOON))
    assert "from history: its event lies more than 1:00:00 before its arrival" in found.sentence
