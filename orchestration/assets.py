"""One asset a table, made from the catalog; nothing is listed twice."""

from collections.abc import Iterator

from dagster import (
    AssetCheckResult,
    AssetKey,
    AssetsDefinition,
    AssetSpec,
    Failure,
    MaterializeResult,
    multi_asset,
)

from jobs import catalog
from jobs.core.table import Table
from jobs.run.gates import GateShutError
from jobs.run.report import Report
from orchestration import checks
from orchestration.resources import LakeResource


def key(table: Table) -> AssetKey:
    """Return the table's one name as Dagster writes it, ``layer/table``."""
    return AssetKey([table.layer.value, table.name])


def asset_of(table: Table) -> AssetsDefinition:
    """Make the asset of a table."""
    spec = AssetSpec(
        key(table),
        deps=[key(source) for source in table.needs],
        group_name=table.layer,
        kinds={"spark", "delta"},
        description=table.summary,
    )

    @multi_asset(
        name=f"{table.layer}_{table.name}",
        specs=[spec],
        check_specs=checks.specs(table, key(table)),
    )
    def materialise(
        lake: LakeResource,
    ) -> Iterator[MaterializeResult[object] | AssetCheckResult]:
        try:
            report = lake.catch_up(table)
        except GateShutError as error:
            yield from checks.of_gate(table, key(table), error)
            raise Failure(error.message, metadata={"hint": error.hint}) from error
        yield _result(table, report)
        yield from checks.of_report(table, key(table), report)

    return materialise


def assets() -> list[AssetsDefinition]:
    """Make the assets of all tables."""
    return [asset_of(table) for table in catalog.tables()]


def _result(table: Table, report: Report) -> MaterializeResult[object]:
    figures = {
        "batches": report.batches,
        "read": report.read,
        "good": report.good,
        "duplicates": report.duplicates,
        "quarantined": report.quarantined.total(),
        "dropped_by_watermark": report.dropped_by_watermark,
    }
    return MaterializeResult(asset_key=key(table), metadata=figures)
