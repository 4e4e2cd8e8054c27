"""``check``: audit the published rows."""

import importlib
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer
from pyspark.sql import SparkSession

from jobs.cli import place, ranges
from jobs.cli.place import JsonOption, LakeOption, TablesArgument
from jobs.cli.ranges import SINCE, UNTIL
from jobs.cli.screen import emit, note, show, yes
from jobs.core.errors import DefinitionError
from jobs.core.table import Ingested, Table
from jobs.engine.gates import gate_files
from jobs.engine.gates.gate_files import GateShutError, Where
from jobs.engine.proof.row_audit import Audit, as_record, audit, expected
from jobs.engine.repair.closed_range import Span
from jobs.engine.runtime import clock
from jobs.engine.storage.lake import Lake
from jobs.operate import lakes, session

COLUMNS = ("table", "expectation", "severity", "holds", "found")


def register(app: typer.Typer) -> None:
    """Add the verb."""
    app.command("check")(check_)


def check_(  # noqa: PLR0913, PLR0917  # each is an option of the command line
    tables: TablesArgument = None,
    since: Annotated[str | None, typer.Option(help=SINCE)] = None,
    until: Annotated[str | None, typer.Option(help=UNTIL)] = None,
    docs: Annotated[
        bool,
        typer.Option("--docs", help="Add the run to Great Expectations' own pages, its Data Docs."),
    ] = False,
    lake: LakeOption = None,
    as_json: JsonOption = False,
) -> None:
    r"""Audit the rows of silver and gold: rules, duplicate keys, references, sums of the ledger.

    A critical finding shuts the gate behind the rows: the tables above stop before their next batch. The exit code
    is then 4. When a later audit finds nothing, the gate opens by itself.

    \b
    strandline check
    strandline check silver.device_telemetry --since 2026-11-01 --until 2026-11-02
    strandline check --docs
    """
    found, where = place.existing(lake)
    span = ranges.both(since, until, "neither to audit all rows")
    chosen = _chosen(tables, where)
    note("starting Spark …")
    site = session.site(found, where, None, is_brief=True, says=note)
    audits = []
    for table in chosen:
        audits.append(audit(site.spark, table, where, site.clock, span))
        note(f"{table.id}: {_verdict(audits[-1])}")
    site.spark.stop()
    if docs:
        note(f"Data Docs: {_published(chosen, where, audits)}")
    if as_json:
        emit([as_record(each) for each in audits])
    else:
        show(None, COLUMNS, [row for each in audits for row in _rows(each)])
    for table, each in zip(chosen, audits, strict=True):
        _refuse(table, where, each)


def _chosen(names: Sequence[str] | None, lake: Lake) -> list[Table]:
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


def refuse_unbelieved(spark: SparkSession, table: Table, lake: Lake, span: Span) -> None:
    """Audit rows that replaced others.

    Raises:
        GateShutError: A critical expectation failed; the gate behind the rows is shut.
    """
    found = audit(spark, table, lake, clock.now, span)
    note(f"{table.id}: {_verdict(found)}")
    _refuse(table, lake, found)


def _refuse(table: Table, lake: Lake, found: Audit) -> None:
    shut = gate_files.shut(table, lake, Where.BEHIND)
    if found.critical and shut is not None:
        raise GateShutError.of_rows(shut)


def _published(tables: Sequence[Table], lake: Lake, audits: Sequence[Audit]) -> Path:
    """Write the pages of Great Expectations, whose import takes seconds."""
    library = importlib.import_module("quality.docs")
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


def _verdict(found: Audit) -> str:
    failed = [each for each in found.findings if not each.holds]
    if not failed:
        return f"as expected, by {len(found.findings)} expectations"
    return "; ".join(f"{each.name}: {each.says}" for each in failed)


def _rows(found: Audit) -> list[tuple[object, ...]]:
    return [
        (found.table, each.name, each.severity.value, yes(each.holds), each.says)
        for each in found.findings
    ]
