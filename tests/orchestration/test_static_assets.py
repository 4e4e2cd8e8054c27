"""A table that joins a static one is made from Dagster, and each version of it is shown, with its rows and since when it holds."""

from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from dagster import DagsterInstance, materialize
from pyspark.sql import SparkSession

from strandline.core.topic import CARRIED
from strandline.engine.lake.lake import Lake
from strandline.engine.lake.log.ledger import last_entry
from strandline_dagster.assets import asset_of, static_spec, versions_since
from strandline_dagster.resources import RESOURCES, key, source_key
from tests.engine.flow.test_static_join import (
    FIRST,
    LOG,
    SECOND,
    VIEW,
    VIEWS,
    campaigns,
    table_of,
    taken,
)
from tests.orchestration.test_assets import DAYS
from tests.support.instance import ephemeral
from tests.support.literal import put
from tests.support.rows import NOON

pytestmark = pytest.mark.slow


def test_a_run_makes_a_table_that_joins_one_and_its_columns_lead_there(
    lake: Lake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its lineage was looked up among the tables, where no static table is: the run failed after its commit."""
    monkeypatch.setenv("STRANDLINE_LAKE", str(lake.root))
    (tmp_path / "campaigns.csv").write_text(FIRST)
    static = campaigns(tmp_path)
    (bronze,) = VIEWS.reads
    (topic,) = bronze.topics
    views = replace(
        VIEWS,
        transform=lambda rows: topic.parse(rows, VIEW).select(*CARRIED, *VIEW.fieldNames()),
    )
    table = replace(table_of(static), reads=(views,))
    put(lake, {views: (VIEW, LOG)}, "1")
    asset = asset_of(table, DAYS)
    instance: DagsterInstance = ephemeral()

    done = materialize([asset], instance=instance, resources=RESOURCES, raise_on_error=False)

    assert done.success, [str(e.event_specific_data) for e in done.get_step_failure_events()]
    newest = last_entry(lake.table(table))
    assert newest is not None
    assert newest[1].static == {static.id: 1}
    (made,) = [e for e in done.get_asset_materialization_events() if e.asset_key == key(table)]
    lineage = made.materialization.metadata["dagster/column_lineage"].value
    assert source_key(static.id) in {each.asset_key for each in lineage.deps_by_column["campaign"]}
    (spec,) = asset.specs
    assert source_key(static.id) in {dep.asset_key for dep in spec.deps}
    assert static_spec(static).key == source_key(static.id)


def test_each_version_is_a_materialisation_with_its_rows_and_since_when_it_holds(
    spark: SparkSession, lake: Lake, tmp_path: Path
) -> None:
    """A first look reports the newest alone, and no look reports one twice."""
    file, static = tmp_path / "campaigns.csv", campaigns(tmp_path)
    table = table_of(static)
    seen: dict[str, Any] = {}
    for number, text in enumerate((FIRST, SECOND, f"{SECOND}a3,winter\n")):
        file.write_text(text)
        taken(spark, lake, table, NOON + timedelta(hours=number))
        if number == 0:
            first = [*versions_since(static, lake, seen)]
            assert [*versions_since(static, lake, seen)] == []

    later = [*versions_since(static, lake, seen)]
    again = [*versions_since(static, lake, {})]

    names = ("version", "dagster/row_count", "holds", "changed rows")
    found = [[made.metadata[name].value for name in names] for made in (*first, *later)]
    assert found == [
        [1, 2, "of all time", 2],
        [2, 2, "of events from 2026-11-20 13:06:00+00:00 on", 3],
        [3, 3, "of events from 2026-11-20 14:06:00+00:00 on", 1],
    ]
    assert [made.metadata["version"].value for made in again] == [3]
    assert {made.asset_key for made in (*first, *later)} == {source_key(static.id)}
    columns = first[0].metadata["dagster/column_schema"].value.columns
    assert {"ad_id", "campaign"} <= {column.name for column in columns}
