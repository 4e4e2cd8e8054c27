"""The attributes of a device are valid from one change to the next, also with late or simultaneous changes."""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from fleet.silver import device_inventory
from fleet.silver.devices import TABLE
from tests.support.literal import TWO, in_every_way
from tests.support.rows import rows
from tests.support.shapes import arrived

pytestmark = pytest.mark.whole

CHANGE = arrived(device_inventory.FIELDS)


@pytest.mark.slow
def test_a_late_change_divides_the_interval_into_which_it_falls(
    spark: SparkSession, tmp_path: Path
) -> None:
    """And of two changes of one moment the one that arrived later counts, in whichever commit it is."""
    found = in_every_way(
        spark,
        tmp_path,
        TABLE,
        {
            device_inventory.TABLE: (
                CHANGE,
                """
                batch | change_id | device_id | site   | model | owner | event_at | _arrived_at | _partition | _offset
                1     | 1         | d1        | berlin | m     | o1    | 08:00:00 | 08:00:00    | 0          | 1
                1     | 2         | d1        | osaka  | m     | o1    | 10:00:00 | 10:00:00    | 0          | 2
                1     | 3         | d2        | lima   | m     | o1    | 10:00:00 | 10:00:02    | 1          | 1
                2     | 4         | d1        | boston | m     | o2    | 09:30:00 | 10:20:00    | 0          | 3
                2     | 5         | d2        | berlin | m     | o1    | 10:00:00 | 10:00:01    | 0          | 4
                3     | 6         | d1        | boston | m     | o3    | 14:00:00 | 14:00:00    | 0          | 5
                4     | 7         | d1        | lima   | m     | o3    | 14:00:00 | 14:10:00    | 0          | 6
                """,
            )
        },
        ways=TWO,  # all of them, for a table of the same kind: tests/gold/test_ip_holds.py
    )

    names = ("device_id", "valid_from", "valid_until", "site", "owner")
    assert sorted(({name: row[name] for name in names} for row in found), key=str) == rows("""
        device_id | valid_from | valid_until | site   | owner
        d1        | 08:00:00   | 09:30:00    | berlin | o1
        d1        | 09:30:00   | 10:00:00    | boston | o2
        d1        | 10:00:00   | 14:00:00    | osaka  | o1
        d1        | 14:00:00   | -           | lima   | o3
        d2        | 10:00:00   | -           | lima   | o1
    """)
