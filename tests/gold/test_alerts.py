"""gold.alerts has the alerts of silver, with the time at which each was raised."""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from strandline.alerting.tables import silver
from strandline.alerting.tables.gold import TABLE
from tests.support.literal import TWO, in_every_way
from tests.support.rows import rows
from tests.support.shapes import arrived

pytestmark = pytest.mark.whole

SHOWN = ("alert_id", "rule_id", "event_at", "raised_at")


def test_an_alert_is_final_at_once_however_old_its_event_is(
    spark: SparkSession, tmp_path: Path
) -> None:
    """The second comes hours after an event that is newer: no watermark drops it, and none is waited for."""
    found = in_every_way(
        spark,
        tmp_path,
        TABLE,
        {
            silver.TABLE: (
                arrived(silver.FIELDS),
                """
                batch | alert_id | rule_id | event_at | _arrived_at
                1     | a        | r       | 12:00:00 | 12:00:01
                2     | b        | r       | 03:00:00 | 12:00:02
                """,
            )
        },
        ways=TWO,
    )

    assert sorted(({name: row[name] for name in SHOWN} for row in found), key=str) == rows(
        """
        alert_id | rule_id | event_at | raised_at
        a        | r       | 12:00:00 | 12:00:01
        b        | r       | 03:00:00 | 12:00:02
        """
    )
