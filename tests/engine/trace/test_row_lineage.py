"""The length of a window, and the path from one table to another, are read from the declarations."""

from dataclasses import replace
from datetime import timedelta

import pytest

from jobs.engine.trace.row_lineage import path_between, window_length
from jobs.gold import attributed_connections, device_daily, device_signal_10m, site_traffic_1h
from jobs.silver import device_telemetry, dhcp_events, network_connections, user_actions


@pytest.mark.parametrize(
    ("text", "length"),
    [
        ("10 minutes", timedelta(minutes=10)),
        ("1 hour", timedelta(hours=1)),
        ("25 hours", timedelta(hours=25)),
        ("INTERVAL 1 HOUR 30 MINUTES", timedelta(minutes=90)),
        ("1 week", timedelta(days=7)),
    ],
)
def test_a_window_is_as_long_as_spark_reads_it(text: str, length: timedelta) -> None:
    """Without pandas, which would take longer to import than the answer takes."""
    assert window_length(replace(device_signal_10m.TABLE, window=text)) == length


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
