"""Bytes count for the site of the connection's device at that time, and move when a late change corrects the site."""

from decimal import Decimal
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from fleet.gold import attributed_connections
from fleet.gold.site_traffic_1h import TABLE, site_traffic_1h
from fleet.silver import device_inventory, devices, dhcp_events, network_connections
from tests.support.literal import TWO, in_every_way
from tests.support.rows import NOON, rows
from tests.support.shapes import arrived


@pytest.mark.whole
@pytest.mark.slow
def test_traffic_follows_late_changes_of_holders_and_sites(
    spark: SparkSession, tmp_path: Path
) -> None:
    """In the second commit c2 gets a holder, and in the third d1 turns out to have moved at 09:05.

    Each connection is in six windows; shown are those that begin on the hour.
    """
    found = in_every_way(
        spark,
        tmp_path,
        TABLE,
        {
            network_connections.TABLE: (
                network_connections.FIELDS,
                """
                batch | connection_id | src_ip | dst_ip | dst_port | bytes_out | bytes_in | event_at
                1     | c1            | a      | x      | 443      | 1         | 10       | 09:04:00
                1     | c2            | b      | x      | 443      | 2         | 20       | 09:05:00
                1     | c3            | a      | x      | 443      | 4         | 40       | 09:06:00
                2     | c4            | a      | x      | 443      | 8         | 80       | 10:00:00
                """,
            ),
            dhcp_events.TABLE: (
                arrived(dhcp_events.FIELDS),
                """
                batch | kind | mac | device_id | ip | lease_seconds | event_at | _arrived_at | _partition | _offset
                1     | ack  | m1  | d1        | a  | 86400         | 09:00:00 | 09:00:00    | 0          | 1
                2     | ack  | m2  | d2        | b  | 86400         | 09:01:00 | 09:30:00    | 0          | 2
                """,
            ),
            device_inventory.TABLE: (
                arrived(device_inventory.FIELDS),
                """
                batch | change_id | device_id | site   | model | owner | event_at | _arrived_at | _partition | _offset
                1     | 1         | d1        | berlin | m     | o     | 08:00:00 | 08:00:00    | 0          | 1
                1     | 2         | d2        | osaka  | m     | o     | 08:00:00 | 08:00:00    | 0          | 2
                3     | 3         | d1        | lima   | m     | o     | 09:05:00 | 09:50:00    | 0          | 3
                """,
            ),
        },
        through=(devices.TABLE, attributed_connections.TABLE),
        # At once is the batch for a table that is computed afresh, and always on is step by step.
        ways=TWO,
    )

    names = ("site", "window_from", "connections", "bytes_out", "bytes_in")
    assert len(found) == 3 * 6 + 6
    on_the_hour = [row for row in found if row["window_from"].endswith(":00:00")]
    assert sorted(({name: row[name] for name in names} for row in on_the_hour), key=str) == rows("""
        site   | window_from | connections | bytes_out | bytes_in
        berlin | 09:00:00    | 1           | 1         | 10
        lima   | 09:00:00    | 1           | 4         | 40
        lima   | 10:00:00    | 1           | 8         | 80
        osaka  | 09:00:00    | 1           | 2         | 20
    """)


def test_two_largest_numbers_have_a_sum(spark: SparkSession) -> None:
    """A device with absurd byte counts must not end the stream."""
    largest = 2**63 - 1
    connections = spark.createDataFrame(
        [("d1", NOON, largest, -largest)] * 2,
        "device_id string, event_at timestamp, bytes_out long, bytes_in long",
    )
    intervals = spark.createDataFrame(
        [], "device_id string, valid_from timestamp, valid_until timestamp, site string"
    )

    found = site_traffic_1h(connections, intervals).collect()

    assert {(row["bytes_out"], row["bytes_in"]) for row in found} == {
        (Decimal(2 * largest), Decimal(-2 * largest))
    }
