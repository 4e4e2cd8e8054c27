"""What cannot be trained or evaluated is refused with a sentence and a hint, and nothing of it is kept."""

from dataclasses import replace
from decimal import Decimal
from typing import Any

import pytest
from pyspark.sql import SparkSession

from fleet.models.unusual_traffic import MODEL
from strandline.core.errors import DataError, DefinitionError
from strandline.core.model import Clusters, Demand, Feature
from strandline.engine.lake import shelves
from strandline.engine.lake.lake import Lake
from strandline.engine.learning.train_model import evaluate, train
from strandline.engine.repair.closed_range import Span
from tests.support import lakes
from tests.support.modes import derive
from tests.support.rows import NOON
from tests.support.traffic import DAY, connected, plan

pytestmark = pytest.mark.core

ALL = Span(since=NOON - DAY, until=NOON)
LONG_AGO = Span(since=NOON - 400 * DAY, until=NOON - 399 * DAY)


@pytest.fixture(scope="module")
def filled(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Lake:
    """Return a lake with a day of connections."""
    lake = Lake(lakes.place(tmp_path_factory.mktemp("filled"))).open_for_writing()
    connected(spark, lake, plan(300, planted=0.1))
    derive(spark, lake, MODEL.of)
    return lake


def feature(sql: str) -> dict[str, Any]:
    return {"features": (Feature(name="f", sql=sql),)}


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (feature("byts_out"), "Did you mean one of the following? [`bytes_out`"),
        (feature("bytes_out >"), "Syntax error"),
        (feature("array(bytes_out)"), 'cannot cast "ARRAY<BIGINT>"'),
        (feature("count(bytes_out)"), "GROUP BY"),
        (feature("explode(array(1, 2))"), "f by 'explode(array(1, 2))'"),
        (feature("max(bytes_out) OVER ()"), "which looks at other rows"),
        (feature("(SELECT max(id) FROM range(3))"), "which looks at other rows"),
        (feature("dst_ip > 5"), "fails on a row of gold.traffic_scores"),
        ({"label": "nope = 1"}, "computes label by 'nope = 1', which Spark refuses"),
        ({"label": "dst_port"}, "which is bigint and not boolean"),
    ],
)
def test_sql_that_cannot_score_a_row_is_refused(
    spark: SparkSession, filled: Lake, change: dict[str, Any], reason: str
) -> None:
    """It would be an error without a hint, or a score that a stream cannot compute."""
    with pytest.raises(DefinitionError) as error:
        train(spark, replace(MODEL, **change), filled, ALL, NOON)

    assert reason in error.value.message
    assert error.value.hint
    assert shelves.versions(filled, MODEL.name) == []


def test_a_range_must_have_rows_and_both_kinds_of_them(spark: SparkSession, filled: Lake) -> None:
    with pytest.raises(DefinitionError, match="has no row between"):
        train(spark, MODEL, filled, LONG_AGO, NOON)
    with pytest.raises(DataError, match="have the label of unusual_traffic, so there is nothing"):
        train(spark, replace(MODEL, label="dst_port < 0"), filled, ALL, NOON)


def test_a_version_is_evaluated_on_rows_that_are_there(
    spark: SparkSession, filled: Lake, lake: Lake
) -> None:
    """A table of zeros would look like a version that finds nothing."""
    lakes.copy(filled.table(MODEL.of), lake.table(MODEL.of))
    check = (Demand(metric="rows", least=1),)
    model = replace(MODEL, estimator=Clusters(), label=None, check=check, flags=Decimal("0.1"))
    words = train(spark, model, lake, ALL, NOON)
    lost = {**words, "version": "lost", "features": [{"name": "f", "sql": "gone"}] * 3}
    shelves.keep(lake, MODEL.name, "lost", lost)

    with pytest.raises(DefinitionError, match="has no row between"):
        evaluate(spark, model, lake, words["version"], LONG_AGO)
    with pytest.raises(DefinitionError, match=r"cannot score the rows .* now: .*`gone`"):
        evaluate(spark, model, lake, "lost", ALL)
