"""From which columns a column is made is read from the plan, through folds, joins, unions and what is looked up."""

import pytest
from pyspark.sql import SparkSession

from jobs import catalog
from jobs.core.received import IDENTITY
from jobs.core.table import Layer
from jobs.gold import confirmed_logins, device_daily, device_signal_10m, ip_holds
from jobs.run.lake import Lake
from jobs.run.lineage import found_out, kept, lineage
from jobs.silver import device_telemetry

pytestmark = pytest.mark.slow


def test_every_column_of_the_domain_leads_to_columns_that_are_there(spark: SparkSession) -> None:
    """Only what counts rows is made of no column."""
    found = {table.id: found_out(spark, table) for table in catalog.tables()}

    for table in catalog.tables():
        sources = {source.id for source in table.needs}
        made_of_none = {name for name, of in found[table.id].items() if not of}
        assert made_of_none <= {"readings", "connections", "windows"}, table.id
        for of in found[table.id].values():
            for source, column in of:
                assert source in sources
                is_received = catalog.find(source).layer is Layer.BRONZE
                assert is_received or column in found[source]


def test_a_column_is_made_of_what_it_was_computed_from_and_of_nothing_else(
    spark: SparkSession,
) -> None:
    silver, windows = "silver.device_telemetry", "gold.device_signal_10m"

    own = found_out(spark, device_telemetry.TABLE)
    assert own["value"] == [("bronze.device_telemetry", "_payload")]
    assert {name: own[name] for name in IDENTITY} == {
        name: [("bronze.device_telemetry", name)] for name in IDENTITY
    }

    signal = found_out(spark, device_signal_10m.TABLE)
    assert signal["p95_value"] == [(silver, "value")]
    assert signal["window_from"] == [(silver, "event_at")]
    assert signal["site"] == [("silver.devices", "site")], "what is looked up"

    daily = found_out(spark, device_daily.TABLE)
    assert daily["day"] == [(windows, "window_from"), ("silver.devices", "site")]

    logins = found_out(spark, confirmed_logins.TABLE)
    assert logins["confirmed_at"] == [("silver.user_confirmations", "event_at")]

    holds = found_out(spark, ip_holds.TABLE)
    assert ("silver.dhcp_events", "kind") in holds["ended_by"], (
        "a fold may use all that it is given"
    )
    assert ("silver.dhcp_events", "dhcp_id") not in holds["ended_by"], "and nothing else"


def test_it_is_kept_until_the_code_is_another(spark: SparkSession, lake: Lake) -> None:
    table = device_signal_10m.TABLE
    assert kept(table, lake) is None

    found = lineage(spark, table, lake)

    assert kept(table, lake) == found
    file = lake.lineage(table)
    file.write_text(file.read_text().replace('"code": "', '"code": "other'))
    assert kept(table, lake) is None
