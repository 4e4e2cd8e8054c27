"""A run trains a version over the asset's table, and its check says what the model's check says; nothing is promoted."""

import pytest
from dagster import materialize
from pyspark.sql import SparkSession

from fleet.models.unusual_traffic import MODEL
from strandline.engine.lake import shelves
from strandline.engine.lake.lake import Lake
from strandline_dagster.assets import CHECK, model_assets
from strandline_dagster.resources import RESOURCES, model_key
from tests.support.instance import ephemeral
from tests.support.modes import derive
from tests.support.traffic import connected, plan

pytestmark = [pytest.mark.slow, pytest.mark.whole]


def test_a_run_trains_a_version_and_checks_whether_it_may_be_promoted(
    spark: SparkSession, lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of 300 rows too few are held out, so the check warns and the run succeeds."""
    monkeypatch.setenv("STRANDLINE_LAKE", str(lake.root))
    connected(spark, lake, plan(300, planted=0.1))
    derive(spark, lake, MODEL.of)

    done = materialize(
        model_assets(), instance=ephemeral(), resources=RESOURCES, raise_on_error=False
    )

    assert done.success
    (made,) = done.asset_materializations_for_node(f"train_{MODEL.name}")
    (version,) = (each["version"] for each in shelves.versions(lake, MODEL.name))
    assert made.asset_key == model_key(MODEL.name)
    assert made.metadata["version"].value == version
    (check,) = done.get_asset_check_evaluations()
    assert (check.check_name, check.passed) == (CHECK, False)
    assert "the check demands 500 or more" in str(check.description)
    assert shelves.terms(lake, MODEL.name).every == ()
