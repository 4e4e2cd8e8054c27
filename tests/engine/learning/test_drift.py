"""The drift of a day is that of the rows that a version has scored; a day without any says nothing."""

from dataclasses import replace

import pytest
from pyspark.sql import SparkSession

from fleet.models.unusual_traffic import MODEL
from strandline.engine.lake.lake import Lake
from strandline.engine.learning.promote_model import drift, index
from tests.support.modes import derive
from tests.support.rows import NOON
from tests.support.traffic import DAY, connected, plan

pytestmark = [pytest.mark.core, pytest.mark.whole]


def test_rows_from_before_the_table_was_scored_are_no_drift(
    spark: SparkSession, lake: Lake
) -> None:
    """Their files lack the model's columns, and the report must not end there."""
    connected(spark, lake, plan(30))
    derive(spark, lake, replace(MODEL.of, scored_by=None))

    assert drift(MODEL, lake, NOON - DAY, NOON) == []


def test_a_day_like_the_training_has_not_moved() -> None:
    assert index([0.5, 0.5], [0.5, 0.5]) == 0
    assert index([0.5, 0.5], [1.0, 0.0]) > 1
