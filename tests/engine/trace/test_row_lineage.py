"""The path from one table to another is read from the declarations."""

from jobs.engine.trace.row_lineage import path_between
from jobs.gold import attributed_connections, device_daily, device_signal_10m, site_traffic_1h
from jobs.silver import device_telemetry, dhcp_events, network_connections, user_actions


def test_the_path_from_one_table_to_another_consists_of_those_that_are_read() -> None:
    """A table that is only looked up is not on it."""
    assert path_between(device_telemetry.TABLE, device_daily.TABLE) == [
        device_telemetry.TABLE,
        device_signal_10m.TABLE,
        device_daily.TABLE,
    ]
    for source in (network_connections.TABLE, dhcp_events.TABLE):
        assert path_between(source, site_traffic_1h.TABLE) == [
            source,
            attributed_connections.TABLE,
            site_traffic_1h.TABLE,
        ]
    assert path_between(user_actions.TABLE, site_traffic_1h.TABLE) is None
