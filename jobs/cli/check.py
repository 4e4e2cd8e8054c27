"""``check``: a look at the rows themselves."""

import importlib
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer
from pyspark.sql import SparkSession

from jobs.cli import engine, place, ranges
from jobs.cli.place import JsonOption, LakeOption, TablesArgument
from jobs.cli.ranges import SINCE, UNTIL
from jobs.cli.screen import emit, note, show, yes
from jobs.core.table import Layer, Table
from jobs.run import gates
from jobs.run.audit import Audit, audit, expected, told
from jobs.run.gates import GateShutError, Where
from jobs.run.lake import Lake
from jobs.run.span import Span

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
    r"""Look at the rows of silver and gold: rules, keys that are there twice, references, what the ledger says.

    A critical finding shuts the gate behind the rows, so that nothing more is built on them, and exits with 4; when
    a later look finds nothing the gate opens by itself.

    \b
    strandline check
    strandline check silver.device_telemetry --since 2026-11-01 --until 2026-11-02
    strandline check --docs
    """
    found, where = place.existing(lake)
    span = ranges.both(since, until, "neither to look at all rows")
    chosen = [t for t in place.named(tables) if t.layer is not Layer.BRONZE and where.exists(t)]
    note("starting Spark …")
    site = engine.site(found, where, None, is_brief=True)
    audits = []
    for table in chosen:
        audits.append(audit(site.spark, table, where, site.clock, span))
        note(f"{table.id}: {_verdict(audits[-1])}")
    site.spark.stop()
    if docs:
        note(f"Data Docs: {_published(chosen, where, audits)}")
    if as_json:
        emit([told(each) for each in audits])
    else:
        show(None, COLUMNS, [row for each in audits for row in _rows(each)])
    for table, each in zip(chosen, audits, strict=True):
        _refuse(table, where, each)


def refuse_unbelieved(spark: SparkSession, table: Table, lake: Lake, span: Span) -> None:
    """Look at rows that were put in the place of others.

    Raises:
        GateShutError: They are not as expected; the gate behind them is shut.
    """
    found = audit(spark, table, lake, place.now, span)
    note(f"{table.id}: {_verdict(found)}")
    _refuse(table, lake, found)


def _refuse(table: Table, lake: Lake, found: Audit) -> None:
    shut = gates.shut(table, lake, Where.BEHIND)
    if found.critical and shut is not None:
        raise GateShutError.of_rows(shut)


def _published(tables: Sequence[Table], lake: Lake, audits: Sequence[Audit]) -> Path:
    """Write the pages of the library; its import takes seconds."""
    library = importlib.import_module("quality.docs")
    asked = [
        library.Asked(
            table=table.id,
            expected=expected(table),
            findings=found.findings,
        )
        for table, found in zip(tables, audits, strict=True)
    ]
    page: Path = library.publish(lake.docs, asked, place.now())
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
