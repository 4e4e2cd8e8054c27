"""Assets of a project's own read tables: as their annotations say, all steps of a run at one version, which is kept with what they make."""

from datetime import date
from typing import Any

import duckdb
import polars as pl
import pyarrow as pa
import pytest
from dagster import (
    AssetExecutionContext,
    AssetIn,
    AssetKey,
    AssetMaterialization,
    AssetSpec,
    DagsterInstance,
    ExecuteInProcessResult,
    ResourceParam,
    asset,
    materialize,
)
from pyspark.sql import DataFrame, SparkSession

from fleet.silver import device_telemetry as silver
from strandline.core.stateful import AvailableNow
from strandline.engine.ask.lake_reader import lake
from strandline.engine.flow.runner import Site, run
from strandline.engine.lake.lake import Lake
from strandline_dagster import TableIOManager
from strandline_dagster.reading import table_of
from strandline_dagster.resources import days_since
from tests.support.events import received
from tests.support.four_days import noon
from tests.support.instance import ephemeral
from tests.support.rows import NOON

pytestmark = pytest.mark.slow

TABLE = silver.TABLE.id
KEY = AssetKey(["shop", "silver", silver.TABLE.name])
OURS = AssetSpec(KEY, partitions_def=days_since(date(2026, 11, 1)))
"""With days, as our tables have them; an asset of a host has none."""
ROWS = {"rows": AssetIn(key=KEY, input_manager_key="tables")}
NOTED = f"{TABLE} version"


def made(*assets: Any, instance: DagsterInstance | None = None) -> ExecuteInProcessResult:  # noqa: ANN401  # assets
    return materialize(
        [OURS, *assets],
        instance=instance or ephemeral(),
        resources={"tables": TableIOManager()},
        selection=[each.key for each in assets],
    )


def noted(done: ExecuteInProcessResult, name: str) -> int:
    """Return the version that is kept with what an asset made."""
    (event,) = done.asset_materializations_for_node(name)
    value = event.metadata[NOTED].value
    assert isinstance(value, int)
    return value


def written(spark: SparkSession, days: Lake, batch: int) -> None:
    """Let the table have a row more."""
    received(days, noon(4, batch=batch))
    run(silver.TABLE, AvailableNow(), days, site=Site(spark=spark, clock=lambda: NOON))


@pytest.mark.parametrize(
    "kind", [pl.DataFrame, pl.LazyFrame, duckdb.DuckDBPyRelation, pa.Table, DataFrame]
)
def test_rows_come_as_they_are_annotated(kind: type, days: Lake, spark: SparkSession) -> None:
    """From the same version, with the same rows."""
    assert spark
    seen: list[Any] = []

    def theirs(rows: Any) -> None:  # noqa: ANN401  # annotated below
        seen.append(rows)
        assert isinstance(rows, kind)

    theirs.__annotations__["rows"] = kind
    done = made(asset(ins=ROWS)(theirs))

    version = lake()[TABLE].version
    assert noted(done, "theirs") == version
    there = lake()[TABLE].polars(at=version)
    (rows,) = seen
    columns = rows.collect_schema().names() if kind is pl.LazyFrame else None
    columns = columns or (rows.column_names if kind is pa.Table else rows.columns)
    assert sorted(columns) == sorted(there.columns)
    assert days.exists(silver.TABLE)


def test_the_steps_of_a_run_see_one_version_while_the_table_is_written(
    days: Lake, spark: SparkSession
) -> None:
    """The second reads after a commit, and in the clear what the first has seen; the next run sees the commit."""
    before = lake()[TABLE].version

    @asset(ins=ROWS)
    def first(rows: pl.DataFrame) -> int:
        written(spark, days, 4)
        return rows.height

    @asset(ins=ROWS)
    def second(rows: duckdb.DuckDBPyRelation, first: int) -> int:
        assert rows.count("*").fetchall() == [(first,)]
        return first

    @asset(deps=[first, second])
    def third(context: AssetExecutionContext, tables: ResourceParam[TableIOManager]) -> None:
        assert tables.version(TABLE, context) == before
        assert tables.arrow(TABLE, context).num_rows == tables.polars(TABLE, context).height

    done = made(first, second, third)

    assert [noted(done, name) for name in ("first", "second", "third")] == [before] * 3
    assert lake()[TABLE].version > before
    assert noted(made(third_of_another_run()), "later") == lake()[TABLE].version


def third_of_another_run() -> Any:  # noqa: ANN401  # an asset
    @asset(ins=ROWS)
    def later(rows: pl.DataFrame) -> None:
        assert rows.height

    return later


def test_what_the_run_itself_has_made_is_what_its_later_steps_see(
    days: Lake, spark: SparkSession
) -> None:
    """As of the step that reports it; the newest when the run began would lack it."""

    @asset
    def ours(context: AssetExecutionContext) -> None:
        written(spark, days, 4)
        facts = {"version": lake()[TABLE].version}
        context.log_event(AssetMaterialization(KEY, metadata=facts))
        written(spark, days, 5)

    @asset(ins=ROWS, deps=[ours])
    def theirs(rows: pl.DataFrame) -> None:
        assert rows.height

    before = lake()[TABLE].version
    seen = noted(made(ours, theirs), "theirs")

    assert before < seen < lake()[TABLE].version


def test_nothing_is_stored_by_it(days: Lake) -> None:
    """An asset that names it for its own rows is refused, and the lake stays as it is."""

    @asset(io_manager_key="tables")
    def mine() -> int:
        return 7

    before = lake()[TABLE].version
    done = materialize(
        [mine], instance=ephemeral(), resources={"tables": TableIOManager()}, raise_on_error=False
    )

    assert not done.success
    assert "io_manager_key of yours" in str(done.get_step_failure_events()[0].event_specific_data)
    assert lake()[TABLE].version == before
    assert days.exists(silver.TABLE)


def test_sensitive_columns_are_masked_and_shown_for_a_reason_that_is_written_down(
    days: Lake,
) -> None:
    masked = lake()[TABLE].masked
    shown: dict[str, pl.DataFrame] = {}

    @asset(ins=ROWS)
    def theirs(rows: pl.DataFrame) -> None:
        shown["masked"] = rows

    @asset(ins=ROWS)
    def audit(rows: pl.DataFrame) -> None:
        shown["clear"] = rows

    made(theirs)
    materialize(
        [OURS, audit],
        selection=[audit.key],
        instance=ephemeral(),
        resources={"tables": TableIOManager(unmasked="fraud case 17")},
    )

    for name in masked:
        assert all(str(value).startswith("[") for value in shown["masked"][name] if value)
        assert not any(str(value).startswith("[") for value in shown["clear"][name] if value)
    assert days.exists(silver.TABLE)


def test_a_key_is_a_table_whatever_its_prefix_is() -> None:
    assert table_of(AssetKey(["lake", "eu", "gold", "sales"])) == "gold.sales"
    with pytest.raises(Exception, match="no table of a lake"):
        table_of(AssetKey("takings"))
