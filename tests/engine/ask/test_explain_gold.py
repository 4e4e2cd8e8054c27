"""An event is followed into every table above it by the tables' declarations alone."""

import pytest
from pyspark.sql import SparkSession
from pyspark.sql.types import StringType, StructType
from strandline import catalog

from fleet.gold import (
    attributed_connections,
    confirmed_logins,
    device_daily,
    device_signal_10m,
    ip_holds,
    site_traffic_1h,
)
from fleet.silver import (
    device_inventory,
    device_telemetry,
    devices,
    dhcp_events,
    network_connections,
    user_actions,
    user_confirmations,
)
from strandline.core.errors import DefinitionError
from strandline.engine.ask.locate import Finding, Verdict, World
from strandline.engine.ask.why import why
from strandline.engine.lake.lake import Lake
from tests.support.literal import put
from tests.support.modes import derive
from tests.support.rows import NOON
from tests.support.shapes import arrived

pytestmark = pytest.mark.slow

READING = (
    StructType()
    .add("event_id", StringType())
    .add("device_id", StringType())
    .add("signal", StringType())
    .add("value", "decimal(14,4)")
    .add("event_at", "timestamp")
)
LOG = {
    device_telemetry.TABLE: (
        READING,
        """
        batch | event_id | device_id | signal | value | event_at
        1     | r1       | d1        | t      | 1     | 09:03:00
        1     | r2       | d2        | t      | 2     | 09:03:00
        1     | r3       | d3        | t      | 2     | 09:03:00
        1     | clock    | d9        | t      | 2     | 12:00:00
        """,
    ),
    device_inventory.TABLE: (
        device_inventory.FIELDS,
        """
        batch | change_id | device_id | site   | model | owner | event_at | _arrived_at | _partition | _offset
        1     | i1        | d1        | berlin | m     | o     | 08:00:00 | 08:00:00    | 0          | 1
        1     | i2        | d2        | osaka  | m     | o     | 10:00:00 | 10:00:00    | 0          | 2
        1     | clock     | d9        | osaka  | m     | o     | 12:00:00 | 12:00:00    | 0          | 3
        """,
    ),
    user_actions.TABLE: (
        user_actions.FIELDS,
        """
        batch | action_id | user_id | action | event_at
        1     | a1        | u1      | login  | 09:00:00
        1     | a2        | u1      | login  | 09:10:00
        1     | a3        | u1      | logout | 09:12:00
        1     | a4        | u1      | login  | 11:59:00
        1     | clock     | u9      | logout | 12:00:00
        """,
    ),
    user_confirmations.TABLE: (
        user_confirmations.FIELDS,
        """
        batch | confirmation_id | action_id | user_id | method | event_at
        1     | c1              | a1        | u1      | push   | 09:01:00
        1     | c2              | a2        | u1      | push   | 09:13:00
        1     | clock           | none      | u9      | push   | 12:00:00
        """,
    ),
    network_connections.TABLE: (
        network_connections.FIELDS,
        """
        batch | connection_id | src_ip | dst_ip | dst_port | bytes_out | bytes_in | event_at
        1     | n1            | a      | x      | 443      | 1         | 10       | 09:04:00
        1     | n2            | z      | x      | 443      | 2         | 20       | 09:05:00
        1     | clock         | z      | x      | 443      | 2         | 20       | 12:00:00
        """,
    ),
    dhcp_events.TABLE: (
        dhcp_events.FIELDS,
        """
        batch | dhcp_id | kind | mac | device_id | ip | lease_seconds | event_at | _arrived_at | _partition | _offset
        1     | m1      | ack  | k1  | d1        | a  | 86400         | 09:00:00 | 09:00:00    | 0          | 1
        1     | clock   | ack  | k9  | d9        | y  | 86400         | 12:00:00 | 12:00:00    | 0          | 2
        """,
    ),
}
TABLES = (
    devices.TABLE,
    device_signal_10m.TABLE,
    confirmed_logins.TABLE,
    attributed_connections.TABLE,
    ip_holds.TABLE,
    site_traffic_1h.TABLE,
    device_daily.TABLE,
)


@pytest.fixture(scope="module")
def lived(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> World:
    """Make a lake with every table of gold, its clocks at noon; watermarks are at 10:45."""
    lake = Lake(tmp_path_factory.mktemp("lived")).open_for_writing()
    log = {
        table: (arrived(schema).add("_topic", StringType()), text)
        for table, (schema, text) in LOG.items()
    }
    put(lake, log, "1")
    derive(spark, lake, *TABLES)
    return World(lake=lake, now=NOON)


def asked(lived: World, what: str, table: str) -> Finding:
    return why(what, catalog.find(table), lived)


@pytest.mark.whole
@pytest.mark.parametrize(
    ("what", "table", "verdict"),
    [
        ("r1", "gold.device_signal_10m", Verdict.IN_TABLE),
        ("r2", "gold.device_signal_10m", Verdict.NO_MATCH),
        ("r3", "gold.device_signal_10m", Verdict.NO_MATCH),
        ("clock", "gold.device_signal_10m", Verdict.OPEN),
        ("r1", "gold.device_daily", Verdict.IN_TABLE),
        ("i1", "silver.devices", Verdict.IN_TABLE),
        ("a1", "gold.confirmed_logins", Verdict.IN_TABLE),
        ("c1", "gold.confirmed_logins", Verdict.IN_TABLE),
        ("a1,c1", "gold.confirmed_logins", Verdict.IN_TABLE),
        ("a2", "gold.confirmed_logins", Verdict.NO_PARTNER),
        ("a2,", "gold.confirmed_logins", Verdict.NO_PARTNER),
        ("c2", "gold.confirmed_logins", Verdict.LEFT_OUT),
        ("a3", "gold.confirmed_logins", Verdict.LEFT_OUT),
        ("a4", "gold.confirmed_logins", Verdict.OPEN),
        ("n1", "gold.attributed_connections", Verdict.IN_TABLE),
        ("n2", "gold.attributed_connections", Verdict.NO_MATCH),
        ("n1", "gold.site_traffic_1h", Verdict.IN_TABLE),
        ("n2", "gold.site_traffic_1h", Verdict.NO_MATCH),
        ("m1", "gold.ip_holds", Verdict.IN_TABLE),
        ("d1,2026-11-20T08:00", "silver.devices", Verdict.IN_TABLE),
        ("a,2026-11-20T09:30", "gold.ip_holds", Verdict.UNKNOWN),
        ("berlin,2026-11-20T11:00", "gold.site_traffic_1h", Verdict.UNKNOWN),
    ],
)
def test_every_table_has_one_verdict_for_an_event(
    lived: World, what: str, table: str, verdict: Verdict
) -> None:
    """Windows, holds, joins, and windows of joins, by the event's key or by the row's own."""
    assert asked(lived, what, table).verdict is verdict


@pytest.mark.whole
def test_rows_with_the_same_key_are_shown_if_none_matched(lived: World) -> None:
    """An interval that begins later, or a confirmation a minute too late, explains the missing match."""
    place, login = (
        asked(lived, "r2", "gold.device_signal_10m"),
        asked(lived, "a2", "gold.confirmed_logins"),
    )

    (interval,) = place.evidence["near"]  # type: ignore[misc]  # JSON
    assert (place.evidence["static"], interval["valid_from"]) == (
        "silver.devices",
        "2026-11-20T10:00:00+00:00",
    )
    (late,) = login.evidence["near"]  # type: ignore[misc]  # JSON
    assert (login.evidence["partner"], late["event_at"]) == (
        "silver.user_confirmations",
        "2026-11-20T09:13:00+00:00",
    )


@pytest.mark.whole
def test_a_login_waits_as_long_as_those_that_waited_in_vain(lived: World) -> None:
    """Two minutes, and the millisecond after which Spark emits it unmatched."""
    finding = asked(lived, "a4", "gold.confirmed_logins")

    assert finding.evidence["closes_at"] == "2026-11-20T12:01:00.001000+00:00"


@pytest.mark.whole
def test_an_event_is_in_every_window_that_slides_over_it(lived: World) -> None:
    """And only in windows of its device's site."""
    finding = asked(lived, "n1", "gold.site_traffic_1h")

    rows = finding.evidence["rows"]
    assert len(rows) == 6  # type: ignore[arg-type]  # JSON
    assert {row["site"] for row in rows} == {"berlin"}  # type: ignore[attr-defined]  # JSON


@pytest.mark.whole
def test_a_row_of_silver_is_explained_with_all_rows_that_depend_on_it(lived: World) -> None:
    """Through every layer; a table whose dependence is unknown is named."""
    reading, message = (why(what, None, lived) for what in ("r1", "m1"))

    assert [
        (each["table"], each["verdict"])
        for each in reading.evidence["rests_on_it"]  # type: ignore[attr-defined]  # JSON
    ] == [("gold.device_signal_10m", "in the table"), ("gold.device_daily", "in the table")]
    assert {
        each["table"]: each["verdict"]
        for each in message.evidence["rests_on_it"]  # type: ignore[attr-defined]  # JSON
    } == {"gold.ip_holds": "in the table", "gold.attributed_connections": None}


@pytest.mark.whole
def test_what_shares_no_key_is_not_guessed(lived: World) -> None:
    """A message about an address is in no row of the connections that it explains."""
    with pytest.raises(DefinitionError, match="share no key") as refused:
        asked(lived, "m1", "gold.attributed_connections")

    assert "connection_id,event_at of gold.attributed_connections" in refused.value.hint
