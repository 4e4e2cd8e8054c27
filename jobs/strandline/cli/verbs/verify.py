"""``verify``, ``check`` and ``compare``: are the rows those that bronze gives, as expected, and as elsewhere?"""

from collections.abc import Sequence
from dataclasses import asdict
from enum import StrEnum
from typing import Annotated

import typer

from strandline.cli import screen
from strandline.cli.screen import (
    SINCE,
    UNTIL,
    JsonOption,
    LakeOption,
    TablesArgument,
    emit,
    note,
    say,
    show,
    yes,
)
from strandline.core.errors import DefinitionError
from strandline.core.table import Table
from strandline.core.topic import PLACE
from strandline.engine.lake.completeness import refuse_retired
from strandline.engine.lake.lake import Lake
from strandline.engine.proof.certificate import Certificate
from strandline.engine.proof.compare import Audit, Comparison, as_record, audit
from strandline.engine.proof.verify import Trial, refuse_unsettled, verify
from strandline.engine.repair import closed_range
from strandline.engine.runtime import clock
from strandline.operate import session
from strandline.operate.audit import (
    all_derived,
    audited_tables,
    compared,
    named_derived,
    published,
    refuse_critical,
    refuse_different,
    refuse_other_than_computed,
    refuse_unlike,
    verdict,
)
from strandline_infra import installation


class Instrument(StrEnum):
    """What recomputes tables beside Spark."""

    DUCKDB = "duckdb"


def _add_verify(app: typer.Typer) -> None:
    """Add the verb."""
    app.command("verify")(verify_)


def verify_(  # noqa: PLR0913, PLR0917  # each is an option of the command line
    tables: Annotated[
        list[str] | None, typer.Argument(metavar="TABLE", help="Silver or gold tables.")
    ] = None,
    everything: Annotated[
        bool, typer.Option("--all", help="Every silver and gold table of the lake.")
    ] = False,
    splits: Annotated[
        int, typer.Option(min=1, help="Number of micro-batches into which the log is cut.")
    ] = 5,
    kills: Annotated[
        int, typer.Option(min=0, help="How often the stream is killed with kill -9.")
    ] = 2,
    seed: Annotated[
        int | None,
        typer.Option(help="Seed of the cuts and kills; random, and printed, when absent."),
    ] = None,
    since: Annotated[str | None, typer.Option(help=SINCE)] = None,
    until: Annotated[str | None, typer.Option(help=UNTIL)] = None,
    by: Annotated[
        Instrument | None,
        typer.Option(
            help="Recompute tables in SQL by another engine, from what each reads, without Spark."
        ),
    ] = None,
    lake: LakeOption = None,
    as_json: JsonOption = False,
) -> None:
    r"""Recompute tables from bronze, as one batch and as a stream that is killed, and compare row for row.

    Works in a scratch folder of the lake and writes only certificates, which `strandline tables` shows.
    With --by duckdb the SELECT of a table in SQL is computed by DuckDB from the rows of the tables that it reads.
    Exits with 4 when a row differs.

    \b
    strandline verify gold.device_signal_10m
    strandline verify --all --splits 5 --kills 2 --seed 7
    strandline verify gold.ip_holds --since 2026-11-01 --until 2026-11-02
    strandline verify gold.orders_10m --by duckdb
    """
    found, where = screen.existing(lake)
    chosen = all_derived(where) if everything else named_derived(tables)
    for each in chosen:
        refuse_retired(each, where)
    if by is Instrument.DUCKDB:
        _by_another_engine(chosen, where, is_ranged=bool(since or until), as_json=as_json)
        return
    refuse_unsettled(chosen, where)
    span = closed_range.both(since, until, "neither to compare all rows")
    trial = Trial(splits=splits, kills=kills, span=span, **({} if seed is None else {"seed": seed}))
    note(f"seed {trial.seed}; starting Spark …")
    site = session.site(found, where, None, is_brief=True, says=note)
    certificates = verify(chosen, where, trial, site, note=note)
    site.spark.stop()
    if as_json:
        emit([asdict(each) for each in certificates])
    else:
        _print(certificates)
    refuse_different(certificates, trial.seed)


def _by_another_engine(
    tables: Sequence[Table], lake: Lake, *, is_ranged: bool, as_json: bool
) -> None:
    """Recompute tables in SQL by DuckDB, and print what it found."""
    # Not imported above: sqlglot, which writes a SELECT for DuckDB, takes a fifth of a second.
    from strandline.engine.proof.second_engine import recompute  # noqa: PLC0415  # as above

    if is_ranged:
        raise DefinitionError(
            "DuckDB compares all rows, and a range was given",
            hint="leave --since and --until out, or --by.",
        )
    certificates = [recompute(each, lake, clock.now, note) for each in tables]
    if as_json:
        emit([asdict(each) for each in certificates])
    else:
        columns = ("table", "rows", "version", "code", "by", "not compared", "equal")
        rows = [
            (
                each.table,
                each.rows,
                each.versions[each.table],
                each.code,
                each.instrument,
                ", ".join(each.without),
                yes(each.equal),
            )
            for each in certificates
        ]
        show("certificates", columns, rows)
        for line in (line for each in certificates for line in each.differences):
            say(line)
    refuse_other_than_computed(certificates)


def _print(certificates: list[Certificate]) -> None:
    columns = ("table", "rows", "splits", "kills", "seed", "version", "code", "equal")
    rows = [
        (
            each.table,
            each.rows,
            each.splits,
            each.kills,
            each.seed,
            each.versions[each.table],
            each.code,
            yes(each.equal),
        )
        for each in certificates
    ]
    show("certificates", columns, rows)
    for each in certificates:
        for line in each.differences:
            say(line)


# ``check``: audit the published rows.


DOCS = "quality"
CHECKED = ("table", "expectation", "severity", "holds", "found")


def _add_check(app: typer.Typer) -> None:
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
    found, where = screen.existing(lake)
    span = closed_range.both(since, until, "neither to audit all rows")
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
        note(f"Data Docs: {page or f'none without their extra: {installation.command(DOCS)}'}")
    if as_json:
        emit([as_record(each) for each in audits])
    else:
        show(None, CHECKED, [row for each in audits for row in _rows(each)])
    for table, each in zip(chosen, audits, strict=True):
        refuse_critical(table, where, each)


def _rows(found: Audit) -> list[tuple[object, ...]]:
    return [
        (found.table, each.name, each.severity.value, yes(each.holds), each.says)
        for each in found.findings
    ]


# ``compare``: two lakes, row for row, without Spark.


def _add_compare(app: typer.Typer) -> None:
    """Add the verb."""
    app.command("compare")(compare_)


def compare_(
    first: Annotated[str, typer.Argument(metavar="LAKE", help="A lake's folder or address.")],
    second: Annotated[
        str, typer.Argument(metavar="LAKE", help="Another lake's folder or address.")
    ],
    without_places: Annotated[
        bool,
        typer.Option(
            "--without-places",
            help="Leave out partitions and offsets, where one lake was filled from files.",
        ),
    ] = False,
    as_json: JsonOption = False,
) -> None:
    r"""Compare silver, quarantine and gold of two lakes row for row; exits with 4 when they differ.

    \b
    strandline compare .lake /tmp/second-opinion
    strandline compare .lake ../from-files --without-places
    """
    found = compared(first, second, note, without=PLACE if without_places else ())
    if as_json:
        emit([{**asdict(one), "equal": one.equal} for one in found])
    else:
        _print_comparison(found)
    refuse_unlike(found)


def _print_comparison(found: list[Comparison]) -> None:
    columns = ("table", "rows", "rows there", "only here", "only there", "equal")
    show(
        None,
        columns,
        [
            (
                one.table,
                one.left_rows,
                one.right_rows,
                one.only_left,
                one.only_right,
                yes(one.equal),
            )
            for one in found
        ],
    )
    for one in found:
        for sample in one.samples:
            say(f"{one.table} {sample}")


def register(app: typer.Typer) -> None:
    """Add the verbs."""
    _add_verify(app)
    _add_check(app)
    _add_compare(app)
