"""A connection belongs to the device that held its address at that moment, whenever the message about it comes."""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from fleet.gold.attributed_connections import TABLE
from fleet.silver import dhcp_events, network_connections
from tests.support.literal import TWO, in_every_way
from tests.support.rows import rows
from tests.support.shapes import arrived

pytestmark = pytest.mark.whole

MESSAGE = arrived(dhcp_events.FIELDS)


@pytest.mark.slow
def test_a_connection_gets_its_holder_however_the_two_logs_are_cut(
    spark: SparkSession, tmp_path: Path
) -> None:
    """The first moment of a hold counts and its last does not; a renewal or a new holder that comes late corrects.

    Connection 5 is made before b was held; 6 comes a commit before the ack of its holder; 7 after d1's lease
    is over, and 8 after it was given back; 9 has an address that no message names.
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
                1     | 1             | a      | x      | 443      | 1         | 1        | 08:59:59.999999
                1     | 2             | a      | x      | 443      | 1         | 1        | 09:00:00
                1     | 3             | a      | x      | 443      | 1         | 1        | 09:30:00
                1     | 4             | b      | x      | 443      | 1         | 1        | 09:30:00
                1     | 5             | b      | x      | 443      | 1         | 1        | 09:10:00
                1     | 6             | c      | x      | 443      | 1         | 1        | 09:40:00
                2     | 7             | a      | x      | 443      | 1         | 1        | 10:30:00
                2     | 8             | b      | x      | 443      | 1         | 1        | 09:50:00
                2     | 9             | z      | x      | 443      | 1         | 1        | 10:00:00
                3     | 10            | a      | x      | 443      | 1         | 1        | 14:00:00
                4     | 11            | a      | x      | 443      | 1         | 1        | 14:10:00
                """,
            ),
            dhcp_events.TABLE: (
                MESSAGE,
                """
                batch | kind    | mac | device_id | ip | lease_seconds | event_at | _arrived_at | _partition | _offset
                1     | ack     | m1  | d1        | a  | 5400          | 09:00:00 | 09:00:00    | 0          | 1
                1     | ack     | m2  | d2        | b  | 5400          | 09:20:00 | 09:20:00    | 0          | 2
                2     | ack     | m3  | d3        | c  | 5400          | 09:35:00 | 10:01:00    | 0          | 3
                2     | release | m2  | d2        | b  | -             | 09:50:00 | 10:01:00    | 0          | 4
                3     | ack     | m4  | d4        | a  | 36000         | 13:00:00 | 13:00:00    | 0          | 5
                4     | ack     | m5  | d5        | a  | 36000         | 13:30:00 | 14:10:00    | 0          | 6
                """,
            ),
        },
        ways=TWO,  # gold.ip_holds is of the same kind, and is tried in all
    )

    attributed = sorted(
        ({name: row[name] for name in ("connection_id", "device_id")} for row in found), key=str
    )
    assert attributed == rows("""
        connection_id | device_id
        1             | unknown
        10            | d5
        11            | d5
        2             | d1
        3             | d1
        4             | d2
        5             | unknown
        6             | d3
        7             | unknown
        8             | unknown
        9             | unknown
    """)
