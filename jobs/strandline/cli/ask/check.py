"""``check``: audit the published rows."""

from typing import Annotated

import typer

from strandline.cli import place
from strandline.cli.place import SINCE, UNTIL, JsonOption, LakeOption, TablesArgument
from strandline.cli.screen import emit, note, show, yes
from strandline.engine.proof.row_audit import Audit, as_record, audit
from strandline.operate import ranges, session
from strandline.operate.answers.audit import audited_tables, published, refuse_critical, verdict
from strandline_infra import extras

DOCS = "quality"
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
        typer.Option(
            "--docs",
            help="Add the run to Great Expectations' own pages, its Data Docs: the extra quality.",
        ),
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
    chosen = audited_tables(tables, where)
    note("starting Spark …")
    site = session.site(found, where, None, is_brief=True, says=note)
    audits = []
    for table in chosen:
        audits.append(audit(site.spark, table, where, site.clock, span))
        note(f"{table.id}: {verdict(audits[-1])}")
    site.spark.stop()
    if docs:
        page = published(chosen, where, audits)
        note(f"Data Docs: {page or f'none without their extra: {extras.command(DOCS)}'}")
    if as_json:
        emit([as_record(each) for each in audits])
    else:
        show(None, COLUMNS, [row for each in audits for row in _rows(each)])
    for table, each in zip(chosen, audits, strict=True):
        refuse_critical(table, where, each)


def _rows(found: Audit) -> list[tuple[object, ...]]:
    return [
        (found.table, each.name, each.severity.value, yes(each.holds), each.says)
        for each in found.findings
    ]
