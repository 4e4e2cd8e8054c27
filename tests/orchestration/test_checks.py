"""Dagster's checks are the table's expectations: known without Spark, answered by each run, red when a gate shuts."""

from datetime import date

import pytest
from dagster import AssetCheckSeverity, ExecuteInProcessResult, materialize
from pyspark.sql import SparkSession
from strandline import catalog

from fleet.gold import device_signal_10m as gold
from fleet.silver import device_telemetry as silver
from strandline.engine.accounting import gate_files
from strandline.engine.lake.lake import Lake
from strandline.engine.proof import daily_report
from strandline_dagster import resources
from strandline_dagster.assets import asset_of
from strandline_dagster.resources import RESOURCES, days_since, key, plain
from tests.support.events import received
from tests.support.modes import derive
from tests.support.poison import GOOD, POISONED, RULE


def test_every_rule_of_every_table_is_a_check_of_its_own() -> None:
    """Two rules must not share a name once it is one that Dagster accepts."""
    for table in catalog.tables():
        found = resources.specs(table, key(table))
        assert len({spec.name for spec in found}) == len(found)
        names = {spec.metadata["expectation"] for spec in found}
        assert {rule.name for rule in table.rules} <= names


def test_a_table_that_judges_nothing_has_no_checks_of_counters() -> None:
    assert resources.specs(gold.TABLE, key(gold.TABLE)) == []


def materialised() -> ExecuteInProcessResult:
    asset = asset_of(silver.TABLE, days_since(date(2026, 10, 1)))
    # The oldest Dagster refuses a run without days of an asset that has some, as the pages of both do.
    alone = asset.map_asset_specs(lambda spec: spec.replace_attributes(partitions_def=None))
    return materialize(
        [alone],
        resources=RESOURCES,
        raise_on_error=False,
    )


@pytest.mark.slow
def test_a_run_answers_every_check_and_a_shut_gate_fails_it(
    spark: SparkSession, lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the rule, the share and some rows, where a person on call looks first."""
    monkeypatch.setenv("STRANDLINE_LAKE", str(lake.root))
    received(lake, GOOD)
    derive(spark, lake, silver.TABLE)
    received(lake, POISONED)

    refused = materialised()
    (red,) = refused.get_asset_check_evaluations()
    gate_files.open_(silver.TABLE, lake, because="calibration", who="on call", at="12:00")
    with daily_report.served(lake) as address:
        passed = materialised()

    assert not refused.success
    assert (red.check_name, red.passed) == (plain(RULE), False)
    assert "30 of 100 rows" in str(red.description)
    assert len(red.metadata["samples"].value) == 5
    assert passed.success
    answered = {each.check_name: each for each in passed.get_asset_check_evaluations()}
    assert set(answered) == {spec.name for spec in resources.specs(silver.TABLE, key(silver.TABLE))}
    failing = [name for name, each in answered.items() if not each.passed]
    assert failing == [plain(RULE)]
    assert answered[plain(RULE)].severity is AssetCheckSeverity.ERROR
    assert "report" not in red.metadata, "no server ran"
    (made,) = passed.get_asset_materialization_events()
    for metadata in (made.materialization.metadata, answered[plain(RULE)].metadata):
        assert str(metadata["report"].value).startswith(f"{address}/report-2")
