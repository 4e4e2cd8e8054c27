"""One asset a table, made from the catalog; nothing is listed twice.

Silver and gold are divided by the day of the event, so that a backfill is a click: the days that are chosen are
computed again as one range (jobs/run/backfill.py). Bronze is a log in order of arrival, of which no day can be made
again, so it has none and catches up. What brings all tables up to date is a job (orchestration/catch_up.py).
"""

from collections.abc import Iterator
from datetime import date

from dagster import (
    AssetCheckResult,
    AssetExecutionContext,
    AssetsDefinition,
    AssetSpec,
    BackfillPolicy,
    DailyPartitionsDefinition,
    MaterializeResult,
    MetadataValue,
    TableColumn,
    TableColumnDep,
    TableColumnLineage,
    TableSchema,
    multi_asset,
)

from jobs import catalog
from jobs.core.errors import LakeError
from jobs.core.table import Layer, Speaks, Table
from jobs.run.gates import GateShutError
from jobs.run.lineage import Columns
from jobs.run.report import Report
from jobs.run.settings import settings
from jobs.run.span import Span
from orchestration import checks
from orchestration.failures import again_or_failed, failure
from orchestration.keys import key, plain, pool, topic_key
from orchestration.links import linked
from orchestration.resources import LakeResource, SparkResource


def assets() -> list[AssetsDefinition]:
    """Make the assets of all tables."""
    days = days_since(settings().first_day)
    return [asset_of(table, days) for table in catalog.tables()]


def days_since(first: date) -> DailyPartitionsDefinition:
    """Return the days of events from the first one on; the last one is today, which the streams still own."""
    return DailyPartitionsDefinition(start_date=first.isoformat(), timezone="UTC", end_offset=1)


def spec_of(table: Table, days: DailyPartitionsDefinition) -> AssetSpec:
    """Say what Dagster is to know of a table, all of it from its declaration."""
    return AssetSpec(
        key(table),
        deps=[*(topic_key(topic) for topic in table.topics), *(key(each) for each in table.needs)],
        group_name=table.layer.value,  # a text of ours is no text to Dagster
        kinds={"spark", "delta"},
        owners=[f"team:{table.owner}"] if table.owner else [],
        description=table.summary,
        metadata={"dagster/table_name": table.id, "dagster/storage_kind": "delta"},
        partitions_def=None if table.layer is Layer.BRONZE else days,
    )


def asset_of(table: Table, days: DailyPartitionsDefinition) -> AssetsDefinition:
    """Make the asset of a table."""

    @multi_asset(
        name=plain(table.id),
        specs=[spec_of(table, days)],
        check_specs=checks.specs(table, key(table)),
        pool=pool(table),
        backfill_policy=BackfillPolicy.single_run(),
    )
    def materialise(
        context: AssetExecutionContext, lake: LakeResource, spark: SparkResource
    ) -> Iterator[MaterializeResult[object] | AssetCheckResult]:
        yield from made(table, lake, spark, _chosen(context), tried=context.retry_number)

    return materialise


def made(
    table: Table,
    lake: LakeResource,
    spark: SparkResource,
    span: Span | None = None,
    *,
    tried: int,
) -> Iterator[MaterializeResult[object] | AssetCheckResult]:
    """Compute a range of a table again, or bring it up to date, and say what was made and what was found.

    The report on the quality of the day is one click from all that is said, while `strandline ui` serves it.

    Raises:
        Failure: It cannot be done, or is not believed.
        RetryRequested: It cannot be done at the moment, and was not tried often yet.
    """
    try:
        if span is None or table.speaks is Speaks.AFRESH:  # which finds itself what has changed
            report = lake.catch_up(table, spark)
        else:
            report = lake.recompute(table, span, spark)
    except GateShutError as error:
        yield from checks.of_gate(table, key(table), error, linked(lake))
        raise failure(error) from error
    except LakeError as error:
        raise again_or_failed(error, tried) from error
    yield _result(table, report, lake, spark)
    yield from checks.of_report(table, key(table), report, linked(lake))


def _chosen(context: AssetExecutionContext) -> Span | None:
    """Return the days that were chosen, as one range."""
    if not (context.has_partition_key or context.has_partition_key_range):
        return None
    window = context.partition_time_window
    return Span(since=window.start, until=window.end)


def figures(report: Report) -> dict[str, int | float]:
    """Return what a run, or a stream in a while, has done."""
    return {
        "batches": report.batches,
        "read": report.read,
        "good": report.good,
        "duplicates": report.duplicates,
        "quarantined": report.quarantined.total(),
        "dropped_by_watermark": report.dropped_by_watermark,
        "written": report.written,
        "seconds": report.seconds,
    }


def lineage_of(columns: Columns) -> TableColumnLineage:
    """Say from which columns others are made, as Dagster draws it."""
    return TableColumnLineage(
        {
            name: [TableColumnDep(key(catalog.find(source)), column) for source, column in of]
            for name, of in columns.items()
        }
    )


def _result(
    table: Table, report: Report, lake: LakeResource, spark: SparkResource
) -> MaterializeResult[object]:
    columns = [TableColumn(name, kind) for name, kind in lake.columns(table).items()]
    told: dict[str, TableSchema | TableColumnLineage | MetadataValue | int | float] = {
        "dagster/column_schema": TableSchema(columns),
        "dagster/column_lineage": lineage_of(lake.lineage(table, spark)),
        "dagster/row_count": lake.rows(table),
        **figures(report),
        **linked(lake),
    }
    return MaterializeResult(asset_key=key(table), metadata=told)
