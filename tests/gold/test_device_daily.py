"""A business day begins at midnight where the device is."""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from fleet.gold import device_signal_10m
from fleet.gold.device_daily import TABLE
from fleet.silver import devices
from tests.support.literal import TWO, in_every_way
from tests.support.rows import rows
from tests.support.shapes import INTERVALS, SIGNALS


@pytest.mark.slow
def test_the_same_moment_is_another_day_elsewhere(spark: SparkSession, tmp_path: Path) -> None:
    """16:00 UTC is after midnight in Osaka; the site comes a commit later than the window, and a device has none."""
    found = in_every_way(
        spark,
        tmp_path,
        TABLE,
        {
            device_signal_10m.TABLE: (
                SIGNALS,
                """
                batch | device_id | signal | window_from | window_until | readings | min_value | max_value
                1     | d1        | t      | 14:50:00    | 15:00:00     | 2        | 1.00      | 5.00
                1     | d1        | t      | 15:00:00    | 15:10:00     | 3        | 2.00      | 9.00
                2     | d1        | t      | 16:00:00    | 16:10:00     | 4        | -1.00     | 4.00
                2     | d2        | t      | 16:00:00    | 16:10:00     | 1        | 0.00      | 0.00
                2     | d3        | t      | 03:50:00    | 04:00:00     | 1        | 0.00      | 0.00
                """,
            ),
            devices.TABLE: (
                INTERVALS,
                """
                batch | device_id | valid_from | valid_until | site
                2     | d1        | 08:00:00   | -           | osaka
                2     | d3        | 01:00:00   | -           | boston
                """,
            ),
        },
        # At once is the batch for a table that is computed afresh, and always on is step by step.
        ways=TWO,
    )

    names = ("device_id", "site", "day", "day_from", "readings", "min_value", "max_value")
    assert sorted(({name: row[name] for name in names} for row in found), key=str) == rows("""
        device_id | site   | day        | day_from                  | readings | min_value | max_value
        d1        | osaka  | 2026-11-20 | 2026-11-19T15:00:00+00:00 | 2        | 1.00      | 5.00
        d1        | osaka  | 2026-11-21 | 15:00:00                  | 7        | -1.00     | 9.00
        d2        | -      | 2026-11-20 | 00:00:00                  | 1        | 0.00      | 0.00
        d3        | boston | 2026-11-19 | 2026-11-19T05:00:00+00:00 | 1        | 0.00      | 0.00
    """)
