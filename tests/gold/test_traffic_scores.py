"""gold.traffic_scores has each connection once, and no score where no version was promoted."""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from fleet.gold.traffic_scores import TABLE
from fleet.silver import network_connections as silver
from strandline.core.model import SCORED
from tests.support.literal import TWO, in_every_way
from tests.support.rows import NULL, rows
from tests.support.shapes import arrived

pytestmark = pytest.mark.whole


def test_a_connection_is_final_at_once_and_unscored_before_the_first_promotion(
    spark: SparkSession, tmp_path: Path
) -> None:
    """What scores give is in tests/engine/learning/test_four_modes.py."""
    found = in_every_way(
        spark,
        tmp_path,
        TABLE,
        {
            silver.TABLE: (
                arrived(silver.FIELDS),
                """
                batch | connection_id | bytes_out | event_at | _arrived_at
                1     | a             | 17        | 12:00:00 | 12:00:01
                2     | b             | -         | 11:00:00 | 12:00:02
                """,
            )
        },
        ways=TWO,
    )

    assert [{name: row[name] for name in ("connection_id", "bytes_out")} for row in found] == rows(
        """
        connection_id | bytes_out
        a             | 17
        b             | -
        """
    )
    assert {row[name] for row in found for name in SCORED} == {NULL}
