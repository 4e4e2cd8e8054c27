"""The path from one table to another is read from the declarations."""

from dataclasses import replace
from datetime import timedelta

from fleet.gold import attributed_connections, device_daily, device_signal_10m, site_traffic_1h
from fleet.silver import device_telemetry, dhcp_events, network_connections, user_actions
from strandline.engine.ask.explain_gold import Step, path_between
from strandline.engine.lake.lake import Lake
from tests.engine.written import written
from tests.support.auctions import BIDS, WAITED_FOR
from tests.support.rows import at


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


def test_the_row_of_a_window_that_a_row_is_joined_into_is_found_hours_away(lake: Lake) -> None:
    """The last bid of an auction comes when the hour is over in which it opened; of two such hours none is guessed."""
    prices = replace(WAITED_FOR, reach="4 hours")
    opens = at("08:00:00")
    hour = timedelta(hours=1)
    books = {
        "category": "books",
        "opens": opens,
        "ends": opens + hour,
        "final_at": opens + 5 * hour,
    }
    written(lake.table(prices), [books])
    bid = {"auction": "a", "price": 50, "bid_at": at("12:01:00")}
    step = Step(source=BIDS, row=bid, table=prices, lake=lake)

    found = step.rows()
    written(lake.table(prices), [{**books, "category": "maps", "opens": opens + hour}])

    assert [each.row["category"] for each in found or ()] == ["books"]
    assert step.rows() is None
    within = replace(step, table=replace(prices, reach=None))
    assert within.rows() == []
