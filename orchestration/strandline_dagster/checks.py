"""A table's expectations as Dagster's checks: defined without Spark, answered from the counters of each run."""

from collections.abc import Iterator, Mapping

from dagster import (
    AssetCheckEvaluation,
    AssetCheckResult,
    AssetCheckSeverity,
    AssetCheckSpec,
    AssetKey,
    MetadataValue,
)

from strandline.core.table import Judged, Table
from strandline.engine.gates.gate_files import GateShutError
from strandline.engine.pipeline.run_summary import Report
from strandline_dagster.keys import plain
from strandline_quality.expectations import Expectation, of_counters
from strandline_quality.rules import Severity

More = Mapping[str, MetadataValue]
"""Metadata of every result, such as the link to the report."""


def specs(table: Table, key: AssetKey) -> list[AssetCheckSpec]:
    """Return one check for each expectation of a table's batches."""
    return [
        AssetCheckSpec(
            name=plain(each.name),
            asset=key,
            description=each.about or None,
            metadata={"severity": each.severity.value, "expectation": each.name},
        )
        for each in _expected(table)
    ]


def of_report(
    table: Table, key: AssetKey, report: Report, more: More
) -> Iterator[AssetCheckResult]:
    """Answer every check from the batches of a run."""
    for each in _expected(table):
        yield AssetCheckResult(
            asset_key=key,
            check_name=plain(each.name),
            passed=each.name not in report.failed,
            severity=_severity(each),
            metadata={
                "rows that break it": report.broke.get(each.name, 0),
                "rows": report.good + report.quarantined.total(),
                "batches": report.batches,
                **more,
            },
        )


def of_gate(
    table: Table, key: AssetKey, error: GateShutError, more: More
) -> Iterator[AssetCheckResult]:
    """Answer the checks that shut a table's own gate."""
    shut = error.shut
    if shut is None or shut.table != table.id:
        return
    known = {each.name: each for each in _expected(table)}
    for found in shut.findings:
        if found["name"] in known:
            yield AssetCheckResult(
                asset_key=key,
                check_name=plain(found["name"]),
                passed=False,
                severity=AssetCheckSeverity.ERROR,
                description=found["says"],
                metadata={
                    "rows that break it": found["failed"],
                    "rows": found["rows"],
                    "samples": MetadataValue.json(list(shut.samples.get(found["name"], ()))),
                    **more,
                },
            )


def evaluation(found: AssetCheckResult) -> AssetCheckEvaluation:
    """Return the same result as an event that needs no step of an asset."""
    if found.asset_key is None or found.check_name is None:
        message = "a check result without its asset or its name"
        raise TypeError(message)
    return AssetCheckEvaluation(
        asset_key=found.asset_key,
        check_name=found.check_name,
        passed=found.passed,
        metadata=found.metadata,
        severity=found.severity,
        description=found.description,
    )


def _expected(table: Table) -> tuple[Expectation, ...]:
    return of_counters(table.rules, table.expects) if isinstance(table, Judged) else ()


def _severity(expected: Expectation) -> AssetCheckSeverity:
    is_critical = expected.severity is Severity.CRITICAL
    return AssetCheckSeverity.ERROR if is_critical else AssetCheckSeverity.WARN
