"""Column lineage is read from the plan: through folds, joins, unions and look-ups of a dimension."""

import pytest
from pyspark.sql import SparkSession
from strandline import catalog

from fleet.gold import confirmed_logins, device_daily, device_signal_10m, ip_holds
from fleet.silver import device_telemetry
from strandline.core.kind import Layer
from strandline.core.topic import IDENTITY
from strandline.engine.flow.function_plan import cached_lineage, derive_lineage, lineage
from strandline.engine.lake.lake import Lake

pytestmark = pytest.mark.slow


@pytest.mark.whole
def test_every_column_of_the_domain_leads_to_columns_that_exist(spark: SparkSession) -> None:
    """Only a count of rows depends on no column."""
    columns = {table.id: derive_lineage(spark, table) for table in catalog.tables()}

    for table in catalog.tables():
        sources = {source.id for source in table.needs}
        made_of_none = {name for name, of in columns[table.id].items() if not of}
        assert made_of_none <= {"readings", "connections", "windows"}, table.id
        for of in columns[table.id].values():
            for source, column in of:
                assert source in sources
                is_received = catalog.find(source).layer is Layer.BRONZE
                assert is_received or column in columns[source]


def test_a_column_depends_on_the_columns_that_it_is_computed_from_and_on_no_other(
    spark: SparkSession,
) -> None:
    silver, windows = "silver.device_telemetry", "gold.device_signal_10m"

    own = derive_lineage(spark, device_telemetry.TABLE)
    assert own["value"] == [("bronze.device_telemetry", "_payload")]
    assert {name: own[name] for name in IDENTITY} == {
        name: [("bronze.device_telemetry", name)] for name in IDENTITY
    }

    signal = derive_lineage(spark, device_signal_10m.TABLE)
    assert signal["p95_value"] == [(silver, "value")]
    assert signal["window_from"] == [(silver, "event_at")]
    assert signal["site"] == [("silver.devices", "site")], "it is looked up"

    daily = derive_lineage(spark, device_daily.TABLE)
    assert daily["day"] == [(windows, "window_from"), ("silver.devices", "site")]

    logins = derive_lineage(spark, confirmed_logins.TABLE)
    assert logins["confirmed_at"] == [("silver.user_confirmations", "event_at")]

    holds = derive_lineage(spark, ip_holds.TABLE)
    assert ("silver.dhcp_events", "kind") in holds["ended_by"], "a fold may use all of its input"
    assert ("silver.dhcp_events", "dhcp_id") not in holds["ended_by"], "and nothing else"


@pytest.mark.whole
def test_the_lineage_is_cached_until_the_code_changes(spark: SparkSession, lake: Lake) -> None:
    table = device_signal_10m.TABLE
    assert cached_lineage(table, lake) is None

    columns = lineage(spark, table, lake)

    assert cached_lineage(table, lake) == columns
    file = lake.lineage(table)
    file.local.write_text(file.local.read_text().replace('"code": "', '"code": "other'))
    assert cached_lineage(table, lake) is None
