"""A lake with four days of events."""

import pytest
from pyspark.sql import SparkSession

from strandline.engine.lake.lake import Lake
from tests.support.four_days import filled


@pytest.fixture
def days(spark: SparkSession, lake: Lake, monkeypatch: pytest.MonkeyPatch) -> Lake:
    """Return the lake that the settings name."""
    monkeypatch.setenv("STRANDLINE_LAKE", str(lake.root))
    return filled(spark, lake)
