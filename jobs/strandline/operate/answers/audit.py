"""The published rows, audited: which tables, what was found, and what a critical finding refuses."""

import importlib
from collections.abc import Sequence
from pathlib import Path

from pyspark.sql import SparkSession

from strandline.core.errors import DefinitionError
from strandline.core.table import Ingested, Table
from strandline.engine.gates import gate_files
from strandline.engine.gates.gate_files import GateShutError, Where
from strandline.engine.lake.lake import Lake
from strandline.engine.proof.row_audit import Audit, audit, expected
from strandline.engine.repair.closed_range import Span
from strandline.engine.runtime import clock
from strandline.operate import lakes
from strandline.operate.listener import Says
from strandline_infra import extras


def audited_tables(names: Sequence[str] | None, lake: Lake) -> list[Table]:
    """Return the named tables; all of silver and gold that exist when none is named.

    Raises:
        DefinitionError: A named one is of bronze or does not exist, or none exists at all.
    """
    if names:
        chosen = lakes.named(names)
        for table in chosen:
            _refuse_received(table)
            lake.refuse_missing(table)
        return chosen
    found: list[Table] = [
        each for each in lakes.named(None) if not isinstance(each, Ingested) and lake.exists(each)
    ]
    if not found:
        raise DefinitionError(
            f"no silver or gold table exists in {lake.root} yet",
            hint="fill the lake first: `strandline produce`, then `strandline run`.",
        )
    return found


def _refuse_received(table: Table) -> None:
    if isinstance(table, Ingested):
        raise DefinitionError(
            f"{table.id} is as received; there is nothing to audit",
            hint="name a silver or gold table.",
            table=table.id,
        )


def refuse_unbelieved(
    spark: SparkSession, table: Table, lake: Lake, span: Span, says: Says
) -> None:
    """Audit rows that replaced others.

    Raises:
        GateShutError: A critical expectation failed; the gate behind the rows is shut.
    """
    found = audit(spark, table, lake, clock.now, span)
    says(f"{table.id}: {verdict(found)}")
    refuse_critical(table, lake, found)


def refuse_critical(table: Table, lake: Lake, found: Audit) -> None:
    """Refuse rows that an audit found critical faults in, and behind which the gate is shut.

    Raises:
        GateShutError: It is.
    """
    shut = gate_files.shut(table, lake, Where.BEHIND)
    if found.critical and shut is not None:
        raise GateShutError.of_rows(shut)


def published(tables: Sequence[Table], lake: Lake, audits: Sequence[Audit]) -> Path | None:
    """Write the pages of Great Expectations, whose import takes seconds; None where it is not installed."""
    if not extras.is_installed("quality"):
        return None
    library = importlib.import_module("strandline_quality.docs")
    asked = [
        library.Asked(
            table=table.id,
            expected=expected(table),
            findings=found.findings,
        )
        for table, found in zip(tables, audits, strict=True)
    ]
    page: Path = library.publish(lake.docs.local, asked, clock.now())
    return page


def verdict(found: Audit) -> str:
    """Return in words what an audit found."""
    failed = [each for each in found.findings if not each.holds]
    if not failed:
        return f"as expected, by {len(found.findings)} expectations"
    return "; ".join(f"{each.name}: {each.says}" for each in failed)
